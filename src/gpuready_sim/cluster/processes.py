"""Child processes of the supervisor; none outlives it.

`_native/launch` is the parent of each: it ends its whole tree when the supervisor ends, however that
happened.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuready_sim.errors import SimulatorError

LAUNCH = Path(__file__).parents[1] / "_native" / "launch"
STOP_S = 5.0


class ProcessError(SimulatorError):
    """A child process could not be started, or ended when it should not."""


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
        if not LAUNCH.exists():
            raise ProcessError(
                "the simulator's C parts are not built",
                why=f"{LAUNCH} is missing",
                next_step="run `make setup`, or reinstall gpuready[sim] where a C compiler is",
            )
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

    def last_lines(self, count: int = 5) -> str:
        """The end of its log, for an error message."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return " | ".join(lines[-count:])
