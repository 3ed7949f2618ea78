"""Roll-outs, changes, uninstalls and installs under fire: each ends as if nobody had been hurt.

SOAK_S bounds the time, SOAK_SEED tells a story again (what happens and when; not how fast programs are).
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from .end_state import EndState, differences
from .growth import Usage
from .mischief import Mischief, drawn
from .scene import ABSENT, WISHES, Scene, budget_s, scene, tell

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(0)]

NODES = {
    "l4": "gpus: {L4: 2}, driver: {where: host}, containerd: 2.2.1",
    "a100": "gpus: {A100-SXM4-40GB: 2}, driver: {where: container}, containerd: 2.0.5",
}
SHARE = 0.7  # of the time of all soaks
UNREST_S = 5.0  # something may happen for so long after a wish


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shaken(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    home: Path = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        async with scene(NODES) as started:
            yield started


async def test_whatever_is_killed_refused_or_lost_on_the_way_the_end_is_the_same(shaken: Scene) -> None:
    until = time.monotonic() + budget_s() * SHARE
    seed = int(os.environ.get("SOAK_SEED") or random.randrange(2**32))
    tell(f"SOAK_SEED={seed}")
    ends, used = await _undisturbed(shaken)
    now, number = ABSENT, 0
    while time.monotonic() < until:
        number += 1
        chance = random.Random(f"{seed}/{number}")
        now = chance.choice([name for name in ends if name != now])
        start = time.monotonic()
        await _under_fire(shaken, now, chance)
        await shaken.until_as(ends[now])
        assert shaken.tracebacks() == []
        if now != ABSENT:
            assert _held_too_much(used, shaken.usage()) == []
        tell(f"round {number}: {now} after {time.monotonic() - start:.1f} s")
    assert number > 2, "SOAK_S leaves no time for rounds"


async def _undisturbed(shaken: Scene) -> tuple[dict[str, EndState], Mapping[str, Usage]]:
    """The end of each wish, whatever was wished before; and what every program holds in the first."""
    ends: dict[str, EndState] = {}
    used: Mapping[str, Usage] = {}
    for name in (*WISHES, ABSENT):
        ends[name] = await shaken.end_of(name)
        used = used or shaken.usage()
    for name in (next(iter(WISHES)), ABSENT):
        assert differences(ends[name], await shaken.end_of(name)) == []
    assert shaken.tracebacks() == []
    return ends, used


async def _under_fire(shaken: Scene, wish: str, chance: random.Random) -> None:
    """The wish, and one to five mischiefs at moments of their own."""
    rows = [
        (chance.uniform(0, UNREST_S), drawn(chance), chance.random()) for _ in range(chance.randint(1, 5))
    ]
    start = time.monotonic()

    async def befall(after_s: float, mischief: Mischief, seed: float) -> None:
        await asyncio.sleep(after_s)
        said = await mischief(shaken, random.Random(seed))
        tell(f"  {wish} +{time.monotonic() - start:.1f} s: {said}")

    async with asyncio.TaskGroup() as group:
        group.create_task(shaken.wish(wish))
        for row in rows:
            group.create_task(befall(*row))


def _held_too_much(before: Mapping[str, Usage], now: Mapping[str, Usage]) -> list[str]:
    """Open files and threads of a program at rest do not depend on its past."""
    return [
        f"{name}: {now[name]}, at first {was}"
        for name, was in before.items()
        if name in now and (now[name].files > was.files * 1.3 or now[name].threads > was.threads + 4)
    ]
