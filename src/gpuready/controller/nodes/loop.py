"""Keeps one GPUNode per GPU node: its spec says what the control plane wants of that node.

It also speaks for a node agent that cannot: where the node or its agent is silent, the node's condition
GPUReady becomes Unknown.
"""

from __future__ import annotations

import time
from typing import Any

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.caches import Caches
from gpuready.controller.conditional import replacing
from gpuready.controller.current import CurrentPolicy
from gpuready.controller.echoes import Echoes
from gpuready.controller.labelling.decision import has_gpu, is_gpu_node
from gpuready.controller.loop import Loop
from gpuready.controller.nodes import condition
from gpuready.controller.nodes.asked import Asked, HeldBack
from gpuready.controller.nodes.desired import ConfigSource, Spec
from gpuready.controller.nodes.driver_pod import config_of
from gpuready.controller.nodes.grants import (
    is_left_over,
)
from gpuready.controller.nodes.kept_away import tolerations_of
from gpuready.controller.nodes.silence import silence_of
from gpuready.controller.nodes.spec import SpecInputs, spec_of
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.nodes.turns import Turns
from gpuready.controller.nodes.uninstall import Uninstaller, new_gpu_node
from gpuready.controller.rounds import Round
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import AlreadyExists, NotFound
from gpuready.kube.pace import Pace
from gpuready.kube.resources import GPU_NODES
from gpuready.kube.trimmed import Node, Pod

WORKERS = 8
# An agent that restarts is back within this time; only a longer silence is worth a condition.
SILENCE_S = 10.0


