"""Text from a cluster on its way to a terminal: nobody who can write an Event may write to the screen.

Pure. Names, messages and reasons come from nodes, pods and bundles. What moves the cursor, breaks a line or
turns the direction of writing is shown as an escape, so that one fact stays one line.
"""

from __future__ import annotations

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


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
