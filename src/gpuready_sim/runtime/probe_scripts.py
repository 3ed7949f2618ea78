"""Shell lines of known images, as built-ins: the driver container's startup probe and its preStop.

They are recognised by their words, never run by a shell.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Protocol

from gpuready_sim.runtime.roots import ContainerRoot

SHELLS = {"sh", "bash"}
STARTUP_PROBE = "startup-probe.sh"
READY_FILE = "/run/nvidia/validations/.driver-ctr-ready"
DAEMONS_STATUS = "/run/nvidia/validations/.driver-daemons-status"
DRIVER_ROOT = "/run/nvidia/driver"
FEATURES = ("GDRCOPY_ENABLED", "GDS_ENABLED", "GPU_DIRECT_RDMA_ENABLED")
SMI_TIMEOUT_S = 60


class Run(Protocol):
    def __call__(
        self, argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None
    ) -> Awaitable[tuple[int, str]]: ...


Script = Callable[[Run], Awaitable[tuple[int, str]]]


def find_script(command: Sequence[str], root: ContainerRoot) -> Script | None:
    """The built-in for a shell command line, or None when it is not one that we know."""
    words = list(command)
    if words and PurePosixPath(words[0]).name in SHELLS:
        words = words[1:]
        if words[:1] == ["-c"] and len(words) == 2:
            words = _simple_words(words[1])
    if not words:
        return None
    if PurePosixPath(words[0]).name == STARTUP_PROBE or _is_driver_probe(command):
        return lambda run: _driver_startup_probe(run, root)
    if PurePosixPath(words[0]).name == "rm":
        return lambda run: _remove(words[1:], root)
    return None


def _is_driver_probe(command: Sequence[str]) -> bool:
    """A probe that spells the script out instead of mounting it."""
    text = " ".join(command)
    return "/sys/module/nvidia/refcnt" in text and "nvidia-smi" in text


def _simple_words(text: str) -> list[str]:
    """Words of one plain command; nothing for what would need a shell."""
    return [] if re.search(r"[;&|<>$`(){}\n]", text) else shlex.split(text)


async def _driver_startup_probe(run: Run, root: ContainerRoot) -> tuple[int, str]:
    if not root.inside("/sys/module/nvidia/refcnt").exists():
        return 1, "Error: Kernel module nvidia is not loaded"
    daemons = root.inside(DAEMONS_STATUS)
    if daemons.exists() and daemons.read_text() != "Ready":
        return 1, "Error: the driver's daemons are not ready"
    code, output = await _nvidia_smi(run, root)
    if code:
        return code, output
    ready = root.inside(READY_FILE)
    ready.parent.mkdir(parents=True, exist_ok=True)
    scratch = ready.with_name(f"{ready.name}.tmp")
    scratch.write_text("".join(f"{name}: false\n" for name in FEATURES))
    scratch.rename(ready)
    return 0, output


async def _nvidia_smi(run: Run, root: ContainerRoot) -> tuple[int, str]:
    """nvidia-smi of the driver container, whose root is what the host sees at /run/nvidia/driver."""
    driver = root.host_path(DRIVER_ROOT)
    if not (driver / "usr/bin/nvidia-smi").exists():
        return 127, "nvidia-smi: command not found"
    libraries = f"{driver}/usr/lib/x86_64-linux-gnu:{driver}/usr/lib64"
    argv = [sys.executable, "-m", "gpuready_sim.runtime.nvidia_smi"]
    return await run(argv, SMI_TIMEOUT_S, {"LD_LIBRARY_PATH": libraries})


async def _remove(words: Sequence[str], root: ContainerRoot) -> tuple[int, str]:
    force = "-f" in words
    for name in (word for word in words if not word.startswith("-")):
        path = root.inside(name)
        if os.path.lexists(path):
            path.unlink()
        elif not force:
            return 1, f"rm: cannot remove '{name}': No such file or directory"
    return 0, ""
