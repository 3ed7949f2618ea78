"""A simulated node with a kubelet's device manager, and the real device plugin as a process on it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuready_sim.hardware import driver_tree, machine
from gpuready_sim.hardware.state import GpuState
from gpuready_sim.kubelet.device_manager import DeviceManager

VERSION = "550.163.01"
DEADLINE_S = 60.0
WITH_AGENT = {
    "GPUREADY_GATES_DIR": "/run/nvidia/validations",
    "GPUREADY_DESIRED_DIR": "/run/gpuready/desired",
}
_MOUNTS = ("var/lib/kubelet/device-plugins", "var/run/cdi", "run/nvidia", "run/gpuready", "dev")


class PluginNode:
    """The machine, its kubelet (device manager only), and at most one plugin process."""

    def __init__(self, folder: Path, gpus: int = 4, model: str = "A100-SXM4-40GB") -> None:
        self.folder = folder / ("a-directory-name-as-long-as-the-ones-that-clusters-have-" * 2)
        self.root = self.folder / "root"
        self.container = self.folder / "containers/device-plugin/root"
        self.folder.mkdir(parents=True)
        machine.build_node_root(self.folder, machine.MachineSpec("gpu-1", ((model, gpus),)))
        self._mount()
        self._changed = asyncio.Event()
        self.kubelet = self._new_kubelet()
        self.process: asyncio.subprocess.Process | None = None
        self._port = _free_port()

    def _mount(self) -> None:
        self.make_directories()
        for path in _MOUNTS:
            inside = self.container / path
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.symlink_to(self.root / path)
        (self.container / "host").symlink_to(self.root)
        (self.container / "config").mkdir()

    def make_directories(self) -> None:
        """As the kubelet does for volumes of type DirectoryOrCreate; again after a reboot."""
        for path in _MOUNTS:
            (self.root / path).mkdir(parents=True, exist_ok=True)

    # --- the machine --------------------------------------------------------------------------------
    def install(self, version: str = VERSION) -> None:
        driver_tree.install_driver(self.root, version)
        machine.load_driver(self.folder, version)

    def gpus(self) -> GpuState:
        return machine.gpu_state(self.folder)

    @property
    def boot_id(self) -> str:
        return (self.root / "proc/sys/kernel/random/boot_id").read_text().strip()

    def uuids(self) -> list[str]:
        with self.gpus() as state:
            return [gpu.uuid for gpu in state.gpus()]

    # --- the kubelet --------------------------------------------------------------------------------
    def _new_kubelet(self) -> DeviceManager:
        folder = self.root / "var/lib/kubelet/device-plugins"
        return DeviceManager(folder, on_change=self._changed.set, is_running=lambda uid, name: True)

    async def restart_kubelet(self) -> None:
        await self.kubelet.stop()
        self.kubelet = self._new_kubelet()
        await self.kubelet.start()

    async def allocate(self, count: int, resource: str = "nvidia.com/gpu", containers: int = 1) -> list[Any]:
        """Admit a pod; the run options of each container."""
        uid = f"pod-{time.monotonic_ns()}"
        specs = [
            {"name": f"c{number}", "resources": {"limits": {resource: str(count)}}}
            for number in range(containers)
        ]
        await self.kubelet.admit({"metadata": {"uid": uid}, "spec": {"containers": specs}})
        return [self.kubelet.run_options(uid, spec["name"]) for spec in specs]

    # --- the plugin ---------------------------------------------------------------------------------
    def env(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "GPUREADY_ROOT": str(self.container),
            "NVSIM_STATE": str(self.folder / "gpus.state"),
            "NVSIM_DEV": str(self.root / "dev"),
            "GPUREADY_RECORDS_DIR": "/run/gpuready/records",
            "GPUREADY_HEALTH_PORT": str(self._port),
            "GPUREADY_PROBE_S": "0.1",
            "GPUREADY_CLEAN_PROBES": "3",
            "GPUREADY_INVENTORY_S": "0.5",
            "POD_IP": "127.0.0.1",
            "NODE_NAME": "gpu-1",
            **more,
        }

    async def start(self, **env: str) -> None:
        command = [sys.executable, "-m", "gpuready.cli", "device-plugin"]
        self.process = await asyncio.create_subprocess_exec(*command, env=self.env(**env))

    async def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        async with asyncio.timeout(6):
            return await self.process.wait()

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def end(self) -> None:
        if self.process is not None and self.process.returncode is None:
            await self.kill()
        await self.kubelet.stop()

    # --- waiting ------------------------------------------------------------------------------------
    def record(self) -> dict[str, Any]:
        try:
            row: dict[str, Any] = json.loads(
                (self.root / "run/gpuready/records/device-plugin.json").read_bytes()
            )
        except (OSError, ValueError):
            return {}
        return row

    def write_desired(self, config: Mapping[str, Any] | None, **row: Any) -> None:
        path = self.root / "run/gpuready/desired/device-plugin.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"operand": "device-plugin", "bootId": self.boot_id, "config": config, "error": None, **row}
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content))
        temporary.rename(path)

    def open_gate(self, boot: str = "") -> None:
        """As the node agent does for a host driver."""
        folder = self.root / "run/nvidia/validations"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "driver-ready.json").write_text(json.dumps({"bootId": boot or self.boot_id}))
        (folder / "driver-ready").write_text("IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\nNVIDIA_DEV_ROOT=/\n")

    async def until(self, condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> float:
        """Seconds until `condition` held; looked at whenever the kubelet's lists change, and often."""
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > deadline_s:
                raise AssertionError(
                    f"did not happen in {deadline_s} s; record: {json.dumps(self.record(), indent=1)}"
                )
            self._changed.clear()
            try:
                async with asyncio.timeout(0.02):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return time.monotonic() - start

    async def until_allocatable(self, count: int, resource: str = "nvidia.com/gpu") -> float:
        return await self.until(lambda: self.kubelet.allocatable().get(resource) == count)

    async def until_reason(self, reason: str) -> float:
        return await self.until(lambda: (self.record().get("problem") or {}).get("reason") == reason)

    async def until_no_problem(self) -> float:
        return await self.until(lambda: bool(self.record()) and self.record()["problem"] is None)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
