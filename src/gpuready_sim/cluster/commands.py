"""What `gpuready-sim` asks of a running cluster: one method each, answers as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuready_sim.client import PODS, SimClient
from gpuready_sim.cluster import holders
from gpuready_sim.cluster.gpu_commands import GPU_COMMANDS
from gpuready_sim.cluster.machines import RELOAD_WAIT_S, Machine, MachineError
from gpuready_sim.errors import DriverInUseError, SimulatorError
from gpuready_sim.hardware.state import Holder

if TYPE_CHECKING:
    from gpuready_sim.cluster.supervisor import Supervisor

Args = Mapping[str, Any]
MAX_API_STOP_S = 3600


class CommandError(SimulatorError):
    """A command that does not exist or names something that is not there."""


class Commands:
    def __init__(self, cluster: Supervisor) -> None:
        self._cluster = cluster
        self._known = {
            "status": self._status,
            "reboot": self._reboot,
            "environment": self._environment,
            "fault xid": self._xid,
            "fault lost": self._lost,
            "fault reset": self._reset,
            "fault inforom": self._inforom,
            "fault hang": self._hang,
            "fault driver-update": self._driver_update,
            "fault driver-reload": self._driver_reload,
            "fault kubelet-restart": self._kubelet_restart,
            "fault power-off": self._power_off,
            "fault api-stop": self._api_stop,
        }

    async def handle(self, command: str, args: Args) -> object:
        if command in GPU_COMMANDS:
            machine, index = self._gpu(args["target"])
            with machine.gpus() as gpus:
                return GPU_COMMANDS[command](gpus, index, args)
        action = self._known.get(command)
        if action is None:
            raise CommandError(
                f"unknown command {command!r}",
                next_step="is this gpuready-sim the one that started the cluster?",
            )
        return await action(args)

    async def _status(self, args: Args) -> object:
        cluster = self._cluster
        processes: list[dict[str, Any]] = [
            {"name": "supervisor", "pid": os.getpid()},
            *({"name": name, "pid": pid} for name, pid in cluster.control_plane.processes),
        ]
        if operator := cluster.operator:
            row = {"name": "operator", "pid": operator.pid, "restarts": operator.restarts}
            row |= {"metricsPort": operator.metrics_port, "healthPort": operator.health_port}
            processes.append(row)
        return {
            "name": cluster.place.name,
            "kubeconfig": str(cluster.place.kubeconfig),
            "server": f"https://127.0.0.1:{cluster.control_plane.port}",
            "directory": str(cluster.place.directory),
            "started": cluster.started,
            "processes": processes,
            "nodes": [machine.status() for machine in cluster.machines.values()],
        }

    async def _reboot(self, args: Args) -> object:
        return {"bootId": await self._machine(args["node"]).reboot()}

    async def _environment(self, args: Args) -> object:
        return self._machine(args["node"]).environment()

    async def _xid(self, args: Args) -> object:
        machine, index = self._gpu(args["target"])
        with machine.gpus() as gpus:
            gpus.raise_xid(index, int(args["code"]))
            return {"uuid": gpus.gpus()[index].uuid}

    async def _lost(self, args: Args) -> object:
        machine, index = self._gpu(args["target"])
        with machine.gpus() as gpus:
            gpus.set_lost(index)
            return {"uuid": gpus.gpus()[index].uuid}

    async def _reset(self, args: Args) -> object:
        machine, index = self._gpu(args["target"])
        with machine.gpus() as gpus:
            if not gpus.reset(index):
                raise MachineError(
                    f"GPU {args['target']} cannot be reset",
                    why="it has fallen off the bus; a reset does not reach it",
                    next_step=f"reboot the node: {self._cluster.place.command(f'reboot {machine.name}')}",
                )
            return {"uuid": gpus.gpus()[index].uuid}

    async def _inforom(self, args: Args) -> object:
        machine, index = self._gpu(args["target"])
        with machine.gpus() as gpus:
            gpus.set_inforom_corrupt(index, bool(args.get("corrupt", True)))
            return {"uuid": gpus.gpus()[index].uuid}

    async def _hang(self, args: Args) -> object:
        self._gpu_machine(args["node"]).hang(float(args["seconds"]))
        return {}

    async def _driver_update(self, args: Args) -> object:
        return self._gpu_machine(args["node"]).update_driver(args["version"])

    async def _driver_reload(self, args: Args) -> object:
        machine, wait_s = self._gpu_machine(args["node"]), float(args.get("wait_s", RELOAD_WAIT_S))
        try:
            return await machine.reload_driver(wait_s=wait_s)
        except DriverInUseError as exc:
            raise await self._in_use(machine, exc, wait_s) from exc

    async def _in_use(self, machine: Machine, error: DriverInUseError, wait_s: float) -> CommandError:
        async with SimClient(self._cluster.control_plane.access) as client:
            selector = f"spec.nodeName={machine.name}"
            pods = (await client.list(PODS, field_selector=selector))[0]
        who = holders.describe((Holder(*pair) for pair in error.holders), pods)
        return CommandError(
            f"the driver of {machine.name} cannot be unloaded",
            why=f"after {wait_s:g} s these still hold NVML: {who}",
            next_step="end them (delete the pod, or drain the node), then try again",
        )

    async def _kubelet_restart(self, args: Args) -> object:
        await self._machine(args["node"]).kubelet.restart()
        return {}

    async def _power_off(self, args: Args) -> object:
        await self._machine(args["node"]).power_off()
        return {}

    async def _api_stop(self, args: Args) -> object:
        seconds = min(float(args["seconds"]), MAX_API_STOP_S)
        await self._cluster.control_plane.stop_for(seconds)
        return {"stoppedSeconds": seconds}

    def _machine(self, name: str) -> Machine:
        machine = self._cluster.machines.get(name)
        if machine is None:
            known = ", ".join(self._cluster.machines)
            raise CommandError(
                f"there is no node {name!r}", why=f"the cluster has {known}", next_step="choose one of them"
            )
        return machine

    def _gpu_machine(self, name: str) -> Machine:
        machine = self._machine(name)
        if not machine.spec.gpus:
            with_gpus = self._names_with_gpus()
            raise CommandError(
                f"node {name} has no GPU",
                why=f"of this cluster's nodes these have: {', '.join(with_gpus)}" if with_gpus else "",
                next_step="choose one of them" if with_gpus else "start a cluster whose nodes have GPUs",
            )
        return machine

    def _names_with_gpus(self) -> list[str]:
        return [machine.name for machine in self._cluster.machines.values() if machine.spec.gpus]

    def _gpu(self, target: str) -> tuple[Machine, int]:
        """NODE/GPU, the GPU by index or uuid."""
        name, slash, gpu = target.partition("/")
        machine = self._gpu_machine(name) if name in self._cluster.machines or slash else None
        if machine is None or not gpu:
            named = [machine.name] if machine else self._names_with_gpus()
            raise CommandError(
                f"{target!r} names no GPU",
                why="a GPU is named NODE/GPU, with its index or uuid",
                next_step=f"for example {named[0]}/0" if named else "start a cluster whose nodes have GPUs",
            )
        return machine, machine.gpu_index(gpu)
