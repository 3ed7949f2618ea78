"""What outlives the process: one JSON line per change, compacted at each start.

Not synced to disk: the simulator survives being killed, not a power cut.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from gpuready_sim.apiserver.store import Change, Store, decode, encode


class Journal:
    """Appends every change of a store to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def replay(self, store: Store) -> None:
        """Bring the store to where the file ends; a last line that was cut off is ignored."""
        if not self._path.exists():
            return
        for line in self._path.read_bytes().split(b"\n"):
            try:
                record = decode(line)
            except msgspec.DecodeError:
                continue
            if "compacted" in record:
                store.forget_before(record["compacted"])
            else:
                store.restore(record["table"], record["type"], record["object"], record["rv"])

    def open(self, store: Store) -> None:
        """Rewrite the file with what there is now and append every change from here on."""
        temporary = self._path.with_name(self._path.name + ".new")
        with temporary.open("wb") as file:
            file.write(encode({"compacted": store.rv}) + b"\n")
            for table, entry in store.all_entries():
                file.write(_line(table, "ADDED", entry.rv, entry.raw))
        temporary.rename(self._path)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        store.journal = self.append

    def append(self, table: str, change: Change) -> None:
        os.write(self._descriptor, _line(table, change.type, change.rv, change.entry.raw))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _line(table: str, type: str, rv: int, raw: bytes) -> bytes:
    return b'{"table":"%s","type":"%s","rv":%d,"object":%s}\n' % (table.encode(), type.encode(), rv, raw)
