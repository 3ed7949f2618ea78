"""What a Service may say, and what may become of it. Pure.

Source: kubernetes, pkg/apis/core/validation/validation.go, ValidateService.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.names import (
    label_errors,
    label_map_errors,
    qualified_name_errors,
    subdomain_errors,
)
from gpuready_sim.apiserver.value_rules import (
    NOT_A_NETWORK,
    NOT_AN_ADDRESS,
    PORT_RANGE,
    is_address,
    is_network,
    one_of,
    port_or_name,
)

Object = dict[str, Any]
TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
TRAFFIC: Final = ("Cluster", "Local")
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"


def validate(service: Object) -> list[FieldError]:
    return [*_spec(service.get("spec") or {}), *_status(service)]


def _spec(spec: Object) -> Iterator[FieldError]:
    kind, address = spec.get("type") or "ClusterIP", spec.get("clusterIP") or ""
    headless = address == "None"
    ports = spec.get("ports") or []
    if not ports and not headless and kind != "ExternalName":
        yield FieldError("spec.ports", "Required")
    if kind in ("LoadBalancer", "NodePort") and headless:
        why = f"may not be set to 'None' for {kind} services"
        yield FieldError("spec.clusterIPs[0]", "Invalid", "None", why)
    if kind == "ExternalName":
        yield from _external_name(spec)
    yield from _ports(ports, kind)
    yield from label_map_errors(spec.get("selector"), "spec.selector")
    yield from one_of(spec, "sessionAffinity", "spec", ("ClientIP", "None"))
    yield from _affinity(spec)
    if address and not headless and kind != "ExternalName" and not is_address(address):
        yield FieldError("spec.clusterIPs[0]", "Invalid", address, NOT_AN_ADDRESS)
    yield from _external_addresses(spec.get("externalIPs") or [])
    yield from one_of(spec, "type", "spec", TYPES)
    yield from _balanced(spec, kind)
    yield from one_of(spec, "internalTrafficPolicy", "spec", TRAFFIC)
    yield from _external_traffic(spec, kind)
    ways = ("PreferClose", "PreferSameZone", "PreferSameNode")
    yield from one_of(spec, "trafficDistribution", "spec", ways)


def _external_name(spec: Object) -> Iterator[FieldError]:
    if spec.get("clusterIP"):
        why = "may not be set for ExternalName services"
        yield FieldError("spec.clusterIPs", "Forbidden", detail=why)
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield FieldError("spec.externalName", "Required")
    else:
        wrong = subdomain_errors(name)
        yield from (FieldError("spec.externalName", "Invalid", name, text) for text in wrong)


def _ports(ports: Sequence[Object], kind: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, port in enumerate(ports):
        yield from _port(port, f"spec.ports[{i}]", kind, names, alone=len(ports) == 1)
    seen = set()
    for i, port in enumerate(ports):
        key = (str(port.get("protocol", "TCP")), int(port.get("port") or 0))
        if key in seen:
            yield FieldError(f"spec.ports[{i}]", "Duplicate", _bare_port(*key))
        seen.add(key)


def _bare_port(protocol: str, number: int) -> InOrder:
    """What makes a port one of its own, as Go shows it."""
    shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
    return InOrder({**shown, "TargetPort": 0, "NodePort": 0})


def _port(port: Object, path: str, kind: str, names: set[str], *, alone: bool) -> Iterator[FieldError]:
    name = port.get("name") or ""
    if not name and not alone:
        yield FieldError(f"{path}.name", "Required")
    elif name:
        yield from (FieldError(f"{path}.name", "Invalid", name, text) for text in label_errors(name))
        if name in names:
            yield FieldError(f"{path}.name", "Duplicate", name)
        names.add(name)
    if not 0 < (number := port.get("port") or 0) < 65536:
        yield FieldError(f"{path}.port", "Invalid", number, PORT_RANGE)
    yield from one_of(port, "protocol", path, ("SCTP", "TCP", "UDP"))
    yield from port_or_name(port.get("targetPort", number), f"{path}.targetPort")
    protocol = port.get("appProtocol")
    if protocol:
        wrong = qualified_name_errors(protocol)
        yield from (FieldError(f"{path}.appProtocol", "Invalid", protocol, text) for text in wrong)
    if kind == "ClusterIP" and port.get("nodePort"):
        why = "may not be used when `type` is 'ClusterIP'"
        yield FieldError(f"{path}.nodePort", "Forbidden", detail=why)


def _affinity(spec: Object) -> Iterator[FieldError]:
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = config.get("timeoutSeconds")
    if spec.get("sessionAffinity") == "ClientIP" and seconds is not None and not 0 < seconds <= 86400:
        where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield FieldError(where, "Invalid", seconds, "must be greater than 0 and less than 86400")


def _external_addresses(addresses: Sequence[str]) -> Iterator[FieldError]:
    for i, one in enumerate(addresses):
        at = f"spec.externalIPs[{i}]"
        if not is_address(one):
            yield FieldError(at, "Invalid", one, NOT_AN_ADDRESS)
        elif ipaddress.ip_address(one).is_loopback:
            yield FieldError(at, "Invalid", one, "may not be in the loopback range (127.0.0.0/8, ::1/128)")


def _balanced(spec: Object, kind: str) -> Iterator[FieldError]:
    """The field of ranges is told in a name of its own, as really."""
    where = "spec.LoadBalancerSourceRanges"
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges and kind != "LoadBalancer":
        yield FieldError(where, "Forbidden", detail=_ONLY_BALANCED)
    for i, one in enumerate(ranges):
        if not is_network(one.strip()):
            yield FieldError(f"{where}[{i}]", "Invalid", one, NOT_A_NETWORK)
    if kind != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) is not None:
                yield FieldError(f"spec.{field}", "Forbidden", detail=_ONLY_BALANCED)


def _external_traffic(spec: Object, kind: str) -> Iterator[FieldError]:
    policy = spec.get("externalTrafficPolicy")
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if policy and not reachable:
        why = "may only be set for externally-accessible services"
        yield FieldError("spec.externalTrafficPolicy", "Invalid", policy, why)
    elif policy and policy not in TRAFFIC:
        yield not_supported("spec.externalTrafficPolicy", policy, TRAFFIC)
    checked = spec.get("healthCheckNodePort")
    if checked and not (kind == "LoadBalancer" and policy == "Local"):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield FieldError("spec.healthCheckNodePort", "Invalid", checked, why)


def _status(service: Object) -> Iterator[FieldError]:
    balancers = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if balancers and (service.get("spec") or {}).get("type") != "LoadBalancer":
        why = "may only be used when `spec.type` is 'LoadBalancer'"
        yield FieldError("status.loadBalancer.ingress", "Forbidden", detail=why)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" in (after.get("type"), before.get("type")):
        return []
    first, addresses = before.get("clusterIP"), after.get("clusterIPs") or [after.get("clusterIP")]
    if first and after.get("clusterIP") != first:
        addresses = [after.get("clusterIP"), *addresses[1:]]
        return [FieldError("spec.clusterIPs[0]", "Invalid", addresses, "may not change once set")]
    return []
