"""Do we hear from the node at all.

Pure. Facts come from the API server (node, agent pod), never from the node itself: a silent node cannot say
that it is silent. Used by the controller (condition GPUReady=Unknown) and by the tools.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuready.chain.verdict import Link, State, Verdict
from gpuready.chain.wording import counted
from gpuready.names import OPERATOR_NAMESPACE

# An agent that is not Ready this long after its start will not be so by itself.
STARTING_S = 30.0
# A container that waits for one of these will not come up by itself.
STUCK = (
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
)


@dataclass(frozen=True)
class AgentPod:
    """The node agent's pod of one node, as far as a verdict needs it.

    name       with its namespace, "gpu-operator/gpuready-node-agent-x1"
    running_s  since its container was started; 0 = it was not, or nobody knows
    """

    name: str
    phase: str = "Running"
    ready: bool = True
    restarts: int = 0
    running_s: float = 0.0
    waiting_reason: str = ""
    waiting_message: str = ""


@dataclass(frozen=True)
class ReportingFacts:
    """What `judge` may know.

    node_ready    the Node's condition Ready; `node_message` is the condition's own text
    agent         None = no agent pod on this node
    kept_away_by  taints "key=value:Effect" that the agent's DaemonSet does not tolerate
    unselected    labels that its nodeSelector asks for and the node lacks, "key=value"
    daemon_set    its name, "" when it does not exist; `namespace` is its own
    boot_id / reported_boot_id   of the Node object and of GPUNode.status; "" = not known
    """

    node: str
    node_ready: bool = True
    node_message: str = ""
    agent: AgentPod | None = None
    kept_away_by: tuple[str, ...] = ()
    unselected: tuple[str, ...] = ()
    daemon_set: str = "gpuready-node-agent"
    namespace: str = OPERATOR_NAMESPACE
    boot_id: str = ""
    reported_boot_id: str = ""


def judge(facts: ReportingFacts) -> Verdict:
    if not facts.node_ready:
        return _verdict(
            State.BROKEN,
            "NodeNotReady",
            f"node {facts.node} is not ready: {facts.node_message or 'its kubelet is silent'}",
            next_step="check the kubelet and the machine",
        )
    if facts.agent is None:
        return _no_agent(facts)
    if not facts.agent.ready:
        return _silent(facts, facts.agent)
    if facts.reported_boot_id and facts.boot_id and facts.reported_boot_id != facts.boot_id:
        return _verdict(
            State.WAITING,
            "ReportFromEarlierBoot",
            f"node {facts.node} has rebooted; its agent has not reported since",
            evidence=(f"boot {facts.boot_id}", f"last report from boot {facts.reported_boot_id}"),
        )
    return _verdict(State.OK, "AgentReports", f"agent {facts.agent.name} is ready")


def _no_agent(facts: ReportingFacts) -> Verdict:
    if not facts.daemon_set:
        return _verdict(
            State.WAITING,
            "AgentNotDeployed",
            "the node agent's DaemonSet does not exist",
            next_step="check that the operator runs and that a ClusterPolicy exists",
        )
    if facts.kept_away_by:
        return _kept_away(facts)
    if facts.unselected:
        return _verdict(
            State.WAITING,
            "AgentNotSelected",
            f"DaemonSet {facts.daemon_set} does not select {facts.node}: "
            f"it asks for {', '.join(facts.unselected)}",
        )
    return _verdict(
        State.WAITING,
        "AgentPending",
        f"DaemonSet {facts.daemon_set} has no pod on {facts.node} yet",
        next_step=f"kubectl describe daemonset -n {facts.namespace} {facts.daemon_set}, if this lasts",
    )


def _kept_away(facts: ReportingFacts) -> Verdict:
    taints = ", ".join(facts.kept_away_by)
    return _verdict(
        State.BROKEN,
        "DiscoveryKeptAway",
        f"discovery cannot run on {facts.node}: "
        f"DaemonSet {facts.daemon_set} does not tolerate its taint {taints}",
        evidence=tuple(f"taint {taint}" for taint in facts.kept_away_by),
        next_step="add the toleration " + "; ".join(toleration_for(taint) for taint in facts.kept_away_by),
    )


def toleration_for(taint: str) -> str:
    """The toleration, as YAML in one line, that lets a pod onto a node with this "key=value:Effect" taint."""
    rest, _, effect = taint.rpartition(":")
    key, _, value = rest.partition("=")
    operator = f"operator: Equal, value: {_quoted(value)}" if value else "operator: Exists"
    return f"{{key: {key}, {operator}, effect: {effect}}}"


def _quoted(value: str) -> str:
    return f'"{value}"'


def _silent(facts: ReportingFacts, agent: AgentPod) -> Verdict:
    said = agent.waiting_reason or f"phase {agent.phase}, not ready"
    evidence = [f"pod {agent.name}: {said}"]
    place = agent.name.replace("/", " ")
    if agent.waiting_message:
        evidence.append(agent.waiting_message)
    if agent.restarts:
        evidence.append(counted(agent.restarts, "restart"))
    if not agent.restarts and agent.running_s < STARTING_S and agent.waiting_reason not in STUCK:
        text = f"the node agent of {facts.node} is starting: {said}"
        return _verdict(State.WAITING, "AgentStarting", text, evidence=tuple(evidence))
    return _verdict(
        State.BROKEN,
        "AgentSilent",
        f"the node agent of {facts.node} does not report: {said}",
        evidence=tuple(evidence),
        next_step=f"kubectl logs -n {place}, and kubectl describe pod -n {place}",
    )


def _verdict(
    state: State, reason: str, message: str, *, evidence: tuple[str, ...] = (), next_step: str = ""
) -> Verdict:
    return Verdict(Link.REPORTING, state, reason, message, evidence, next_step)
