"""Which pods of DaemonSets start, stop and restart on which nodes, and which workloads that reaches. Pure.

Where a DaemonSet's pod may be is judged as `doctor` judges it (tools/placement.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready.controller.policy.pruning import operand_of
from gpuready.operands.driver.digest import config_beside, mark_of
from gpuready.tools import placement
from gpuready.tools.operand_pods import node_of
from gpuready.tools.placement import Object, name_of
from gpuready.tools.plan.forecast import PodChange, PodFate, Trouble, Workload
from gpuready.tools.plan.look import is_outdated

DRIVER = "driver"


@dataclass(frozen=True)
class DaemonSetOutlook:
    """One DaemonSet as it will be.

    desired   None when it is pruned
    renewed   its pod template changes
    freed     pods of earlier templates waited to be deleted by somebody (OnDelete), and do not any more
    revision  hash of the template that it has now, "" = not known
    """

    name: str
    operand: str
    desired: Object | None
    renewed: bool = False
    freed: bool = False
    revision: str = ""

    @property
    def replaces_pods(self) -> bool:
        return self.renewed and not _waits(self.desired)

    def replaces(self, pod: Object) -> bool:
        return self.replaces_pods or (self.freed and is_outdated(pod, self.revision))


def pod_changes(
    sets: Iterable[DaemonSetOutlook], nodes: Sequence[Object], pods: Iterable[Object]
) -> list[PodChange]:
    """`nodes` with the labels that they will have."""
    there = nodes_by_daemonset(pods)
    return [
        PodChange(fate, each.name, each.operand, name)
        for each in sets
        for name, fate in _fates(each, nodes, there.get(each.name, {}))
    ]


def nodes_by_daemonset(pods: Iterable[Object]) -> dict[str, dict[str, Object]]:
    """DaemonSet -> node -> its pod there; of the operator's namespace, or names would mean others."""
    found: dict[str, dict[str, Object]] = {}
    for pod in pods:
        meta = pod["metadata"]
        owners = [ref["name"] for ref in meta.get("ownerReferences") or () if ref.get("kind") == "DaemonSet"]
        if owners and not meta.get("deletionTimestamp"):
            found.setdefault(owners[0], {})[node_of(pod)] = pod
    return found


def workloads_reached(
    changes: Iterable[PodChange],
    sets: Iterable[DaemonSetOutlook],
    own: Iterable[Object],
    pods: Sequence[Object],
) -> list[Workload]:
    """Pods with GPUs on nodes whose driver goes, or waits for them to leave. `own`: the operator's pods."""
    holders = placement.holders_by_node(pods)
    driver_pods = nodes_by_daemonset(own)
    by_name = {each.name: each for each in sets}
    found = []
    for change in changes:
        if change.operand != DRIVER:
            continue
        pod = driver_pods.get(change.daemonset, {}).get(change.node)
        trouble = _trouble_of(change, by_name[change.daemonset], pod)
        if trouble:
            found += [
                Workload(name, change.node, holds, trouble, _WHY[trouble].format(node=change.node))
                for name, holds in _by_pod(holders.get(change.node, {})).items()
            ]
    return found


_WHY = {
    Trouble.LOSES_DRIVER: "the driver's pod on {node} is taken away, and the driver's files with it",
    Trouble.MUST_LEAVE_FIRST: "another driver is to be installed on {node}; that happens when the driver's "
    "pod there is deleted, and needs GPUs that nobody holds",
}


def _trouble_of(change: PodChange, daemonset: DaemonSetOutlook, pod: Object | None) -> Trouble | None:
    if change.fate is PodFate.STOPS:
        return Trouble.LOSES_DRIVER
    if change.fate is not PodFate.OUTDATED or pod is None:
        return None
    had = mark_of(pod)
    template = (daemonset.desired or {}).get("spec", {}).get("template") or {}
    return Trouble.MUST_LEAVE_FIRST if had != config_beside(had, template) else None


def _by_pod(held: Mapping[str, Sequence[tuple[str, int]]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for resource, rows in held.items():
        for pod, count in rows:
            found.setdefault(pod, {})[resource] = count
    return dict(sorted(found.items()))


def _fates(
    daemonset: DaemonSetOutlook, nodes: Sequence[Object], there: Mapping[str, Object]
) -> Iterator[tuple[str, PodFate]]:
    for node in nodes:
        name = name_of(node)
        pod, may = there.get(name), _may_run(daemonset.desired, node)
        if pod is None:
            if may:
                yield name, PodFate.STARTS
        elif may and (daemonset.renewed or daemonset.replaces(pod)):
            yield name, PodFate.RESTARTS if daemonset.replaces(pod) else PodFate.OUTDATED
        elif not may and (daemonset.replaces(pod) or not _may_stay(daemonset.desired, node)):
            yield name, PodFate.STOPS


def _may_run(daemonset: Object | None, node: Object) -> bool:
    return _may_stay(daemonset, node) and not placement.taints_against_daemonset(node, daemonset or {})


def _may_stay(daemonset: Object | None, node: Object) -> bool:
    """A pod that runs stays where its selector still matches, whatever NoSchedule taints came since."""
    if daemonset is None:
        return False
    return not placement.unmatched_selector(node, daemonset["spec"]["template"]["spec"])


def daemonset_outlooks(
    planned: Iterable[Object],
    kept: Iterable[Object],
    pruned: Iterable[tuple[str, Object]],
    renewed: set[str],
    live: Mapping[str, Object],
    revisions: Mapping[str, str],
) -> list[DaemonSetOutlook]:
    """planned: as desired; kept: left as they are; pruned: (operand, object); renewed: names.

    live, revisions   by name: DaemonSets as they are, hashes of their newest templates
    """
    going = [
        DaemonSetOutlook(name_of(obj), operand, None) for operand, obj in pruned if obj["kind"] == "DaemonSet"
    ]
    staying = [
        DaemonSetOutlook(
            name,
            operand_of(obj),
            obj,
            renewed=name in renewed,
            freed=_waits(live.get(name)) and not _waits(obj),
            revision=revisions.get(name, ""),
        )
        for obj in (*_sets(planned), *_sets(kept))
        for name in (name_of(obj),)
    ]
    return [*staying, *going]


def _waits(daemonset: Object | None) -> bool:
    """Its pods are replaced when somebody deletes them."""
    strategy = ((daemonset or {}).get("spec") or {}).get("updateStrategy") or {}
    return bool(strategy.get("type") == "OnDelete")


def _sets(objects: Iterable[Object]) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == "DaemonSet"]


def images_of(objects: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the pods of these objects run, each once."""
    pods = [obj["spec"]["template"]["spec"] for obj in _sets(objects)]
    found = [
        container["image"]
        for pod in pods
        for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))
    ]
    return tuple(dict.fromkeys(found))
