"""Files that somebody names on a command line or in a kubeconfig: read to their end, but never without one.

A pipe is waited for, as everywhere; what is too long (a device, a log, another person's joke) is an error.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path

from gpuready.errors import UsageError

MOST_BYTES = 4 * 2**20  # a policy with all that stands beside it, a kubeconfig, a counters file
MOST_BYTES_OF_A_CLUSTER = 256 * 2**20  # a node is some 25 KiB of YAML: 10,000 of them


class GivenText(str):
    """The text of a file, which knows whose it is: what is wrong with it can be said with its name."""

    name: str

    def __new__(cls, text: str, name: str) -> GivenText:
        made = super().__new__(cls, text)
        made.name = name
        return made


def name_of(text: str, otherwise: str) -> str:
    return text.name if isinstance(text, GivenText) else otherwise


def read_given(path: str | Path, most_bytes: int = MOST_BYTES) -> bytes:
    """All of a file; "-" is standard input.

    raises  OSError, also for more than `most_bytes`
    """
    if path == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        content = sys.stdin.buffer.read(most_bytes + 1)
    else:
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes // 2**20} MiB", str(path))
    return content


def shown(path: str) -> str:
    return "standard input" if path == "-" else path


def read_or_say(path: str, kind: str, most_bytes: int = MOST_BYTES) -> bytes:
    """As `read_given`, for a file that a person has named.

    kind    what it should be: "a policy's YAML"
    raises  UsageError
    """
    try:
        return read_given(path, most_bytes)
    except OSError as exc:
        raise UsageError(
            f"cannot read {shown(path)}",
            why=exc.strerror or str(exc),
            next_step=f"name {kind}, or give its text on stdin and - as the name",
        ) from exc
