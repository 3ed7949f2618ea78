"""Numbers and lists in sentences, and how long a sentence may be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

# A condition is read by people, kept by etcd with everything else of its object, and written again and again.
LONGEST_MESSAGE = 1024


def counted(number: int, word: str) -> str:
    """ "1 GPU", "2 GPUs", "0 nodes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(names: Sequence[str], most: int = 8) -> str:
    """ "a, b"; "a, b and 7 more" where there are more than `most`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def bounded(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def nearest(asked: str, known: Iterable[str], most: int) -> list[str]:
    """The most similar of what is known, in the order of the alphabet; all of it where that is not more."""
    found = sorted(known)
    if len(found) <= most:
        return found
    matcher = SequenceMatcher(b=asked[:_TELLING], autojunk=False)

    def unlike(each: str) -> tuple[float, str]:
        matcher.set_seq1(each[:_TELLING])
        return -matcher.quick_ratio(), each

    return sorted(sorted(found, key=unlike)[:most])


_TELLING = 64  # characters of a name: thousands of long ones are compared in a tenth of a second
