"""`gpuready status`: every node and how far its chain is whole, once or as it changes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
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
_LEASE_LOOK_S = 10.0


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
    if output == "json":
        return json.dumps(_json(seen, leader.why_nobody_works(seen)), indent=1)
    told = [printable(line)] if (line := leader.line_of(seen)) else []
    return "\n".join([*told, table.plain(rows, seen.policies)])


def _json(seen: Snapshot, nobody: str) -> Object:
    """nobody: why no operator works, "" while one does."""
    return {**({"operator": nobody} if nobody else {}), **table.to_json(rows_of(seen), seen.policies)}


async def _watch(kubeconfig: str | None, context: str | None, output: str) -> None:
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        seen = await snapshots.gather(client, pod_labels=_OWN_PODS)  # fails at once without a server
        await Watcher(client).run(_screen(output), without=seen.missing)


class Screen(Protocol):
    """Where the rows are shown."""

    def show(self, seen: Snapshot) -> None: ...


class Watcher:
    """Keeps the lists of a snapshot true and shows them when they changed."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._operator_seen_at = float("-inf")
        self._operator: snapshots.Operator = (None, None, "")
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
                    shown.show(await self._snapshot())
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), _LEASE_LOOK_S)
                    await asyncio.sleep(_CALM_S)
                    self._changed.clear()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _snapshot(self) -> Snapshot:
        lists = {name: cache.values() for name, cache in self._caches.items()}
        lease, place, unseen = await self._look_for_operator(lists["policies"])
        return Snapshot(
            lists["nodes"],
            lists["gpu_nodes"],
            lists["pods"],
            lists["daemonsets"],
            lists["policies"],
            taken_at=snapshots.now_text(),
            lease=lease,
            lease_unseen=unseen,
            place=place,
        )

    async def _look_for_operator(self, policies: Sequence[Object]) -> snapshots.Operator:
        """Now and then: a Lease that is no longer renewed makes no event, one that is makes too many."""
        if time.monotonic() - self._operator_seen_at >= _LEASE_LOOK_S:
            self._operator = await snapshots.find_operator(self._client, policies)
            self._operator_seen_at = time.monotonic()
        return self._operator


class PlainScreen:
    """Lines that are added, for pipes and logs: the table once, then what changes."""

    def __init__(self) -> None:
        self._before: Sequence[NodeRow] | None = None
        self._policy = ""
        self._nobody_works = False

    def show(self, seen: Snapshot) -> None:
        rows, policies = rows_of(seen), seen.policies
        line = joined([table.policy_line(policies), *table.notes(policies)])
        if self._before is None:
            _print(text_of(seen, "table"))
        else:
            for text in [
                *self._news_of_operator(seen),
                *([line] if line != self._policy else []),
                *table.changes(self._before, rows),
            ]:
                _print(text)
        self._before, self._policy = list(rows), line
        self._nobody_works = bool(leader.line_of(seen))

    def _news_of_operator(self, seen: Snapshot) -> list[str]:
        """That nobody works, once, and that somebody does again: since when moves all the time."""
        line = leader.line_of(seen)
        if bool(line) == self._nobody_works:
            return []
        return [printable(line) or "an operator is working again"]


class JsonScreen:
    """One JSON object a line, whenever it differs."""

    def __init__(self) -> None:
        self._before = self._nobody = ""

    def show(self, seen: Snapshot) -> None:
        nobody = leader.why_nobody_works(seen)
        self._nobody = (self._nobody or nobody) if nobody else ""  # since when is no news
        text = json.dumps(_json(seen, self._nobody))
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
