"""Keeps the status of every disruption budget true."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gpuready_sim.client import Object, SimClient, key_of
from gpuready_sim.controllers.caches import BUDGETS, Caches
from gpuready_sim.controllers.disruption import budget as budgets
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.controllers.selectors import matches_labels


class DisruptionController:
    """Looks at a budget when it or a pod that it covers changes."""

    def __init__(self, client: SimClient, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._loop = KeyedLoop("disruption controller", self._sync)
        caches.budgets.add_handler(self._budget_changed)
        caches.pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        await self._loop.run()

    def _budget_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._loop.mark(key_of(new))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pods = [pod for pod in (old, new) if pod is not None]
        for budget in self._caches.budgets.objects.values():
            if any(_covers(budget, pod) for pod in pods):
                self._loop.mark(key_of(budget))

    async def _sync(self, key: str) -> float | None:
        namespace, _, name = key.rpartition("/")
        budget = self._caches.budgets.get(name, namespace)
        if budget is None:
            return None
        pods = [pod for pod in self._caches.pods.objects.values() if _covers(budget, pod)]
        status = budgets.status_of(budget, pods, dict(self._replicas(pods)), datetime.now(UTC))
        if status != (budget.get("status") or {}):
            whole = {**budget, "apiVersion": "policy/v1", "kind": BUDGETS.kind, "status": status}
            await self._client.replace(BUDGETS, whole, subresource="status")
        waiting = status.get("disruptedPods")
        return budgets.FORGOTTEN_AFTER.total_seconds() + 1 if waiting else None

    def _replicas(self, pods: list[Object]) -> Iterator[tuple[str, int]]:
        for pod in pods:
            kind, _, name = budgets.owner_of(pod).partition("/")
            if kind == "ReplicaSet":
                found = self._caches.replica_sets.get(name, pod["metadata"]["namespace"])
                if found is not None:
                    yield f"{kind}/{name}", (found.get("spec") or {}).get("replicas", 1)


def _covers(budget: Object, pod: Object) -> bool:
    here = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    selector = (budget.get("spec") or {}).get("selector")
    return here and matches_labels(selector, pod["metadata"].get("labels") or {})
