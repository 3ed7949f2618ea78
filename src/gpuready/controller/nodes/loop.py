"""Keeps one GPUNode per GPU node: its spec says what the control plane wants of that node.

It also speaks for a node agent that cannot: where the node or its agent is silent, the node's condition
GPUReady becomes Unknown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.caches import Caches
from gpuready.controller.current import CurrentPolicy
from gpuready.controller.labelling.decision import has_gpu, is_gpu_node
from gpuready.controller.loop import Loop
from gpuready.controller.nodes import condition
from gpuready.controller.nodes.desired import ConfigSource, Spec, desired_spec
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.nodes.uninstall import Uninstaller
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import AlreadyExists, NotFound
from gpuready.kube.resources import GPU_NODES
from gpuready.kube.trimmed import Node, Pod
from gpuready.operands.contract import Operand
from gpuready.operands.device_plugin.operand import OPERAND as DEVICE_PLUGIN
from gpuready.operands.feature_labels.operand import OPERAND as FEATURE_LABELS

WORKERS = 8
# An agent that restarts is back within this time; only a longer silence is worth a condition.
SILENCE_S = 10.0


class NodesLoop(Loop):
    def __init__(self, client: KubeClient, caches: Caches, current: CurrentPolicy) -> None:
        super().__init__("nodes", workers=WORKERS)
        self._client = client
        self._caches = caches
        self._current = current
        self._silent_since: dict[str, datetime] = {}
        self.uninstaller = Uninstaller(client, caches)
        caches.nodes.add_handler(self._on_node)
        caches.gpu_nodes.add_handler(self._on_gpu_node)
        caches.agent_pods.add_handler(self._on_pod)
        caches.configmaps.add_handler(self._on_configmap)
        current.on_change(self._on_policy)

    async def reconcile(self, key: str) -> None:
        node = self._caches.nodes.get(key)
        if node is None or node.metadata.deleting:
            self._silent_since.pop(key, None)
            return  # garbage collection takes the GPUNode with its Node
        if self._current.is_absent:
            wait_s = await self.uninstaller.clean(node)
            if wait_s:
                self.queue.add_after(key, wait_s)
            return
        self.uninstaller.reset(key)
        policy = self._current.effective
        if policy is None:
            return
        await self._keep_gpu_node(node, policy)
        await self._keep_condition(node)

    # --- GPUNode -----------------------------------------------------------------------------------------

    async def _keep_gpu_node(self, node: Node, policy: ClusterPolicy) -> None:
        name = node.metadata.name
        summary = self._caches.gpu_nodes.get(name)
        if not (has_gpu(node.metadata.labels) or is_gpu_node(node.metadata.labels)):
            if summary is not None:
                await self._delete(name)
            return
        spec = self._desired(node, policy, summary)
        if summary is None:
            await self._create(node, spec)
        elif summary.spec != spec:
            await self._write(summary, spec)

    def _desired(self, node: Node, policy: ClusterPolicy, summary: GPUNodeSummary | None) -> Spec:
        labels = node.metadata.labels
        return desired_spec(
            policy,
            labels,
            self._config_source(policy),
            summary.spec if summary else {},
            runs_plugin=_runs(DEVICE_PLUGIN, policy, labels),
            writes_feature_labels=_runs(FEATURE_LABELS, policy, labels),
        )

    def _config_source(self, policy: ClusterPolicy) -> ConfigSource | None:
        config = policy.spec.device_plugin.config
        if not config.name:
            return None
        found = self._caches.configmaps.get(f"{self._caches.namespace}/{config.name}")
        return ConfigSource(config.name, None if found is None else found.get("data") or {})

    async def _create(self, node: Node, spec: Spec) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
        body: dict[str, Any] = {
            "apiVersion": names.GPU_NODE_API,
            "kind": names.GPU_NODE_KIND,
            "metadata": {"name": node.metadata.name, "ownerReferences": [owner]},
            "spec": spec,
        }
        try:
            await self._client.create(GPU_NODES, body)
        except AlreadyExists:
            return  # the watch brings it, and the next pass compares
        self._log.info("GPUNode created", node=node.metadata.name)

    async def _write(self, summary: GPUNodeSummary, spec: Spec) -> None:
        version = summary.metadata.resource_version
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec", "value": spec},
        ]
        await self._client.json_patch(GPU_NODES, summary.metadata.name, operations)
        changed = sorted(key for key in spec if summary.spec.get(key) != spec[key])
        self._log.info("GPUNode spec written", node=summary.metadata.name, changed=changed)

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(GPU_NODES, name)
        except NotFound:
            return
        self._log.info("GPUNode deleted", node=name, reason="the node has no GPU any more")

    # --- silence -----------------------------------------------------------------------------------------

    async def _keep_condition(self, node: Node) -> None:
        name = node.metadata.name
        if self._caches.gpu_nodes.get(name) is None:
            return
        why = self.silence_of(node)
        if not why:
            self._silent_since.pop(name, None)
            return
        since = self._silent_since.setdefault(name, datetime.now(UTC))
        waited = (datetime.now(UTC) - since).total_seconds()
        if waited < SILENCE_S:
            self.queue.add_after(name, SILENCE_S - waited)
        elif condition.must_become_unknown(node):
            await condition.set_unknown(self._client, node, why)
            self._log.warning("node agent silent", node=name, reason=why)

    def silence_of(self, node: Node) -> str:
        """Why nobody speaks for this node, "" when the agent does."""
        if not node.ready:
            return "the kubelet does not report (the node is not Ready)"
        pods = [pod for pod in self._caches.agent_pods.values() if pod.node_name == node.metadata.name]
        if not pods:
            return "no node agent runs there"
        if not any(pod.ready for pod in pods):
            return f"the node agent's pod {pods[0].metadata.name} is not ready"
        return ""

    # --- what wakes it -----------------------------------------------------------------------------------

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None or (old is not None and not _matters(old, new)):
            return
        self.queue.add(new.metadata.name)

    def _on_gpu_node(self, old: GPUNodeSummary | None, new: GPUNodeSummary | None) -> None:
        gone = new if new is not None else old
        assert gone is not None
        if (
            old is None
            or new is None
            or old.spec != new.spec
            or old.status.uninstalled != new.status.uninstalled
        ):
            self.queue.add(gone.metadata.name)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and pod.node_name:
                self.queue.add(pod.node_name)

    def _on_configmap(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        policy = self._current.effective
        changed = new or old
        if policy is None or changed is None:
            return
        if changed["metadata"]["name"] == policy.spec.device_plugin.config.name:
            self._all()

    def _on_policy(self) -> None:
        self._all()

    def _all(self) -> None:
        for node in self._caches.nodes.values():
            self.queue.add(node.metadata.name)


def _runs(operand: Operand, policy: ClusterPolicy, labels: dict[str, str]) -> bool:
    wanted = operand.enabled(policy) and operand.unsupported_image(policy) is None
    return wanted and labels.get(operand.deploy_label) == "true"


def _matters(old: Node, new: Node) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or old.ready != new.ready
        or old.condition(names.GPU_READY_CONDITION) != new.condition(names.GPU_READY_CONDITION)
    )
