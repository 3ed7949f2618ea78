"""The control plane of a cluster: the API server, the controllers, the CRDs, the operator."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import yaml

from gpuready_sim.client import (
    CRDS,
    NAMESPACES,
    NODES,
    SERVICE_ACCOUNTS,
    Access,
    AlreadyExists,
    ApiStatus,
    Object,
    SimClient,
    Unreachable,
)
from gpuready_sim.cluster.places import Place, free_port
from gpuready_sim.cluster.processes import Child, ProcessError
from gpuready_sim.discovery import find_resource, served_resources

log = logging.getLogger(__name__)
OPERATOR_NAMESPACE = "gpu-operator"
OPERATOR_IMAGE = "gpuready:dev"
OPERATOR_TOKEN_S = 7 * 24 * 3600
START_S = 30.0
_POLL_S = 0.05


class ControlPlane(Protocol):
    """The processes that serve the API, watched over.

    access           the administrator's
    kubelet_access   that of all simulated kubelets
    has_controllers  scheduler and controllers are among its processes
    enforces_rbac    who may do what is asked of every request
    processes        (name, pid or None)
    """

    port: int
    has_controllers: bool
    enforces_rbac: bool

    @property
    def access(self) -> Access: ...
    @property
    def kubelet_access(self) -> Access: ...
    @property
    def processes(self) -> list[tuple[str, int | None]]: ...

    def kubelet_tls(self, node: str, address: str) -> ssl.SSLContext | None:
        """For the kubelet's port; None where the API server speaks plain HTTP to kubelets."""

    async def start(self) -> None:
        """Returns when kubelets may join."""

    async def stop(self) -> None: ...

    async def stop_for(self, seconds: float) -> None:
        """The API server is gone for a while: connections break at once, and nobody listens."""

    async def keep_alive(self) -> None:
        """Until cancelled."""


class EmbeddedControlPlane:
    """The simulator's API server; it is started again when it ends by itself."""

    has_controllers = False
    enforces_rbac = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self.port = free_port()
        self._child = Child("apiserver", self._argv(), log=place.logs / "apiserver.log")
        self._wanted = False
        self._stopped_until = 0.0

    def _argv(self) -> list[str]:
        options = {
            "--data": self._place.data,
            "--host": "127.0.0.1",
            "--port": self.port,
            "--kubeconfig": self._place.kubeconfig,
            "--requests": self._place.requests,
        }
        words = [str(word) for pair in options.items() for word in pair]
        return [sys.executable, "-m", "gpuready_sim.apiserver", *words]

    @property
    def processes(self) -> list[tuple[str, int | None]]:
        return [(self._child.name, self._child.pid)]

    @property
    def access(self) -> Access:
        return Access.from_kubeconfig(self._place.kubeconfig)

    @property
    def kubelet_access(self) -> Access:
        return self.access

    def kubelet_tls(self, node: str, address: str) -> None:
        return None

    async def start(self) -> None:
        self._wanted = True
        await self._child.start()
        await self._wait_ready()

    async def stop(self) -> None:
        self._wanted = False
        await self._child.stop()

    async def stop_for(self, seconds: float) -> None:
        await self.stop()
        await asyncio.sleep(seconds)
        await self.start()

    async def keep_alive(self) -> None:
        while True:
            if self._wanted and self._child.pid is None:
                log.error("the API server ended; it is started again: %s", self._child.last_lines())
                await self._child.start()
            await asyncio.sleep(0.5)

    async def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._child.pid is None:
                raise ProcessError("the API server ended at its start", why=self._child.last_lines())
            if self._place.kubeconfig.exists() and await _is_ready(self.access):
                return
            await asyncio.sleep(_POLL_S)
        raise ProcessError(
            f"the API server did not answer within {START_S:g} s", why=self._child.last_lines()
        )


async def _is_ready(access: Access) -> bool:
    async with SimClient(access, timeout_s=2) as client:
        try:
            await client.raw_bytes("GET", "/readyz")
        except (ApiStatus, Unreachable):
            return False
    return True


