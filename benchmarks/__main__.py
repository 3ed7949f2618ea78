"""python -m benchmarks [NAME ...] [--quick | --full] [--nodes 100,1000] [-o json]

Exit 0 whatever the verdicts are (they are figures, not tests), 2 when something could not be measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the tests' own tools are used here too

from benchmarks.harness import Benchmark, Run, measure_all
from benchmarks.registry import BENCHMARKS
from benchmarks.report import print_table
from benchmarks.scale import original


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAME ...]")
@click.option("--quick", is_flag=True, help="The fewest repetitions: does everything still measure?")
@click.option(
    "--full", is_flag=True, help="10 minutes of rest instead of one, an hour of churn, and 5,000 nodes."
)
@click.option("--nodes", default="", metavar="N,N", help="Sizes for the benchmark `scale`.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(names: tuple[str, ...], quick: bool, full: bool, nodes: str, output: str) -> None:
    """Measure what DESIGN §10 promises. Without names: everything."""
    chosen, sizes = _chosen(names), _sizes(nodes)
    try:
        original.check()
    except original.UnusablePeer as exc:
        raise click.UsageError(str(exc)) from exc
    out, progress = Console(highlight=False), Console(stderr=True, highlight=False)
    for benchmark in chosen:
        progress.print(f"will run  {benchmark.name:14} {benchmark.what}", soft_wrap=True)

    def say(text: str) -> None:
        progress.print(text, markup=False, soft_wrap=True)

    with tempfile.TemporaryDirectory(prefix="gpuready-bench-") as home:
        os.environ["XDG_STATE_HOME"] = home  # clusters of a benchmark live here and nowhere else
        results = asyncio.run(measure_all(chosen, Run(quick=quick, full=full, nodes=sizes, say=say)))
    if output == "json":
        click.echo(json.dumps(results.to_json(), indent=2))
    else:
        print_table(results, out)
    sys.exit(2 if results.failures else 0)


def _chosen(names: tuple[str, ...]) -> list[Benchmark]:
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"no benchmark {unknown[0]!r}; there are: {', '.join(known)}")
    return [known[name] for name in names] if names else list(BENCHMARKS)


def _sizes(text: str) -> tuple[int, ...]:
    parts = [part for part in text.split(",") if part]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise click.UsageError(f"--nodes takes numbers with commas between them, not {text!r}")
    return tuple(map(int, parts))


if __name__ == "__main__":
    main()
