"""Compiles nvidia-cdi-hook with the machine's `cc` into gpuready/_native/.

Imports nothing of the package: the wheel's build hook loads this file by its path. The program is built again
only when one of the sources is newer. It is linked statically: hosts need nothing for it, not even glibc.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
PROGRAM = "nvidia-cdi-hook"
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-static", "-s")


class BuildError(RuntimeError):
    """The program could not be compiled."""


def build(package_dir: Path) -> Path:
    """Bring `package_dir`/_native/nvidia-cdi-hook up to date and return it."""
    target = package_dir / "_native" / PROGRAM
    if _is_current(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as scratch:
        fresh = Path(scratch, PROGRAM)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        command = [*compiler, *FLAGS, *map(str, sorted(SOURCES.glob("*.c"))), "-o", str(fresh)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as exc:
            raise BuildError(f"no C compiler: {exc}; install gcc or clang, or set CC") from exc
        if done.returncode != 0:
            raise BuildError(f"{shlex.join(command)} failed:\n{done.stderr}")
        fresh.replace(target)
    return target


def _is_current(target: Path) -> bool:
    inputs = [*SOURCES.glob("*.[ch]"), Path(__file__)]
    return target.exists() and all(target.stat().st_mtime >= file.stat().st_mtime for file in inputs)


def main() -> int:
    try:
        program = build(SOURCES.parent)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{program}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