class Operator:
    """The product's operator as a process beside the cluster; started again when it ends."""

    def __init__(
        self, place: Place, kubeconfig: Path, image: str = OPERATOR_IMAGE, *, elects: bool = False
    ) -> None:
        argv = [sys.executable, "-m", "gpuready.cli", "operator", "--kubeconfig", str(kubeconfig)]
        argv += ["--leader-elect"] if elects else []
        # Ports of its own: several clusters run side by side on one machine.
        self.metrics_port, self.health_port = free_port(), free_port()
        env = {
            "OPERATOR_NAMESPACE": OPERATOR_NAMESPACE,
            "GPUREADY_IMAGE": image,
            "GPUREADY_BIND_ADDRESS": "127.0.0.1",
            "GPUREADY_METRICS_PORT": str(self.metrics_port),
            "GPUREADY_HEALTH_PORT": str(self.health_port),
        }
        self._child = Child("operator", argv, log=place.logs / "operator.log", env=env)
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        return self._child.pid

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                started = time.monotonic()
                await self._child.start()
                code = await self._child.wait()
                if time.monotonic() - started > 30:
                    self.restarts = 0
                delay = min(10.0, 0.5 * 2**self.restarts)
                self.restarts += 1
                log.error("the operator ended with %s; again in %g s", code, delay)
                await asyncio.sleep(delay)
        finally:
            await self._child.stop()


async def install_crds(client: SimClient) -> None:
    """What `gpuready crds` prints, as an administrator would apply it."""
    for crd in await _printed_by("crds"):
        await client.apply(CRDS, crd)
        await _wait_established(client, crd["metadata"]["name"])


async def install_operator_account(client: SimClient) -> str:
    """What `gpuready rbac` prints, applied; returns a token of the account."""
    objects = await _printed_by("rbac", "--namespace", OPERATOR_NAMESPACE)
    served = [one.resource for one in await served_resources(client)]
    for obj in objects:
        resource = find_resource(served, obj["apiVersion"], obj["kind"])
        assert resource is not None
        await client.apply(resource, obj)
    account = next(obj["metadata"] for obj in objects if obj["kind"] == "ServiceAccount")
    request: Object = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": OPERATOR_TOKEN_S},
    }
    answer = await client.create(
        SERVICE_ACCOUNTS, request, account["namespace"], name=account["name"], subresource="token"
    )
    return str(answer["status"]["token"])


async def _printed_by(*command: str) -> list[Object]:
    """The YAML documents that a command of the product prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuready.cli", *command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        raise ProcessError(f"`gpuready {command[0]}` failed", why=err.decode(errors="replace")[-500:])
    return [document for document in yaml.load_all(out, Loader=yaml.CSafeLoader) if document]


async def _wait_established(client: SimClient, name: str) -> None:
    deadline = time.monotonic() + START_S
    while not _has_condition(await client.get(CRDS, name), "Established"):
        if time.monotonic() > deadline:
            raise ProcessError(f"the API server does not serve {name} after {START_S:g} s")
        await asyncio.sleep(_POLL_S)


async def create_namespace(client: SimClient, name: str) -> None:
    try:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except AlreadyExists:
        pass


async def wait_nodes_ready(client: SimClient, names: set[str], *, timeout_s: float) -> set[str]:
    """The nodes that are not Ready when the time is over; empty when all are."""
    deadline = time.monotonic() + timeout_s
    missing = set(names)
    while missing:
        nodes, version = await client.list(NODES)
        missing = names - set(_ready_names(nodes))
        if not missing or time.monotonic() > deadline:
            break
        await _next_change(client, version, deadline)
    return missing


async def _next_change(client: SimClient, version: str, deadline: float) -> None:
    async def first() -> None:
        async for kind, _ in client.watch(NODES, version, timeout_s=10):
            if kind != "BOOKMARK":
                return

    try:
        await asyncio.wait_for(first(), max(0.01, deadline - time.monotonic()))
    except (TimeoutError, ApiStatus, Unreachable):
        pass


def _ready_names(nodes: list[Object]) -> Iterator[str]:
    return (node["metadata"]["name"] for node in nodes if _has_condition(node, "Ready"))


def _has_condition(obj: Any, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)
