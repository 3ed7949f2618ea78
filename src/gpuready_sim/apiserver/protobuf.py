"""Request bodies in Kubernetes' binary form, as typed Go clients send them ("kubectl create namespace").

Only reading: answers are JSON, which these clients accept as well. A body is the four bytes "k8s\\0" and
a message `runtime.Unknown` around the object.

Source: kubernetes, apimachinery/pkg/runtime/serializer/protobuf/protobuf.go; protobuf's encoding guide.
"""

from __future__ import annotations

import base64
import datetime
import gzip
import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
_UNKNOWN = "k8s.io.apimachinery.pkg.runtime.Unknown"
_ZERO = ("", 0, False, 0.0)

Value = int | bytes
Field = tuple[str, str, str]  # JSON name, type, flags (data/extract_protobuf.py)


class ProtobufError(ValueError):
    """A body that is not what it says."""


def decode_body(body: bytes) -> dict[str, Any]:
    """The object in a binary body, as its JSON would be.

    raises  ProtobufError
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        envelope = _message(body[len(_MAGIC) :], _UNKNOWN)
        api_version, kind = envelope.get("apiVersion", ""), envelope.get("kind", "")
        raw = base64.b64decode(envelope.get("raw", ""))
        obj = _message(raw, _type_of(api_version, kind))
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as exc:
        raise ProtobufError(f"the body cannot be read: {exc!r}") from exc
    return {"apiVersion": api_version, "kind": kind, **obj}


@cache
def _table() -> dict[str, dict[str, Field]]:
    content = files(__package__).joinpath("data", "protobuf.json.gz").read_bytes()
    table: dict[str, dict[str, Field]] = json.loads(gzip.decompress(content))
    return table


def _type_of(api_version: str, kind: str) -> str:
    """The message of a kind; options such as DeleteOptions stand in the meta group."""
    group, _, version = api_version.rpartition("/")
    for name in (f"k8s.io.api.{group.split('.')[0] or 'core'}.{version}.{kind}", _META + kind):
        if name in _table():
            return name
    raise ProtobufError(f"the kind {kind} of {api_version} is not known in this encoding")


def _message(data: bytes, type: str) -> Any:
    special = _SPECIAL.get(type)
    fields = _table()[type]
    out: dict[str, Any] = {}
    for number, value in _pairs(data):
        field = fields.get(str(number))
        if field is not None:
            _put(out, field, value)
    return special(out) if special is not None else out


def _put(out: dict[str, Any], field: Field, value: Value) -> None:
    name, type, flags = field
    if "m" in flags:
        key, item = _map_entry(_bytes(value), type)
        out.setdefault(name, {})[key] = item
    elif "r" in flags:
        out.setdefault(name, []).extend(_elements(value, type))
    elif "i" in flags:
        out.update(_message(_bytes(value), type))
    else:
        found = _value(value, type)
        if "z" in flags or (found not in _ZERO and found is not None):
            out[name] = found


def _map_entry(data: bytes, type: str) -> tuple[str, Any]:
    parts = dict(_pairs(data))
    return _bytes(parts.get(1, b"")).decode(), _value(parts.get(2, b""), type)


def _elements(value: Value, type: str) -> list[Any]:
    """One element, or several numbers packed together."""
    if isinstance(value, bytes) and type in ("int32", "int64", "bool"):
        found, at = [], 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(_value(number, type))
        return found
    return [_value(value, type)]


def _value(value: Value, type: str) -> Any:
    match type:
        case "string":
            return _bytes(value).decode()
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "bool":
            return bool(value)
        case "int32" | "int64":
            number = value if isinstance(value, int) else 0
            return number - (1 << 64) if number >= 1 << 63 else number
        case "double":
            return struct.unpack("<d", _bytes(value))[0]
        case _:
            return _message(_bytes(value), type)


def _bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ProtobufError("a number stands where text was expected")


def _pairs(data: bytes) -> Iterator[tuple[int, Value]]:
    """Field numbers with their values: integers, or the bytes of everything else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                number, at = _varint(data, at)
                yield key >> 3, number
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise ProtobufError("the body is cut off")
                yield key >> 3, data[at : at + size]
                at += size
            case 1 | 5 as wire:
                size = 8 if wire == 1 else 4
                yield key >> 3, data[at : at + size]
                at += size
            case wire:
                raise ProtobufError(f"wire type {wire} is not used by Kubernetes")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
        shift += 7


# --- types that JSON writes in their own way ---


def _time(out: dict[str, Any]) -> str | None:
    return _stamp(out).strftime("%Y-%m-%dT%H:%M:%SZ") if out else None


def _micro_time(out: dict[str, Any]) -> str | None:
    return _stamp(out).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if out else None


def _stamp(out: dict[str, Any]) -> datetime.datetime:
    start = datetime.datetime.fromtimestamp(out.get("seconds", 0), datetime.UTC)
    return start + datetime.timedelta(microseconds=out.get("nanos", 0) // 1000)


def _int_or_string(out: dict[str, Any]) -> int | str:
    found: int | str = out.get("strVal", "") if out.get("type") else out.get("intVal", 0)
    return found


def _raw_json(out: dict[str, Any]) -> Any:
    raw = out.get("raw") or out.get("Raw") or ""
    return json.loads(base64.b64decode(raw)) if raw else None


_SPECIAL: dict[str, Callable[[dict[str, Any]], Any]] = {
    _META + "Time": _time,
    _META + "MicroTime": _micro_time,
    _META + "Duration": lambda out: f"{out.get('duration', 0) / 1e9:g}s",
    _META + "FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda out: out.get("string", "0"),
    "k8s.io.api.authentication.v1.ExtraValue": lambda out: out.get("items", []),
    "k8s.io.api.authorization.v1.ExtraValue": lambda out: out.get("items", []),
}
