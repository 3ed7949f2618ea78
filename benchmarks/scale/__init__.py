"""The operator on many nodes: its process and the API server are real, the nodes are objects.

The API server is kube-apiserver with etcd where they were built (`make kubernetes`), else the simulator's.
Where `GPUREADY_BENCH_PEER` names a built checkout of the original (`original.py` says how), the original is
measured in the same run: the same nodes, an API server of its own started the same way, rounds in turn.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Iterable

from benchmarks.figures import Figure
from benchmarks.harness import Run
from benchmarks.scale import original, ours
from benchmarks.scale.stage import LABELS, READY, WRITTEN, Round, Value

ROUNDS = {100: 3, 1000: 3}  # of everything up to "ready"; small changes are looked at in the last one
OWED = {LABELS: 0.5, WRITTEN: 0.6}  # as shares of the original's; the second by decision 20
NOT_HERE = "not measured here"


async def measure(run: Run) -> list[Figure]:
    figures = []
    sizes = run.nodes or run.pick((20,), (100, 1000), (100, 1000, 5000))
    for count in sizes:
        figures += await _at(count, run, is_largest=count == max(sizes))
    return figures


async def _at(count: int, run: Run, *, is_largest: bool) -> list[Figure]:
    rounds = run.pick(1, ROUNDS.get(count, 1))
    mine: list[list[Value]] = []
    theirs: list[list[Value]] = []
    for number in range(1, rounds + 1):
        this = Round(count, run, last=number == rounds, long_rest=run.full and is_largest)
        run.say(f"  {count} nodes, round {number} of {rounds}")
        if original.is_here():
            theirs.append(await _or_why_not(original.measure(this), run))
        mine.append(await _or_why_not(ours.measure(this), run))
    ratios = [_ratio(count, mine, theirs, *names) for names in ((LABELS, LABELS), (WRITTEN, READY))]
    figures = [*_figures(f"{count} nodes", mine), *ratios]
    return figures + _figures(f"{count} nodes, the original", theirs)


async def _or_why_not(measuring: Awaitable[list[Value]], run: Run) -> list[Value]:
    """One round of one operator that cannot be measured must not cost the hour that the others took."""
    try:
        return await measuring
    except Exception as exc:
        run.say(traceback.format_exc())
        return [Value("a round that failed", [], note=f"{type(exc).__name__}: {exc}".splitlines()[0])]


def _figures(prefix: str, rounds: Iterable[list[Value]]) -> list[Figure]:
    """One figure for each name, with the values of all rounds that had it."""
    found: dict[str, list[Value]] = {}
    for values in rounds:
        for value in values:
            found.setdefault(value.name, []).append(value)
    return [
        Figure(
            f"{prefix}: {name}",
            [number for value in values for number in value.numbers],
            values[-1].unit,
            owed=values[-1].owed,
            note=values[-1].note,
        )
        for name, values in found.items()
    ]


def _ratio(count: int, mine: list[list[Value]], theirs: list[list[Value]], name: str, other: str) -> Figure:
    """Our `name` over their `other`, round by round: both met the same machine."""
    pairs = [
        (_seconds(here, name), _seconds(there, other))
        for here, there in zip(mine, theirs, strict=bool(theirs))
    ]
    ratios = [here / there for here, there in pairs if here and there]
    what = f"{count} nodes: {name} / the original's {other} in the same round"
    return Figure(what, ratios, "", owed=OWED[name], note="" if theirs else NOT_HERE)


def _seconds(values: list[Value], name: str) -> float | None:
    return next((value.numbers[0] for value in values if value.name == name), None)
