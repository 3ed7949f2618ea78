"""/etc/ld.so.cache as the dynamic loader reads it. Pure: bytes in, names and paths out.

It is another system's file, perhaps of a container or half written: nothing in it is believed unchecked.

Source: glibc 2.36, sysdeps/generic/dl-cache.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

CACHE_FILE = "/etc/ld.so.cache"
_OLD_MAGIC = b"ld.so-1.7.0\0"
_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_HEADER, _OLD_ENTRY = struct.Struct("<12sI"), 12
_HEADER = struct.Struct("<20sII")  # magic, number of entries, length of the strings
_HEADER_SIZE = 48
_ENTRY = struct.Struct("<iIIIQ")  # flags, key, value, OS version, hwcap; offsets from the header's start


class LdCacheError(ValueError):
    """Not a cache of a kind that we know, or one that contradicts itself."""


@dataclass(frozen=True)
class Entry:
    """soname  what a program asks for: "libcuda.so.1"; path  what it gets; flags  kind of library."""

    soname: str
    path: str
    flags: int


def parse(content: bytes) -> list[Entry]:
    """In the cache's own order: of two entries with one soname the loader takes the first that fits.

    raises  LdCacheError
    """
    data = _new_part(content)
    _, count, _ = _HEADER.unpack_from(data)
    if _HEADER_SIZE + count * _ENTRY.size > len(data):
        raise LdCacheError(f"it names {count} entries and is too short for them")
    return list(_entries(data, count))


def _new_part(content: bytes) -> bytes:
    """What follows the tables that only old loaders read."""
    if content.startswith(_OLD_MAGIC) and len(content) >= _OLD_HEADER.size:
        _, count = _OLD_HEADER.unpack_from(content)
        end = _OLD_HEADER.size + count * _OLD_ENTRY
        content = content[(end + 7) // 8 * 8 :]
    if not content.startswith(_MAGIC) or len(content) < _HEADER_SIZE:
        raise LdCacheError("it is no ld.so.cache of glibc 2.2 or newer")
    return content


def _entries(data: bytes, count: int) -> Iterator[Entry]:
    for number in range(count):
        flags, key, value, _, _ = _ENTRY.unpack_from(data, _HEADER_SIZE + number * _ENTRY.size)
        yield Entry(_text(data, key), _text(data, value), flags)


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset) if offset < len(data) else -1
    if end < 0:
        raise LdCacheError(f"a name would stand at byte {offset}, behind its end")
    return data[offset:end].decode(errors="replace")
