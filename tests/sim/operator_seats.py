"""Several operators with accounts and wires of their own, and who of them wrote what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import yaml
from tests.sim.operator_cluster import AGENT, DEADLINE_S, NAMESPACE, PLUGIN, Operator, edit
from tests.sim.relay import Relay

from gpuready_sim.client import DAEMON_SETS, LEASES, SERVICE_ACCOUNTS, NotFound
from gpuready_sim.cluster.control_plane import install_operator_account
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.request_log import RequestLine

RBAC = "rbac.authorization.k8s.io"
LEASE = "53822513.nvidia.com"
LEASE_S = 2
EVER = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class Seat:
    """One operator with an account and a wire of its own."""

    operator: Operator
    user: str
    wire: Relay


@asynccontextmanager
async def operators(cluster: Cluster, *names: str, lease_s: float = LEASE_S) -> AsyncIterator[list[Seat]]:
    """Started one after the other, so that the first leads."""
    async with AsyncExitStack() as stack:
        seats = []
        for name in names:
            seats.append(await _seat(cluster, stack, name, lease_s))
            await seats[-1].operator.start()
            stack.push_async_callback(_end, seats[-1])
            await seats[-1].operator.wait_ready(timeout_s=DEADLINE_S)
        yield seats


async def _end(seat: Seat) -> None:
    seat.wire.mend()
    if seat.operator.is_running:
        seat.operator.go_on()
        await seat.operator.end()


async def _seat(cluster: Cluster, stack: AsyncExitStack, name: str, lease_s: float) -> Seat:
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
        GPUREADY_LEADER_ELECT_LEASE_DURATION=f"{lease_s}s",
        GPUREADY_POD_UID=f"uid-of-{name}",
    )
    return Seat(operator, f"system:serviceaccount:{NAMESPACE}:{name}", wire)


async def _token(cluster: Cluster, account: str) -> str:
    """Of an account that may do what `gpuready rbac` grants to the operator's."""
    await install_operator_account(cluster.client)
    meta = {"name": account, "namespace": NAMESPACE}
    subjects = [{"kind": "ServiceAccount", **meta}]
    await cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(meta)})
    for kind, placed in (("ClusterRole", {"name": account}), ("Role", meta)):
        role = {"apiGroup": RBAC, "kind": kind, "name": "gpuready-operator"}
        bound = {"metadata": dict(placed), "roleRef": role, "subjects": subjects}
        await cluster.apply({"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", **bound})
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


def granted(cluster: Cluster, since: datetime = EVER) -> list[RequestLine]:
    """The operators' writes that the API server did, in the order of its answers; Events are talk."""
    return [
        line
        for line in cluster.requests(writes_only=True, since=since)
        if line.client == "gpuready-operator"
        and int(line.fields["code"]) < 400
        and line.fields["resource"] != "events"
    ]


def work(cluster: Cluster, since: datetime) -> list[RequestLine]:
    """All of them but the Lease's."""
    return [line for line in granted(cluster, since) if not line.is_lease]


def expect_one_at_a_time(cluster: Cluster) -> list[str]:
    """Every write came from whoever had written the Lease last; the users in the order in which they led."""
    led: list[str] = []
    for line in granted(cluster):
        user = line.fields["user"]
        if not line.is_lease:
            assert led[-1:] == [user], f"{led[-1:]} led, and this came: {line.fields}"
        elif led[-1:] != [user]:
            led.append(user)
    return led


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
