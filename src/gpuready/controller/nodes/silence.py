"""Why nobody speaks for a node. Pure.

Texts are the same at every look while nothing changes, however often a container restarts meanwhile: they
reach conditions, and a condition that changes every second tells nobody anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuready.kube.trimmed import ContainerStatus, Node, Pod

_STARTING = ("ContainerCreating", "PodInitializing", "")


def silence_of(node: Node, agents: Iterable[Pod]) -> str:
    """One clause, "" when the node's agent speaks. `agents` are the agent's pods on this node."""
    if not node.ready:
        return "the kubelet does not report (the node is not Ready)"
    living = sorted(
        (pod for pod in agents if not pod.metadata.deleting), key=lambda pod: pod.metadata.creation_timestamp
    )
    if not living:
        return "no node agent runs there"
    if any(pod.ready for pod in living):
        return ""
    return f"the node agent's pod {living[-1].metadata.name} is not ready: {_trouble_of(living[-1])}"


def _trouble_of(pod: Pod) -> str:
    for container in (*pod.init_containers, *pod.containers):
        if container.restart_count:
            return f"CrashLoopBackOff, its container keeps ending{_last_end(container)}"
        if container.state == "waiting" and container.reason not in _STARTING:
            return ", ".join(text for text in (container.reason, container.message) if text)
        if container.state == "terminated" and not container.ready:
            return f"its container ended{_last_end(container)}"
    if any(container.state == "running" for container in pod.containers):
        return "it runs, but its readiness probe does not succeed (its log says why)"
    return "its container is being started"


def _last_end(container: ContainerStatus) -> str:
    reason = container.last_reason or (container.reason if container.state == "terminated" else "")
    return f" ({reason})" if reason else ""
