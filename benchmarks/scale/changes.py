"""What small changes cost on a converged cluster, whoever the operator is: requests, and seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from tests.sim.operator_cluster import DEPLOY, POLICIES, Object, labels

from benchmarks import processes
from benchmarks.requests import DETAILS_S, QUIET_S, asked, by_kind, until_quiet
from benchmarks.scale.nodes import create_nodes, node_name
from benchmarks.scale.stage import Stage, Value
from gpuready_sim.client import NODES, Gone

REPAIRS = 5
REPAIR_OWED_S = 1.0
REQUESTS_OWED = 4
LABEL = f"{DEPLOY}device-plugin"
Wait = Callable[[], Awaitable[object]]


async def quiet(stage: Stage, for_s: float = QUIET_S) -> datetime:
    return await until_quiet(stage.cluster, for_s, clients=(stage.client,))


async def repairs(stage: Stage, *, patience_s: float = 20.0) -> Value:
    """Seconds until a removed label is back, for a few nodes in turn; the first that never is ends it."""
    taken: list[float] = []
    for number in range(REPAIRS):
        try:
            async with asyncio.timeout(patience_s):
                taken.append(await _repair_s(stage, node_name(number)))
        except TimeoutError:
            note = f"not within {patience_s:g} s"
            return Value("a removed label is back", taken, "s", REPAIR_OWED_S, note)
    return Value("a removed label is back", taken, "s", REPAIR_OWED_S)


async def _repair_s(stage: Stage, name: str) -> float:
    client = stage.cluster.client
    removed = await client.merge_patch(NODES, name, {"metadata": {"labels": {LABEL: None}}})
    begin = time.perf_counter()
    version = removed["metadata"]["resourceVersion"]
    while True:
        try:
            async for _, node in client.watch(NODES, version, field_selector=f"metadata.name={name}"):
                if labels(node).get(LABEL) == "true":
                    return time.perf_counter() - begin
        except Gone:
            continue


async def new_node(stage: Stage, until: Wait, *, agents: bool) -> Value:
    """`until` returns when the operator is done with it."""
    start = await quiet(stage)
    await create_nodes(stage.cluster.client, 1, first=stage.count, agents=agents)
    await until()
    return await _requests(stage, start, "requests for one new node")


async def env_edit(stage: Stage, policy: str, until: Wait) -> Value:
    start = await quiet(stage)
    change = {"spec": {"devicePlugin": {"env": [{"name": "TEAM", "value": "ml"}]}}}
    await stage.cluster.client.merge_patch(POLICIES, policy, change)
    await until()
    return await _requests(stage, start, "requests for one env edit")


async def _requests(stage: Stage, start: datetime, name: str) -> Value:
    await quiet(stage, DETAILS_S)
    lines = asked(stage.cluster, start, stage.client)
    return Value(name, [len(lines)], owed=REQUESTS_OWED, note=by_kind(lines))


async def wake_up(stage: Stage, policy: str) -> Value:
    """Something that changes nothing for us: a note on the policy and one on a node."""
    start = await quiet(stage)
    note: Object = {"metadata": {"annotations": {"example.com/note": start.isoformat()}}}
    await stage.cluster.client.merge_patch(POLICIES, policy, note)
    await stage.cluster.client.merge_patch(NODES, node_name(0), note)
    await asyncio.sleep(DETAILS_S)
    writes = [line for line in asked(stage.cluster, start, stage.client) if line.is_write]
    return Value("writes of a wake-up that changes nothing", [len(writes)], owed=0, note=by_kind(writes))


async def rest(stage: Stage, seconds: float) -> list[Value]:
    """Nothing happens at all."""
    await quiet(stage, DETAILS_S)
    start, before = datetime.now(UTC), processes.cpu_s(stage.pid)
    await asyncio.sleep(seconds)
    share = (processes.cpu_s(stage.pid) - before) / seconds * 100
    lines = asked(stage.cluster, start, stage.client)
    writes = [line for line in lines if line.is_write]
    span = f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
    return [
        Value(f"writes of a converged cluster in {span}", [len(writes)], owed=0, note=by_kind(lines)),
        Value("operator, CPU at rest", [share], "%"),
    ]
