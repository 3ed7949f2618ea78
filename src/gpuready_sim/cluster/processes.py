"""Child processes of the supervisor; none outlives it.

`_native/launch` is the parent of each: it ends its whole tree when the supervisor ends, however that
happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuready_sim.errors import SimulatorError
from gpuready_sim.hardware.driver_tree import native_dir
from gpuready_sim.nvml.build import BuildError

LAUNCH = Path(__file__).parents[1] / "_native" / "launch"
STOP_S = 5.0
_STACK = 60  # lines of a Go program that dies


class ProcessError(SimulatorError):
    """A child process could not be started, or ended when it should not."""


def ensure_native() -> None:
    """The C parts are there and as new as their sources; compiles them where they are not."""
    try:
        native_dir()
    except BuildError as exc:
        raise ProcessError(
            "the simulator's C parts are not built",
            why=str(exc),
            next_step="install a C compiler (cc), then run `make setup` or try again",
        ) from exc
    except OSError as exc:
        raise ProcessError(
            "the simulator's C parts are older than their sources, and cannot be built here",
            why=str(exc),
            next_step="let the owner of that directory run `make setup`",
        ) from exc


class Child:
    """A named child process with a log file."""

    def __init__(
        self, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._argv = list(argv)
        self._log = log
        self._env = {**os.environ, **(env or {})}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        argv = [str(LAUNCH), "--log", str(self._log), "--grace", f"{STOP_S:g}", "--", *self._argv]
        self._process = await asyncio.create_subprocess_exec(
            *argv, env=self._env, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL by the launcher."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_S + 2)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def kill(self) -> None:
        """Gone at once, with all that it started: the launcher ends its tree on SIGRTMIN."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGRTMIN)
            await self._process.wait()

    def last_lines(self, count: int = 5) -> str:
        """Why it ended, or else the end of its log, for an error message."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return last_words(lines[-_STACK:]) or " | ".join(lines[-count:])


def last_words(lines: Sequence[str]) -> str:
    """What a Go program says before the stack that it dies with; "" for one that says nothing of the kind."""
    entries = [_entry(line) for line in lines]
    for said in reversed(entries):
        if said.get("level") in ("panic", "fatal"):
            return ": ".join(str(said[key]) for key in ("msg", "error") if key in said)
    return next((line for line in reversed(lines) if line.startswith("panic: ")), "")


def _entry(line: str) -> dict[str, object]:
    try:
        found = json.loads(line) if line.startswith("{") else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
