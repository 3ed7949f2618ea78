"""Takes everything of ours off a node when no policy is in force.

Order: the node agent is told (GPUNode.spec.uninstall) and undoes what the daemons wrote on the host; then the
labels, annotations and the condition go, then the GPUNode. An agent that does not answer is waited for
`PATIENCE_S` seconds, then it is named in an Event and the node is cleaned without it. The agent's own labels
go last, when its pod is gone: until then it would write them again.

Whoever took the GPUNodes away as well has cleaned no disk: where an agent has not said that it is done, the
GPUNode that carries the wish is made anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpuready import names
from gpuready.controller.caches import Caches
from gpuready.controller.labelling.decision import LabelFacts, decide, has_gpu, is_gpu_node
from gpuready.controller.nodes import condition
from gpuready.controller.nodes.silence import silence_of
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.errors import ApiError
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import AlreadyExists, Away, NotFound
from gpuready.kube.events import WARNING, EventRecorder
from gpuready.kube.pace import Pace
from gpuready.kube.resources import GPU_NODES, NODES
from gpuready.kube.trimmed import Node
from gpuready.log import get_logger

PATIENCE_S = 120.0
# A GPUNode that cannot be made, as its kind is not served, may be possible again within the patience.
RETRY_S = 5.0
NEXT_STEP = "remove /run/gpuready, /var/lib/gpuready and the gates in /run/nvidia/validations there"
log = get_logger("controller.uninstall")


class Uninstaller:
    def __init__(
        self, client: KubeClient, caches: Caches, events: EventRecorder, *, patience_s: float = PATIENCE_S
    ) -> None:
        self._client = client
        self._caches = caches
        self._events = events
        self._patience_s = patience_s
        self._since: dict[str, float] = {}
        self._given_up: set[str] = set()
        self._cleaned: set[str] = set()  # their agents have said so
        self._not_asked: dict[str, str] = {}  # node -> why its GPUNode could not be made
        self._pace = Pace()
        self.on_given_up: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Whoever led before has his own count of whom he waited for."""
        for each in (self._since, self._given_up, self._cleaned, self._not_asked):
            each.clear()

    def reset(self, name: str) -> None:
        """A policy is back: the next uninstall starts anew."""
        self._since.pop(name, None)
        self._not_asked.pop(name, None)
        self._given_up.discard(name)
        self._cleaned.discard(name)

    @property
    def given_up(self) -> list[str]:
        """Nodes whose agent never said that it is done: something of ours may be left on their disks."""
        return sorted(self._given_up)

    async def clean(self, node: Node) -> float:
        """One step for this node; returns seconds to come back after, 0 when done or an event will tell."""
        if not (self._caches.own_pods.synced and self._caches.owned["DaemonSet"].synced):
            return 0.0  # an agent that we may not see is not gone
        name = node.metadata.name
        summary = self._caches.gpu_nodes.get(name)
        if summary is not None and summary.status.uninstalled:
            self._cleaned.add(name)
        if self._is_owed(node, summary):
            await (self._ask(summary) if summary is not None else self._ask_anew(node))
            if wait_s := self._patience_left_s(name):
                return wait_s if summary is not None else min(wait_s, RETRY_S)
            await self._give_up(node)
        gone = not self._has_agent(name) or name in self._given_up
        await self._take_labels(node, agents_too=gone)
        await condition.remove(self._client, node)
        if summary is not None:
            await self._delete(name)
        return 0.0

    def is_clean(self) -> bool:
        """No GPUNode is left, nor an agent that was not asked: they have nothing more to do."""
        caches = self._caches
        if not (caches.gpu_nodes.synced and caches.nodes.synced and caches.own_pods.synced):
            return False
        return len(caches.gpu_nodes) == 0 and not any(
            self._is_owed(each, None) for each in caches.nodes.values()
        )

    def _is_owed(self, node: Node, summary: GPUNodeSummary | None) -> bool:
        """Its agent may have left something on the disk, and has not said that it is gone."""
        if summary is not None:
            return not summary.status.uninstalled
        name, labels = node.metadata.name, node.metadata.labels
        if name in self._cleaned or name in self._given_up or node.metadata.deleting:
            return False
        # Pods that outlive their DaemonSet are about to go, and would not answer.
        is_asked = (has_gpu(labels) or is_gpu_node(labels)) and self._agent_daemonset()
        return is_asked and self._has_agent(name)

    async def _ask(self, summary: GPUNodeSummary) -> None:
        name = summary.metadata.name
        if summary.spec.get("uninstall"):
            return
        try:
            await self._client.merge_patch(GPU_NODES, name, {"spec": {"uninstall": True}})
        except NotFound:
            return  # gone with its node
        log.info("uninstall asked for", node=name)

    async def _ask_anew(self, node: Node) -> None:
        name = node.metadata.name
        if self._pace.wait_s(name):
            return  # somebody takes it away again and again
        try:
            await self._client.create(GPU_NODES, new_gpu_node(node, {"uninstall": True}))
        except AlreadyExists:
            return  # the watch is about to bring it
        except Away:
            raise
        except ApiError as exc:
            self._not_asked[name] = f"its GPUNode, which asks for the clean-up, cannot be made: {exc}"
            return
        self._not_asked.pop(name, None)
        self._pace.wrote(name)
        log.info("uninstall asked for", node=name, reason="its GPUNode was gone")

    def _patience_left_s(self, name: str) -> float:
        """0 when it has run out, or when nobody is there who could answer."""
        if not self._has_agent(name) and not self._agent_daemonset():
            return 0.0
        waited_s = time.monotonic() - self._since.setdefault(name, time.monotonic())
        return max(self._patience_s - waited_s, 0.0)

    async def _give_up(self, node: Node) -> None:
        name = node.metadata.name
        if name in self._given_up:
            return
        self._given_up.add(name)
        why = self._not_asked.get(name) or silence_of(node, self._caches.agents_on(name))
        why = why or "its node agent does not answer"
        log.warning("node agent did not clean up", node=name, reason=why, next_step=NEXT_STEP)
        about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}}
        text = f"files of gpuready may be left on {name}: {why}; next: {NEXT_STEP}"
        await self._events.event(about, WARNING, "UninstallIncomplete", text)
        self.on_given_up()

    async def _take_labels(self, node: Node, *, agents_too: bool) -> None:
        patch = without_ours(node.metadata.labels, node.metadata.annotations, agents_too=agents_too)
        if patch is None:
            return
        patch["metadata"]["resourceVersion"] = node.metadata.resource_version
        await self._client.strategic_patch(NODES, node.metadata.name, patch)
        log.info("node labels removed", node=node.metadata.name)

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(GPU_NODES, name)
        except NotFound:
            return

    def _has_agent(self, name: str) -> bool:
        return bool(self._caches.agents_on(name))

    def _agent_daemonset(self) -> bool:
        return any(
            obj["metadata"].get("labels", {}).get(names.OPERAND_LABEL) == "node-agent"
            for obj in self._caches.owned["DaemonSet"].values()
        )


