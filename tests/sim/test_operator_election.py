"""Several operators, of which one works: killed, stopped and cut off in the middle of what they do."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.sim.operator_cluster import (
    AGENT,
    DEADLINE_S,
    NAMESPACE,
    PLUGIN,
    POLICY,
    Operator,
    edit,
    policy,
    quiet,
    ready,
)
from tests.sim.relay import Relay

from gpuready_sim.client import DAEMON_SETS, LEASES, SERVICE_ACCOUNTS, NotFound
from gpuready_sim.cluster.control_plane import install_crds
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.request_log import RequestLine

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEASE = "53822513.nvidia.com"
LEASE_S = 2
SPEC = """
nodes:
- {name: no-gpu}
nodeGraceSeconds: 20
"""
EVER = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class Seat:
    """One operator with an account and a wire of its own."""

    operator: Operator
    user: str
    wire: Relay


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC, operator=False) as running:
        await install_crds(running.client)
        yield running


@asynccontextmanager
async def operators(cluster: Cluster, *names: str) -> AsyncIterator[list[Seat]]:
    """Started one after the other, so that the first leads."""
    async with AsyncExitStack() as stack:
        seats = []
        for name in names:
            seats.append(await _seat(cluster, stack, name))
            await seats[-1].operator.start()
            stack.push_async_callback(_end, seats[-1])
            await seats[-1].operator.wait_ready(timeout_s=DEADLINE_S)
        yield seats


async def _end(seat: Seat) -> None:
    seat.wire.mend()
    if seat.operator.is_running:
        seat.operator.go_on()
        await seat.operator.end()


async def _seat(cluster: Cluster, stack: AsyncExitStack, name: str) -> Seat:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    server = config["clusters"][0]["cluster"]
    wire = await stack.enter_async_context(Relay.to(int(server["server"].rpartition(":")[2])))
    server["server"] = f"https://127.0.0.1:{wire.listens_on}"
    config["users"][0]["user"] = {"token": await _token(cluster, name)}
    path = cluster.place.directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    operator = Operator(
        cluster,
        path,
        name=name,
        GPUREADY_LEADER_ELECT="true",
        GPUREADY_LEADER_ELECT_LEASE_DURATION=f"{LEASE_S}s",
    )
    return Seat(operator, f"system:serviceaccount:{NAMESPACE}:{name}", wire)


async def _token(cluster: Cluster, account: str) -> str:
    await cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": NAMESPACE},
        }
    )
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await cluster.client.create(
        SERVICE_ACCOUNTS, request, NAMESPACE, name=account, subresource="token"
    )
    return str(answer["status"]["token"])


async def lease(cluster: Cluster) -> dict[str, Any]:
    try:
        return await cluster.client.get(LEASES, LEASE, NAMESPACE)
    except NotFound:
        return {}


async def leader(cluster: Cluster, seats: list[Seat]) -> Seat:
    """Whoever leads, once somebody does and says so."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        for seat in seats:
            status, text = await seat.operator.readiness() if seat.operator.is_running else (0, "")
            if status == 200 and text.startswith("ok, leading"):
                return seat
        assert time.monotonic() < deadline, f"nobody leads: {await lease(cluster)}"
        await asyncio.sleep(0.05)


def our_writes(cluster: Cluster, since: datetime) -> list[RequestLine]:
    """In the order in which the API server answered them."""
    found = cluster.requests(writes_only=True, since=since)
    return [line for line in found if line.client == "gpuready-operator"]


def expect_one_at_a_time(cluster: Cluster, since: datetime) -> list[str]:
    """Every write came from whoever had written the Lease last; the users in the order in which they led."""
    led: list[str] = []
    for line in our_writes(cluster, since):
        if int(line.fields["code"]) >= 400:
            continue
        if line.is_lease:
            if led[-1:] != [line.fields["user"]]:
                led.append(line.fields["user"])
        elif line.fields["resource"] != "events":
            assert led[-1:] == [line.fields["user"]], f"{led[-1:]} led, and this came: {line.fields}"
    return led


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(cluster: Cluster) -> AsyncIterator[list[Seat]]:
    await cluster.apply(policy())
    async with operators(cluster, "first", "second") as seats:
        await ready(cluster)
        yield seats


