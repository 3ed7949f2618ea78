"""`gpuready status`: every node and how far its chain is whole, once or as it changes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from gpuready import names
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.resources import CLUSTER_POLICIES, DAEMONSETS, GPU_NODES, NODES, PODS
from gpuready.tools import leader
from gpuready.tools import snapshot as snapshots
from gpuready.tools.node_rows import NodeRow, rows_of
from gpuready.tools.placement import Object
from gpuready.tools.snapshot import Snapshot
from gpuready.tools.status import table
from gpuready.tools.terminal import joined, printable

_OWN_PODS = names.OPERAND_LABEL
_CALM_S = 0.2  # redraw at most five times a second


def run(
    *, kubeconfig: str | None = None, context: str | None = None, output: str = "table", watch: bool = False
) -> int:
    """Print the table; with `watch` until interrupted.

    raises  GPUReadyError when it cannot look
    """
    asyncio.run(_watch(kubeconfig, context, output) if watch else _once(kubeconfig, context, output))
    return 0


async def _once(kubeconfig: str | None, context: str | None, output: str) -> None:
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        seen = await snapshots.gather(client, pod_labels=_OWN_PODS)
    _print(text_of(seen, output))


def text_of(seen: Snapshot, output: str) -> str:
    """The table or JSON, and before the policy's own word whether anybody is there to stand by it."""
    rows = rows_of(seen)
    why = leader.why_nobody_works(seen.lease, seen.taken_at)
    if output == "json":
        operator = {"operator": why} if why else {}
        return json.dumps({**operator, **table.to_json(rows, seen.policies)}, indent=1)
    told = [printable(f"{why}; next: {leader.next_step(seen.lease)}")] if why and seen.lease else []
    return "\n".join([*told, table.plain(rows, seen.policies)])


async def _watch(kubeconfig: str | None, context: str | None, output: str) -> None:
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        seen = await snapshots.gather(client, pod_labels=_OWN_PODS)  # fails at once without a server
        await Watcher(client).run(_screen(output), without=seen.missing)


class Screen(Protocol):
    """Where the rows are shown."""

    def show(self, rows: Sequence[NodeRow], policies: Sequence[Object]) -> None: ...


class Watcher:
    """Keeps the lists of a snapshot true and shows them when they changed."""

    def __init__(self, client: KubeClient) -> None:
        self._changed = asyncio.Event()
        self._caches: dict[str, WatchCache[dict[str, Any]]] = {
            "nodes": WatchCache(client, NODES),
            "gpu_nodes": WatchCache(client, GPU_NODES),
            "pods": WatchCache(client, PODS, label_selector=_OWN_PODS),
            "daemonsets": WatchCache(client, DAEMONSETS),
            "policies": WatchCache(client, CLUSTER_POLICIES),
        }
        for cache in self._caches.values():
            cache.add_handler(lambda old, new: self._changed.set())

    async def run(self, screen: AbstractContextManager[Screen], *, without: Sequence[str] = ()) -> None:
        """`without`: kinds that the server does not know now; they are shown when they come."""
        tasks = [asyncio.create_task(cache.run()) for cache in self._caches.values()]
        try:
            for cache in self._caches.values():
                if cache.resource.plural not in without:
                    await cache.wait_synced()
            with screen as shown:
                while True:
                    seen = self._snapshot()
                    shown.show(rows_of(seen), seen.policies)
                    await self._changed.wait()
                    await asyncio.sleep(_CALM_S)
                    self._changed.clear()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _snapshot(self) -> Snapshot:
        lists = {name: cache.values() for name, cache in self._caches.items()}
        return Snapshot(
            lists["nodes"],
            lists["gpu_nodes"],
            lists["pods"],
            lists["daemonsets"],
            lists["policies"],
            taken_at=snapshots.now_text(),
        )


class PlainScreen:
    """Lines that are added, for pipes and logs: the table once, then what changes."""

    def __init__(self) -> None:
        self._before: Sequence[NodeRow] | None = None
        self._policy = ""

    def show(self, rows: Sequence[NodeRow], policies: Sequence[Object]) -> None:
        line = joined([table.policy_line(policies), *table.notes(policies)])
        if self._before is None:
            _print(table.plain(rows, policies))
        else:
            for text in [*([line] if line != self._policy else []), *table.changes(self._before, rows)]:
                _print(text)
        self._before, self._policy = list(rows), line


class JsonScreen:
    """One JSON object a line, whenever it differs."""

    def __init__(self) -> None:
        self._before = ""

    def show(self, rows: Sequence[NodeRow], policies: Sequence[Object]) -> None:
        text = json.dumps(table.to_json(rows, policies))
        if text != self._before:
            _print(text)
        self._before = text


def _screen(output: str) -> AbstractContextManager[Screen]:
    if output == "json":
        return nullcontext(JsonScreen())
    if not sys.stdout.isatty():
        return nullcontext(PlainScreen())
    from gpuready.tools.status.live import live_screen

    return live_screen()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