def new_gpu_node(node: Node, spec: Mapping[str, Any]) -> dict[str, Any]:
    """It goes with its node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
    return {
        "apiVersion": names.GPU_NODE_API,
        "kind": names.GPU_NODE_KIND,
        "metadata": {"name": node.metadata.name, "ownerReferences": [owner]},
        "spec": spec,
    }


def without_ours(
    labels: Mapping[str, str], annotations: Mapping[str, str], *, agents_too: bool
) -> dict[str, Any] | None:
    """The merge patch that removes what the controller wrote, and what is the agent's; None for nothing."""
    patch = decide(LabelFacts(labels, annotations), None) or {"metadata": {}}
    if agents_too and names.AGENT_LABELS_ANNOTATION in annotations:
        mine = _pairs(annotations[names.AGENT_LABELS_ANNOTATION])
        gone = {key: None for key, value in mine.items() if labels.get(key) == value}
        if gone:
            patch["metadata"].setdefault("labels", {}).update(gone)
        patch["metadata"].setdefault("annotations", {})[names.AGENT_LABELS_ANNOTATION] = None
    if agents_too and names.PROVE_CUDA_ANNOTATION in annotations:
        # A person's word, and to nobody but our agent: it means nothing without it.
        patch["metadata"].setdefault("annotations", {})[names.PROVE_CUDA_ANNOTATION] = None
    return patch if patch["metadata"] else None


def _pairs(text: str) -> dict[str, str]:
    try:
        pairs = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    found = pairs if isinstance(pairs, dict) else {}
    return {str(key): str(value) for key, value in found.items() if names.is_agent_label(str(key))}
