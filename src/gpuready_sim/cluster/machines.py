"""One node of the cluster: its hardware, its kubelet, and what can happen to it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuready_sim.client import SimClient
from gpuready_sim.cluster.spec import NodeSpec, is_driver_version
from gpuready_sim.containerd.supervisor import Containerd
from gpuready_sim.crio.supervisor import Crio
from gpuready_sim.errors import DriverInUseError, SimulatorError
from gpuready_sim.hardware import machine as hardware
from gpuready_sim.hardware.state import GpuState
from gpuready_sim.kubelet.identity import NodeIdentity, Timing
from gpuready_sim.kubelet.kubelet import Kubelet

CONTAINER_DRIVER_ROOT = "run/nvidia/driver"
LIBRARY_DIRS = ("usr/lib/x86_64-linux-gnu", "usr/lib64")
RELOAD_WAIT_S = 10.0
_POLL_S = 0.1


class MachineError(SimulatorError):
    """A node that cannot do what was asked of it."""


class Machine:
    """A simulated machine and the kubelet on it."""

    def __init__(
        self, spec: NodeSpec, directory: Path, address: str, timing: Timing, *, pod_api: str = ""
    ) -> None:
        self.spec = spec
        self.directory = directory
        self.address = address
        self.timing = timing
        self.pod_api = pod_api
        self.runtime = _runtime(spec, self.root)
        self.is_on = True
        self._kubelet: Kubelet | None = None
        self._end_of_hang: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def root(self) -> Path:
        return self.directory / "root"

    def build(self) -> None:
        """Make the machine's files, with the host driver installed and loaded if it has one."""
        hardware.build_node_root(self.directory, _hardware_spec(self.spec))
        if self.spec.driver_version:
            hardware.install_driver(self.root, self.spec.driver_version)
            self._load_host_driver()

    def _load_host_driver(self) -> None:
        installed = hardware.installed_version(self.root)
        if installed and self.spec.gpus:
            hardware.load_driver(self.directory, installed)

    async def start(self, client: SimClient, tls: ssl.SSLContext | None = None) -> None:
        """Start the kubelet, with HTTPS on its port if `tls`; returns once the Node is registered."""
        if self.runtime is not None:
            self.runtime.install()
            await self.runtime.start()
        identity = _identity(self.spec, self.address, self.pod_api)
        self._kubelet = Kubelet(identity, node_dir=self.directory, client=client, timing=self.timing, tls=tls)
        await self._kubelet.start()

    async def wait_failed(self) -> None:
        """Until the kubelet fails; raises what it failed with."""
        failed = await self.kubelet.failed
        raise MachineError(f"the kubelet of {self.name} failed", next_step="see supervisor.log") from failed

    async def stop(self) -> None:
        """Kubelet and containers end."""
        if self._kubelet is not None:
            await self._kubelet.stop()
            self._kubelet = None
        if self.runtime is not None:
            await self.runtime.stop()

    @property
    def kubelet(self) -> Kubelet:
        if self._kubelet is None:
            raise MachineError(
                f"the kubelet of {self.name} is not running", next_step=f"gpuready-sim reboot {self.name}"
            )
        return self._kubelet

    async def reboot(self) -> str:
        """New boot id (returned), /run empty, modules gone; a host driver loads again at boot."""
        await self.power_off()
        return await self.power_on()

    async def power_off(self) -> None:
        """Everything on it ends at once, and nobody tells; nothing happens to one that is off."""
        if not self.is_on:
            return
        self.is_on = False
        await self.kubelet.power_off()
        if self.runtime is not None:
            await self.runtime.stop()

    async def power_on(self) -> str:
        """The new boot id."""
        await self.power_off()
        boot_id = hardware.reboot(self.directory)
        self._load_host_driver()
        if self.runtime is not None:
            await self.runtime.start()
        await self.kubelet.power_on()
        self.is_on = True
        return boot_id

    # --- GPUs -------------------------------------------------------------------------------------------
    def gpus(self) -> GpuState:
        return hardware.gpu_state(self.directory)

    def gpu_index(self, text: str) -> int:
        """By index or uuid; raises MachineError that says which there are."""
        with self.gpus() as state:
            known = state.gpus()
        for gpu in known:
            if text in (str(gpu.index), gpu.uuid):
                return gpu.index
        raise MachineError(
            f"node {self.name} has no GPU {text!r}",
            why=f"it has {', '.join(str(gpu.index) for gpu in known) or 'none'}",
            next_step="name one by index or uuid",
        )

    def hang(self, seconds: float) -> None:
        """For so long every NVML call waits; then all of them return."""
        if self._end_of_hang is not None:
            self._end_of_hang.cancel()
            self._end_of_hang = None
        with self.gpus() as state:
            state.set_hang_s(seconds)
        if seconds:
            self._end_of_hang = asyncio.get_running_loop().call_later(seconds, self.hang, 0)

    # --- the driver -------------------------------------------------------------------------------------
    def driver_root(self) -> Path | None:
        """The root below which user-space driver files are: the host's or the driver container's."""
        for root in (self.root, self.root / CONTAINER_DRIVER_ROOT):
            if hardware.installed_version(root):
                return root
        return None

    def driver(self) -> dict[str, str | None]:
        """Where the driver is, the version installed there, and the version of the loaded module."""
        root = self.driver_root()
        where = None if root is None else "host" if root == self.root else "container"
        return {
            "where": where,
            "installed": hardware.installed_version(root) if root else None,
            "loaded": hardware.loaded_version(self.directory),
        }

    def update_driver(self, version: str) -> dict[str, str | None]:
        """New libraries under the old module, as a package upgrade on the host does."""
        if not is_driver_version(version):
            raise MachineError(
                f"{version!r} is no driver version",
                why="it must be numbers with dots between them",
                next_step="give one such as 570.133.20",
            )
        root = self.driver_root()
        if root is None:
            raise self._without_driver("no driver is installed on it, so there is none to update")
        if root != self.root:
            raise MachineError(
                f"node {self.name} has no driver on the host",
                why="its driver runs in a container and is updated by changing its image",
                next_step="change the ClusterPolicy's spec.driver.version",
            )
        hardware.update_driver(self.root, version)
        return self.driver()

    async def reload_driver(self, *, wait_s: float = RELOAD_WAIT_S) -> dict[str, str | None]:
        """Unload the module and load that of the installed version.

        raises  DriverInUseError when somebody still holds NVML after `wait_s`
        """
        root = self.driver_root()
        if root is None:
            raise self._without_driver("none is installed on it")
        deadline = time.monotonic() + wait_s
        while True:
            try:
                hardware.unload_driver(self.directory)
                break
            except DriverInUseError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_POLL_S)
        version = hardware.installed_version(root)
        assert version is not None
        hardware.load_driver(self.directory, version)
        return self.driver()

    def _without_driver(self, why: str) -> MachineError:
        return MachineError(
            f"node {self.name} has no driver",
            why=why,
            next_step="give it driver: {where: host} in cluster.yaml, or apply a ClusterPolicy",
        )

    # --- programs on the host ---------------------------------------------------------------------------
    def environment(self) -> Mapping[str, Any]:
        """What a program on this host needs to see the host's files and GPUs; how many GPUs there are."""
        roots = [self.root, self.root / CONTAINER_DRIVER_ROOT]
        return {
            "environment": {
                "GPUREADY_ROOT": str(self.root),
                "LD_LIBRARY_PATH": ":".join(str(root / d) for root in roots for d in LIBRARY_DIRS),
                "NVSIM_STATE": str(self.directory / "gpus.state"),
                "NVSIM_DEV": str(self.root / "dev"),
                "NODE_NAME": self.name,
            },
            "gpus": len(self.spec.gpus),
        }

    def status(self) -> Mapping[str, Any]:
        with self.gpus() as state:
            gpus, hang_s = state.gpus(), state.hang_s
        return {
            "name": self.name,
            "address": self.address,
            "kubelet": "running" if self._kubelet else "stopped",
            "driver": self.driver(),
            "nvmlHangSeconds": hang_s,
            "gpus": [
                {
                    "index": gpu.index,
                    "uuid": gpu.uuid,
                    "name": gpu.name,
                    "model": model,
                    "lost": gpu.lost,
                    "lastXid": gpu.last_xid or None,
                    "inforomCorrupt": gpu.inforom_corrupt,
                }
                for gpu, model in zip(gpus, self.spec.gpus, strict=True)
            ],
        }


def _runtime(spec: NodeSpec, root: Path) -> Containerd | Crio | None:
    if spec.containerd:
        return Containerd(root, spec.containerd)
    return Crio(root, spec.crio) if spec.crio else None


def _hardware_spec(spec: NodeSpec) -> hardware.MachineSpec:
    return hardware.MachineSpec(
        name=spec.name,
        gpus=tuple((model, 1) for model in spec.gpus),
        kernel=spec.kernel,
        os_id=spec.os_id,
        os_version=spec.os_version,
    )


def _identity(spec: NodeSpec, address: str, pod_api: str) -> NodeIdentity:
    default = NodeIdentity(spec.name, address)
    capacity = {**default.capacity, "cpu": spec.cpu, "memory": spec.memory}
    runtime = default.runtime_version
    if spec.containerd or spec.crio:
        runtime = f"containerd://{spec.containerd}" if spec.containerd else f"cri-o://{spec.crio}"
    return NodeIdentity(
        spec.name,
        address,
        labels=spec.labels,
        taints=spec.taints,
        capacity=capacity,
        runtime_version=runtime,
        pod_api=pod_api,
    )
