"""Run a program of the host, with a deadline, in the host's own tree. Thin."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuready import names
from gpuready.errors import GPUReadyError
from gpuready.gpu.tree import Tree

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAST_LINES = 3
_KILL_GRACE_S = 1.0


class HostProgramError(GPUReadyError):
    """A program of the host that failed, or did not end in time."""


@dataclass(frozen=True)
class Host:
    """tree    the host's "/"
    enters  its programs are run with that as their root; False in the simulator, where nobody may
    """

    tree: Tree
    enters: bool

    @classmethod
    def of(cls, tree: Tree, env: Mapping[str, str]) -> Host:
        base = os.path.realpath(tree.base)
        return cls(tree, enters=base != "/" and not env.get(names.ROOT_ENV))

    async def run(self, argv: Sequence[str], *, deadline_s: float) -> bytes:
        """What the program prints. argv[0] is a path on the host.

        raises  HostProgramError with the program's last words
        """
        program = argv[0] if self.enters else str(self.tree.resolve(argv[0]))
        try:
            child = await asyncio.create_subprocess_exec(
                program,
                *argv[1:],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={"PATH": _PATH},
                start_new_session=True,
                preexec_fn=self._enter if self.enters else None,
            )
        except (OSError, ValueError) as exc:
            said = getattr(exc, "strerror", None) or str(exc)
            raise HostProgramError(f"{argv[0]} cannot be run", why=said) from exc
        try:
            async with asyncio.timeout(deadline_s):
                printed, complaints = await child.communicate()
        except TimeoutError:
            raise HostProgramError(
                f"{' '.join(argv)} did not end within {deadline_s:g} s", why="it was killed"
            ) from None
        finally:
            await _end(child)
        if child.returncode != 0:
            lines = complaints.decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
            raise HostProgramError(
                f"{' '.join(argv)} ended with {child.returncode}", why="; ".join(lines) or "it says nothing"
            )
        return printed

    def _enter(self) -> None:
        os.chroot(self.tree.base)
        os.chdir("/")


async def _end(child: asyncio.subprocess.Process) -> None:
    """With everything that it has started: one that hangs may hold our pipes."""
    if child.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILL_GRACE_S):
            await child.wait()
