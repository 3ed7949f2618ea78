"""Wake up when something in a directory changes (Linux inotify through ctypes, on asyncio).

`Inotify` gives the raw events of directories. `Changes` is what most loops want: "tell me when any of these
paths may have changed", also while their directories do not exist yet. It says *that*, not *what*: read the
whole state again.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

IN_MODIFY = 0x2
IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ISDIR = 0x40000000
_IN_ONLYDIR = 0x1000000
_IN_EXCL_UNLINK = 0x4000000

# What changes a directory's content as a reader sees it: a file is complete when closed or renamed.
CHANGES = IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF


@dataclass(frozen=True)
class Event:
    """One change below `directory`; `name` is "" when it is about the directory itself."""

    directory: Path
    name: str
    mask: int

    @property
    def path(self) -> Path:
        return self.directory / self.name if self.name else self.directory

    @property
    def appeared(self) -> bool:
        return bool(self.mask & (IN_CREATE | IN_MOVED_TO))

    @property
    def vanished(self) -> bool:
        return bool(self.mask & (IN_DELETE | IN_MOVED_FROM))

    @property
    def watch_ended(self) -> bool:
        """The directory itself is gone (or was renamed): watch it again when it is back."""
        return bool(self.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED))


class Inotify:
    """`watch()` directories, then `async for event in inotify`; one reader."""

    def __init__(self) -> None:
        self._descriptor = _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
        self._directories: dict[int, set[Path]] = {}  # one directory may be known by several paths
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def watch(self, directory: Path, mask: int = CHANGES) -> bool:
        """False when there is no such directory; watching one twice is harmless."""
        flags = mask | _IN_ONLYDIR | _IN_EXCL_UNLINK
        number = _libc().inotify_add_watch(self._descriptor, os.fsencode(directory), flags)
        if number < 0:
            return False
        self._directories.setdefault(number, set()).add(directory)
        return True

    def unwatch(self, directory: Path) -> None:
        for number, paths in list(self._directories.items()):
            paths.discard(directory)
            if not paths:
                del self._directories[number]
                _libc().inotify_rm_watch(self._descriptor, number)

    def watched(self) -> set[Path]:
        return {path for paths in self._directories.values() for path in paths}

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self._events.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def pending(self) -> list[Event]:
        """Events that are already here; none is left after this."""
        found: list[Event] = []
        while not self._events.empty():
            event = self._events.get_nowait()
            if event is not None:
                found.append(event)
        return found

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._events.put_nowait(None)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            return
        for number, mask, name in _parse(data):
            nameless = {Path("/")} if mask & IN_Q_OVERFLOW else set()
            for directory in self._directories.get(number, nameless):
                self._events.put_nowait(Event(directory, name, mask))
            if mask & IN_IGNORED:
                self._directories.pop(number, None)


class Changes:
    """Wakes when one of `paths` may have appeared, changed or vanished.

    Watches each path's directory or, while that is missing, its nearest existing ancestor. A path that is
    a directory itself is watched inside too. Use: read the state, act, `await changes.wait()`, again.
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._inotify = Inotify()
        self._paths: set[Path] = set()
        self.set_paths(paths)

    def set_paths(self, paths: Iterable[Path]) -> bool:
        """True when another place is watched now: what happened there until now was not seen, read again."""
        self._paths = set(paths)
        return self._arm()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """True when something may have changed, False when only the time is over."""
        while True:
            try:
                async with asyncio.timeout(timeout_s):
                    event = await anext(self._inotify)
            except TimeoutError:
                return False
            events = [event, *self._inotify.pending()]
            if self._arm() or any(self._concerns(event) for event in events):
                return True

    def close(self) -> None:
        self._inotify.close()

    def _concerns(self, event: Event) -> bool:
        if event.mask & IN_Q_OVERFLOW or event.watch_ended:
            return True
        # Plain text: a burst of events meets every path, and this is what a daemon does at each of its wakes.
        path, parent = str(event.path), str(event.path.parent)
        below = path.rstrip("/") + "/"
        return any(mine in (path, parent) or mine.startswith(below) for mine in map(str, self._paths))

    def _arm(self) -> bool:
        """Watch the nearest directories there are; True when another one is watched than before.

        Its events until now are lost, and so are those of a parent that is left for it and that were not read
        yet: whoever is told must look. Again until it holds, as directories may be made meanwhile.
        """
        at_first = self._inotify.watched()
        wanted = self._directories()
        while True:
            for directory in self._inotify.watched() - wanted:
                self._inotify.unwatch(directory)
            for directory in wanted:
                self._inotify.watch(directory)
            before, wanted = wanted, self._directories()
            if wanted == before:
                return not self._inotify.watched() <= at_first

    def _directories(self) -> set[Path]:
        """The nearest there are to the paths now."""
        inside = {path for path in self._paths if os.path.isdir(path)}
        return inside | {_nearest_directory(folder) for folder in {path.parent for path in self._paths}}


def _nearest_directory(path: Path) -> Path:
    while not os.path.isdir(path) and path != path.parent:
        path = path.parent
    return path


def _parse(data: bytes) -> list[tuple[int, int, str]]:
    """(watch, mask, name) of each struct inotify_event in `data`."""
    found, offset = [], 0
    while offset < len(data):
        number, mask, _cookie, length = struct.unpack_from("iIII", data, offset)
        name = data[offset + 16 : offset + 16 + length].rstrip(b"\0")
        found.append((number, mask, os.fsdecode(name)))
        offset += 16 + length
    return found


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
