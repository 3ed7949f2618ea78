"""What a command prints arrives, or the command says that it did not."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, cast

from gpuready.errors import UsageError


@contextmanager
def arriving() -> Iterator[None]:
    """All that is printed has left us when this ends.

    raises  UsageError when standard output takes nothing (a full disk, a closed descriptor);
            SystemExit 1, as click does, when whoever read it has gone
    """
    if sys.stdout is None:  # closed before we began: Python and click would print into nothing and be content
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    output = _Output(sys.stdout)
    try:
        with redirect_stdout(cast(TextIO, output)):
            yield
            output.flush()
    except BrokenPipeError:
        if not output.is_refused:
            raise
        sys.exit(1)
    finally:
        if output.is_refused:
            with suppress(OSError):
                sys.stdout.close()  # or the interpreter tries once more at its end


class _Output:
    """A stream whose errors cannot be taken for those of another file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_refused = False

    def write(self, text: str) -> int:
        with self._refusing():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._refusing():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            self.is_refused = True
            if exc.errno == errno.EPIPE:
                raise
            raise UsageError(
                "cannot write to standard output",
                why="it is closed" if exc.errno == errno.EBADF else exc.strerror or str(exc),
                next_step="send it to a terminal, a pipe or a file that has room",
            ) from exc
