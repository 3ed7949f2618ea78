"""Resource names and amounts as pods and nodes write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(1000),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("MGTPE", start=2)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkKMGTPE]?i?)")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def parse_quantity(text: object) -> Decimal:
    """ "500m" -> 0.5, "2Gi" -> 2147483648, 8 -> 8; raises ValueError."""
    match = _QUANTITY.fullmatch(str(text))
    if not match:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(match[1]) * _SUFFIXES[match[2]]


def is_extended_resource_name(name: str) -> bool:
    """Whether a device plugin may register it: `domain/name`, outside kubernetes.io, fit for a quota."""
    domain, slash, rest = name.partition("/")
    if not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return False
    if name.startswith("requests."):
        return False
    longest = len(f"requests.{domain}")
    return bool(_DNS_SUBDOMAIN.fullmatch(domain) and longest <= 253 and _QUALIFIED_NAME.fullmatch(rest))


def limits_of(container: Mapping[str, Any]) -> dict[str, int]:
    """Whole amounts of extended resources that a container asks for (requests equal limits there)."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return {name: int(parse_quantity(amount)) for name, amount in amounts.items() if "/" in name}


def pod_requests(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """What a pod takes of a node: the sum over its containers, at least what its start takes.

    A sidecar counts beside the containers, and beside each init container after it.
    Source: kubernetes, component-helpers/resource/helpers.go, PodRequests.
    """
    spec = pod["spec"]
    sidecars: dict[str, Decimal] = {}
    start: dict[str, Decimal] = {}
    for container in spec.get("initContainers", []):
        now = _sum((sidecars, _requests(container)))
        start = {name: max(start.get(name, Decimal(0)), now.get(name, Decimal(0))) for name in start | now}
        if container.get("restartPolicy") == "Always":
            sidecars = now
    total = _sum((sidecars, *(_requests(container) for container in spec["containers"])))
    return {name: max(total.get(name, Decimal(0)), start.get(name, Decimal(0))) for name in total | start}


def _requests(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(amount) for name, amount in amounts.items()}


def _sum(parts: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total
