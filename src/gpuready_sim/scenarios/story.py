"""How a story is told: numbered steps, lines or a live table, expectations that can break, and times."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

INDENT = "  "
_GAP = re.compile(r"\s{2,}")  # between columns, or before the first one


class BrokenExpectation(AssertionError):
    """The story went another way; the text says what was expected and what was there."""


@dataclass
class Story:
    """Collects what happened; `timings` are (step, seconds).

    pictured   the steps that a recording console keeps; () = all
    """

    console: Console
    pictured: tuple[int, ...] = ()
    timings: list[tuple[str, float]] = field(default_factory=list)
    _step: int = 0

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        self._step += 1
        if self.pictured:
            self.console.record = self._step in self.pictured
        self.console.print()
        self.console.print(f"[bold cyan]{self._step}. {title}[/]")
        started = time.monotonic()
        yield
        self.timings.append((title, time.monotonic() - started))

    def say(self, text: str) -> None:
        self.console.print(f"{INDENT}{text}", highlight=False)

    def quote(self, command: str, output: str, *, lines: int = 30) -> None:
        """A command as it would be typed, and what it printed."""
        self.console.print(f"{INDENT}[green]$ {command}[/]", highlight=False)
        for line in output.rstrip().splitlines()[:lines]:
            for piece in folded(line, self.console.width - len(INDENT)):
                self.console.print(f"{INDENT}{piece}", highlight=False, markup=False, soft_wrap=True)

    def expect(self, fact: bool, expected: str, found: object) -> None:
        if not fact:
            raise BrokenExpectation(f"expected {expected}; found {found}")
        self.console.print(f"{INDENT}[green]✓[/] {expected}", highlight=False)

    def times(self) -> None:
        table = Table(title="what took how long", title_justify="left", show_edge=False, pad_edge=False)
        table.add_column("step")
        table.add_column("seconds", justify="right")
        for title, seconds in self.timings:
            table.add_row(title, f"{seconds:.1f}")
        table.add_row("all", f"{sum(seconds for _, seconds in self.timings):.1f}", style="bold")
        self.console.print()
        self.console.print(table)


def folded(line: str, width: int) -> list[str]:
    """A line in pieces of at most `width`; those after the first stand below its last column."""
    starts = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= width // 2]
    below = " " * (starts[-1] if starts else 0)
    return textwrap.wrap(line, width, subsequent_indent=below, break_on_hyphens=False) or [""]


def counted(count: int, thing: str) -> str:
    """ "1 GPU", "8 GPUs" """
    return f"{count} {thing}" + ("" if count == 1 else "s")