async def test_the_second_waits_and_takes_over_at_once_when_the_first_ends(
    cluster: Cluster, pair: list[Seat]
) -> None:
    first, second = pair
    status, text = await second.operator.readiness()
    assert (status, text.split(":")[0]) == (200, "ok, standing by")
    assert expect_one_at_a_time(cluster, EVER) == [first.user]

    await first.operator.end()
    assert "lease released" in first.operator.log()
    assert await leader(cluster, [second]) is second
    await roll_out(cluster, "b")
    await first.operator.start()
    await first.operator.wait_ready(timeout_s=DEADLINE_S)

    assert expect_one_at_a_time(cluster, EVER) == [first.user, second.user]
    assert (await lease(cluster))["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("fault", ["stopped", "cut off", "killed"])
async def test_a_leader_that_is_lost_in_the_middle_of_a_roll_out_writes_nothing_more(
    cluster: Cluster, pair: list[Seat], fault: str
) -> None:
    lost = await leader(cluster, pair)
    (other,) = (seat for seat in pair if seat is not lost)

    await edit(cluster, {"daemonsets": {"labels": {"roll-out": "one"}}})
    await asyncio.sleep(random.uniform(0, 0.1))  # anywhere in the middle of it
    match fault:
        case "stopped":
            lost.operator.stop()
        case "cut off":
            lost.wire.cut()
        case "killed":
            await lost.operator.kill()
    assert await leader(cluster, [other]) is other
    await follows(cluster, "one")
    await roll_out(cluster, fault.replace(" ", "-"))  # of which the lost one hears when it comes back
    match fault:
        case "stopped":
            lost.operator.go_on()
        case "cut off":
            lost.wire.mend()
        case "killed":
            await lost.operator.start()
    await stands_by(lost)

    await ready(cluster)
    assert expect_one_at_a_time(cluster, EVER)[-2:] == [lost.user, other.user]
    await quiet(cluster)


async def test_while_the_original_operator_leads_ours_only_watches(
    cluster: Cluster, pair: list[Seat]
) -> None:
    for seat in pair:
        await seat.operator.end()
    original = asyncio.create_task(_renew_as_the_original(cluster))
    start = datetime.now(UTC)
    await edit(cluster, {"daemonsets": {"labels": {"roll-out": "of-the-original"}}})
    await pair[0].operator.start()

    await stands_by(pair[0])
    await asyncio.sleep(2 * LEASE_S)
    work = [line for line in our_writes(cluster, start) if line.fields["resource"] != "events"]
    assert [line for line in work if line.fields["code"] < 400] == []
    assert "gpu-operator-0_1 holds the Lease" in (await pair[0].operator.readiness())[1]
    said = await cluster.events(POLICY)
    assert [(event["reason"], event["type"]) for event in said if event["reason"].startswith("Original")] == [
        ("OriginalOperatorLeads", "Warning")
    ]

    original.cancel()
    assert await leader(cluster, pair[:1]) is pair[0]
    await follows(cluster, "of-the-original")


async def _renew_as_the_original(cluster: Cluster) -> None:
    """Takes the Lease as client-go does, whose writes leave the annotations as they are."""
    found = await lease(cluster)
    found["spec"] |= {"holderIdentity": "gpu-operator-0_1", "leaseDurationSeconds": LEASE_S}
    while True:
        found["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        found = await cluster.client.replace(LEASES, found)
        await asyncio.sleep(LEASE_S / 5)


async def roll_out(cluster: Cluster, value: str) -> None:
    await edit(cluster, {"daemonsets": {"labels": {"roll-out": value}}})
    await follows(cluster, value)


async def follows(cluster: Cluster, value: str) -> None:
    """All DaemonSets carry it."""
    for name in (AGENT, PLUGIN):
        await cluster.wait(
            DAEMON_SETS,
            name,
            NAMESPACE,
            lambda obj: obj["metadata"]["labels"].get("roll-out") == value,
            timeout_s=DEADLINE_S,
        )


async def stands_by(seat: Seat) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not (await seat.operator.readiness())[1].startswith("ok, standing by"):
        assert time.monotonic() < deadline, await seat.operator.readiness()
        await asyncio.sleep(0.05)
