"""From a snapshot to findings: policy, nodes, pods. Pure, so a saved bundle gives the same answer.

A healthy cluster yields no finding, and neither does a repaired one.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuready import names
from gpuready.chain import summary
from gpuready.chain.driver import POD_FAILING
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.errors import UsageError
from gpuready.tools import leader, placement
from gpuready.tools import policies as policies_
from gpuready.tools.doctor import operands, pending
from gpuready.tools.doctor.finding import Finding, Severity, finding_of
from gpuready.tools.node_rows import NodeRow, rows_of
from gpuready.tools.placement import Holders, Object, name_of
from gpuready.tools.snapshot import Snapshot, seconds_between

# A policy that nobody has answered for this long: nobody is there to answer.
OPERATOR_PATIENCE_S = 15.0
_MOST_NAMED = 8
# Reasons that only say "some operand is not whole": the operands' rows and the nodes say it better.
_SAID_BY_ROWS = ("OperandNotReady", "OperandRefused")


@dataclass(frozen=True)
class Report:
    """What was found.

    remarks   what is true and asks nothing of anybody
    unseen    what could not be looked at
    """

    rows: tuple[NodeRow, ...]
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "remarks": list(self.remarks),
            **({"notLookedAt": list(self.unseen)} if self.unseen else {}),
            "nodes": [row.to_json() for row in self.rows if row.has_gpus or row.undiscovered],
            "problems": self.count(Severity.PROBLEM),
            "warnings": self.count(Severity.WARNING),
            "waiting": self.count(Severity.WAITING),
        }

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def report_of(snapshot: Snapshot, node: str | None = None) -> Report:
    """Everything, or one node only.

    raises  UsageError for a node that does not exist
    """
    rows, held = rows_of(snapshot), placement.holders_by_node(snapshot.pods)
    if node is not None:
        mine = [row for row in rows if row.name == node]
        if not mine:
            raise _no_such_node(node, [row.name for row in rows])
        return Report(tuple(mine), tuple(_of_node(mine[0], held.get(node, {}))))
    findings = [
        *_of_leader(snapshot),
        *_of_policy(snapshot, rows),
        *(finding for row in rows for finding in _of_node(row, held.get(row.name, {}))),
        *(finding for policy in snapshot.policies for finding in _of_waiting_nodes(policy)),
        *pending.explain_all(snapshot, rows),
    ]
    unseen = (snapshot.lease_unseen,) if snapshot.lease_unseen else ()
    return Report(tuple(rows), tuple(findings), tuple(_remarks(snapshot.policies)), unseen)


def _no_such_node(node: str, there: Sequence[str]) -> UsageError:
    """Of a large cluster only the names that come near."""
    if not there:
        why = "the cluster has no node at all"
    elif len(there) <= _MOST_NAMED:
        why = f"the nodes are {', '.join(there)}"
    else:
        near = difflib.get_close_matches(node, there, n=_MOST_NAMED, cutoff=0.5)
        like = f"; the nearest are {', '.join(near)}" if near else ""
        why = f"none of the {len(there)} nodes has this name{like}"
    return UsageError(f"there is no node {node}", why=why, next_step="kubectl get nodes")


def _remarks(policies: Sequence[Object]) -> list[str]:
    """A policy that is ready may ask for more than this version has code for."""
    ready = [policy for policy in policies if policies_.state_of(policy) == "ready"]
    lines = [(name_of(policy), policies_.not_installed(policy)) for policy in ready]
    return [f"policy/{name}  ready; {text}" for name, text in lines if text]


# --- nodes ------------------------------------------------------------------------------------------------


def _of_node(row: NodeRow, held: Holders) -> list[Finding]:
    """The first link that holds the node up; of a node that works, what is worth saying."""
    subject = f"node/{row.name}"
    broken = summary.first_broken(row.verdicts)
    telling = (
        [*_failing_driver(row, held), *_why_it_waits(row.verdicts, broken), broken]
        if broken
        else _each_gpu_once(row.verdicts)
    )
    return [finding for verdict in telling if (finding := finding_of(subject, verdict))]


def _failing_driver(row: NodeRow, held: Holders) -> list[Verdict]:
    """A node that is paused for a driver whose pod fails waits for somebody, whatever works on meanwhile."""
    found = [each for each in row.verdicts if each.reason == POD_FAILING and each.state is State.DEGRADED]
    lines = tuple(
        f"pod {pod} holds {count} {resource}" for resource, pods in held.items() for pod, count in pods
    )
    return [replace(each, state=State.BROKEN, evidence=(*lines, *each.evidence)) for each in found]


def _why_it_waits(verdicts: Sequence[Verdict], waiting: Verdict) -> list[Verdict]:
    """Somebody makes a link wait because of what an earlier one has to say, such as an outdated driver."""
    if waiting.state is not State.WAITING:
        return []
    before = itertools.takewhile(lambda each: each is not waiting, summary.in_order(verdicts))
    return [each for each in before if each.state is State.DEGRADED and each.reason != POD_FAILING]


def _each_gpu_once(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """A GPU that has stopped to answer shows in two links; the device plugin knows what it needs."""
    by_link = {verdict.link: verdict for verdict in verdicts}
    driver, plugin = by_link.get(Link.DRIVER), by_link.get(Link.DEVICE_PLUGIN)
    if driver and plugin and driver.reason == "GpuNotAnswering" and plugin.state is State.DEGRADED:
        named = _gpus_named(driver)
        if named and named <= _gpus_named(plugin):
            return [verdict for verdict in verdicts if verdict is not driver]
    return list(verdicts)


def _gpus_named(verdict: Verdict) -> set[str]:
    return set(re.findall(r"GPU (\d+) \(", " ".join([verdict.message, *verdict.evidence])))


# --- policy and operator ----------------------------------------------------------------------------------


def _of_leader(snapshot: Snapshot) -> list[Finding]:
    """A policy's status stays as the last operator wrote it, whether anybody works or not."""
    why = leader.why_nobody_works(snapshot)
    if not why:
        return []
    step = leader.next_step(snapshot)
    return [Finding("cluster", Severity.PROBLEM, "NoOperator", why, next_step=step)]


