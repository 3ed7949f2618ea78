"""Each fault at every kind of call of operator and node agent: a pod gets its GPU all the same.

By default a fault meets the first call of every kind in one run. With GPUREADY_SWEEP=full each fault meets
each kind alone, its first call and then its first three: 1,048 runs, 90 minutes with `-n 3 --dist load`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.fault_cluster import KINDS, FaultCluster, fault_cluster
from tests.sim.faults import (
    answers,
    closes_after,
    cut_after,
    cut_before,
    cut_in_answer,
    cut_line,
    deaf_after,
    delayed,
    doubled,
    doubled_lines,
    drips,
    error_line,
    forbids,
    garbage_line,
    half_json,
    hangs,
    huge,
    invalid,
    redirects,
    refuses,
    silent,
)
from tests.sim.faulty_proxy import Fault
from tests.sim.operator_cluster import expect_no_writes, quiet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(3600)]

FULL = os.environ.get("GPUREADY_SWEEP") == "full"
PATIENCE_S = 600 if FULL else 240
OF_CALLS = {
    "400": refuses(400, "BadRequest"),
    "401": refuses(401, "Unauthorized"),
    "403": forbids(),
    "404": refuses(404, "NotFound"),
    "409": refuses(409, "Conflict"),
    "410": refuses(410, "Expired"),
    "422": invalid("spec.x"),
    "429": refuses(429, "TooManyRequests", retry_after=1),
    "500": refuses(500, "InternalError"),
    "503": refuses(503, "ServiceUnavailable", retry_after=1),
    "504": refuses(504, "Timeout"),
    "hangs": hangs(),
    "cut before it arrives": cut_before(),
    "answer lost": cut_after(),
    "answer cut": cut_in_answer(),
    "half an answer": half_json(),
    "a page of HTML": answers(b"<html>sign in</html>", content_type="text/html"),
    "an empty object": answers(b"{}"),
    "garbage": answers(b"\x00\xff\xfe{{{"),
    "redirect": redirects(),
    "huge": huge(),
    "drips": drips(),
    "delayed": delayed(3),
    "sent twice": doubled(),
    "closed behind the answer": closes_after(),
}
OF_WATCHES = {
    "line cut": cut_line(1),
    "garbage line": garbage_line(1),
    "lines twice": doubled_lines(),
    "410 in it": error_line(410, "Expired"),
    "500 in it": error_line(500, "InternalError"),
    "silent": silent(),
    "deaf after a line": deaf_after(1),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def faults(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FaultCluster]:
    home: Path = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        async with fault_cluster() as started:
            yield started


def _cases() -> Iterator[object]:
    """(name of the fault, kinds of calls that it meets, how often it meets each)."""
    for times, name in itertools.product([1, 3] if FULL else [1], [*OF_CALLS, *OF_WATCHES]):
        kinds = [kind for kind in KINDS if (kind[1] == "watch") == (name in OF_WATCHES)]
        for met in [[kind] for kind in kinds] if FULL else [kinds]:
            words = [name, *(met[0] if FULL else ()), str(times)]
            yield pytest.param(name, met, times, id="-".join(words))


@pytest.mark.parametrize(("name", "kinds", "times"), _cases())
async def test_a_fault_at_every_kind_of_call(
    faults: FaultCluster, name: str, kinds: list[tuple[str, str, str]], times: int
):
    await _converges(faults, OF_CALLS.get(name) or OF_WATCHES[name], kinds, times)


async def _converges(
    faults: FaultCluster, fault: Fault, kinds: list[tuple[str, str, str]], times: int
) -> None:
    rules = [
        faults.proxy.add(fault, client=client, verb=verb, resource=resource, times=times)
        for client, verb, resource in kinds
    ]
    try:
        if any(client == "gpuready-operator" and verb in ("list", "watch") for client, verb, _ in kinds):
            await faults.operator.kill()
            await faults.operator.start()
        calls = await faults.converge(timeout_s=PATIENCE_S)
        assert faults.needless_writes(calls) == []
        start = await quiet(faults.cluster, timeout_s=PATIENCE_S)
        await expect_no_writes(faults.cluster, start)
        assert "Traceback" not in await faults.logs()
        assert sum(rule.hits for rule in rules) > 0, "no call met the fault"
    finally:
        for rule in rules:
            faults.proxy.rules.remove(rule)
        await faults.clean(timeout_s=PATIENCE_S)
