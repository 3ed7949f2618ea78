"""One row per node: its verdicts as its agent told them, and whether we hear from that agent at all.

Pure. `status` prints the rows, `doctor` explains them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuready import names
from gpuready.chain import reporting, summary
from gpuready.chain.reporting import AgentPod, ReportingFacts
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.chain.wording import counted
from gpuready.controller.nfd import is_nfd_worker
from gpuready.tools import operand_pods, placement
from gpuready.tools.placement import Object, labels_of, name_of
from gpuready.tools.snapshot import Snapshot, seconds_between

AGENT_OPERAND = "node-agent"


@dataclass(frozen=True)
class NodeRow:
    """One line of `status`.

    has_gpus      somebody found a GPU there
    undiscovered  something keeps those away who would look
    unseen        why nobody has looked yet; "" = somebody has
    offered       what may be scheduled there, by resource; also what others offer
    """

    name: str
    verdicts: tuple[Verdict, ...] = ()
    gpus: int = 0
    healthy: int = 0
    has_gpus: bool = False
    undiscovered: bool = False
    cordoned: bool = False
    unseen: str = ""
    offered: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """Last known states are no states while nobody reports."""
        return summary.columns(self.verdicts if self.is_heard else ())

    @property
    def is_heard(self) -> bool:
        return not any(v.link is Link.REPORTING and v.state is State.BROKEN for v in self.verdicts)

    @property
    def is_whole(self) -> bool:
        """Nothing holds it up; also true of a node without GPUs."""
        return summary.first_broken(self.verdicts) is None

    @property
    def withheld(self) -> Verdict | None:
        """Why it offers no GPU although nothing is wrong: somebody wants it so."""
        return summary.withheld(self.verdicts) if self.is_whole else None

    @property
    def reason(self) -> str:
        return summary.reason(self.verdicts)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **self.columns,
            "gpus": self.gpus,
            "healthy": self.healthy,
            "offered": dict(self.offered),
            "reason": self.reason,
            "undiscovered": self.undiscovered,
            "chain": [verdict.to_json() for verdict in self.verdicts],
        }


def rows_of(snapshot: Snapshot) -> list[NodeRow]:
    """GPU nodes, undiscovered nodes and nodes without GPUs, by name."""
    by_name = {name_of(obj): obj for obj in snapshot.gpu_nodes}
    cluster = _Cluster.of(snapshot)
    rows = [_row(cluster, node, by_name.get(name_of(node))) for node in snapshot.nodes]
    return sorted(rows, key=lambda row: row.name)


def has_gpu_label(node: Object) -> bool:
    labels = labels_of(node)
    return labels.get(names.GPU_PRESENT) == "true" or any(
        labels.get(key) == "true" for key in names.NFD_PCI_LABELS
    )


@dataclass(frozen=True)
class _Cluster:
    """What of a snapshot concerns every node, found once.

    operand_pods  by (node, operand)
    agents_set, workers_set   the DaemonSets of our agent and of NFD's worker, None = there is none
    """

    operand_pods: Mapping[tuple[str, str], Object]
    daemonsets: Sequence[Object]
    agents_set: Object | None
    workers_set: Object | None
    has_policy: bool
    taken_at: str

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Cluster:
        return cls(
            operand_pods=_operand_pods(snapshot.pods),
            daemonsets=snapshot.daemonsets,
            agents_set=_find_daemonset(snapshot.daemonsets, _is_agents),
            workers_set=_find_daemonset(snapshot.daemonsets, is_nfd_worker),
            has_policy=bool(snapshot.policies),
            taken_at=snapshot.taken_at,
        )


def _operand_pods(pods: Sequence[Object]) -> dict[tuple[str, str], Object]:
    """The youngest pod of each operand on each node; one that is going away only when there is no other."""
    found: dict[tuple[str, str], Object] = {}
    for pod in pods:
        operand = (pod["metadata"].get("labels") or {}).get(names.OPERAND_LABEL)
        node = operand_pods.node_of(pod)
        if operand and node:
            key = (node, operand)
            found[key] = max(found.get(key, pod), pod, key=_stays_and_is_young)
    return found


def _stays_and_is_young(pod: Object) -> tuple[bool, str]:
    meta = pod["metadata"]
    return not meta.get("deletionTimestamp"), str(meta.get("creationTimestamp") or "")


def _is_agents(daemonset: Object) -> bool:
    return labels_of(daemonset).get(names.OPERAND_LABEL) == AGENT_OPERAND


def _row(cluster: _Cluster, node: Object, gpu_node: Object | None) -> NodeRow:
    reporting_verdict = reporting.judge(_reporting_facts(cluster, node, gpu_node))
    name = name_of(node)
    if gpu_node is None and not has_gpu_label(node):
        kept_away = reporting_verdict.reason == "DiscoveryKeptAway"
        if kept_away:
            return NodeRow(name, (reporting_verdict,), undiscovered=True)
        return NodeRow(name, unseen=_why_unseen(cluster, node, reporting_verdict))
    status = (gpu_node or {}).get("status") or {}
    told = [_verdict_of(row) for row in status.get("chain") or ()]
    verdicts = [reporting_verdict, *(_explained(verdict, cluster, node) for verdict in told)]
    if gpu_node is None:
        verdicts.append(_without_gpu_node(name))
    elif not told:
        verdicts.append(_not_judged(name))
    return NodeRow(
        name=name,
        verdicts=tuple(summary.in_order(verdicts)),
        gpus=int(status.get("gpus") or 0),
        healthy=int(status.get("healthy") or 0),
        has_gpus=True,
        cordoned=placement.is_cordoned(node),
        offered=placement.allocatable(node),
    )


def _why_unseen(cluster: _Cluster, node: Object, heard: Verdict) -> str:
    """A node without a GPU label may only be one that nobody has looked at: that is not the same."""
    if heard.state is State.OK or any(key.startswith(names.NFD_PREFIX) for key in labels_of(node)):
        return ""
    return "no node agent reports from there yet" if cluster.has_policy else "there is no ClusterPolicy"


def _verdict_of(row: Mapping[str, Any]) -> Verdict:
    """null is "absent", as everywhere in Kubernetes."""
    return Verdict.from_json({key: value for key, value in row.items() if value is not None})


def _explained(verdict: Verdict, cluster: _Cluster, node: Object) -> Verdict:
    """The node cannot know the pods of our operands: they may say more than it does."""
    operand = operand_pods.OPERAND_OF.get(verdict.link)
    if operand is None:
        return verdict
    return operand_pods.explained(
        verdict, cluster.operand_pods.get((name_of(node), operand)), cluster.daemonsets, node
    )


def _without_gpu_node(name: str) -> Verdict:
    return Verdict(
        Link.DISCOVERY,
        State.WAITING,
        "NoGpuNode",
        f"{name} has a GPU, but there is no GPUNode for it",
        next_step="check that the operator runs and that a ClusterPolicy is in force",
    )


def unseen_lines(rows: Sequence[NodeRow]) -> list[str]:
    """How many nodes have no GPU, and how many may only seem so."""
    without = sum(not (row.has_gpus or row.undiscovered or row.unseen) for row in rows)
    lines = [f"{counted(without, 'node')} without GPUs"] if without else []
    by_reason = Counter(row.unseen for row in rows if row.unseen)
    return lines + [f"{counted(many, 'node')} not looked at yet: {why}" for why, many in by_reason.items()]


def _not_judged(name: str) -> Verdict:
    text = f"the node agent has not said anything about the GPUs of {name} yet"
    return Verdict(Link.DISCOVERY, State.WAITING, "NotReported", text)


# --- is the node heard of ---------------------------------------------------------------------------------


def _reporting_facts(cluster: _Cluster, node: Object, gpu_node: Object | None) -> ReportingFacts:
    name = name_of(node)
    ready = _condition(node, "Ready")
    discoverer = _discoverer(cluster, node)
    pod = cluster.operand_pods.get((name, AGENT_OPERAND))
    spec = discoverer["spec"]["template"]["spec"] if discoverer else {}
    return ReportingFacts(
        node=name,
        node_ready=ready.get("status") == "True",
        node_message=str(ready.get("message") or ""),
        agent=_agent_pod(pod, cluster.taken_at) if pod else None,
        kept_away_by=tuple(placement.taints_against_daemonset(node, discoverer)) if discoverer else (),
        unselected=tuple(placement.unmatched_selector(node, spec)),
        daemon_set=name_of(discoverer) if discoverer else "",
        namespace=str(discoverer["metadata"].get("namespace")) if discoverer else "",
        boot_id=str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or ""),
        reported_boot_id=str((((gpu_node or {}).get("status")) or {}).get("bootID") or ""),
    )


def _discoverer(cluster: _Cluster, node: Object) -> Object | None:
    """The DaemonSet that would find this node's GPUs: NFD's worker where there is one, else our agent.

    A node that is known as a GPU node needs the agent in both cases.
    """
    if has_gpu_label(node):
        return cluster.agents_set
    return cluster.workers_set or cluster.agents_set


def _find_daemonset(daemonsets: Sequence[Object], matches: Any) -> Object | None:
    return next((obj for obj in daemonsets if matches(obj)), None)


def _agent_pod(pod: Object, now: str) -> AgentPod:
    status = pod.get("status") or {}
    waiting = operand_pods.waiting_of(pod)
    return AgentPod(
        name=f"{pod['metadata'].get('namespace')}/{name_of(pod)}",
        phase=str(status.get("phase") or ""),
        ready=_condition(pod, "Ready").get("status") == "True",
        restarts=sum(int(row.get("restartCount") or 0) for row in status.get("containerStatuses") or ()),
        running_s=_running_s(pod, now),
        waiting_reason=str(waiting.get("reason") or ""),
        waiting_message=str(waiting.get("message") or ""),
    )


def _running_s(pod: Object, now: str) -> float:
    rows = (pod.get("status") or {}).get("containerStatuses") or ()
    since = [((row.get("state") or {}).get("running") or {}).get("startedAt") for row in rows]
    return max((seconds_between(str(each), now) for each in since if each), default=0.0)


def _condition(obj: Object, type_: str) -> Mapping[str, Any]:
    rows = (obj.get("status") or {}).get("conditions") or ()
    return next((row for row in rows if row.get("type") == type_), {})
