"""Text from a cluster on its way to a terminal: nobody who can write an Event may write to the screen.

Pure, but for `width`. Names, messages and reasons come from nodes, pods and bundles. What moves the cursor,
breaks a line or turns the direction of writing is shown as an escape, so that one fact stays one line.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable

# Control, format (bidi, zero width), surrogate; line and paragraph separators.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str) -> str:
    r"""`\x1b`, `\n`, `\u202e` as those letters; doing it twice changes nothing."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) if unicodedata.category(char) in _UNSEEN else char for char in text)


def joined(lines: Iterable[str]) -> str:
    """One line of the screen for each of `lines`, whatever is in them."""
    return "\n".join(printable(line) for line in lines)


def width() -> int | None:
    """Columns of the terminal that reads us; None for a pipe or a file, whose lines stay whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def folded(text: str, columns: int | None, *, hang: int = 0) -> str:
    """Lines that are longer than the terminal, broken between words and indented below where they began.

    A line that says what to do next stays whole: the terminal breaks it too, and it can still be copied.

    hang   column at which the rest goes on; 0 = below the second word
    """
    if columns is None:
        return text
    return "\n".join(_folded(line, max(columns, _NARROWEST), hang) for line in text.split("\n"))


_NARROWEST = 40
_HEAD = re.compile(r"\s*\S+\s+")


def _folded(line: str, columns: int, hang: int) -> str:
    if len(line) <= columns or line.lstrip().startswith("next "):
        return line
    head = _HEAD.match(line)
    indent = min(hang or (head.end() if head else 0), columns // 2)
    parts = textwrap.wrap(
        line,
        columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(parts)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
