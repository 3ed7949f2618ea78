"""The table at the end: figure, median, p99, owed, verdict."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.figures import MISSED, OK, Figure
from benchmarks.harness import Results, machine

_COLOUR = {OK: "green", MISSED: "bold red"}
_WIDE = 200


def print_table(results: Results, console: Console) -> None:
    if not console.is_terminal:
        console.width = _WIDE  # a file has no right edge: nothing is folded
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("FIGURE")
    for title in ("MEDIAN", "P99", "OWED"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("VERDICT")
    table.add_column("N", justify="right")
    table.add_column("NOTE")
    before = ""
    for name, figure in results.figures:
        if before not in ("", name):
            table.add_section()
        before = name
        table.add_row(*_cells(figure))
    console.print(table)
    for name, why in results.failures.items():
        console.print(f"[red]not measured[/]  {name}: {why}", highlight=False)
    here = machine()
    missed = sum(figure.verdict == MISSED for _, figure in results.figures)
    console.print(
        f"{len(results.figures)} figures, {missed} missed; {here['cores']} cores, Python {here['python']}, "
        f"load {here['load']}",
        highlight=False,
    )


def _cells(figure: Figure) -> tuple[str, ...]:
    colour = _COLOUR.get(figure.verdict, "dim")
    owed = [number(each) for each in (figure.owed, figure.owed_p99) if each is not None]
    return (
        figure.name,
        "-" if figure.median is None else f"{number(figure.median)} {figure.unit}",
        "" if figure.p99 is None else number(figure.p99),
        " / ".join(owed) or "-",
        f"[{colour}]{figure.verdict}[/]",
        str(len(figure.values)),
        figure.note,
    )


def number(value: float) -> str:
    """Three digits that matter; whole numbers stay whole."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    return f"{value:.{digits}f}"
