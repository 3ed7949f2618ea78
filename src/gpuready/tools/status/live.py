"""The table in place on a terminal, with colour; the words alone say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gpuready.tools import leader
from gpuready.tools.node_rows import NodeRow, rows_of, unseen_lines
from gpuready.tools.snapshot import Snapshot
from gpuready.tools.status import table
from gpuready.tools.terminal import printable

_STYLES = {"ok": "green", "degraded": "yellow", "waiting": "cyan", "broken": "bold red"}


@contextmanager
def live_screen() -> Iterator[LiveScreen]:
    with Live(auto_refresh=False) as live:
        yield LiveScreen(live)


class LiveScreen:
    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, seen: Snapshot) -> None:
        rows, policies = rows_of(seen), seen.policies
        parts = [drawn(rows)] if table.shown(rows) else []
        rest = [Text(printable(line)) for line in unseen_lines(rows)]
        head = [Text(printable(line)) for line in (table.policy_line(policies), *table.notes(policies))]
        if nobody := leader.line_of(seen):
            head.insert(0, Text(printable(nobody), style="bold red"))
        self._live.update(Group(*head, *parts, *rest), refresh=True)


def drawn(rows: Sequence[NodeRow]) -> Table:
    found = Table(box=None, pad_edge=False, header_style="bold")
    for head in table.HEAD:
        found.add_column(head)
    for row in table.shown(rows):
        found.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in table.cells_of(row)))
    return found
