"""What Go says of a time that it cannot read. Pure.

Source: Go, time/format.go, parse, with the layouts RFC3339 and apimachinery's RFC3339Micro.
"""

from __future__ import annotations

import re
from calendar import monthrange

SECONDS = "2006-01-02T15:04:05Z07:00"
MICROSECONDS = "2006-01-02T15:04:05.000000Z07:00"
_PARTS = re.compile(r"2006|01|02|15|04|05|\.000000|Z07:00|.")
_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}


class _Wrong(Exception):
    """A part of the layout that does not fit, or nothing and a sentence."""

    def __init__(self, part: str = "", rest: str = "", why: str = "") -> None:
        super().__init__(why)
        self.part, self.rest, self.why = part, rest, why


def complaint(text: str, layout: str = SECONDS) -> str:
    """
    layout   SECONDS or MICROSECONDS
    returns  the whole sentence; empty for a time that can be read
    """
    try:
        _read(text, layout)
    except _Wrong as exc:
        if exc.why:
            return f"parsing time {_quoted(text)}{exc.why}"
        return f'parsing time {_quoted(text)} as "{layout}": cannot parse {_quoted(exc.rest)} as "{exc.part}"'
    return ""


def _quoted(text: str) -> str:
    """As package time quotes: what is not ASCII byte by byte."""
    shown = {'"': '\\"', "\\": "\\\\"}
    each = (shown.get(char) or (char if " " <= char < "\x7f" else _bytes(char)) for char in text)
    return f'"{"".join(each)}"'


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def _read(text: str, layout: str) -> None:
    rest, found = text, dict[str, int]()
    for part in _PARTS.findall(layout):
        if part == "Z07:00":
            rest = _zone(rest, part)
            continue
        if part == ".000000":
            if not re.match(r"\.\d{6}", rest):
                raise _Wrong(part, rest)
            rest = rest[7:]
            continue
        width = len(part) - (part == "15" and re.match(r"\d(?!\d)", rest) is not None)  # 0:00 is read, too
        if not part.isdigit():
            if not rest.startswith(part):
                raise _Wrong(part, rest)
        elif not (rest[:width].isascii() and rest[:width].isdigit() and len(rest[:width]) == width):
            raise _Wrong(part, rest)
        else:
            found[part] = int(rest[:width])
            if why := _out_of_range(part, found[part]):
                raise _Wrong(why=why)
        rest = rest[width:]
        if part == "05" and ".000000" not in layout:
            rest = re.sub(r"^[.,]\d+", "", rest)
    if rest:
        raise _Wrong(why=f": extra text: {_quoted(rest)}")
    if not 1 <= found["02"] <= monthrange(found["2006"] or 4, found["01"])[1]:
        raise _Wrong(why=": day out of range")


def _out_of_range(part: str, value: int) -> str:
    name, least, most = _RANGES.get(part, ("", value, value))
    return "" if least <= value <= most else f": {name} out of range"


def _zone(rest: str, part: str) -> str:
    if rest.startswith("Z"):
        return rest[1:]
    if not re.match(r"[+-]\d\d:\d\d", rest):
        raise _Wrong(part, rest)
    for name, value, most in (("hour", rest[1:3], 24), ("minute", rest[4:6], 60)):
        if int(value) > most:
            raise _Wrong(why=f": time zone offset {name} out of range")
    return rest[6:]
