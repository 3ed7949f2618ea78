"""A real control plane of one cluster: etcd, API server, controller manager and scheduler as processes."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gpuready_sim.client import (
    SERVICE_ACCOUNTS,
    Access,
    ApiStatus,
    NotFound,
    Object,
    Resource,
    SimClient,
    Unreachable,
)
from gpuready_sim.cluster.places import Place, free_port
from gpuready_sim.cluster.processes import Child, ProcessError
from gpuready_sim.kubernetes import arguments, assets, request_log
from gpuready_sim.kubernetes.credentials import KUBELETS, NODES, Credentials, NodeFiles

log = logging.getLogger(__name__)
START_S = 60.0
_POLL_S = 0.1
_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
# The rules that Kubernetes itself gives to kubelets: for all simulated ones together, and for real ones.
_KUBELETS_MAY: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": KUBELETS},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELETS},
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": NODES},
    ],
}


class KubernetesControlPlane:
    """Starts the four, starts one again when it ends by itself, and stops them."""

    has_controllers = True
    enforces_rbac = True

    def __init__(self, place: Place, *, node_grace_s: float, controllers: str = "*") -> None:
        programs = assets.require()
        self._place = place
        self.port = free_port()
        self._credentials = Credentials(place.data / "pki", f"https://{arguments.HOST}:{self.port}")
        self._layout = layout = arguments.Layout(
            directory=place.data,
            files=self._credentials.files,
            api_port=self.port,
            etcd_port=free_port(),
            etcd_peer_port=free_port(),
            node_grace_s=node_grace_s,
            controllers=controllers,
        )
        self._etcd, self._api_server, *self._others = (
            Child(name, [str(programs[name].path), *words], log=place.logs / f"{name}.log")
            for name, words in (
                ("etcd", arguments.etcd(layout)),
                ("kube-apiserver", arguments.api_server(layout)),
                ("kube-controller-manager", arguments.controller_manager(layout)),
                ("kube-scheduler", arguments.scheduler(layout)),
            )
        )
        self._wanted: list[Child] = []
        self._requests: asyncio.Task[None] | None = None

    # --- who may come in --------------------------------------------------------------------------------
    @property
    def access(self) -> Access:
        return self._credentials.access()

    @property
    def kubelet_access(self) -> Access:
        return self._credentials.access(KUBELETS)

    def kubelet_tls(self, node: str, address: str) -> ssl.SSLContext:
        return self._credentials.kubelet_tls(node, address)

    def node_files(self, node: str, address: str, directory: Path) -> NodeFiles:
        """For a real kubelet; written into `directory`."""
        return self._credentials.node(node, address, directory)

    @property
    def processes(self) -> list[tuple[str, int | None]]:
        return [(child.name, child.pid) for child in self._all()]

    def _all(self) -> list[Child]:
        return [self._etcd, self._api_server, *self._others]

    # --- life -------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Returns when the API answers, kubelets may join, and pods can be made in `default`."""
        self._layout.audit_policy.write_text(arguments.AUDIT_POLICY)
        self._requests = asyncio.create_task(request_log.follow(self._layout.audit_log, self._place.requests))
        await self._begin(self._etcd)
        await self._begin(self._api_server)
        await self._wait("the API server", self._is_ready)
        for child in self._others:
            await self._begin(child)
        self._credentials.write_kubeconfig(self._place.kubeconfig)
        async with SimClient(self.access, timeout_s=5) as client:
            await client.apply(_BINDINGS, _KUBELETS_MAY)
            await self._wait("the controller manager", lambda: _has_service_account(client))

    async def stop(self) -> None:
        """Those who ask end before those who are asked."""
        self._wanted.clear()
        await asyncio.gather(*(child.stop() for child in self._others))
        await self._api_server.stop()
        await self._etcd.stop()
        if self._requests is not None:
            self._requests.cancel()
            await asyncio.gather(self._requests, return_exceptions=True)
            self._requests = None

    async def stop_for(self, seconds: float) -> None:
        """The API server alone is gone for a while; etcd, controllers and scheduler stay."""
        self._wanted.remove(self._api_server)
        await self._api_server.kill()  # asked politely it would serve those that are there for seconds
        await asyncio.sleep(seconds)
        await self._begin(self._api_server)
        await self._wait("the API server", self._is_ready)

    async def keep_alive(self) -> None:
        """Until cancelled."""
        while True:
            for child in self._wanted:
                if child.pid is None:
                    log.error("%s ended; it is started again: %s", child.name, child.last_lines())
                    await child.start()
            await asyncio.sleep(0.5)

    async def _begin(self, child: Child) -> None:
        await child.start()
        self._wanted.append(child)

    async def _wait(self, who: str, is_there: Callable[[], Awaitable[bool]]) -> None:
        """raises ProcessError when a process ended or the time is over"""
        deadline = time.monotonic() + START_S
        while not await is_there():
            ended = next((child for child in self._wanted if child.pid is None), None)
            if ended is not None:
                raise ProcessError(
                    f"{ended.name} ended at its start",
                    why=ended.last_lines(),
                    next_step=f"see {self._place.logs}/{ended.name}.log",
                )
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{who} was not ready within {START_S:g} s",
                    why=" | ".join(child.last_lines(2) for child in self._wanted),
                    next_step=f"see {self._place.logs}",
                )
            await asyncio.sleep(_POLL_S)

    async def _is_ready(self) -> bool:
        async with SimClient(self.access, timeout_s=2) as client:
            try:
                await client.raw_bytes("GET", "/readyz")
            except (ApiStatus, Unreachable):
                return False
        return True


async def _has_service_account(client: SimClient) -> bool:
    """Pods are refused until their namespace has its default account."""
    try:
        await client.get(SERVICE_ACCOUNTS, "default", "default")
    except NotFound:
        return False
    return True
