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
    return [*found, *selector_errors(spec.get("selector") or {}, "spec.selector")]


def _amount(value: object, path: str) -> Iterator[FieldError]:
    if isinstance(value, int):
        if value < 0:
            yield FieldError(path, "Invalid", value, NOT_NEGATIVE)
    elif not PERCENTAGE.fullmatch(str(value)):
        yield FieldError(path, "Invalid", value, NOT_A_PERCENTAGE)
    elif int(str(value)[:-1]) > 100:
        yield FieldError(path, "Invalid", value, "must not be greater than 100%")


def selector_errors(selector: Object, path: str) -> Iterator[FieldError]:
    """Of a label selector in an object."""
    yield from label_map_errors(selector.get("matchLabels"), f"{path}.matchLabels")
    for i, wish in enumerate(selector.get("matchExpressions") or []):
        at, operator, values = f"{path}.matchExpressions[{i}]", wish.get("operator", ""), wish.get("values")
        if operator in ("In", "NotIn") and not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            yield FieldError(f"{at}.values", "Required", detail=why)
        elif operator in ("Exists", "DoesNotExist") and values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield FieldError(f"{at}.values", "Forbidden", detail=why)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield FieldError(f"{at}.operator", "Invalid", operator, "not a valid selector operator")
