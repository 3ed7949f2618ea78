"""Events in their two versions, v1 and events.k8s.io/v1, which share one store. Pure.

Source: kubernetes, pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from gpuready_sim.apiserver.failures import Obj

# core name -> name in events.k8s.io/v1
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: core for core, new in _NAMES.items()}


# What v1 shows of every event, and events.k8s.io/v1 only where it says something.
_ALWAYS_IN_CORE: Obj = {"reportingComponent": "", "reportingInstance": ""}
# What both show of every event.
_ALWAYS: Obj = {"source": {}, "firstTimestamp": None, "lastTimestamp": None}


def to_new_event(obj: Obj) -> Obj:
    """An Event of v1 as one of events.k8s.io/v1."""
    said = {key: value for key, value in (_ALWAYS | obj).items() if key not in _ALWAYS_IN_CORE or value}
    return {_NAMES.get(key, key): value for key, value in said.items()} | {"apiVersion": "events.k8s.io/v1"}


def to_core_event(obj: Obj) -> Obj:
    """An Event of events.k8s.io/v1 as one of v1."""
    core = {_CORE_NAMES.get(key, key): value for key, value in obj.items()}
    return _ALWAYS_IN_CORE | _ALWAYS | core | {"apiVersion": "v1"}
