"""A real node: containerd and kubelet in a view of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from gpuready_sim.client import NODES, SimClient
from gpuready_sim.cluster.places import AddressRange, claim_addresses, free_port
from gpuready_sim.cluster.processes import Child, ProcessError, ensure_native
from gpuready_sim.hardware import machine
from gpuready_sim.kubernetes import assets
from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane
from gpuready_sim.kubernetes.node import images, leftovers, requirements, settings, view
from gpuready_sim.kubernetes.node.api_gateway import SERVICE_ADDRESS, ApiGateway
from gpuready_sim.kubernetes.node.images import Image
from gpuready_sim.kubernetes.node.settings import NodeSettings

START_S = 120.0
_POLL_S = 0.05
# Ended by a signal it is started anew; its containers' shims stay, being children of the same launcher.
_AGAIN = 'while "$@"; do :; done'
_NAMESPACE = "k8s.io"  # where containerd keeps what belongs to the kubelet


class RealNode:
    """One node of a real control plane. `directory` is its own; `spec` says which GPUs it has.

    driver        version of a driver that is installed and loaded on the host; "" = none
    pods_use_api  the node stands in for a service proxy: pods reach the API server at its service address.
                  One node of a machine at a time can
    raises        MissingRequirement when this machine cannot run one
    """

    def __init__(
        self,
        directory: Path,
        control_plane: KubernetesControlPlane,
        spec: machine.MachineSpec,
        *,
        driver: str = "",
        labels: Mapping[str, str] | None = None,
        pods_use_api: bool = False,
    ) -> None:
        requirements.require()
        self.name = spec.name
        self.directory = directory
        self._spec = spec
        self._driver = driver
        self._labels = labels or {}
        self._control_plane = control_plane
        self._programs = assets.require(assets.NODE)
        self._claim: AddressRange | None = None
        self._view: Child | None = None
        self._view_pid = 0
        self._containerd: Child | None = None
        self._kubelet: Child | None = None
        self._settings: NodeSettings | None = None
        self._gateway = ApiGateway(control_plane.port) if pods_use_api else None
        self.address = ""

    # --- places -----------------------------------------------------------------------------------------
    def path(self, path: str) -> Path:
        """A path on the node, as it can be opened from outside."""
        return Path(f"/proc/{self._view_pid}/root", path.lstrip("/"))

    @property
    def plugin_dir(self) -> Path:
        return self.directory / view.KUBELET_DIR / "device-plugins"

    @property
    def pod_resources_dir(self) -> Path:
        return self.directory / view.KUBELET_DIR / "pod-resources"

    def log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    # --- life -------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Returns when the Node is Ready; what was started is stopped again when that fails."""
        ensure_native()
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "logs").mkdir(exist_ok=True)
        self._claim = claim_addresses(f"real-{self.name}")
        self.address = f"198.18.{self._claim.octet}.1"
        try:
            if self._gateway is not None:
                await self._gateway.start()
            await asyncio.to_thread(self._build_machine)
            await self._open_view()
            self._settings = self._new_settings()
            await self._start_containerd()
            for image in images.busybox_images(_busybox()):
                await self.load(image)
            await self._start_kubelet()
            await self._wait("the Node", self._is_ready)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Nothing is left but the logs: what asks ends before what is asked, the view last."""
        for child in (self._kubelet, self._containerd, self._view):
            if child is not None:
                await child.stop()
        self._kubelet = self._containerd = self._view = None
        if self._gateway is not None:
            await self._gateway.stop()
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    async def restart_kubelet(self) -> None:
        """As `systemctl restart kubelet`: containers run on. Returns when it serves its sockets again."""
        await self.stop_kubelet()
        await self.start_kubelet()

    async def stop_kubelet(self) -> None:
        assert self._kubelet is not None
        await self._kubelet.stop()

    async def start_kubelet(self) -> None:
        assert self._kubelet is not None
        socket = self.plugin_dir / "kubelet.sock"
        socket.unlink(missing_ok=True)
        await self._kubelet.start()
        await self._wait("the kubelet", lambda: _exists(socket))

    async def restart_containerd(self) -> None:
        """As `systemctl restart containerd`: containers run on. Returns when it answers again."""
        before = self._containerds()
        for pid in before:
            os.kill(pid, signal.SIGTERM)
        await self._wait("another containerd", lambda: self._is_another(before))
        await self._wait("containerd", self._answers)

    def _containerds(self) -> set[int]:
        program = self._program("containerd")
        return {pid for pid in self.pids(program) if _words_of(pid)[:1] == [program]}

    async def _is_another(self, before: set[int]) -> bool:
        return bool(self._containerds() - before)

    async def _answers(self) -> bool:
        try:
            await self._run([self._program("ctr"), "--address", settings.CONTAINERD_SOCKET, "version"])
        except ProcessError:
            return False
        return True

    def pids(self, word: str) -> list[int]:
        """Processes on this node's host or in its pods that have this word on their command line."""
        found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [pid for pid in found if word in _words_of(pid) and self._is_here(pid)]

    def _is_here(self, pid: int) -> bool:
        assert self._settings is not None
        try:
            if f"/{self._settings.cgroup}/" in Path(f"/proc/{pid}/cgroup").read_text():
                return True
            return os.path.samestat(os.stat(f"/proc/{pid}/ns/mnt"), os.stat(f"/proc/{self._view_pid}/ns/mnt"))
        except OSError:
            return False  # it has ended

    def _build_machine(self) -> None:
        root = self.directory / "root"
        root.mkdir(exist_ok=True)
        if not (root / "lib").is_symlink():
            (root / "lib").symlink_to("usr/lib")  # as on the machine it is laid over
        machine.build_node_root(self.directory, self._spec)
        if self._driver:
            machine.install_driver(root, self._driver)
            machine.load_driver(self.directory, self._driver)

    def _new_settings(self) -> NodeSettings:
        assert self._claim is not None
        files = self._control_plane.node_files(self.name, self.address, self.directory)
        return NodeSettings(
            name=self.name,
            directory=self.directory,
            address=self.address,
            port=free_port(),
            pod_network=f"198.19.{self._claim.octet}.0/24",
            cgroup=f"{leftovers.PREFIX}{self._view_pid}",
            runtime=requirements.runtime(),
            cni_plugins=requirements.CNI_PLUGINS,
            authority=files.authority,
            certificate=files.certificate,
            key=files.key,
            kubeconfig=files.kubeconfig,
            labels=self._labels,
        )

    # --- its processes ----------------------------------------------------------------------------------
    async def _open_view(self) -> None:
        argv = ["unshare", "--mount", "--propagation", "private", "--"]
        addresses = [self.address, *([SERVICE_ADDRESS] if self._gateway else [])]
        argv += [sys.executable, "-m", view.__name__, str(self.directory), *addresses]
        self._view = Child("view", argv, log=self.log("view"))
        ready = self.directory / view.PID_FILE
        await self._view.start()
        await self._wait("its view of the machine", lambda: _exists(ready))
        self._view_pid = int(ready.read_text())

    async def _start_containerd(self) -> None:
        assert self._settings is not None
        config = self.directory / "containerd.toml"
        config.write_text(settings.containerd(self._settings))
        conflist = self.path("/etc/cni/net.d/10-gpuready-sim.conflist")
        conflist.parent.mkdir(parents=True, exist_ok=True)
        conflist.write_text(settings.network(self._settings))
        argv = [self._program("containerd"), "--config", str(config)]
        self._containerd = self._inside("containerd", ["sh", "-c", _AGAIN, "sh", *argv])
        await self._containerd.start()
        await self._wait("containerd", lambda: _exists(self.path(settings.CONTAINERD_SOCKET)))

    async def _start_kubelet(self) -> None:
        assert self._settings is not None
        config = self.directory / "kubelet.yaml"
        config.write_text(settings.kubelet(self._settings))
        options = settings.kubelet_options(self._settings, config)
        self._kubelet = self._inside("kubelet", [self._program("kubelet"), *options])
        await self.start_kubelet()

    def _inside(self, name: str, argv: Sequence[str]) -> Child:
        return Child(name, [*self._enter(), *argv], log=self.log(name))

    def _enter(self) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self._view_pid}/ns/mnt", "--"]

    def _program(self, name: str) -> str:
        return str(self._programs[name].path)

    # --- images -----------------------------------------------------------------------------------------
    async def load(self, image: Image) -> None:
        """Make an image and hand it to containerd."""
        archive = self.directory / "image.tar"
        await asyncio.to_thread(images.write_archive, archive, image)
        try:
            argv = [self._program("ctr"), "--address", settings.CONTAINERD_SOCKET, "--namespace", _NAMESPACE]
            await self._run([*argv, "images", "import", "--local", str(archive)])
        finally:
            archive.unlink(missing_ok=True)

    async def _run(self, argv: Sequence[str]) -> str:
        """A command on the node; its output. raises ProcessError"""
        process = await asyncio.create_subprocess_exec(
            *self._enter(), *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        out, _ = await process.communicate()
        if process.returncode != 0:
            raise ProcessError(f"`{' '.join(argv)}` failed on {self.name}", why=out.decode(errors="replace"))
        return out.decode(errors="replace")

    # --- waiting ----------------------------------------------------------------------------------------
    async def _wait(self, what: str, is_there: Callable[[], Awaitable[bool]]) -> None:
        """raises ProcessError when a process of the node ended or the time is over"""
        deadline = time.monotonic() + START_S
        while not await is_there():
            children = [child for child in (self._view, self._containerd, self._kubelet) if child is not None]
            ended = next((child for child in children if child.pid is None), None)
            if ended is not None:
                raise ProcessError(f"{ended.name} of {self.name} ended at its start", why=ended.last_lines())
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{what} of {self.name} was not there within {START_S:g} s",
                    why=" | ".join(child.last_lines(2) for child in children),
                    next_step=f"see {self.directory / 'logs'}",
                )
            await asyncio.sleep(_POLL_S)

    async def _is_ready(self) -> bool:
        async with SimClient(self._control_plane.access, timeout_s=5) as client:
            node = await client.find(NODES, self.name)
        conditions = ((node or {}).get("status") or {}).get("conditions") or []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _words_of(pid: int) -> list[str]:
    """[] for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


async def _exists(path: Path) -> bool:
    return path.exists()


def _busybox() -> Path:
    found = shutil.which(requirements.BUSYBOX)
    assert found is not None
    return Path(found)
