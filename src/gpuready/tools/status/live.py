"""The table in place on a terminal, with colour; the words alone say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gpuready.tools import leader
from gpuready.tools.node_rows import NodeRow, rows_of, unseen_lines
from gpuready.tools.snapshot import Snapshot
from gpuready.tools.status import table
from gpuready.tools.terminal import printable

_GAP = 2
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
        parts = drawn(rows, self._live.console.width) if table.shown(rows) else []
        rest = [Text(printable(line)) for line in unseen_lines(rows)]
        head = [Text(printable(line)) for line in (table.policy_line(policies), *table.notes(policies))]
        if nobody := leader.line_of(seen):
            head.insert(0, Text(printable(nobody), style="bold red"))
        self._live.update(Group(*head, *parts, *rest), refresh=True)


def drawn(rows: Sequence[NodeRow], columns: int) -> list[RenderableType]:
    """The table as wide as the screen has room, and what it leaves out: a cell in two lines is read wrong."""
    shown = table.shown(rows)
    heads = table.heads_within(shown, columns, _GAP)
    found = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for head in heads:
        found.add_column(head, no_wrap=head != "REASON")
    for row in shown:
        cells = dict(zip(table.HEAD, table.cells_of(row), strict=True))
        found.add_row(*(Text(cells[head], style=_STYLES.get(cells[head], "")) for head in heads))
    missing = [head for head in table.HEAD if head not in heads]
    return [found, Text(f"no room for {', '.join(missing)}", style="dim")] if missing else [found]
