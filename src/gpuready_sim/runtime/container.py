"""One container: its root, its process, its log.

`Runtime.create` does what containerd does for CreateContainer, `Container.start` what it does for
StartContainer; both raise with containerd's and runc's words. The process runs under `_native/launch`, so
that nothing of it outlives the simulator.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gpuready_sim
from gpuready_sim.runtime import cdi, cdi_edits
from gpuready_sim.runtime.errors import CreateError, StartError
from gpuready_sim.runtime.images import AVAILABLE, find_builtin, image_name, program_of
from gpuready_sim.runtime.logs import Log
from gpuready_sim.runtime.probe_scripts import find_script
from gpuready_sim.runtime.roots import ContainerRoot, Mount

LAUNCH = Path(gpuready_sim.__file__).parent / "_native" / "launch"
KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True)
class DeviceNode:
    """A device that the plugin named without CDI."""

    container_path: str
    host_path: str


@dataclass(frozen=True)
class ContainerConfig:
    """All that CRI CreateContainer says about one container."""

    name: str
    image: str
    command: Sequence[str]
    args: Sequence[str]
    env: Mapping[str, str]
    log_path: Path
    mounts: Sequence[Mount] = ()
    host_mounts: Mapping[str, str] = field(default_factory=dict)  # container path -> host path, from plugins
    devices: Sequence[DeviceNode] = ()
    cdi_devices: Sequence[str] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    privileged: bool = False
    cgroup_parent: str = ""  # the pod's, as the kubelet names it


class Runtime:
    """The container runtime of the node whose directory (root/, gpus.state, containers/) is given."""

    def __init__(self, node_dir: Path) -> None:
        self.node_dir = node_dir.absolute()
        self.node_root = self.node_dir / "root"

    async def create(self, config: ContainerConfig) -> Container:
        """Build the root with everything injected; raises CreateError or, for what runc finds, StartError."""
        container_id = uuid.uuid4().hex * 2
        directory = self.node_dir / "containers" / container_id[:12]
        root = ContainerRoot(directory / "root", self.node_root)
        try:
            return await asyncio.to_thread(self._create, config, container_id, root)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _create(self, config: ContainerConfig, container_id: str, root: ContainerRoot) -> Container:
        program = program_of(config.image, config.command, config.args)
        edits = self._cdi_edits(config)
        root.build(config.mounts, privileged=config.privileged)
        for device in config.devices:
            _inject_device(device, root)
        for container_path, host_path in config.host_mounts.items():
            root.mount_file(container_path, _made(root.host_path(host_path)))
        cdi_edits.inject_device_nodes(edits, root)
        cdi_edits.inject_mounts(edits, root)
        cdi_edits.run_create_hooks(edits, root, container_id)
        env = {**config.env, **cdi_edits.variables(edits)}
        return Container(
            container_id,
            config,
            root,
            program.argv,
            self._process_env(config, root, env),
            program.needs,
            _launch(config, container_id, self.node_root),
        )

    def _cdi_edits(self, config: ContainerConfig) -> list[cdi.Json]:
        """CRI's own list of devices first, then the annotations."""
        try:
            annotated = cdi.names_in_annotations(config.annotations)
            names = cdi.unique([*config.cdi_devices, *annotated])
            return cdi.load(self.node_root).edits_of(names) if names else []
        except cdi.CdiError as exc:
            raise CreateError(
                f"failed to create containerd container: CDI device injection failed: {exc}"
            ) from exc

    def _process_env(
        self, config: ContainerConfig, root: ContainerRoot, env: Mapping[str, str]
    ) -> dict[str, str]:
        base = str(root.path)
        process = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": f"{base}/tmp",
            "TMPDIR": f"{base}/tmp",
            "PYTHONUNBUFFERED": "1",
            "HOSTNAME": config.name,
            **{name: os.environ[name] for name in ("PYTHONPATH", "LANG", "LC_ALL") if name in os.environ},
            **env,
            "GPUREADY_ROOT": base,
            "LD_LIBRARY_PATH": f"{base}/usr/lib/x86_64-linux-gnu:{base}/usr/lib64",
            "NVSIM_STATE": str(self.node_dir / "gpus.state"),
            "NVSIM_DEV": f"{base}/dev",
        }
        if image_name(config.image) == "driver":
            process["NVSIM_NODE_DIR"] = str(self.node_dir)
        return process


