"""A real node leaves nothing behind, however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuready_sim.client import PODS, SimClient
from gpuready_sim.cluster.processes import ensure_native
from gpuready_sim.kubernetes.node import requirements
from gpuready_sim.kubernetes.node.images import BUSYBOX_IMAGE
from gpuready_sim.kubernetes.node.leftovers import PREFIX
from gpuready_sim.kubernetes.node.view import CONTAINERD_DIR, KUBELET_DIR, PID_FILE, VIEW_DIR

REPOSITORY = Path(__file__).parents[2]
DEADLINE_S = 60
UNLIKE = {"vm/overcommit_memory": "0\n", "net/ipv4/ip_forward": "0\n"}
pytestmark = pytest.mark.timeout(300)


class Served:
    """A process of its own that runs a node on which a pod runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.serve", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, f"the node did not start: see {directory}"
        asyncio.run(self._run_a_pod())
        self.view = int((directory / "node" / PID_FILE).read_text())
        self._namespace = os.stat(f"/proc/{self.view}/ns/mnt").st_ino

    async def _run_a_pod(self) -> None:
        main = {"name": "main", "image": BUSYBOX_IMAGE, "command": ["sleep", "infinity"]}
        spec = {"nodeName": "node-1", "containers": [main], "automountServiceAccountToken": False}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": "default"}}
        async with SimClient.from_kubeconfig(self.directory / "cluster/kubeconfig") as client:
            await client.create(PODS, pod | {"spec": spec})
            async with asyncio.timeout(DEADLINE_S):
                while (await client.get(PODS, "pod", "default"))["status"].get("phase") != "Running":
                    await asyncio.sleep(0.2)

    def left(self) -> list[str]:
        """What is still there of the node."""
        node = self.directory / "node"
        name = f"{PREFIX}{self.view}"
        # os.walk, unlike glob, goes on where a directory has gone meanwhile
        found = [f"{place}/{name}" for place, below, _ in os.walk("/sys/fs/cgroup") if name in below]
        found += [
            name for name in (KUBELET_DIR, CONTAINERD_DIR, VIEW_DIR, PID_FILE) if (node / name).exists()
        ]
        mark = str(self.directory).encode()
        found += [f"process {pid}" for pid in _processes() if mark in _command(pid)]
        addresses = subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout
        found += [self.address] if f" {self.address}/" in addresses else []
        found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(node) in line]
        return found

    def living(self) -> list[str]:
        """Processes in the node's view; its number is another view's later."""
        return [f"process {pid}" for pid in _processes() if _namespace_of(pid) == self._namespace]

    def until_nothing_is_left(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while left := self.left() + self.living():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


def _processes() -> Iterator[str]:
    return (entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _namespace_of(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return 0


def _command(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def settings() -> Iterator[dict[Path, str]]:
    """What a kubelet and its network would change, set otherwise than they want it."""
    found = {Path("/proc/sys", name): value for name, value in UNLIKE.items()}
    before = {path: path.read_text() for path in found}
    for path, value in found.items():
        path.write_text(value)
    yield found
    for path, value in before.items():
        path.write_text(value)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    try:
        requirements.require()
    except requirements.MissingRequirement as exc:
        pytest.skip(str(exc))
    ensure_native()
    made = Served(tmp_path / "one")
    yield made
    made.process.kill()
    made.process.wait()


def test_a_node_does_not_change_how_the_kernel_of_the_machine_is_set(
    settings: dict[Path, str], served: Served
) -> None:
    assert served.process.poll() is None
    assert {path: path.read_text() for path in settings} == settings


def test_a_node_that_is_stopped_leaves_nothing(served: Served) -> None:
    assert any(text.startswith("/sys/fs/cgroup") for text in served.left())
    assert len(served.living()) >= 4  # view, containerd, shim, kubelet
    assert served.process.stdin is not None
    served.process.stdin.close()
    assert served.process.wait(DEADLINE_S) == 0
    assert served.left() + served.living() == []


def test_a_node_whose_owner_is_killed_leaves_nothing(served: Served) -> None:
    served.process.send_signal(signal.SIGKILL)
    served.process.wait()
    served.until_nothing_is_left()


def test_a_node_whose_view_is_killed_too_is_swept_away_by_the_next(served: Served, tmp_path: Path) -> None:
    """Nobody is left then who could take cgroups and address away at once."""
    os.kill(served.view, signal.SIGKILL)
    served.process.send_signal(signal.SIGKILL)
    served.process.wait()
    other = Served(tmp_path / "other")
    try:
        left = served.left()
        assert [text for text in left if text.startswith(("/sys/fs/cgroup", "process"))] == []
        assert served.address not in left or served.address == other.address
    finally:
        assert other.process.stdin is not None
        other.process.stdin.close()
        other.process.wait()
