"""Numbers in sentences. Pure."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """ "1 GPU", "2 GPUs", "0 nodes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
