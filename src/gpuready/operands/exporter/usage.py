"""How much of a GPU each pod uses, from the processes that NVML names. Pure.

Pods together never use more than the device: what no pod is known for is the remainder. The two are read a
moment apart, so where the processes' sum is above the device's own value all are made smaller alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuready.gpu.telemetry.model import ProcessUse
from gpuready.operands.exporter.attribution import Allocation, Attribution, Key

_UID = re.compile(
    r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
)


@dataclass(frozen=True, order=True)
class PodUse:
    """One pod on one GPU or instance; container "" where the pod holds the device in several, or in none."""

    uuid: str
    instance_id: int
    namespace: str
    pod: str
    container: str
    amount: float

    @property
    def key(self) -> Key:
        return self.uuid, None if self.instance_id < 0 else self.instance_id


@dataclass(frozen=True)
class Use:
    """by_pod in its order. remainder: of the device's value, what belongs to no known pod; by device."""

    by_pod: tuple[PodUse, ...] = ()
    remainder: Mapping[Key, float] = field(default_factory=dict)


def pod_uid_of(cgroup: str) -> str:
    """Of a process, from its /proc/<pid>/cgroup; "" for one that is in no pod.

    Both spellings of the kubelet: `/kubepods/pod<uid>/…` and `kubepods-pod<uid with _>.slice`; a static pod's
    uid is a hash. Source: kubernetes, pkg/kubelet/cm/pod_container_manager_linux.go.
    """
    match = _UID.search(cgroup)
    return match[1].replace("_", "-") if match else ""


def shared_out(
    amounts: Iterable[tuple[ProcessUse, float | None]],
    pod_of: Mapping[int, tuple[str, str]],
    attribution: Attribution,
    whole: Mapping[Key, float],
) -> Use:
    """Add up by pod, and hold the sums to the device's.

    amounts  of each process; None is not known, and then that pod's sum is not known either
    pod_of   pid -> (namespace, pod)
    whole    the device's own value
    """
    sums: dict[tuple[Key, tuple[str, str]], float | None] = {
        (each.key, each.pod_key): 0.0 for each in attribution.allocations if each.key in whole
    }
    for process, amount in amounts:
        pod = pod_of.get(process.pid)
        if pod is None:
            continue
        place = ((process.uuid, process.gpu_instance_id), pod)
        before = sums.get(place, 0.0)
        sums[place] = None if amount is None or before is None else before + amount
    known = {place: amount for place, amount in sums.items() if amount is not None}
    totals: dict[Key, float] = {}
    for (key, _), amount in known.items():
        totals[key] = totals.get(key, 0.0) + amount
    rows = []
    for (key, pod), amount in known.items():
        total, limit = totals[key], whole.get(key, totals[key])
        fitted = amount * limit / total if total > limit else amount
        rows.append(_row(key, pod, attribution.by_device.get(key, ()), fitted))
    rest = {key: max(0.0, value - totals.get(key, 0.0)) for key, value in whole.items()}
    return Use(tuple(sorted(rows)), rest)


def _row(key: Key, pod: tuple[str, str], holders: Sequence[Allocation], amount: float) -> PodUse:
    containers = {each.container for each in holders if each.pod_key == pod}
    container = containers.pop() if len(containers) == 1 else ""
    return PodUse(key[0], -1 if key[1] is None else key[1], *pod, container, amount)
