"""What the schema says of a field beyond its type: a description, and the schema's own default or limits.

A Python default is what an absent field means to us. `default=` here is what the API server writes into
stored objects; most fields have none, so that a policy stays as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_UNSET: Any = object()


def doc(
    description: str,
    *,
    default: Any = _UNSET,
    enum: Sequence[str] = (),
    pattern: str = "",
    minimum: int | None = None,
    maximum: int | None = None,
    list_keys: Sequence[str] = (),
    atomic: bool = False,
) -> msgspec.Meta:
    """Meta for `Annotated`; limits are held by validation.py and the API server, not by the decoder.

    atomic  of a block that has one writer: the API server then keeps no account of who owns which field in it
    """
    extra: dict[str, Any] = {}
    if default is not _UNSET:
        extra["default"] = default
    if enum:
        extra["enum"] = list(enum)
    if pattern:
        extra["pattern"] = pattern
    if minimum is not None:
        extra["minimum"] = minimum
    if maximum is not None:
        extra["maximum"] = maximum
    if list_keys:
        extra["x-kubernetes-list-type"] = "map"
        extra["x-kubernetes-list-map-keys"] = list(list_keys)
    if atomic:
        extra["x-kubernetes-map-type"] = "atomic"
    return msgspec.Meta(description=description, extra_json_schema=extra or None)


def block(kind: type[T]) -> T:
    """A block of the policy that is as if `{}` stood there when it is absent."""
    return msgspec.field(default_factory=kind)
