"""Compiles the simulator's C parts with the machine's `cc` into gpuready_sim/_native/.

Imports nothing of the package: the wheel's build hook loads this file by its path. A library is built again
only when one of the sources is newer.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
NVML_PARTS = (
    "session.c",
    "device.c",
    "course.c",
    "load.c",
    "processes.c",
    "health.c",
    "fields.c",
    "mig.c",
    "gpm.c",
    "events.c",
)
DCGM_SOURCES = SOURCES.parent / "dcgm"
DCGM_PARTS = ("library.c", "watches.c", "fields.c")
CUDA_PARTS = ("libcuda.c", "ptx.c", "session.c")
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror")
BUILT = ("libnvidia-ml.so", "libcuda.so", "libdcgm.so", "launch")
LIBRARY_FLAGS = ("-shared", "-fPIC", "-fvisibility=hidden", "-pthread")


class BuildError(RuntimeError):
    """The C parts could not be compiled."""


def build(package_dir: Path) -> Path:
    """Bring `package_dir`/_native up to date and return it: three libraries and `launch`.

    Writes nothing where all is current: who runs an installed simulator need not own it.
    """
    native = package_dir / "_native"
    if all(_is_current(native / name) for name in BUILT):
        return native
    native.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=native, prefix=".build-") as scratch:
        stubs = Path(scratch, "stubs.c")
        stubs.write_text(_stubs(_symbols()))
        _library(native / "libnvidia-ml.so", "libnvidia-ml.so.1", [*_paths(NVML_PARTS), stubs], Path(scratch))
        _library(
            native / "libcuda.so",
            "libcuda.so.1",
            _paths(CUDA_PARTS),
            Path(scratch),
            f"-Wl,--version-script={SOURCES / 'libcuda.map'}",
        )
        _library(
            native / "libdcgm.so",
            "libdcgm.so.4",
            [*(DCGM_SOURCES / name for name in DCGM_PARTS), *_paths(NVML_PARTS)],
            Path(scratch),
            f"-Wl,--version-script={DCGM_SOURCES / 'libdcgm.map'}",
        )
        _compile(native / "launch", _paths(("launch.c",)), (), Path(scratch))
    return native


def _paths(names: Sequence[str]) -> list[Path]:
    return [SOURCES / name for name in names]


def _symbols() -> list[str]:
    return (SOURCES / "symbols.txt").read_text().split()


def _stubs(symbols: Sequence[str]) -> str:
    """A weak definition of every NVML name: those that the simulator implements override theirs."""
    lines = ["/* Written by build.py from symbols.txt. */", "unsigned int not_supported(const char *);"]
    for symbol in symbols:
        lines.append(
            f'__attribute__((weak, visibility("default"))) unsigned int {symbol}(void)'
            " { return not_supported(__func__); }"
        )
    return "\n".join(lines) + "\n"


def _library(target: Path, soname: str, sources: Sequence[Path], scratch: Path, *flags: str) -> None:
    _compile(target, sources, (*LIBRARY_FLAGS, f"-Wl,-soname,{soname}", *flags), scratch)


def _compile(target: Path, sources: Sequence[Path], flags: Sequence[str], scratch: Path) -> None:
    if _is_current(target):
        return
    fresh = scratch / target.name
    command = [*_compiler(), *FLAGS, *flags, f"-I{SOURCES}", *map(str, sources), "-o", str(fresh), "-ldl"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise BuildError(f"{shlex.join(command)} failed:\n{outcome.stderr}")
    fresh.replace(target)  # atomic: two builds at once, or a process that has the old one open, do no harm


def _is_current(target: Path) -> bool:
    sources = [*SOURCES.glob("*.[ch]"), *DCGM_SOURCES.glob("*.[ch]")]
    lists = [SOURCES / "symbols.txt", SOURCES / "libcuda.map", DCGM_SOURCES / "libdcgm.map"]
    inputs = [*sources, *lists, Path(__file__)]
    return target.exists() and all(target.stat().st_mtime >= file.stat().st_mtime for file in inputs)


def _compiler() -> list[str]:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not compiler or shutil.which(compiler[0]) is None:
        raise BuildError(
            f"no C compiler: {compiler[0] if compiler else 'CC is empty'} is not on PATH, and the simulated "
            "NVML is written in C; install gcc or clang (package build-essential), or set CC"
        )
    return compiler


def main() -> int:
    try:
        native = build(SOURCES.parent)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{native}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
