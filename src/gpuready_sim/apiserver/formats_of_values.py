"""String formats that CRD schemas may name. Unknown formats are ignored, as the API server ignores them.

Source: kube-openapi pkg/validation/strfmt.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final
from urllib.parse import urlsplit

GO_DURATION: Final = re.compile(
    r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|0"
)
LONG_DURATION: Final = re.compile(r"\d+(\.\d+)?\s*(ns|us|µs|ms|s|m|h|d|w|[a-z]+)")
DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
HOSTNAME: Final = re.compile(
    r"(?i)[a-z0-9](-?[a-z0-9]{0,62})?|([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z]{2,63}"
)
EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")


def fits(text: str, form: str) -> bool:
    rule = RULES.get(form)
    return rule is None or rule(text)


def _tried(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def rule(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return rule


def _matching(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _matching(DATE_TIME),
    "datetime": _matching(DATE_TIME),
    "date": _tried(date.fromisoformat),
    "duration": lambda text: bool(GO_DURATION.fullmatch(text) or LONG_DURATION.fullmatch(text)),
    "uuid": _matching(UUID),
    "hostname": _matching(HOSTNAME),
    "email": _matching(EMAIL),
    "ipv4": _tried(ipaddress.IPv4Address),
    "ipv6": _tried(ipaddress.IPv6Address),
    "cidr": lambda text: "/" in text and _tried(lambda one: ipaddress.ip_network(one, strict=False))(text),
    "byte": _tried(lambda text: base64.b64decode(text, validate=True)),
    "uri": _is_uri,
}
