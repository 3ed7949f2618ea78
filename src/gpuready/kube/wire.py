"""What is read from an object whatever its type: its key, its version, and the lines of a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")
Decode = Callable[[bytes], T]


class Metadata(Protocol):
    name: str
    namespace: str
    resource_version: str


class HasMetadata(Protocol):
    metadata: Any


@dataclass(frozen=True)
class WatchEvent(Generic[T]):
    """ADDED, MODIFIED, DELETED with an object, or BOOKMARK with a resourceVersion only."""

    type: str
    resource_version: str
    object: T | None = None


def key_of(obj: Any) -> str:
    """ "namespace/name", or "name" for an object without a namespace; dicts and structs alike."""
    if isinstance(obj, Mapping):
        meta = obj["metadata"]
        return key(meta["name"], meta.get("namespace"))
    return key(obj.metadata.name, obj.metadata.namespace)


def key(name: str, namespace: str | None = None) -> str:
    return f"{namespace}/{name}" if namespace else name


def version_of(obj: Any) -> str:
    if isinstance(obj, Mapping):
        return str(obj["metadata"].get("resourceVersion", ""))
    return str(obj.metadata.resource_version)


def is_older(version: str, than: str) -> bool:
    """Whether one resourceVersion of an object came before another; False where that cannot be said.

    Source: KEP-5504 (versions are numbers that can be compared; etcd's revisions always were).
    """
    return version.isdigit() and than.isdigit() and int(version) < int(than)


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct):
    """One page of a list; items stay raw until the caller's decoder sees them."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None
    kind: str = ""

    @property
    def is_list(self) -> bool:
        return self.kind.endswith("List") and bool(self.metadata.resource_version)


class WatchLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _MetaOnly(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _NameOnly(msgspec.Struct):
    metadata: Named = msgspec.field(default_factory=Named)


decode_page = msgspec.json.Decoder(ListPage).decode
decode_line = msgspec.json.Decoder(WatchLine).decode
decode_any = msgspec.json.Decoder().decode
_decode_meta = msgspec.json.Decoder(_MetaOnly).decode
_decode_name = msgspec.json.Decoder(_NameOnly).decode


def raw_version_of(raw: bytes | msgspec.Raw) -> str:
    """raises  msgspec.DecodeError"""
    return _decode_meta(raw).metadata.resource_version


def find_name_of(raw: bytes | msgspec.Raw) -> Named:
    """What an object that we cannot read is called; empty when not even that can be seen."""
    try:
        return _decode_name(raw).metadata
    except (msgspec.DecodeError, RecursionError):
        return Named()


class LineSplitter:
    """Cut a byte stream into lines of any length; an unfinished last line is never handed out."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.unfinished_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = data[start:end]
            if self._parts:
                line = b"".join([*self._parts, line])
                self._parts.clear()
                self.unfinished_bytes = 0
            if line.strip():
                yield line
            start = end + 1
        if start < len(data):
            self._parts.append(data[start:])
            self.unfinished_bytes += len(data) - start
