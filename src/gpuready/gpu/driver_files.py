"""What of the NVIDIA driver lies in a directory tree: libraries, their version, the kernel module's version.

Reads files only: no NVML, so that it answers while a driver is broken, half updated or absent.

There is one search for libraries (`look_for_nvml`); whatever it tried can be told to whoever asks why nothing
was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuready.gpu import ld_cache
from gpuready.gpu.tree import Tree

NVML_SONAME = "libnvidia-ml.so.1"
LIBRARY_DIRS = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
)
# Source: k8s-device-plugin v0.19.3, internal/lookup/root (library search inside a driver root).
OTHER_LIBRARY_DIRS = (
    ("/usr/lib/x86_64-linux-gnu/nvidia/current", "Debian's alternatives"),
    ("/usr/lib/aarch64-linux-gnu/nvidia/current", "Debian's alternatives"),
    ("/usr/local/glibc/usr/lib", "Talos"),
    ("/usr/local/glibc/lib", "Talos, once"),
    ("/run/opengl-driver/lib", "NixOS"),
    ("/usr/lib/nvidia", "Bottlerocket"),
    ("/home/kubernetes/bin/nvidia/lib64", "Container-Optimized OS"),
    ("/lib", "a driver unpacked into a folder"),
    ("/usr/lib/wsl/lib", "WSL"),
)
# Systems whose /usr is read-only have their driver elsewhere, and mostly no ld.so.cache that names it.
MODULE_VERSION_FILES = ("/proc/driver/nvidia/version", "/sys/module/nvidia/version")

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_MOST_CACHE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class NvmlLibrary:
    """The NVML library of a driver tree.

    path     real file, to be loaded
    folder   its directory as the tree's own programs name it: "/usr/lib/x86_64-linux-gnu"
    version  from the file name; "" when the name carries none
    """

    path: Path
    folder: str
    version: str


@dataclass(frozen=True)
class Attempt:
    """One place where libnvidia-ml was looked for. `by`: what made us look there."""

    place: str
    by: str
    outcome: str
    library: NvmlLibrary | None = None
    is_odd: bool = False  # there is something, and it does not lead to a library


def find_nvml_library(driver: Tree, folders: Iterable[str] = ()) -> NvmlLibrary | None:
    """The first that the search finds.

    folders  look here and nowhere else
    """
    return next((attempt.library for attempt in look_for_nvml(driver, folders) if attempt.library), None)


def find_library(trees: Iterable[Tree], sonames: Sequence[str]) -> Path | None:
    """Any other library, by the same search: the first soname that one of the trees has, as a real file."""
    places = list(trees)
    attempts = (each for soname in sonames for tree in places for each in _look_for(tree, soname))
    return next((attempt.library.path for attempt in attempts if attempt.library), None)


def look_for_nvml(driver: Tree, folders: Iterable[str] = ()) -> Iterator[Attempt]:
    """Every place in the order in which we look, with what is there; lazily, so that a caller may stop.

    folders  look here and nowhere else: a node whose driver lies where nobody would guess
    """
    return _look_for(driver, NVML_SONAME, folders)


def _look_for(driver: Tree, soname: str, folders: Iterable[str] = ()) -> Iterator[Attempt]:
    named = [(folder, "named in the settings") for folder in folders]
    for folder, by in named or [(folder, "usual place") for folder in LIBRARY_DIRS]:
        yield _attempt(driver, soname, folder, by)
    if not named:
        yield from _attempts_by_cache(driver, soname)
        for folder, by in OTHER_LIBRARY_DIRS:
            yield _attempt(driver, soname, folder, by)


def _attempt(driver: Tree, soname: str, folder: str, by: str) -> Attempt:
    return _attempt_file(driver, f"{folder}/{soname}", folder, by)


def _attempt_file(driver: Tree, file: str, place: str, by: str) -> Attempt:
    try:
        path = driver.resolve(file)
    except OSError as exc:
        return Attempt(place, by, str(exc.strerror), is_odd=True)
    if path.is_file():
        library = NvmlLibrary(path, driver.inside(path.parent), version_of_library(path.name))
        return Attempt(place, by, f"found {path.name}", library)
    folder, _, name = file.rpartition("/")
    if name in driver.names_in(folder):
        outcome = f"{name} leads to {driver.inside(path)}, which is not there"
        return Attempt(place, by, outcome, is_odd=True)
    return Attempt(place, by, f"no {name}" if driver.exists(folder) else "no such folder")


def _attempts_by_cache(driver: Tree, soname: str) -> Iterator[Attempt]:
    """What the tree's own programs would load."""
    try:
        with driver.resolve(ld_cache.CACHE_FILE).open("rb") as file:
            content = file.read(_MOST_CACHE_BYTES)
    except OSError as exc:
        yield Attempt(ld_cache.CACHE_FILE, "loader's cache", str(exc.strerror))
        return
    if soname.encode() not in content:  # most trees: spare them the parsing
        yield Attempt(ld_cache.CACHE_FILE, "loader's cache", f"does not name {soname}")
        return
    try:
        paths = [entry.path for entry in ld_cache.parse(content) if entry.soname == soname]
    except ld_cache.LdCacheError as exc:
        yield Attempt(ld_cache.CACHE_FILE, "loader's cache", f"unreadable: {exc}", is_odd=True)
        return
    for path in dict.fromkeys(paths):
        yield _attempt_file(driver, path, path, "loader's cache")


def version_of_library(file_name: str) -> str:
    """ "libnvidia-ml.so.550.163.01" -> "550.163.01"; a plain soname ("libx.so.1") has no version."""
    _, _, suffix = file_name.partition(".so.")
    return suffix if _VERSION.fullmatch(suffix) else ""


def find_module_version(kernel: Tree) -> str:
    """Version of the loaded nvidia kernel module; "" when it is not loaded."""
    for path in MODULE_VERSION_FILES:
        text = kernel.read_text(path)
        if text:
            return parse_module_version(text)
    return ""


def parse_module_version(text: str) -> str:
    """From the bare text of /sys/module or from "NVRM version: NVIDIA UNIX … 550.163.01 …" of /proc."""
    match = _VERSION.search(text.splitlines()[0]) if text else None
    return match.group() if match else ""
