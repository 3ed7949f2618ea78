"""All CDI specs that lie on a node, as a runtime takes them: what counts, what does not, and why.

Source: container-device-interface 1.1, pkg/cdi/cache.go.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuready import names
from gpuready.gpu.cdi.model import Edits, host_paths
from gpuready.gpu.cdi.schema import problems_in
from gpuready.gpu.tree import Tree
from gpuready.yaml_text import YamlError, parse_yaml

_SETTLED_NS = 1_000_000_000  # a file system tells times in steps of some milliseconds
_MOST_YAML = 2**20  # a second's work
_MOST_BYTES = 16 * 2**20  # a spec of a node with 16 GPUs in 7 partitions each has less than one


@dataclass(frozen=True)
class File:
    """One spec file. `problems`: why no runtime takes it; then it has no devices."""

    path: str
    priority: int
    kind: str = ""
    version: str = ""
    edits: Edits = field(default_factory=dict)
    devices: Mapping[str, Edits] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    host_paths: tuple[str, ...] = ()

    def names(self) -> list[str]:
        return [f"{self.kind}={device}" for device in self.devices]


@dataclass(frozen=True)
class Installed:
    """files      in the order in which they are read
    devices    qualified name -> the file that counts
    conflicts  qualified name -> files of one directory that define it: then nobody's counts
    unread     directories that could not be read, with the reason
    """

    files: tuple[File, ...]
    devices: Mapping[str, File]
    conflicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[tuple[str, str], ...] = ()

    def kinds(self) -> list[str]:
        return sorted({file.kind for file in self.files if file.devices})

    def of_kind(self, kind: str) -> list[str]:
        """Device names that can be asked for, as they stand behind the "="."""
        prefix = f"{kind}="
        return [name.removeprefix(prefix) for name in self.devices if name.startswith(prefix)]


class SpecReader:
    """Reads the same directories again and again; a file that is as it was is not parsed anew."""

    def __init__(self, host: Tree) -> None:
        self._host = host
        self._known: dict[str, tuple[tuple[int, ...], File]] = {}

    def read(self, directories: Sequence[str] = names.CDI_DIRS) -> Installed:
        before, self._known = self._known, {}

        def look(host: Tree, path: str, priority: int) -> File:
            stamp = _stamp(host, path)
            known = before.get(path)
            file = known[1] if known and stamp and known[0] == stamp else read_file(host, path, priority)
            if stamp:
                self._known[path] = stamp, file
            return file

        return read_installed(self._host, directories, look)


def _stamp(host: Tree, path: str) -> tuple[int, ...]:
    """What differs when a file does; () for one that was changed just now: it may change again unseen."""
    try:
        status = host.resolve(path).stat()
    except OSError:
        return ()
    if time.time_ns() - status.st_ctime_ns < _SETTLED_NS:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_installed(
    host: Tree,
    directories: Sequence[str] = names.CDI_DIRS,
    look: Callable[[Tree, str, int], File] | None = None,
) -> Installed:
    """directories  the later one counts where both define a name; look  reads one file."""
    look = look or read_file
    files: list[File] = []
    unread: list[tuple[str, str]] = []
    seen: set[str] = set()
    for priority, directory in enumerate(directories):
        try:
            real = str(host.resolve(directory))
            entries = sorted(os.listdir(real))
        except FileNotFoundError:
            continue
        except OSError as exc:
            unread.append((directory, exc.strerror or str(exc)))
            continue
        if real in seen:  # one directory by two names would be in conflict with itself
            continue
        seen.add(real)
        files += _read_all(host, directory, entries, priority, look)
    return _counted(files, tuple(unread))


def _read_all(
    host: Tree,
    directory: str,
    entries: Iterable[str],
    priority: int,
    look: Callable[[Tree, str, int], File],
) -> Iterator[File]:
    for name in entries:
        path = f"{directory}/{name}"
        if name.endswith((".json", ".yaml")) and not host.resolve_if_possible(path).is_dir():
            yield look(host, path, priority)


def read_file(host: Tree, path: str, priority: int = 0) -> File:
    try:
        spec = parse_spec(_content(host, path))
    except OSError as exc:
        return File(path, priority, problems=(f"it cannot be read: {exc.strerror or exc}",))
    except ValueError as exc:
        return File(path, priority, problems=(str(exc),))
    found = problems_in(spec)
    if found:
        return File(path, priority, problems=tuple(found))
    devices = {device["name"]: device["containerEdits"] for device in spec["devices"]}
    common = spec.get("containerEdits") or {}
    version = str(spec["cdiVersion"])
    return File(path, priority, spec["kind"], version, common, devices, (), tuple(host_paths(spec)))


def parse_spec(text: str) -> Any:
    """raises  ValueError that names line and column of what is neither JSON nor YAML"""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except RecursionError as exc:
            raise ValueError("it is nested too deeply") from exc
        except json.JSONDecodeError:
            pass  # YAML may look like JSON at first; its error has line and column too
    if len(text) > _MOST_YAML:
        raise ValueError("it is YAML of more than 1 MiB, which takes too long to read; JSON may have 16")
    try:
        return parse_yaml(text, source="the spec")
    except YamlError as exc:
        raise ValueError(exc.what) from exc


def _content(host: Tree, path: str) -> str:
    """raises  OSError, also for what is no ordinary file; ValueError for what is no text"""
    real = host.resolve(path)
    status = real.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is no ordinary file")
    if status.st_size > _MOST_BYTES:
        raise OSError(0, "it is larger than 16 MiB")
    return real.read_bytes().decode()


def _counted(files: Sequence[File], unread: tuple[tuple[str, str], ...]) -> Installed:
    by_name: dict[str, list[File]] = {}
    for file in files:
        for name in file.names():
            by_name.setdefault(name, []).append(file)
    devices: dict[str, File] = {}
    conflicts: dict[str, tuple[str, ...]] = {}
    for name, found in by_name.items():
        if crossed := _crossed(found):
            conflicts[name] = tuple(file.path for file in crossed)
        else:
            devices[name] = max(found, key=lambda file: file.priority)
    return Installed(tuple(files), devices, conflicts, unread)


def _crossed(files: Sequence[File]) -> list[File]:
    """Files of one directory that define the same name: the device is dropped, a better one elsewhere too."""
    for priority in {file.priority for file in files}:
        same = [file for file in files if file.priority == priority]
        if len(same) > 1:
            return same
    return []
