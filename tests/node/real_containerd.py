"""Real containerds of several versions, each with a directory, a socket and a supervisor of its own.

A program is looked for below ~/.cache/gpuready/containerd/<release> (filled by `make containerd`), and the
newest in the cache of `make kubernetes`. Needs root: containerd does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpuready.node.cri import RuntimeAnswer, RuntimeSilent, ask
from gpuready_sim.kubernetes import assets

RELEASES = ("1.6", "1.7", "2.0", "2.2", "2.3")
_START_S = 40


def program_of(release: str) -> Path:
    """Skips the test where this release is not on the machine."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpuready" / "containerd"
    found = base / release / "containerd"
    if os.access(found, os.X_OK):
        return found
    built = assets.find("containerd")
    if built and built.version().removeprefix("v").startswith(f"{release}."):
        return built.path
    pytest.skip(
        f"containerd {release} is not on this machine: run `make containerd` (Debian) or `make kubernetes`"
    )


def dump(program: Path, config: Path) -> dict[str, Any]:
    """What it makes of its files; raises CalledProcessError where it would not start.

    `dump` of 2.0 leaves files of version 2 as they are: its `migrate` prints what the daemon runs with.
    """
    word = "migrate" if program.parent.name in ("2.0", "2.1") else "dump"
    done = subprocess.run(
        [program, "--config", config, "config", word], capture_output=True, check=True, timeout=60
    )
    return tomllib.loads(done.stdout.decode())


class RealContainerd:
    """Runs with the configuration at `config`, and is started again whenever it ends, as by systemd."""

    def __init__(self, release: str, folder: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("containerd needs root")
        self.release, self.folder = release, folder
        self.program = program_of(release)
        self.config = folder / "etc" / "config.toml"
        self.conf_d = folder / "etc" / "conf.d"
        self.socket = folder / "run.sock"
        self.starts = 0
        self.conf_d.mkdir(parents=True)
        self._child: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def basics(self, version: int) -> str:
        """What every configuration here needs: places of its own, and nothing of the machine's."""
        return (
            f"version = {version}\n"
            f'root = "{self.folder}/root"\nstate = "{self.folder}/state"\n'
            f'imports = ["{self.conf_d}/*.toml"]\n'
            f'[grpc]\n  address = "{self.socket}"\n'
        )

    def start(self) -> None:
        self._supervisor.start()
        self.wait()

    def wait(self) -> RuntimeAnswer:
        return asyncio.run(self._wait())

    async def _wait(self) -> RuntimeAnswer:
        async with asyncio.timeout(_START_S):
            while True:
                try:
                    return await ask(self.socket)
                except RuntimeSilent:
                    await asyncio.sleep(0.05)

    def ask(self) -> RuntimeAnswer:
        return asyncio.run(ask(self.socket))

    def dump(self) -> dict[str, Any]:
        return dump(self.program, self.config)

    def stop(self) -> None:
        self._ended.set()
        if self._child is not None:
            self._child.terminate()
        if self._supervisor.is_alive():
            self._supervisor.join(20)

    def _supervise(self) -> None:
        with (self.folder / "log").open("ab") as log:
            while not self._ended.is_set():
                argv = [self.program, "--config", self.config]
                self._child = subprocess.Popen(argv, stdout=log, stderr=log)
                self.starts += 1
                self._child.wait()
                self._ended.wait(0.1)
