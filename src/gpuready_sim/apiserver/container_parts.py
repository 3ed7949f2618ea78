"""What a container may say of its probes, its resources and its rights. Pure.

Source: kubernetes, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.names import qualified_name_errors
from gpuready_sim.apiserver.quantity import canonical_quantity, is_quantity, parse_quantity
from gpuready_sim.apiserver.value_rules import not_negative, one_of, port_or_name, relative_path, within

Object = dict[str, Any]

# --- lifecycle and probes ---

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_HEADER: Final = re.compile("[-A-Za-z0-9]+")
_NO_HEADER: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
    "for validation is '[-A-Za-z0-9]+')"
)


def lifecycle_and_probes(container: Object, path: str, grace_s: int) -> Iterator[FieldError]:
    for moment in ("postStart", "preStop"):
        if (handler := (container.get("lifecycle") or {}).get(moment)) is not None:
            yield from _handler(handler, f"{path}.lifecycle.{moment}", grace_s)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            yield from _probe(probe, f"{path}.{name}", grace_s, is_readiness=name == "readinessProbe")


def _handler(handler: Object, path: str, grace_s: int) -> Iterator[FieldError]:
    named = [name for name in _HANDLERS if handler.get(name) is not None]
    if not named:
        yield FieldError(path, "Required", detail="must specify a handler type")
        return
    first = named[0]
    yield from _action(first, handler[first], f"{path}.{first}", grace_s)
    for name in named[1:]:
        yield FieldError(f"{path}.{name}", "Forbidden", detail="may not specify more than 1 handler type")


def _action(name: str, action: Object, path: str, grace_s: int) -> Iterator[FieldError]:
    if name == "exec" and not action.get("command"):
        yield FieldError(f"{path}.command", "Required")
    elif name == "sleep" and not 0 <= (seconds := action.get("seconds", 0)) <= grace_s:
        why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        yield FieldError(path, "Invalid", seconds, why)
    elif name in ("httpGet", "tcpSocket", "grpc"):
        yield from port_or_name(action.get("port", 0), f"{path}.port")
        yield from one_of(action, "scheme", path, ("HTTP", "HTTPS"))
        for header in action.get("httpHeaders") or []:
            if not _HEADER.fullmatch(header.get("name") or ""):
                yield FieldError(f"{path}.httpHeaders", "Invalid", header.get("name", ""), _NO_HEADER)


_PROBE_NUMBERS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds"),
    *("successThreshold", "failureThreshold"),
)


def _probe(probe: Object, path: str, grace_s: int, *, is_readiness: bool) -> Iterator[FieldError]:
    yield from _handler(probe, path, grace_s)
    yield from not_negative(probe, path, *_PROBE_NUMBERS)
    own_s = probe.get("terminationGracePeriodSeconds")
    if own_s is not None and own_s <= 0:
        yield FieldError(f"{path}.terminationGracePeriodSeconds", "Invalid", own_s, "must be greater than 0")
    if is_readiness and own_s is not None:
        why = "must not be set for readinessProbes"
        yield FieldError(f"{path}.terminationGracePeriodSeconds", "Invalid", own_s, why)
    if not is_readiness and (times := probe.get("successThreshold", 1)) != 1:
        yield FieldError(f"{path}.successThreshold", "Invalid", times, "must be 1")


# --- resources ---

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")


def resource_errors(resources: Object, path: str, claims: frozenset[str]) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _amount(name, amount, f"{path}.limits")
    for name, amount in requests.items():
        yield from _amount(name, amount, f"{path}.requests")
        yield from _against_limit(name, amount, limits, path)
    asked = {**limits, **requests}
    if any(name.startswith("hugepages-") for name in asked) and not {"cpu", "memory"} & set(asked):
        yield FieldError(path, "Forbidden", detail="HugePages require cpu or memory")
    yield from _claims(resources.get("claims") or [], f"{path}.claims", claims)


def _against_limit(name: str, amount: Any, limits: Object, path: str) -> Iterator[FieldError]:
    if not is_quantity(amount):
        return
    extended = "/" in name and not name.startswith(("kubernetes.io/", "requests."))
    if name not in limits:
        if extended:
            detail = "Limit must be set for non overcommitable resources"
            yield FieldError(f"{path}.limits", "Required", detail=detail)
    elif is_quantity(limits[name]):
        asked, most = parse_quantity(amount), parse_quantity(limits[name])
        if extended and asked != most:
            detail = f"must be equal to {name} limit of {limits[name]}"
            yield FieldError(f"{path}.requests", "Invalid", str(amount), detail)
        elif asked > most:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield FieldError(f"{path}.requests", "Invalid", str(amount), detail)


def _amount(name: str, amount: Any, path: str) -> Iterator[FieldError]:
    at = f"{path}[{name}]"
    yield from (FieldError(at, "Invalid", name, text) for text in _name_errors(name))
    yield from whole_amount(name, amount, at)


def whole_amount(name: str, amount: Any, at: str) -> Iterator[FieldError]:
    """Not negative, and whole where it counts devices."""
    if not is_quantity(amount):
        return
    value = parse_quantity(amount)
    if value < 0:
        yield FieldError(at, "Invalid", str(amount), "must be greater than or equal to 0")
    if "/" in name and value.denominator != 1:
        yield FieldError(at, "Invalid", canonical_quantity(amount), "must be an integer")


def _name_errors(name: str) -> list[str]:
    errors = qualified_name_errors(name)
    if "/" not in name:
        if name in _STANDARD or name.startswith("hugepages-"):
            return errors
        standard = "must be a standard resource type or fully qualified"
        return [*(errors or [standard]), "must be a standard resource for containers"]
    if "kubernetes.io/" in name:
        return errors
    if name.startswith("requests.") or qualified_name_errors(f"requests.{name}"):
        return [*errors, "doesn't follow extended resource name standard"]
    return errors


def _claims(claims: Sequence[Object], path: str, known: frozenset[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        name, request = claim.get("name") or "", claim.get("request")
        told = f"{name}/{request}" if request else name
        if not name:
            yield FieldError(f"{path}[{i}].name", "Required")
        elif told in seen:
            yield FieldError(f"{path}[{i}]", "Duplicate", told)
        elif name not in known:
            why = "must be one of the names in pod.spec.resourceClaims"
            why += "" if known else " which is empty"
            yield FieldError(f"{path}[{i}]", "NotFound", name, why)
        seen.add(told)


def resize_errors(policies: Sequence[Object], path: str) -> Iterator[FieldError]:
    for policy in policies:
        if policy.get("resourceName") not in ("cpu", "memory"):
            yield not_supported(path, policy.get("resourceName", ""), ("cpu", "memory"))
        if policy.get("restartPolicy") not in ("NotRequired", "RestartContainer"):
            yield not_supported(path, policy.get("restartPolicy", ""), ("NotRequired", "RestartContainer"))


# --- security ---

_GO_SECURITY: Final = (
    *("capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup"),
    *("runAsNonRoot", "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount"),
    *("seccompProfile", "appArmorProfile"),
)


def security_errors(context: Object, path: str) -> Iterator[FieldError]:
    yield from within(context, "runAsUser", path, 0)
    yield from within(context, "runAsGroup", path, 0)
    yield from one_of(context, "procMount", path, ("Default", "Unmasked"))
    yield from seccomp(context.get("seccompProfile") or {}, f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        given = (context.get("capabilities") or {}).get("add") or []
        clashes = ["`privileged` to true"] if context.get("privileged") else []
        clashes += [f"`capabilities.Add` {one}" for one in given if one == "CAP_SYS_ADMIN"]
        for clash in clashes:
            why = f"cannot set `allowPrivilegeEscalation` to false and {clash}"
            yield FieldError(path, "Invalid", _as_go_has_it(context), why)
    yield from app_armor(context.get("appArmorProfile") or {}, f"{path}.appArmorProfile")


def _as_go_has_it(context: Object) -> InOrder:
    fields = {name[0].upper() + name[1:]: context.get(name) for name in _GO_SECURITY}
    if (changed := context.get("capabilities")) is not None:
        fields["Capabilities"] = {"Add": changed.get("add"), "Drop": changed.get("drop")}
    fields["SELinuxOptions"] = fields.pop("SeLinuxOptions")
    order = ("Capabilities", "Privileged", "SELinuxOptions")
    return InOrder({name: fields[name] for name in (*order, *(n for n in fields if n not in order))})


def seccomp(profile: Object, path: str) -> Iterator[FieldError]:
    yield from one_of(profile, "type", path, ("Localhost", "RuntimeDefault", "Unconfined"))
    if profile.get("type") == "Localhost":
        if profile.get("localhostProfile") is None:
            why = "must be set when seccomp type is Localhost"
            yield FieldError(f"{path}.localhostProfile", "Required", detail=why)
        else:
            yield from relative_path(profile["localhostProfile"], f"{path}.localhostProfile")


def app_armor(profile: Object, path: str) -> Iterator[FieldError]:
    yield from one_of(profile, "type", path, ("Localhost", "RuntimeDefault", "Unconfined"))
    if profile.get("type") == "Localhost" and not (profile.get("localhostProfile") or "").strip():
        why = "must be set when AppArmor type is Localhost"
        yield FieldError(f"{path}.localhostProfile", "Required", detail=why)
