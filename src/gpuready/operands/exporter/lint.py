"""`gpuready exporter lint FILE`: what is wrong with a counters file, before a node meets it."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from gpuready.given_files import read_or_say
from gpuready.operands.exporter.counters import Counters, parse


@click.command(name="lint", short_help="Check a counters file.")
@click.argument("file")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--dcgm", is_flag=True, help="As where DCGM is a source: fields of DCGM alone are used.")
@click.option("--strict", is_flag=True, help="Remarks on lines that are used count as well.")
def lint(file: str, output: str, dcgm: bool, strict: bool) -> int:
    """Check the counters FILE of the metrics exporter; - is stdin.

    Exit 0: every line is used. 1: lines are skipped (with --strict: or remarked on).
    """
    name = "<stdin>" if file == "-" else file
    counters = parse(read_or_say(file, "the counters' CSV file"), dcgm=dcgm)
    click.echo(_as_json(counters) if output == "json" else _as_text(counters, name))
    found = len(counters.problems) if strict else counters.rejected
    return 1 if found or not counters.rows else 0


def _as_text(counters: Counters, name: str) -> str:
    lines = []
    for problem in counters.problems:
        word = "FAIL" if problem.rejected else "note"
        place = f"line {problem.line}" if problem.line else "file"
        lines.append(f"{word}  {place:9} {problem.subject + ': ' if problem.subject else ''}{problem.cause}")
        if problem.suggestion:
            lines.append(f"      {'next':9} {problem.suggestion}")
    return "\n".join([*lines, f"{name}: {_counted(len(counters.rows))} used, {counters.rejected} skipped"])


def _counted(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"


def _as_json(counters: Counters) -> str:
    rows = [{"line": row.line, "name": row.name, "type": row.kind, "help": row.help} for row in counters.rows]
    problems = [asdict(problem) for problem in counters.problems]
    return json.dumps({"rows": rows, "problems": problems}, indent=2)
