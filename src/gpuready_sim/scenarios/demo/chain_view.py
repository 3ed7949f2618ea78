"""Shows the chains fill in: a live table on a terminal, a line per change elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rich.live import Live
from rich.table import Table

from gpuready_sim.client import Resource
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.scenarios.story import BrokenExpectation, Story, counted

GPU_NODES = Resource("gpuready.dev", "v1alpha1", "gpunodes", "GPUNode", namespaced=False)
Row = dict[str, str]
COLUMNS = ("driver", "runtime", "plugin", "cuda")


class ChainView:
    """Follows every GPUNode until `done(rows)`; rows are by node name."""

    def __init__(self, story: Story, cluster: Cluster) -> None:
        self._story = story
        self._cluster = cluster
        self._rows: dict[str, Row] = {}
        self._started = time.monotonic()

    async def follow(self, done: Callable[[dict[str, Row]], bool], *, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._shown(done), timeout_s)
        except TimeoutError as exc:
            rows = "; ".join(f"{name}: {row}" for name, row in sorted(self._rows.items()))
            raise BrokenExpectation(f"the chains are not whole after {timeout_s:g} s: {rows}") from exc

    async def _shown(self, done: Callable[[dict[str, Row]], bool]) -> None:
        if not self._story.console.is_terminal:
            await self._watch(done, lambda name: self._line(name))
            return
        with Live(self._table(), console=self._story.console, refresh_per_second=8) as live:
            await self._watch(done, lambda name: live.update(self._table()))

    async def _watch(self, done: Callable[[dict[str, Row]], bool], show: Callable[[str], None]) -> None:
        client = self._cluster.client
        items, version = await client.list(GPU_NODES)
        for item in items:
            self._take(item, show)
        if done(self._rows):
            return
        async for kind, item in client.watch(GPU_NODES, version):
            if kind in ("ADDED", "MODIFIED"):
                self._take(item, show)
            if done(self._rows):
                return

    def _take(self, item: dict[str, Any], show: Callable[[str], None]) -> None:
        name, row = item["metadata"]["name"], _row_of(item)
        if self._rows.get(name) != row:
            self._rows[name] = row
            show(name)

    def _line(self, name: str) -> None:
        row = self._rows[name]
        links = "  ".join(f"{column} {row[column] or '·'}" for column in COLUMNS)
        seconds = time.monotonic() - self._started
        gpus = counted(int(row["gpus"]), "GPU") if row["gpus"] else "·"
        self._story.say(f"{seconds:4.1f} s  {name:8} {links}  {gpus}  {row['reason']}".rstrip())

    def _table(self) -> Table:
        table = Table(show_edge=False, pad_edge=False)
        for title in ("NODE", *(column.upper() for column in COLUMNS), "GPUS", "HEALTHY", "REASON"):
            table.add_column(title)
        for name, row in sorted(self._rows.items()):
            marks = [_coloured(row[column]) for column in COLUMNS]
            table.add_row(name, *marks, row["gpus"], row["healthy"], row["reason"])
        return table


def _row_of(item: dict[str, Any]) -> Row:
    status = item.get("status") or {}
    columns = status.get("columns") or {}
    row = {column: str(columns.get(column, "")) for column in COLUMNS}
    row.update({key: str(status.get(key, "") or "") for key in ("gpus", "healthy", "reason")})
    return row


def _coloured(word: str) -> str:
    colour = {"ok": "green", "degraded": "yellow", "waiting": "yellow", "broken": "red"}.get(word)
    return f"[{colour}]{word}[/]" if colour else word or "·"