def _made(source: Path) -> Path:
    """containerd makes a directory where nothing is; a simulated machine's /dev has its GPUs only."""
    if not source.exists() and source.parent.name != "dev":
        source.mkdir(parents=True)
    return source


class Container:
    """A created container; `exit_code` is None until its process has ended."""

    def __init__(
        self,
        container_id: str,
        config: ContainerConfig,
        root: ContainerRoot,
        argv: Sequence[str],
        env: Mapping[str, str],
        needs: str,
        launch: Sequence[str],
    ) -> None:
        self.id = container_id
        self.config = config
        self.root = root
        self.exit_code: int | None = None
        self.started_at = 0.0
        self.finished_at = 0.0
        self.log = Log(config.log_path)
        self._argv = argv
        self._env = dict(env)
        self._needs = needs
        self._launch = launch
        self._process: asyncio.subprocess.Process | None = None
        self._ended = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; raises StartError when its program is not in the container."""
        if self._needs and not self.root.inside(self._needs).exists():
            raise StartError(_not_found(Path(self._needs).name))
        if not LAUNCH.exists():
            raise StartError(f"{LAUNCH} is missing: build the C parts first (make setup)")
        self._process = await asyncio.create_subprocess_exec(
            *self._launch,
            *self._argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._env,
            cwd=self.root.path,
        )
        self.started_at = time.time()
        self._watcher = asyncio.create_task(self._watch(self._process))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self.exit_code is None

    async def wait(self) -> int:
        """The exit code (128 + signal), once the process has ended."""
        await self._ended.wait()
        assert self.exit_code is not None
        return self.exit_code

    def terminate(self) -> None:
        """SIGTERM."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the program and all it started."""
        if not self.is_running or self._process is None:
            return
        for child in _children_of(self._process.pid):
            _send(child, signal.SIGKILL)

    async def stop(self, grace_s: float) -> int:
        """TERM, then KILL when the grace period is over; returns the exit code."""
        if not self.is_running:
            return self.exit_code if self.exit_code is not None else KILLED
        self.terminate()
        try:
            async with asyncio.timeout(max(grace_s, 0.01)):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    async def exec(self, command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        """Run one of the known commands inside: (exit code, output); raises TimeoutError.

        Unknown ones answer 126 with the list of what there is.
        """
        script = find_script(command, self.root)
        if script is not None:
            return await asyncio.wait_for(script(self._run_inside), timeout_s)
        program = find_builtin(command)
        if program is None:
            return 126, f"exec {list(command)} is not known here; {AVAILABLE}"
        if program.needs and not self.root.inside(program.needs).exists():
            return 127, _not_found(command[0])
        return await self._run_inside(program.argv, timeout_s)

    async def remove(self) -> None:
        """Forget its root; the log stays."""
        await asyncio.to_thread(shutil.rmtree, self.root.path.parent, True)

    async def _run_inside(
        self, argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *self._launch,
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**self._env, **(env or {})},
            cwd=self.root.path,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), timeout_s)
        except (TimeoutError, asyncio.CancelledError):
            for child in _children_of(process.pid):
                _send(child, signal.SIGKILL)
            await process.wait()
            raise
        return process.returncode or 0, output.decode(errors="replace")

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        await self.log.copy_from(process.stdout)
        code = await process.wait()
        self.finished_at = time.time()
        self.exit_code = code if code >= 0 else 128 - code
        self._ended.set()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            _send(self._process.pid, number)


def _launch(config: ContainerConfig, container_id: str, node_root: Path) -> tuple[str, ...]:
    """The words before a program of this container; its processes are in the container's cgroup."""
    if not config.cgroup_parent:
        return str(LAUNCH), "--"
    cgroup = f"{config.cgroup_parent}/cri-containerd-{container_id}.scope"
    return str(LAUNCH), "--cgroup", cgroup, "--proc", str(node_root / "proc"), "--"


def _inject_device(device: DeviceNode, root: ContainerRoot) -> None:
    host = root.host_path(device.host_path)
    if not os.path.lexists(host):
        raise CreateError(
            f"failed to generate container spec: failed to generate spec: lstat {device.host_path}: "
            "no such file or directory"
        )
    root.mount_file(device.container_path, host)


def _children_of(pid: int) -> list[int]:
    """The program under a launch process; launch itself when that cannot be seen."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        listed = []
    return [int(child) for child in listed] or [pid]


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _not_found(name: str) -> str:
    return (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        "runc create failed: unable to start container process: error during container init: "
        f'exec: "{name}": executable file not found in $PATH: unknown'
    )
