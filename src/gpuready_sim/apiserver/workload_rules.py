"""What Deployments, DaemonSets, ReplicaSets, StatefulSets and Jobs may say. Pure.

Source: kubernetes, pkg/apis/{apps,batch}/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver.disruption_rules import (
    NOT_A_PERCENTAGE,
    NOT_NEGATIVE,
    PERCENTAGE,
    selector_errors,
)
from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.names import label_map_errors
from gpuready_sim.apiserver.pod_rules import pod_spec
from gpuready_sim.apiserver.value_rules import not_negative, one_of

Object = dict[str, Any]
STRATEGIES: Final = ("Recreate", "RollingUpdate")


def workload(obj: Object) -> list[FieldError]:
    spec, kind = obj.get("spec") or {}, obj["kind"]
    errors = list(not_negative(spec, "spec", "replicas"))
    errors += _selector_and_template(spec, kind)
    if kind == "Deployment":
        errors += _strategy(spec.get("strategy") or {}, "spec.strategy")
    errors += not_negative(spec, "spec", "minReadySeconds")
    if kind == "DaemonSet":
        errors += _update_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    errors += not_negative(spec, "spec", "revisionHistoryLimit")
    if kind == "Deployment":
        errors += _deadline(spec)
    return errors


def _deadline(spec: Object) -> Iterator[FieldError]:
    deadline = spec.get("progressDeadlineSeconds")
    yield from not_negative(spec, "spec", "progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        why = "must be greater than minReadySeconds"
        yield FieldError("spec.progressDeadlineSeconds", "Invalid", deadline, why)


def _selector_and_template(spec: Object, kind: str) -> Iterator[FieldError]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None and kind != "DaemonSet":
        yield FieldError("spec.selector", "Required")
    elif selector == {}:
        why = f"empty selector is invalid for {kind.lower()}"
        yield FieldError("spec.selector", "Invalid", selector, why)
    wrong = list(selector_errors(selector or {}, "spec.selector"))
    yield from wrong
    if wrong:
        yield FieldError("spec.selector", "Invalid", selector, "invalid label selector")
        return
    labels = (template.get("metadata") or {}).get("labels")
    if selector is None or (selector and not _selects(selector, labels or {})):
        detail = "`selector` does not match template `labels`"
        yield FieldError("spec.template.metadata.labels", "Invalid", labels, detail)
    yield from label_map_errors(labels, "spec.template.metadata.labels")
    pod = template.get("spec") or {}
    yield from pod_spec(pod, "spec.template.spec")
    policy = pod.get("restartPolicy", "Always")
    if policy in ("OnFailure", "Never"):
        yield not_supported("spec.template.spec.restartPolicy", policy, ["Always"])


def _strategy(strategy: Object, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type", "RollingUpdate"), strategy.get("rollingUpdate")
    if kind not in STRATEGIES:
        yield not_supported(path, InOrder({"Type": kind, "RollingUpdate": rolling}), STRATEGIES)
    elif kind == "Recreate":
        if rolling is not None:
            why = "may not be specified when strategy `type` is 'Recreate'"
            yield FieldError(f"{path}.rollingUpdate", "Forbidden", detail=why)
    else:
        yield from _rolling(rolling or {}, f"{path}.rollingUpdate")


def _rolling(rolling: Object, path: str) -> Iterator[FieldError]:
    """Of a Deployment."""
    unavailable, surge = (rolling.get(field, "25%") for field in ("maxUnavailable", "maxSurge"))
    yield from _amount_or_percentage(unavailable, f"{path}.maxUnavailable")
    yield from _amount_or_percentage(surge, f"{path}.maxSurge")
    if not _number_of(unavailable) and not _number_of(surge) and surge in (0, "0%"):
        why = "may not be 0 when `maxSurge` is 0"
        yield FieldError(f"{path}.maxUnavailable", "Invalid", unavailable, why)
    if isinstance(unavailable, str) and _number_of(unavailable) > 100:
        yield FieldError(f"{path}.maxUnavailable", "Invalid", unavailable, "must not be greater than 100%")


def _update_strategy(strategy: Object, path: str) -> Iterator[FieldError]:
    """Of a DaemonSet."""
    kind, rolling = strategy.get("type", "RollingUpdate"), strategy.get("rollingUpdate")
    kinds = ("RollingUpdate", "OnDelete")
    if kind not in kinds:
        yield not_supported(path, InOrder({"Type": kind, "RollingUpdate": rolling}), kinds)
    elif kind == "RollingUpdate" and rolling is not None:
        yield from _rolling_daemons(rolling, f"{path}.rollingUpdate")


def _rolling_daemons(rolling: Object, path: str) -> Iterator[FieldError]:
    """Source: pkg/apis/apps/validation/validation.go, ValidateRollingUpdateDaemonSet."""
    amounts = {field: rolling.get(field, 0) for field in ("maxUnavailable", "maxSurge")}
    for field, amount in amounts.items():
        yield from _amount_or_percentage(amount, f"{path}.{field}")
    for field, amount in amounts.items():
        if isinstance(amount, str) and _number_of(amount) > 100:
            yield FieldError(f"{path}.{field}", "Invalid", amount, "must not be greater than 100%")
    unavailable, surge = (_number_of(amount) for amount in amounts.values())
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        yield FieldError(f"{path}.maxSurge", "Invalid", amounts["maxSurge"], detail)
    elif not unavailable and not surge:
        yield FieldError(f"{path}.maxUnavailable", "Required", detail="cannot be 0 when maxSurge is 0")


def _amount_or_percentage(amount: Any, path: str) -> Iterator[FieldError]:
    if isinstance(amount, str):
        if not PERCENTAGE.fullmatch(amount):
            yield FieldError(path, "Invalid", amount, NOT_A_PERCENTAGE)
    elif amount < 0:
        yield FieldError(path, "Invalid", amount, NOT_NEGATIVE)


def _number_of(amount: Any) -> int:
    """Of a percentage its number; 0 of what is none."""
    if isinstance(amount, str):
        return int(amount[:-1]) if PERCENTAGE.fullmatch(amount) else 0
    return int(amount)


def _selects(selector: Object, labels: Object) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or [])


def _holds(expression: Object, labels: Object) -> bool:
    key, values = str(expression.get("key")), expression.get("values") or []
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }.get(str(expression.get("operator")), False)


def job(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    numbers = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    errors = list(not_negative(spec, "spec", *numbers, "ttlSecondsAfterFinished"))
    errors += one_of(spec, "completionMode", "spec", ("NonIndexed", "Indexed"))
    errors += one_of(spec, "podReplacementPolicy", "spec", ("Failed", "TerminatingOrFailed"))
    pod = (spec.get("template") or {}).get("spec") or {}
    errors += pod_spec(pod, "spec.template.spec")
    policy = pod.get("restartPolicy", "Always")
    if policy == "Always":
        path = "spec.template.spec.restartPolicy"
        errors.append(FieldError(path, "Required", detail='valid values: "OnFailure", "Never"'))
    return errors
