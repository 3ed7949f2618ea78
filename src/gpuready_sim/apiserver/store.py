"""Every version of every object: an in-memory store with one resourceVersion for all of them.

A stored version (`Entry`) is never edited; a write adds a `Change` to the history of its table, from
which watches resume and paginated lists are answered as of their first page. What has left the history
is compacted: whoever asks for it gets 410.

The store knows no Kubernetes rule: who may write what is decided in `writes.py`.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gpuready_sim.apiserver.failures import Obj, too_new, too_old

Key = tuple[str, str]  # (namespace, name); namespace is "" for cluster-scoped objects


def path_of(key: Key) -> str:
    """Where etcd would have an object below its resource: what lists are sorted by.

    So what is in namespace a-b comes before what is in namespace a.
    """
    return "/".join(part for part in key if part)


def _plain_number(number: Any) -> Any:
    """One that has kept how it was written."""
    return int(number) if isinstance(number, int) else float(number)


encode = msgspec.json.Encoder(enc_hook=_plain_number).encode
decode = msgspec.json.Decoder().decode


class Entry:
    """One version of one object. Its bytes are made once.

    views   other forms of it, as bytes
    shown   how it looks in each version of its resource, with the schema by which it was made
    """

    __slots__ = ("_obj", "key", "raw", "rv", "shown", "views")

    def __init__(self, key: Key, rv: int, raw: bytes, obj: Obj | None = None) -> None:
        self.key = key
        self.rv = rv
        self.raw = raw
        self._obj = obj
        self.views: dict[Any, bytes] = {}
        self.shown: dict[str, tuple[object, Obj]] = {}

    @property
    def obj(self) -> Obj:
        """The object; shared, so never edit it: `copy()` is for that."""
        if self._obj is None:
            self._obj = decode(self.raw)
        return self._obj

    def copy(self) -> Obj:
        fresh: Obj = decode(self.raw)
        return fresh

    def slim(self) -> None:
        """Keep the bytes alone: what a superseded version is worth."""
        self._obj = None
        self.views = {}
        self.shown = {}


class Change:
    """One step of a table's history.

    type      ADDED, MODIFIED or DELETED
    entry     the object after the change (for DELETED: its last state, with the deletion's version)
    previous  the version it replaced, None for ADDED
    """

    __slots__ = ("entry", "lines", "previous", "type")

    def __init__(self, type: str, entry: Entry, previous: Entry | None) -> None:
        self.type = type
        self.entry = entry
        self.previous = previous
        self.lines: dict[Any, bytes] = {}

    @property
    def rv(self) -> int:
        return self.entry.rv


Listener = Callable[[Change], None]


class Table:
    """All objects of one resource, in key order, with the changes that led here."""

    def __init__(self, name: str, history: int, *, compacted: int) -> None:
        self.name = name
        self.items: dict[Key, Entry] = {}
        self.changes: deque[Change] = deque()
        self.compacted = compacted  # versions below this one are gone
        self.listeners: list[Listener] = []
        self._history = history
        self._keys: list[Key] = []
        self._by_namespace: dict[str, dict[Key, Entry]] = {}

    def get(self, namespace: str, name: str) -> Entry | None:
        return self.items.get((namespace, name))

    def sorted_entries(self, namespace: str | None = None) -> list[Entry]:
        """Entries in key order; of one namespace when given."""
        if namespace is None:
            return [self.items[key] for key in self._keys]
        inside = self._by_namespace.get(namespace, {})
        return [inside[key] for key in sorted(inside)]

    def entries_at(self, rv: int) -> list[Entry]:
        """Entries as they stood at a version, by undoing the changes since.

        raises  Failure 410 when that version has been compacted
        """
        if rv < self.compacted:
            raise too_old(rv, self.compacted)
        items = dict(self.items)
        for change in reversed(self.changes):
            if change.rv <= rv:
                break
            if change.previous is None:
                items.pop(change.entry.key, None)
            else:
                items[change.entry.key] = change.previous
        return [items[key] for key in sorted(items, key=path_of)]

    def changes_since(self, rv: int) -> list[Change]:
        """Changes after a version, oldest first.

        raises  Failure 410 when some of them have been compacted
        """
        if rv < self.compacted:
            raise too_old(rv, self.compacted)
        found: list[Change] = []
        for change in reversed(self.changes):
            if change.rv <= rv:
                break
            found.append(change)
        found.reverse()
        return found

    def record(self, change: Change) -> None:
        """Take in a change and tell the listeners, in the order in which they came."""
        key = change.entry.key
        if change.type == "DELETED":
            del self.items[key]
            del self._by_namespace[key[0]][key]
            self._keys.pop(bisect.bisect_left(self._keys, path_of(key), key=path_of))
        else:
            if key not in self.items:
                bisect.insort(self._keys, key, key=path_of)
            self.items[key] = change.entry
            self._by_namespace.setdefault(key[0], {})[key] = change.entry
        self.changes.append(change)
        if len(self.changes) > self._history:
            self._forget_oldest()
        for listener in tuple(self.listeners):
            listener(change)
        if change.previous is not None:
            change.previous.slim()

    def compact(self, rv: int) -> None:
        """Forget the history up to a version."""
        while self.changes and self.changes[0].rv <= rv:
            self._forget_oldest()
        self.compacted = max(self.compacted, rv)

    def _forget_oldest(self) -> None:
        gone = self.changes.popleft()
        self.compacted = max(self.compacted, gone.rv)


class Store:
    """The tables, and the one counter that orders all changes."""

    def __init__(self, history: int = 4096) -> None:
        self.rv = 1
        self.tables: dict[str, Table] = {}
        self.journal: Callable[[str, Change], None] | None = None
        self.listeners: list[Callable[[str, Change], None]] = []
        self._history = history
        self._oldest = 1

    def table(self, name: str) -> Table:
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = Table(name, self._history, compacted=self._oldest)
        return table

    def check_reached(self, rv: int) -> None:
        if rv > self.rv:
            raise too_new(rv, self.rv)

    def put(self, table_name: str, key: Key, obj: Obj) -> Entry:
        """Create or replace an object; its resourceVersion is set here. The store keeps `obj`."""
        table = self.table(table_name)
        previous = table.items.get(key)
        entry = self._next_entry(key, obj)
        self._commit(table, Change("ADDED" if previous is None else "MODIFIED", entry, previous))
        return entry

    def remove(self, table_name: str, key: Key, final: Obj | None = None) -> Entry:
        """Take an object out; `final` is its last state when that differs from the stored one."""
        table = self.table(table_name)
        previous = table.items[key]
        entry = self._next_entry(key, final if final is not None else previous.copy())
        self._commit(table, Change("DELETED", entry, previous))
        return entry

    def drop_table(self, table_name: str) -> None:
        """Forget a resource that is served no more; watchers have been told by the deletions."""
        self.tables.pop(table_name, None)

    def compact(self) -> None:
        """Forget all history: every older version answers 410 from now on."""
        self._oldest = self.rv
        for table in self.tables.values():
            table.compact(self.rv)

    def restore(self, table_name: str, type: str, obj: Obj, rv: int) -> None:
        """Replay one change of a journal, under the version it had."""
        table = self.table(table_name)
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        previous = table.items.get(key)
        if type == "DELETED" and previous is None:
            return
        self.rv = max(self.rv, rv)
        table.record(Change(type, Entry(key, rv, encode(obj)), previous))

    def forget_before(self, rv: int) -> None:
        """Versions before this one were compacted by an earlier life of the server."""
        self.rv = max(self.rv, rv)
        self._oldest = max(self._oldest, rv)
        for table in self.tables.values():
            table.compact(rv)

    def all_entries(self) -> Iterable[tuple[str, Entry]]:
        """Every object with its table's name, oldest version first."""
        found = [(name, entry) for name, table in self.tables.items() for entry in table.items.values()]
        return sorted(found, key=lambda pair: pair[1].rv)

    def _next_entry(self, key: Key, obj: Obj) -> Entry:
        self.rv += 1
        obj["metadata"]["resourceVersion"] = str(self.rv)
        return Entry(key, self.rv, encode(obj), obj)

    def _commit(self, table: Table, change: Change) -> None:
        if self.journal is not None:
            self.journal(table.name, change)
        table.record(change)
        for listener in self.listeners:
            listener(table.name, change)
