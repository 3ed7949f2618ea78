"""What an Event may say: in events.k8s.io/v1 more is asked for, and stays as it is. Pure.

Source: kubernetes, pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver.event_versions import to_core_event
from gpuready_sim.apiserver.field_errors import FieldError
from gpuready_sim.apiserver.names import qualified_name_errors

Object = dict[str, Any]
_ELSEWHERE: Final = "does not match event.namespace"
_SHORT: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def validate(event: Object) -> list[FieldError]:
    """In both versions, whether it is new or not."""
    core = to_core_event(event)
    if core.get("eventTime"):
        return list(_of_a_series(core, "reportingComponent" if _is_core(event) else "reportingController"))
    there = (core.get("involvedObject") or {}).get("namespace") or ""
    own = core["metadata"].get("namespace") or ""
    if own != there if there else own not in ("", "default"):
        return [FieldError("involvedObject.namespace", "Invalid", there, _ELSEWHERE)]
    return []


def _is_core(event: Object) -> bool:
    return event.get("apiVersion") == "v1"


def _of_a_series(core: Object, reporter: str) -> Iterator[FieldError]:
    there, own = (core.get("involvedObject") or {}).get("namespace"), core["metadata"].get("namespace")
    if not there and own not in ("default", "kube-system"):
        yield FieldError("involvedObject.namespace", "Invalid", there or "", _ELSEWHERE)
    name = core.get("reportingComponent") or ""
    if not name:
        yield FieldError(reporter, "Required")
    yield from (FieldError(reporter, "Invalid", name, text) for text in qualified_name_errors(name))
    for field, most in _SHORT.items():
        value = core.get(field) or ""
        if not value and field != "message":
            yield FieldError(field, "Required")
        if len(value.encode()) > most:
            yield FieldError(field, "Invalid", "", f"can have at most {most} characters")


def validate_new(event: Object) -> list[FieldError]:
    """In the new version alone."""
    core = to_core_event(event)
    errors = list(_series(core))
    if not core.get("eventTime"):
        errors.append(FieldError("eventTime", "Required"))
    if core.get("type") not in ("Normal", "Warning"):
        errors.append(FieldError("type", "Invalid", "", f"has invalid value: {core.get('type') or ''}"))
    old = ("firstTimestamp", "lastTimestamp", "count", "source")
    return errors + [FieldError(one, "Invalid", "", "needs to be unset") for one in old if core.get(one)]


def _series(core: Object) -> Iterator[FieldError]:
    series = core.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield FieldError("series.count", "Invalid", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield FieldError("series.lastObservedTime", "Required")


_FIXED: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """In the new version alone."""
    after, before = to_core_event(new), to_core_event(old)
    errors = list(_series(after)) if after.get("series") != before.get("series") else []
    for field in _FIXED:
        value = after.get(field)
        if (value or None) != (before.get(field) or None):
            told = "reportingController" if field == "reportingComponent" else field
            errors.append(FieldError(told, "Invalid", value, "field is immutable"))
    return errors
