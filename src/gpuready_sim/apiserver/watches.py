"""Watches: what one client is told about the changes of one resource.

A change is turned into a line once for all watchers of the same form. A watcher that does not keep up
is cut off, as by the real watch cache; it resumes from its last version.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from gpuready_sim.apiserver.failures import Failure
from gpuready_sim.apiserver.lists import Selection
from gpuready_sim.apiserver.store import Change, Entry, Store, Table, encode
from gpuready_sim.apiserver.views import View

BACKLOG_LINES = 20_000
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True)
class WatchOptions:
    """How long a watch lasts and how it begins.

    since           version after which changes are told; None: begin with the current objects
    announce_end    mark the end of the initial objects with the annotated bookmark
    """

    since: int | None = None
    bookmarks: bool = False
    announce_end: bool = False
    timeout_s: float = 0.0
    bookmark_interval_s: float = 60.0


class Watch:
    """One watcher: takes changes from its table and hands out lines."""

    def __init__(self, table: Table, view: View, selection: Selection) -> None:
        self._table = table
        self._view = view
        self._selection = selection
        self._lines: deque[bytes] = deque()
        self._wakeup = asyncio.Event()
        self.closed = False
        table.listeners.append(self.offer)

    def offer(self, change: Change) -> None:
        """Take in a change; called within the write, so that order is kept."""
        if self.closed or not self._selection.covers(change.entry.key):
            return
        line = self._line(change)
        if line is None:
            return
        if len(self._lines) >= BACKLOG_LINES:
            self.close()
            return
        self.push(line)

    def push(self, line: bytes) -> None:
        self._lines.append(line)
        self._wakeup.set()

    def close(self) -> None:
        """End the stream after what is queued."""
        if not self.closed:
            self.closed = True
            self._wakeup.set()
            if self.offer in self._table.listeners:
                self._table.listeners.remove(self.offer)

    def drop(self) -> None:
        """End the stream without what is queued."""
        self._lines.clear()
        self.close()

    async def next_lines(self, timeout_s: float) -> bytes:
        """Everything queued, waiting for the first line; empty at the timeout and at the end."""
        if not self._lines and not self.closed:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wakeup.wait()
            except TimeoutError:
                return b""
        self._wakeup.clear()
        chunk = b"".join(self._lines)
        self._lines.clear()
        return chunk

    def replay(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.offer(change)

    def present(self, entries: Iterable[Entry]) -> None:
        """Tell the current objects as ADDED."""
        for entry in entries:
            self._lines.append(event_line("ADDED", self._view.one(entry)))
        self._wakeup.set()

    def _line(self, change: Change) -> bytes | None:
        type = self._type_for(change)
        if type is None:
            return None
        key = (type, *self._view.key)
        line = change.lines.get(key)
        if line is None:
            entry = change.entry
            if type == "DELETED" and change.type == "MODIFIED":
                entry = _left_selection(change)
            line = change.lines[key] = event_line(type, self._view.one(entry))
        return line

    def _type_for(self, change: Change) -> str | None:
        """What a change means to a watcher that sees only what its selector matches."""
        if self._selection.matches_all:
            return change.type
        before = change.previous is not None and self._selection.matches(change.previous.obj)
        after = change.type != "DELETED" and self._selection.matches(change.entry.obj)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


def _left_selection(change: Change) -> Entry:
    """The object as the watcher knew it, with the version of the change that took it away."""
    assert change.previous is not None
    obj = change.previous.copy()
    obj["metadata"]["resourceVersion"] = str(change.rv)
    return Entry(change.entry.key, change.rv, encode(obj), obj)


def event_line(type: str, raw: bytes) -> bytes:
    return b'{"type":"' + type.encode() + b'","object":' + raw + b"}\n"


def error_line(failure: Failure) -> bytes:
    return event_line("ERROR", encode(failure.status()))


class Watches:
    """All open watches of a server, so that they can be ended together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: set[Watch] = set()

    def close_all(self) -> None:
        for watch in tuple(self._open):
            watch.close()

    def close_table(self, name: str) -> None:
        """End the watches of a resource that is served no more."""
        for watch in tuple(self._open):
            if watch._table.name == name:
                watch.close()

    def begin(self, table: Table, view: View, selection: Selection, options: WatchOptions) -> Watch:
        """Register a watcher with what it has to be told first.

        raises  Failure 410 when its version has been compacted
        """
        changes = table.changes_since(options.since) if options.since is not None else []
        watch = Watch(table, view, selection)
        self._open.add(watch)
        if options.since is None:
            watch.present(e for e in selection.among(table) if selection.matches(e.obj))
            if options.announce_end:
                watch.push(event_line("BOOKMARK", view.bookmark(self._store.rv, INITIAL_EVENTS_END)))
        else:
            watch.replay(changes)
        return watch

    async def lines(self, watch: Watch, view: View, options: WatchOptions) -> AsyncIterator[bytes]:
        """The stream of a watch until its timeout, its end, or the client's departure."""
        clock = asyncio.get_running_loop().time
        if options.timeout_s < 0:
            watch.drop()
        ends = clock() + (options.timeout_s or random.uniform(1800, 3600))
        next_bookmark = _next_bookmark(clock(), ends, options)
        try:
            while not (watch.closed or clock() >= ends):
                chunk = await watch.next_lines(min(ends, next_bookmark) - clock())
                if chunk:
                    yield chunk
                if clock() >= next_bookmark and not watch.closed:
                    if options.bookmarks and not chunk:
                        yield event_line("BOOKMARK", view.bookmark(self._store.rv))
                    next_bookmark = _next_bookmark(clock(), ends, options)
            if rest := await watch.next_lines(0):
                yield rest
        finally:
            watch.close()
            self._open.discard(watch)


# A watch that ends by itself tells last how far it has come.
_BEFORE_THE_END_S = 2.0


def _next_bookmark(now: float, ends: float, options: WatchOptions) -> float:
    """
    Source: kubernetes, apiserver/pkg/storage/cacher/cache_watcher.go, nextBookmarkTime.
    """
    last = ends - _BEFORE_THE_END_S
    return math.inf if now >= last else min(now + options.bookmark_interval_s, last)


def one_line(line: bytes) -> AsyncIterator[bytes]:
    """A stream that says one thing and ends."""

    async def lines() -> AsyncIterator[bytes]:
        yield line

    return lines()


def initial_error(failure: Failure) -> AsyncIterator[bytes]:
    return one_line(error_line(failure))