def _of_policy(snapshot: Snapshot, rows: Sequence[NodeRow]) -> list[Finding]:
    if snapshot.missing:
        return [_not_installed(snapshot.missing)]
    if not snapshot.policies:
        return [
            Finding(
                "cluster",
                Severity.PROBLEM,
                "NoPolicy",
                "there is no ClusterPolicy, so nothing is installed on any node",
                next_step="write a ClusterPolicy and apply it: kubectl apply -f POLICY.yaml",
            )
        ]
    return [finding for policy in snapshot.policies for finding in _of_one_policy(policy, snapshot, rows)]


def _not_installed(missing: Sequence[str]) -> Finding:
    groups = {names.GPU_NODES: names.GPU_NODE_API, names.CLUSTER_POLICIES: names.CLUSTER_POLICY_API}
    kinds = ", ".join(".".join([plural, *groups.get(plural, "").split("/")[:-1]]) for plural in missing)
    return Finding(
        "cluster",
        Severity.PROBLEM,
        "NotInstalled",
        f"the API server does not know {kinds}",
        next_step="gpuready crds | kubectl apply --server-side -f -",
    )


def _of_one_policy(policy: Object, snapshot: Snapshot, rows: Sequence[NodeRow]) -> list[Finding]:
    subject, status = f"policy/{name_of(policy)}", policy.get("status") or {}
    if status.get("state") == "ignored":
        return [
            operands.finding_from(subject, Severity.WARNING, _condition(status, "Ready"), "PolicyIgnored")
        ]
    if _is_unanswered(policy, status, snapshot.taken_at):
        return [
            Finding(
                subject,
                Severity.PROBLEM,
                "OperatorSilent",
                "the operator has not answered this policy: it does not run, or cannot write to it",
                evidence=_generations(policy, status),
                next_step="check that the operator runs, and read its log",
            )
        ]
    row, operands_ = _condition(status, "Error"), status.get("operands") or ()
    refused = operands.refused(subject, operands_)
    others = operands.findings_of(subject, operands_, snapshot, rows)
    if row.get("status") != "True" or row.get("reason") in _SAID_BY_ROWS:
        return [*refused, *others]
    severity = Severity.WAITING if row.get("reason") == "Applying" else Severity.PROBLEM
    return [operands.finding_from(subject, severity, row, "PolicyNotReady"), *others]


def _of_waiting_nodes(policy: Object) -> list[Finding]:
    """Nodes that wait for their turn: after what each of them says, since it tells why they wait."""
    subject = f"policy/{name_of(policy)}"
    waiting = policies_.nodes_waiting(policy)
    return [operands.finding_from(subject, _waiting_is(row), row) for row in waiting]


def _waiting_is(row: Mapping[str, Any]) -> Severity:
    """A roll-out that has stopped does not end by itself."""
    return Severity.PROBLEM if row.get("type") == names.RESTARTS_STOPPED_CONDITION else Severity.WAITING


def _is_unanswered(policy: Object, status: Mapping[str, Any], now: str) -> bool:
    meta = policy["metadata"]
    if status.get("observedGeneration") == meta.get("generation") and status.get("state"):
        return False
    return seconds_between(str(meta.get("creationTimestamp") or ""), now) > OPERATOR_PATIENCE_S


def _generations(policy: Object, status: Mapping[str, Any]) -> tuple[str, ...]:
    seen = status.get("observedGeneration")
    return (f"generation {policy['metadata'].get('generation')}, last one answered: {seen or 'none'}",)


def _condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    return next((row for row in status.get("conditions") or () if row.get("type") == type_), {})
