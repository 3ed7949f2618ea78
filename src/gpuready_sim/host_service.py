"""A service of a simulated machine under its service manager: started, and again when its unit says so.

Programs of the machine reach the manager through `/usr/bin/systemctl`, which knows `restart` and `reload`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from gpuready_sim.parent import named_parent

RESTART_S = 0.2  # RestartSec of a unit is 5 or 10
_START_S = 20.0
_POLL_S = 0.02
_SYSTEMCTL = """\
#!/bin/sh
# systemctl restart|reload UNIT
run='{run}' unit="${{2%.service}}"
pid=$(cat "$run/$unit.pid" 2>/dev/null) || {{ echo "Unit $2 not found." >&2; exit 5; }}
case $1 in
reload) exec kill -HUP "$pid" ;;
restart) ;;
*) echo "Unknown command verb $1." >&2; exit 1 ;;
esac
: > "$run/$unit.restart"
kill -TERM "$pid" 2>/dev/null
while [ -e "$run/$unit.restart" ]; do sleep 0.05; done
[ ! -e "$run/$unit.failed" ] && exit 0
echo "Job for $unit.service failed because the control process exited with error code." >&2
exit 1
"""


class HostService:
    """One unit of one machine. `starts`: how often it was started.

    argv    what its unit starts
    socket  below the machine's root: once it is there, the service is
    always  Restart=always; False = on-failure: one that ends in order stays down until somebody starts it
    """

    def __init__(self, node_root: Path, unit: str, argv: Sequence[str], socket: str, *, always: bool) -> None:
        self.node_root, self._unit, self._argv, self._always = node_root, unit, list(argv), always
        self._socket = node_root / socket
        self._task: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self.starts = 0

    def install_manager(self) -> None:
        install_program(self.node_root / "usr/bin/systemctl", _SYSTEMCTL.format(run=self.node_root / "run"))

    async def start(self) -> None:
        """Returns once its socket is there."""
        self._socket.unlink(missing_ok=True)  # of one that was killed
        self._task = asyncio.create_task(self._keep())
        async with asyncio.timeout(_START_S):
            while not self._socket.exists():
                await asyncio.sleep(_POLL_S)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def wait_ended(self) -> None:
        """Until the process that runs now has ended."""
        if self._child is not None:
            await self._child.wait()

    async def _keep(self) -> None:
        try:
            while True:
                code = await self._live()
                if not self._is_asked():
                    await self._until_due(code)
        finally:
            if self._child is not None and self._child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._child.kill()
                await self._child.wait()

    async def _live(self) -> int:
        """One process, from its start to its end."""
        self._socket.unlink(missing_ok=True)
        self.starts += 1
        self._child = await asyncio.create_subprocess_exec(
            *self._argv, stdin=asyncio.subprocess.DEVNULL, env=named_parent()
        )
        self._file("pid").parent.mkdir(parents=True, exist_ok=True)
        self._file("pid").write_text(f"{self._child.pid}\n")
        ended = asyncio.ensure_future(self._child.wait())
        while not self._socket.exists() and not ended.done():
            await asyncio.wait({ended}, timeout=_POLL_S)
        if self._is_asked():
            self._answer(failed=ended.done())
        return await ended

    async def _until_due(self, code: int) -> None:
        """Until its unit, or somebody, wants it started again."""
        if self._always or code != 0:
            await asyncio.sleep(RESTART_S)
            return
        while not self._is_asked():
            await asyncio.sleep(_POLL_S)

    def _is_asked(self) -> bool:
        return self._file("restart").exists()

    def _answer(self, *, failed: bool) -> None:
        if failed:
            self._file("failed").touch()
        else:
            self._file("failed").unlink(missing_ok=True)
        self._file("restart").unlink(missing_ok=True)

    def _file(self, what: str) -> Path:
        return self.node_root / "run" / f"{self._unit}.{what}"


def install_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def shell_program(argv: Sequence[str]) -> str:
    """A program of the machine that is `argv` with its own words behind."""
    words = " ".join(f"'{word}'" for word in argv)
    return f'#!/bin/sh\nexec {words} "$@"\n'
