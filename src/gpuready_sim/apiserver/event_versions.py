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


def to_new_event(obj: Obj) -> Obj:
    """An Event of v1 as one of events.k8s.io/v1."""
    return {_NAMES.get(key, key): value for key, value in obj.items()} | {"apiVersion": "events.k8s.io/v1"}


def to_core_event(obj: Obj) -> Obj:
    """An Event of events.k8s.io/v1 as one of v1."""
    return {_CORE_NAMES.get(key, key): value for key, value in obj.items()} | {"apiVersion": "v1"}
