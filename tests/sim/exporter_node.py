"""A simulated node with pods on its GPUs, and the real exporter as a process on it.

The kubelet here is its pod-resources socket alone: it lists whatever pods the test put there, in another
order each time, as the real one does.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.sim.operator_cluster import wait_http

from gpuready_sim.cluster.places import free_port
from gpuready_sim.hardware import driver_tree, machine, work
from gpuready_sim.hardware.state import GpuState
from gpuready_sim.hardware.work import Context
from gpuready_sim.kubelet.protos.podresources.v1 import api_grpc, api_pb2
from gpuready_sim.kubelet.sockets import Directory, UnixServer

VERSION = "570.86.10"
GPU = "nvidia.com/gpu"
DEADLINE_S = 60.0
_SOCKET_DIR = "var/lib/kubelet/pod-resources"
_MOUNTS = (_SOCKET_DIR, "run/nvidia", "run/gpuready", "dev", "proc", "var/log/pods")


@dataclass
class Pod:
    """`devices`: ids as the kubelet lists them, a replica's among them. `pid` 0: it runs nothing on a GPU."""

    name: str
    devices: tuple[str, ...]
    resource: str = GPU
    namespace: str = "default"
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    pid: int = 0


class ExporterNode:
    """`async with` it; the exporter runs from `start` on."""

    def __init__(self, folder: Path, gpus: int = 1, model: str = "H100-SXM5-80GB") -> None:
        self.folder = folder
        self.root = folder / "root"
        self.container = folder / "containers/exporter/root"
        machine.build_node_root(folder, machine.MachineSpec("gpu-1", ((model, gpus),)))
        driver_tree.install_driver(self.root, VERSION)
        machine.load_driver(folder, VERSION)
        for path in _MOUNTS:
            (self.root / path).mkdir(parents=True, exist_ok=True)
            (self.container / path).parent.mkdir(parents=True, exist_ok=True)
            (self.container / path).symlink_to(self.root / path)
        (self.container / "host").symlink_to(self.root)
        self.pods: list[Pod] = []
        self.answer: Any = None
        self.port, self._health_port = free_port(), free_port()
        self.exporter: asyncio.subprocess.Process | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._directory = Directory(self.root / _SOCKET_DIR)
        self._kubelet = UnixServer([_Lister(self)], self._directory, "kubelet.sock")

    async def __aenter__(self) -> Self:
        await self._kubelet.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._kubelet.close()
        self._directory.close()
        for process in self._processes:
            process.kill()
            process.wait()

    # --- the machine and its pods -----------------------------------------------------------------------
    def gpus(self) -> GpuState:
        return machine.gpu_state(self.folder)

    def take_out(self, index: int) -> Callable[[], None]:
        """Unbind a GPU from the driver; what is returned binds it again."""
        with self.gpus() as state:
            gpu = state.gpus()[index]
        places = [
            self.root / f"dev/nvidia{gpu.minor}",
            self.root / "proc/driver/nvidia/gpus" / gpu.pci_address,
        ]
        for place in places:
            place.rename(place.with_name(f".{place.name}"))

        def put_back() -> None:
            for place in places:
                place.with_name(f".{place.name}").rename(place)

        return put_back

    def uuids(self) -> list[str]:
        with self.gpus() as state:
            return [gpu.uuid for gpu in state.gpus()]

    def add(self, pod: Pod, *, on: int | None = None, mib: int = 500, instance: int | None = None) -> Pod:
        """A pod that holds devices; `on`: with a process on this GPU, so much memory in use."""
        (self.root / "var/log/pods" / f"{pod.namespace}_{pod.name}_{pod.uid}").mkdir(parents=True)
        if on is not None:
            process = subprocess.Popen(["/bin/sleep", "infinity"])
            self._processes.append(process)
            pod.pid = process.pid
            cgroup = self.root / f"proc/{pod.pid}/cgroup"
            cgroup.parent.mkdir()
            slice_name = f"kubepods-besteffort-pod{pod.uid.replace('-', '_')}.slice"
            cgroup.write_text(
                f"0::/kubepods.slice/kubepods-besteffort.slice/{slice_name}/cri-containerd-1.scope\n"
            )
            with self.gpus() as state:
                others = work.contexts(state, on)
                work.set_contexts(state, on, [*others, Context(pod.pid, mib, gpu_instance=instance)])
        self.pods.append(pod)
        return pod

    def remove(self, pod: Pod, *, on: int | None = None) -> None:
        """The pod, its process on that GPU, and what the kubelet kept of it."""
        self.pods.remove(pod)
        (self.root / "var/log/pods" / f"{pod.namespace}_{pod.name}_{pod.uid}").rmdir()
        if on is None:
            return
        with self.gpus() as state:
            work.set_contexts(state, on, [each for each in work.contexts(state, on) if each.pid != pod.pid])
        for process in [each for each in self._processes if each.pid == pod.pid]:
            process.kill()
            process.wait()
            self._processes.remove(process)
        (self.root / f"proc/{pod.pid}/cgroup").unlink()
        (self.root / f"proc/{pod.pid}").rmdir()

    def answers_alike(self) -> None:
        """What the kubelet would say now it says from now on, without the work of another order."""
        self.answer = api_pb2.ListPodResourcesResponse(pod_resources=map(_described, self.pods))

    # --- the exporter -----------------------------------------------------------------------------------
    def env(self, **more: str) -> dict[str, str]:
        return {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "GPUREADY_ROOT": str(self.container),
            "NVSIM_STATE": str(self.folder / "gpus.state"),
            "NVSIM_DEV": str(self.root / "dev"),
            "DCGM_EXPORTER_LISTEN": f"127.0.0.1:{self.port}",
            "DCGM_EXPORTER_KUBERNETES": "true",
            "DCGM_EXPORTER_INTERVAL": "1000",
            "GPUREADY_HEALTH_PORT": str(self._health_port),
            "POD_IP": "127.0.0.1",
            "NODE_NAME": "gpu-1",
            **more,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, **env: str) -> None:
        """Returns when its page is there."""
        command = [sys.executable, "-m", "gpuready.cli", "exporter"]
        self.exporter = await asyncio.create_subprocess_exec(*command, env=self.env(**env))
        await wait_http(f"{self.url}/metrics", timeout_s=DEADLINE_S)

    async def stop(self) -> None:
        if self.exporter is not None and self.exporter.returncode is None:
            self.exporter.terminate()
            async with asyncio.timeout(10):
                await self.exporter.wait()
        self.exporter = None


class _Lister(api_grpc.PodResourcesListerBase):
    def __init__(self, node: ExporterNode) -> None:
        self._node = node

    async def List(self, stream: Any) -> None:
        await stream.recv_message()
        if self._node.answer is not None:
            await stream.send_message(self._node.answer)
            return
        pods = [_described(pod) for pod in self._node.pods]
        random.shuffle(pods)
        await stream.send_message(api_pb2.ListPodResourcesResponse(pod_resources=pods))

    async def Get(self, stream: Any) -> None:
        raise NotImplementedError

    async def GetAllocatableResources(self, stream: Any) -> None:
        await stream.recv_message()
        await stream.send_message(api_pb2.AllocatableResourcesResponse())


def _described(pod: Pod) -> Any:
    devices = [
        api_pb2.ContainerDevices(resource_name=pod.resource, device_ids=[each]) for each in pod.devices
    ]
    container = api_pb2.ContainerResources(name="c0", devices=devices)
    return api_pb2.PodResources(name=pod.name, namespace=pod.namespace, containers=[container])
