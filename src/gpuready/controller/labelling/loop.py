"""Keeps every node's labels as `decision` wants them: one conditional patch per node, many nodes at once."""

from __future__ import annotations

import asyncio

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.caches import Caches
from gpuready.controller.current import CurrentPolicy
from gpuready.controller.echoes import Echoes
from gpuready.controller.labelling.decision import LabelFacts, LabelPolicy, decide
from gpuready.controller.loop import Loop
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.rounds import Round
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import NotFound
from gpuready.kube.pace import Pace
from gpuready.kube.resources import NODES
from gpuready.kube.trimmed import Node

# The API server answers a patch in a few milliseconds; sixteen in flight keep it busy without queueing.
WORKERS = 16
# Milliseconds at rest, tenths of a second in a round of thousands: whoever waits longer hangs, and others
# must not wait with him for the half minute until his request is given up.
HUNG_S = 2.0


class LabellingLoop(Loop):
    def __init__(self, client: KubeClient, caches: Caches, current: CurrentPolicy) -> None:
        super().__init__("labelling", workers=WORKERS)
        self._client = client
        self._caches = caches
        self._current = current
        self._echoes, self._pace = Echoes(), Pace()
        self.round = Round()
        caches.nodes.add_handler(self._on_node)
        caches.gpu_nodes.add_handler(self._on_gpu_node)
        current.on_change(self._all)

    def begin(self) -> None:
        self._echoes = Echoes()
        self._all()

    async def reconcile(self, key: str) -> None:
        hung = asyncio.get_running_loop().call_later(HUNG_S, self.round.had_its_turn, key)
        try:
            await self._keep_labels(key)
        finally:
            hung.cancel()
            self.round.had_its_turn(key)

    async def _keep_labels(self, key: str) -> None:
        node = self._caches.nodes.get(key)
        policy = self._current.effective
        # Without a policy the nodes loop takes the labels away, when the node agent has cleaned up.
        if node is None or policy is None or node.metadata.deleting:
            return
        if not self._caches.gpu_nodes.synced:
            return  # who owns the driver is not known
        summary = self._caches.gpu_nodes.get(key)
        patch = decide(facts_of(node, summary), label_policy_of(policy))
        if patch is None:
            return
        version = node.metadata.resource_version
        if wait_s := max(self._echoes.wait_s(key, version), self._pace.wait_s(key)):
            self.queue.add_after(key, wait_s)
            return
        patch["metadata"]["resourceVersion"] = version
        try:
            await self._client.strategic_patch(NODES, key, patch)
        except NotFound:
            return
        self._echoes.wrote(key, version)
        self._pace.wrote(key)
        self._log.info("node labelled", node=key, changed=sorted(patch["metadata"].get("labels", {})))

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or _labels_changed(old, new)):
            self.queue.add(new.metadata.name)

    def _on_gpu_node(self, old: GPUNodeSummary | None, new: GPUNodeSummary | None) -> None:
        if new is not None and (old is None or old.status.driver.owner != new.status.driver.owner):
            self.queue.add(new.metadata.name)

    def look_again(self) -> None:
        self._all()

    def _all(self) -> None:
        names = self._caches.nodes.keys()
        self.round.begin(names)
        for name in names:
            self.queue.add(name)


def facts_of(node: Node, summary: GPUNodeSummary | None) -> LabelFacts:
    owner = summary.status.driver.owner if summary else ""
    return LabelFacts(node.metadata.labels, node.metadata.annotations, owner)


def label_policy_of(policy: ClusterPolicy) -> LabelPolicy:
    return LabelPolicy(
        driver_enabled=policy.spec.driver.enabled,
        mig_manager_enabled=policy.spec.mig_manager.enabled,
        mig_default=policy.spec.mig_manager.config.default,
    )


def labels_to_be(node: Node, summary: GPUNodeSummary | None, policy: ClusterPolicy) -> dict[str, str]:
    """The node's labels as they are once this loop has written: others need not wait for that."""
    patch = decide(facts_of(node, summary), label_policy_of(policy)) or {"metadata": {}}
    merged = {**node.metadata.labels, **patch["metadata"].get("labels", {})}
    return {key: value for key, value in merged.items() if value is not None}


def _labels_changed(old: Node, new: Node) -> bool:
    return old.metadata.labels != new.metadata.labels or old.metadata.annotations != new.metadata.annotations