class NodesLoop(Loop):
    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        current: CurrentPolicy,
        uninstaller: Uninstaller,
        *,
        silence_s: float = SILENCE_S,
        labels: Round | None = None,
    ) -> None:
        """`labels` are written first: they bring pods to the nodes, a GPUNode is read by one of those."""
        super().__init__("nodes", workers=WORKERS)
        self._client = client
        self._caches = caches
        self._current = current
        self._silence_s = silence_s
        self._silent_since: dict[str, float] = {}
        self._echoes, self._silence_echoes = Echoes(), Echoes()
        self._pace = Pace()
        self._asked: Asked | None = None
        self._held_back: HeldBack = {}
        self._source: tuple[object, ConfigSource] | None = None  # made of which ConfigMap
        self._labels = labels or Round()
        self._labels.when_over(self._on_labels)
        self._waiting: set[str] = set()  # for the labels of all nodes
        self._turns = Turns(caches, self.silence_of)
        self.uninstaller = uninstaller
        caches.nodes.add_handler(self._on_node)
        caches.gpu_nodes.add_handler(self._on_gpu_node)
        caches.own_pods.add_handler(self._on_pod)
        caches.found_drivers.add_handler(self._on_pod)
        caches.configmaps.add_handler(self._on_configmap)
        caches.owned["DaemonSet"].add_handler(self._on_daemonset)
        current.on_change(self._on_policy)

    def begin(self) -> None:
        self._echoes, self._silence_echoes = Echoes(), Echoes()
        self._silent_since.clear()
        self._waiting.clear()
        self._turns.begin()
        self.uninstaller.begin()
        self._all()
        for summary in self._caches.gpu_nodes.values():  # their nodes may be gone
            self.queue.add(summary.metadata.name)

    async def reconcile(self, key: str) -> None:
        if not (self._caches.nodes.synced and self._caches.gpu_nodes.synced):
            return  # what we may not see is not absent
        node = self._caches.nodes.get(key)
        if node is None or node.metadata.deleting:
            self._silent_since.pop(key, None)
            self.uninstaller.reset(key)
            left = self._caches.gpu_nodes.get(key)
            if node is None and left is not None:
                await self._delete(left, "its node is gone")
            return
        if self._current.is_absent:
            wait_s = await self.uninstaller.clean(node)
            if wait_s:
                self.queue.add_after(key, wait_s)
            return
        self.uninstaller.reset(key)
        policy = self._current.effective
        if policy is not None:
            await self._keep_gpu_node(node, policy)
        await self._keep_condition(node)

    # --- GPUNode -----------------------------------------------------------------------------------------

    async def _keep_gpu_node(self, node: Node, policy: ClusterPolicy) -> None:
        name = node.metadata.name
        summary = self._caches.gpu_nodes.get(name)
        if not (has_gpu(node.metadata.labels) or is_gpu_node(node.metadata.labels)):
            if summary is not None:
                await self._delete(summary, "the node has no GPU any more")
            return
        if summary is not None and not _belongs_to(summary, node):
            await self._delete(summary, "its node was another one of the same name")
            return  # once it is gone, a new one is made
        version = summary.metadata.resource_version if summary else ""
        if wait_s := self._echoes.wait_s(name, version):
            self.queue.add_after(name, wait_s)
            return
        if summary is None and not self._labels.is_over:
            self._waiting.add(name)
            return
        spec = self._desired(node, policy, summary)
        if summary is not None and summary.spec == spec:
            return
        if wait_s := self._pace.wait_s(name):
            self.queue.add_after(name, wait_s)
            return
        if summary is None:
            await self._create(node, spec)
        else:
            await self._write(summary, spec)
        self._echoes.wrote(name, version)
        self._pace.wrote(name)

    def _desired(self, node: Node, policy: ClusterPolicy, summary: GPUNodeSummary | None) -> Spec:
        inputs = SpecInputs(
            source=self._config_source(policy),
            driver_pods=self._caches.drivers_on(node.metadata.name),
            find_daemonset=lambda name: self._caches.find_owned("DaemonSet", self._caches.namespace, name),
            driver_sets=self._caches.driver_sets(),
            grant=self._turns.grant_for(node, policy, summary),
        )
        spec = spec_of(node, self._asked_by(policy), summary, inputs)
        caches = (self._caches.own_pods, self._caches.found_drivers, self._caches.owned["DaemonSet"])
        seen = all(cache.synced for cache in caches)
        if summary is not None and not seen:
            # A driver's pod that we may not see says nothing new about its driver.
            told = summary.spec.get("driver") or {}
            for key in ("trouble", "keptAway"):
                spec["driver"].pop(key, None)
                spec["driver"] |= {key: told[key]} if key in told else {}
        return spec

    def _asked_by(self, policy: ClusterPolicy) -> Asked:
        if self._asked is None or self._asked.policy is not policy:
            self._asked = Asked.of(policy, self._held_back)
        return self._asked

    def _config_source(self, policy: ClusterPolicy) -> ConfigSource | None:
        config = policy.spec.device_plugin.config
        if not config.name:
            return None
        if not self._caches.configmaps.synced:
            why = str(self._caches.configmaps.trouble or "they were not listed yet")
            return ConfigSource(config.name, None, self._caches.namespace, unreadable=why)
        found = self._caches.configmaps.get(f"{self._caches.namespace}/{config.name}")
        if self._source is None or self._source[0] is not found or self._source[1].name != config.name:
            data = None if found is None else found.get("data") or {}
            self._source = found, ConfigSource(config.name, data, self._caches.namespace)
        return self._source[1]

    async def _create(self, node: Node, spec: Spec) -> None:
        try:
            await self._client.create(GPU_NODES, new_gpu_node(node, spec))
        except AlreadyExists:
            return  # the watch brings it, and the next pass compares
        self._log.info("GPUNode created", node=node.metadata.name)

    async def _write(self, summary: GPUNodeSummary, spec: Spec) -> None:
        version = summary.metadata.resource_version
        operations = replacing(version, "/spec", spec)
        await self._client.json_patch(GPU_NODES, summary.metadata.name, operations)
        changed = sorted(key for key in spec if summary.spec.get(key) != spec[key])
        self._log.info("GPUNode spec written", node=summary.metadata.name, changed=changed)

    async def _delete(self, summary: GPUNodeSummary, reason: str) -> None:
        name = summary.metadata.name
        try:
            await self._client.delete(GPU_NODES, name, preconditions={"uid": summary.metadata.uid})
        except NotFound:
            return
        self._log.info("GPUNode deleted", node=name, reason=reason)

    def hold_back(self, refused: HeldBack) -> None:
        """What of the policy is not applied: a node must not wait for pods that will not come."""
        if refused != self._held_back:
            self._held_back, self._asked = dict(refused), None
            self._all()

    # --- silence -----------------------------------------------------------------------------------------

    async def _keep_condition(self, node: Node) -> None:
        name = node.metadata.name
        if self._caches.gpu_nodes.get(name) is None:
            return
        why = self.silence_of(node)
        if not why:
            self._silent_since.pop(name, None)
            return
        waited_s = time.monotonic() - self._silent_since.setdefault(name, time.monotonic())
        if waited_s < self._silence_s:
            self.queue.add_after(name, self._silence_s - waited_s)
        elif condition.must_become_unknown(node):
            version = node.metadata.resource_version
            if wait_s := self._silence_echoes.wait_s(name, version):
                self.queue.add_after(name, wait_s)
                return
            await condition.set_unknown(self._client, node, why)
            self._silence_echoes.wrote(name, version)
            self._log.warning("node agent silent", node=name, reason=why)

    def silence_of(self, node: Node) -> str:
        """Why nobody speaks for this node, "" when the agent does or we may not see its pod."""
        if not self._caches.own_pods.synced:
            return ""
        return silence_of(node, self._caches.agents_on(node.metadata.name))

    # --- what wakes it -----------------------------------------------------------------------------------

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None or (old is not None and not _matters(old, new)):
            return
        self.queue.add(new.metadata.name)
        if new.metadata.name in self._turns.askers:
            self._next_turn()

    def _on_gpu_node(self, old: GPUNodeSummary | None, new: GPUNodeSummary | None) -> None:
        gone = new if new is not None else old
        assert gone is not None
        if new is not None and new.ignored and (old is None or old.ignored != new.ignored):
            self._log.warning("GPUNode not read whole", node=new.metadata.name, ignored=list(new.ignored))
        if (
            old is None
            or new is None
            or old.spec != new.spec
            or old.status.driver != new.status.driver
            or old.status.uninstalled != new.status.uninstalled
        ):
            self.queue.add(gone.metadata.name)
        if new is not None and is_left_over(new):
            self.queue.add(new.metadata.name)
        if old is not None and new is not None and old.status.requests != new.status.requests:
            self.queue.add(new.metadata.name)
        if self._turns.follow(gone.metadata.name, old, new):
            self._next_turn()

    def _next_turn(self) -> None:
        self._turns.look_anew()
        for name in self._turns.askers:
            self.queue.add(name)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and pod.node_name:
                self.queue.add(pod.node_name)
                if pod.node_name in self._turns.askers:
                    self._turns.look_anew()  # its agent may have fallen silent, or speak again

    def _on_daemonset(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Another way of installing the driver makes those outdated that run.

        And one that comes or goes while its operand is held back is what a node was told of.
        """
        came_or_went = (old is None) != (new is None)
        moved = came_or_went and self._held_back
        if config_of(old) != config_of(new) or moved or tolerations_of(old) != tolerations_of(new):
            self._all()

    def _on_configmap(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        policy = self._current.effective
        changed = new or old
        if policy is None or changed is None:
            return
        if changed["metadata"]["name"] == policy.spec.device_plugin.config.name:
            self._all()

    def _on_policy(self) -> None:
        self._all()

    def _on_labels(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for name in waiting:
            self.queue.add(name)

    def look_again(self) -> None:
        self._all()

    def _all(self) -> None:
        for node in self._caches.nodes.values():
            self.queue.add(node.metadata.name)


def _belongs_to(summary: GPUNodeSummary, node: Node) -> bool:
    """False for what was made for an earlier node of this name: garbage collection is about to take it."""
    owners = [ref.uid for ref in summary.metadata.owner_references if ref.kind == "Node"]
    return not owners or node.metadata.uid in owners


def _matters(old: Node, new: Node) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or old.ready != new.ready
        or old.spec.taints != new.spec.taints
        or old.condition(names.GPU_READY_CONDITION) != new.condition(names.GPU_READY_CONDITION)
    )
