"""Binds waiting pods one after the other, and tells why when one must wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from gpuready_sim.client import PODS, ApiStatus, NotFound, Object, SimClient, Unreachable, key_of
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.events import Events, now_text
from gpuready_sim.controllers.scheduler.choice import choose, counts, is_waiting, queue_order
from gpuready_sim.controllers.scheduler.fit import NodeState

log = logging.getLogger(__name__)
RETRY_S = 1.0
PARALLEL = 16


class Scheduler:
    def __init__(self, client: SimClient, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._events = Events(client, "default-scheduler")
        self._wake = asyncio.Event()
        self._assumed: dict[str, str] = {}  # pod uid -> node, until the watch shows the binding
        caches.pods.add_handler(self._pod_changed)
        caches.nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._pass()
            except (ApiStatus, Unreachable) as exc:
                log.info("scheduler will retry: %s", exc)
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if new is None or new["spec"].get("nodeName"):
            self._assumed.pop(uid, None)
        self._wake.set()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _facts(old) != _facts(new):
            self._wake.set()

    async def _pass(self) -> None:
        """Every waiting pod once: decide all, then bind and report a few at a time."""
        waiting = [p for p in self._caches.pods.objects.values() if self._must_place(p)]
        if not waiting:
            return
        states = self._states()
        by_name = {state.name: state for state in states}
        gate = asyncio.Semaphore(PARALLEL)
        outcomes = []
        for pod in sorted(waiting, key=queue_order):
            choice = choose(pod, states)
            if choice.node is None:
                outcomes.append(_gated(gate, self._refuse(pod, choice.message)))
                continue
            by_name[choice.node].add(pod)
            self._assumed[pod["metadata"]["uid"]] = choice.node
            outcomes.append(_gated(gate, self._bind(pod, choice.node)))
        await asyncio.gather(*outcomes)

    def _must_place(self, pod: Object) -> bool:
        return is_waiting(pod) and pod["metadata"]["uid"] not in self._assumed

    def _states(self) -> list[NodeState]:
        on_node: dict[str, list[Object]] = {name: [] for name in self._caches.nodes.objects}
        for pod in self._caches.pods.objects.values():
            name = pod["spec"].get("nodeName") or self._assumed.get(pod["metadata"]["uid"])
            if name in on_node and counts(pod):
                on_node[name].append(pod)
        nodes = self._caches.nodes.objects
        return [NodeState.of(nodes[name], pods) for name, pods in sorted(on_node.items())]

    async def _bind(self, pod: Object, node_name: str) -> None:
        meta = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        try:
            await self._client.create(
                PODS, binding, meta["namespace"], name=meta["name"], subresource="binding"
            )
        except (ApiStatus, Unreachable) as exc:
            self._assumed.pop(meta["uid"], None)
            if not isinstance(exc, NotFound):
                log.info("binding %s to %s failed: %s", key_of(pod), node_name, exc)
                asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)
            return
        message = f"Successfully assigned {key_of(pod)} to {node_name}"
        self._events.say(_typed(pod), "Normal", "Scheduled", message)

    async def _refuse(self, pod: Object, message: str) -> None:
        """Condition and event, once per message."""
        conditions = (pod.get("status") or {}).get("conditions") or []
        known = next((c for c in conditions if c["type"] == "PodScheduled"), None)
        if known and known.get("message") == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": (known or {}).get("lastTransitionTime") or now_text(),
        }
        meta = pod["metadata"]
        self._events.say(_typed(pod), "Warning", "FailedScheduling", message)
        try:
            patch = {"status": {"conditions": [condition]}}
            await self._client.strategic_patch(
                PODS, meta["name"], patch, meta["namespace"], subresource="status"
            )
        except NotFound:
            pass  # deleted meanwhile


async def _gated(gate: asyncio.Semaphore, action: Awaitable[None]) -> None:
    async with gate:
        await action


def _facts(node: Object) -> tuple[object, ...]:
    """What of a node can change a decision: not its heartbeat."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return (
        spec.get("taints"),
        spec.get("unschedulable"),
        status.get("allocatable"),
        node["metadata"].get("labels"),
    )


def _typed(pod: Object) -> Object:
    return {**pod, "apiVersion": "v1", "kind": "Pod"}
