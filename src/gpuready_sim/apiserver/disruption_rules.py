"""What a PodDisruptionBudget may say. Pure.

Source: kubernetes, pkg/apis/policy/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.names import label_map_errors

Object = dict[str, Any]
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
PERCENTAGE: Final = re.compile(r"[0-9]+%")
NOT_A_PERCENTAGE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)


def validate(budget: Object) -> list[FieldError]:
    spec = budget.get("spec") or {}
    shown = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        value = InOrder({name[0].upper() + name[1:]: spec.get(name) for name in shown})
        return [FieldError("spec", "Invalid", value, "minAvailable and maxUnavailable cannot be both set")]
    found = [
        error
        for name in ("minAvailable", "maxUnavailable")
        if spec.get(name) is not None
        for error in _amount(spec[name], f"spec.{name}")
    ]
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        at, allowed = "spec.unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget")
        found.append(not_supported(at, policy, allowed))
    return [*found, *_selector_words(spec.get("selector") or {}, "spec.selector")]


def _amount(value: object, path: str) -> Iterator[FieldError]:
    if isinstance(value, int):
        if value < 0:
            yield FieldError(path, "Invalid", value, NOT_NEGATIVE)
    elif not PERCENTAGE.fullmatch(str(value)):
        yield FieldError(path, "Invalid", value, NOT_A_PERCENTAGE)
    elif int(str(value)[:-1]) > 100:
        yield FieldError(path, "Invalid", value, "must not be greater than 100%")


def _selector_words(selector: Object, path: str) -> Iterator[FieldError]:
    yield from label_map_errors(selector.get("matchLabels"), f"{path}.matchLabels")
    for i, wish in enumerate(selector.get("matchExpressions") or []):
        if wish.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist"):
            at = f"{path}.matchExpressions[{i}].operator"
            yield FieldError(at, "Invalid", wish.get("operator", ""), "not a valid selector operator")
