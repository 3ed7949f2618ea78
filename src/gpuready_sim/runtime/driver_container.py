"""The driver container: `driver_container VERSION` loads the simulated module and shows its root to the host.

    takes the lock        /run/nvidia/nvidia-driver.pid
    loads the module      or finds it loaded with the same DRIVER_CONFIG_DIGEST and keeps it
    shows its root        /run/nvidia/driver
    remembers             /run/nvidia/nvidia-driver.state
    waits for TERM        then unloads; while the driver is in use it stays

Source: the order of the original driver container's `nvidia-driver init`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gpuready_sim.errors import DriverInUseError, SimulatorError
from gpuready_sim.hardware import machine

RETRY_UNLOAD_S = 1.0


class DriverContainer:
    """One run of the container on the machine at `node_dir`."""

    def __init__(self, node_dir: Path, version: str, digest: str) -> None:
        self._node_dir = node_dir
        self._version = version
        self._digest = digest
        self._run = node_dir / "root/run/nvidia"
        self._driver_root = self._run / "driver"
        self._state_file = self._run / "nvidia-driver.state"
        self._daemons_status = self._run / "validations/.driver-daemons-status"
        self._lock: int | None = None

    def init(self) -> None:
        """Everything up to the wait; raises SystemExit with the text for the log."""
        self._take_lock()
        self._say_daemons("NotReady")
        if not self._has_gpu():
            raise SystemExit("No NVIDIA GPU found on the PCI bus of this node: nothing to load a driver for")
        if self._is_same_driver():
            say("NVIDIA driver is already loaded with the same configuration, skipping the kernel modules")
            self._show_root()
        else:
            self._unload_old()
            say(f"Loading NVIDIA driver kernel modules {self._version}...")
            machine.load_driver(self._node_dir, self._version)
            self._show_root()
        self._state_file.write_text(self._digest)
        self._say_daemons("Ready")
        say("Done, now waiting for signal")

    def shut_down(self) -> bool:
        """Unload and hide the root; False while the driver is in use."""
        try:
            machine.unload_driver(self._node_dir)
        except DriverInUseError as exc:
            say(f"Could not unload NVIDIA driver kernel modules, driver is in use: {exc}")
            return False
        self._hide_root()
        (self._run / "nvidia-driver.pid").unlink(missing_ok=True)
        return True

    def _take_lock(self) -> None:
        self._run.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._run / "nvidia-driver.pid", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit("An instance of the NVIDIA driver is already running, aborting") from None
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def _has_gpu(self) -> bool:
        with machine.gpu_state(self._node_dir) as state:
            return bool(state.gpus())

    def _is_same_driver(self) -> bool:
        if machine.loaded_version(self._node_dir) != self._version or not self._digest:
            return False
        return self._state_file.exists() and self._state_file.read_text() == self._digest

    def _unload_old(self) -> None:
        loaded = machine.loaded_version(self._node_dir)
        if loaded is None:
            return
        say(f"Unloading NVIDIA driver kernel modules {loaded}...")
        try:
            machine.unload_driver(self._node_dir)
        except DriverInUseError as exc:
            raise SystemExit(
                f"Could not unload NVIDIA driver kernel modules, driver is in use: {exc}"
            ) from None

    def _show_root(self) -> None:
        """Readers see the new root's directories whole: they are made aside and renamed into place."""
        self._hide_root()
        fresh = self._run / ".driver.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        machine.install_driver(fresh, self._version)
        shutil.copytree(fresh / "lib", self._driver_root / "lib", dirs_exist_ok=True)
        shutil.rmtree(fresh / "lib")
        shutil.copy(self._node_dir / "root/etc/os-release", fresh / "etc/os-release")
        for entry in sorted(fresh.iterdir()):
            entry.rename(self._driver_root / entry.name)
        fresh.rmdir()

    def _hide_root(self) -> None:
        """Empty the directory but keep it and lib/firmware: other containers may have them mounted."""
        firmware = self._driver_root / "lib/firmware"
        firmware.mkdir(parents=True, exist_ok=True)
        for entry in self._driver_root.iterdir():
            if entry.name != "lib":
                _remove(entry)
        for entry in firmware.iterdir():
            _remove(entry)

    def _say_daemons(self, status: str) -> None:
        self._daemons_status.parent.mkdir(parents=True, exist_ok=True)
        self._daemons_status.write_text(status)


def main(argv: list[str], env: Mapping[str, str]) -> int:
    if len(argv) != 1 or not argv[0]:
        say("the driver image needs a tag that starts with the driver's version, like 570.86.10-ubuntu22.04")
        return 1
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    container = DriverContainer(Path(env["NVSIM_NODE_DIR"]), argv[0], env.get("DRIVER_CONFIG_DIGEST", ""))
    try:
        container.init()
    except (SimulatorError, SystemExit) as exc:
        say(str(exc))
        return 1
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    while not container.shut_down():
        time.sleep(RETRY_UNLOAD_S)
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
