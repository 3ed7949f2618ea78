"""Starts a cluster, keeps it running, and takes it down again."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from gpuready_sim import control
from gpuready_sim.apiserver.pki import kubeconfig, write_kubeconfig
from gpuready_sim.client import SimClient
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.commands import Commands
from gpuready_sim.cluster.control_plane import (
    OPERATOR_NAMESPACE,
    ControlPlane,
    EmbeddedControlPlane,
    Operator,
    create_namespace,
    install_crds,
    install_operator_account,
    wait_nodes_ready,
)
from gpuready_sim.cluster.machines import Machine
from gpuready_sim.cluster.places import AddressRange, Place, claim_addresses, owned
from gpuready_sim.cluster.processes import ProcessError, ensure_native
from gpuready_sim.cluster.spec import ClusterSpec
from gpuready_sim.controllers.run import Settings, run_controllers
from gpuready_sim.kubelet.identity import Timing

log = logging.getLogger(__name__)
NODES_READY_S = 60.0


class Supervisor:
    """One running cluster: everything that a command may touch."""

    def __init__(
        self,
        place: Place,
        spec: ClusterSpec,
        *,
        with_operator: bool = True,
        api: Api = Api.EMBEDDED,
    ) -> None:
        self.place = place
        self.spec = spec
        self.started = time.time()
        self.control_plane = _control_plane(api, place, spec)
        # Where rules are enforced, the operator is nobody but itself, and runs as in a pod.
        limited = self.control_plane.enforces_rbac
        operators = place.operator_kubeconfig if limited else place.kubeconfig
        self.operator = Operator(place, operators, elects=limited) if with_operator else None
        self.machines: dict[str, Machine] = {}

    async def run(self, on_ready: Callable[[Supervisor], None], stop: asyncio.Event) -> None:
        """Bring everything up, call `on_ready`, and stay until `stop` is set."""
        async with self._running() as tasks:
            on_ready(self)
            stopping = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            for task in done - {stopping}:
                task.result()  # a part of the cluster failed: say why

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[list[asyncio.Task[None]]]:
        async with AsyncExitStack() as stack:
            control_plane = self.control_plane
            stack.push_async_callback(control_plane.stop)
            await control_plane.start()
            client = await stack.enter_async_context(SimClient(control_plane.access))
            await create_namespace(client, OPERATOR_NAMESPACE)
            addresses = claim_addresses(self.place.name)
            stack.callback(addresses.close)
            await self._build_machines(addresses)
            tasks = [asyncio.create_task(control_plane.keep_alive())]
            if not control_plane.has_controllers:
                settings = Settings(node_grace_s=self.spec.node_grace_s)
                tasks.append(asyncio.create_task(run_controllers(client, settings)))
            stack.push_async_callback(_cancel, tasks)
            await self._start_machines(stack)
            tasks += [asyncio.create_task(machine.wait_failed()) for machine in self.machines.values()]
            server = await control.serve(self.place.control, Commands(self).handle)
            stack.callback(self.place.control.unlink, missing_ok=True)
            stack.callback(server.close)
            if self.operator:
                await install_crds(client)
                if control_plane.enforces_rbac:
                    access = control_plane.access
                    token = await install_operator_account(client)
                    text = kubeconfig(access.ca_pem, token, access.server, user="gpuready-operator")
                    write_kubeconfig(self.place.operator_kubeconfig, text)
                tasks.append(asyncio.create_task(self.operator.run()))
            await self._wait_ready(client)
            yield tasks

    async def _build_machines(self, addresses: AddressRange) -> None:
        grace_s = self.spec.node_grace_s
        for index, node in enumerate(self.spec.nodes):
            timing = Timing(lease_interval_s=grace_s / 4, lease_duration_s=max(1, round(grace_s)))
            address = addresses.address(index)
            machine = Machine(node, self.place.node(node.name), address, timing, pod_api=self.spec.pod_api)
            await asyncio.to_thread(machine.build)
            self.machines[node.name] = machine

    async def _start_machines(self, stack: AsyncExitStack) -> None:
        access = self.control_plane.kubelet_access
        client = await stack.enter_async_context(SimClient(access, user_agent="sim-kubelet"))
        stack.push_async_callback(self._power_off)
        tls = {m.name: self.control_plane.kubelet_tls(m.name, m.address) for m in self.machines.values()}
        try:
            async with asyncio.TaskGroup() as group:
                for machine in self.machines.values():
                    group.create_task(machine.start(client, tls[machine.name]))
        except ExceptionGroup as failed:
            first = failed.exceptions[0]  # the others were stopped for it
            raise first from first.__cause__

    async def _power_off(self) -> None:
        await asyncio.gather(*(machine.stop() for machine in self.machines.values()), return_exceptions=True)

    async def _wait_ready(self, client: SimClient) -> None:
        missing = await wait_nodes_ready(client, set(self.machines), timeout_s=NODES_READY_S)
        if missing:
            raise ProcessError(
                f"not Ready after {NODES_READY_S:g} s: {', '.join(sorted(missing))}",
                next_step=f"see {self.place.logs}",
            )


def _control_plane(api: Api, place: Place, spec: ClusterSpec) -> ControlPlane:
    if api is Api.EMBEDDED:
        return EmbeddedControlPlane(place)
    from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane

    return KubernetesControlPlane(place, node_grace_s=spec.node_grace_s)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def supervise(
    place: Place,
    spec: ClusterSpec,
    *,
    with_operator: bool,
    api: Api = Api.EMBEDDED,
    on_clean: Callable[[], None],
    on_ready: Callable[[Supervisor], None],
    stop: asyncio.Event,
) -> None:
    """The whole life of a cluster under its lock.

    on_clean  called once the directory is ours and empty: log files can be opened from then on
    raises    PlaceError when it runs already; ProcessError when a part does not start or fails later
    """
    ensure_native()
    with owned(place):
        place.clean()
        on_clean()
        log.info("cluster %s starts, process %s", place.name, os.getpid())
        await Supervisor(place, spec, with_operator=with_operator, api=api).run(on_ready, stop)
