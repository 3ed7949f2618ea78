"""Words for single values that the rules of several kinds share. Pure.

Source: kubernetes, apimachinery/pkg/util/validation/validation.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver.field_errors import FieldError, not_supported
from gpuready_sim.apiserver.names import port_name_errors

Object = dict[str, Any]
PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
NOT_AN_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NOT_A_NETWORK: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
MOST_ID: Final = 2**31 - 1


def one_of(holder: Object, field: str, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    value = holder.get(field)
    if value is not None and value not in allowed:
        yield not_supported(f"{path}.{field}" if path else field, value, allowed)


def within(holder: Object, field: str, path: str, least: int, most: int = MOST_ID) -> Iterator[FieldError]:
    value = holder.get(field)
    if value is not None and not least <= value <= most:
        yield FieldError(
            f"{path}.{field}", "Invalid", value, f"must be between {least} and {most}, inclusive"
        )


def not_negative(holder: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for field in fields:
        if (number := holder.get(field) or 0) < 0:
            yield FieldError(f"{path}.{field}", "Invalid", number, "must be greater than or equal to 0")


def port_or_name(port: Any, path: str) -> Iterator[FieldError]:
    """A number, or the name that a container gives to one."""
    if isinstance(port, int):
        if not 0 < port < 65536:
            yield FieldError(path, "Invalid", port, PORT_RANGE)
    else:
        yield from (FieldError(path, "Invalid", port, text) for text in port_name_errors(port))


def required(holder: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for field in fields:
        if not holder.get(field):
            yield FieldError(f"{path}.{field}", "Required")


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def relative_path(value: str, path: str) -> Iterator[FieldError]:
    if value.startswith("/"):
        yield FieldError(path, "Invalid", value, "must be a relative path")
    yield from no_way_up(value, path)


def no_way_up(value: str, path: str) -> Iterator[FieldError]:
    if ".." in value.split("/"):
        yield FieldError(path, "Invalid", value, "must not contain '..'")
