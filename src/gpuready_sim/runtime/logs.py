"""Container logs as the runtime keeps them: `<time> stdout F <line>`, one file per start of a container."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

MAX_LINE = 16 * 1024
_TIME_LENGTH = len("2027-01-31T12:00:00.123456000Z")


class Log:
    """One log file and those who follow it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changed = asyncio.Event()
        self._ended = False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")

    async def copy_from(self, stream: asyncio.StreamReader) -> None:
        """Until the stream ends."""
        try:
            with self.path.open("ab", buffering=0) as file:
                rest = b""
                while chunk := await stream.read(64 * 1024):
                    *lines, rest = (rest + chunk).split(b"\n")
                    if len(rest) > MAX_LINE:
                        lines, rest = [*lines, rest], b""
                    file.write(b"".join(_stamped(line) for line in lines))
                    self._wake()
                if rest:
                    file.write(_stamped(rest))
        finally:
            self._ended = True
            self._wake()

    def append(self, text: str) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(_stamped(line) for line in text.encode().splitlines()))
        self._wake()

    async def follow(
        self, *, tail: int | None = None, timestamps: bool = False, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """Lines, the last `tail` of those there are first; with `follow` until the container ends."""
        with self.path.open("rb") as file:
            lines = file.readlines()
            yield b"".join(_shown(line, timestamps) for line in _last(lines, tail))
            while follow:
                changed, ended = self._changed, self._ended
                more = file.read()
                if more:
                    yield b"".join(_shown(line, timestamps) for line in more.splitlines(keepends=True))
                elif ended:
                    return
                else:
                    await changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def tail_text(path: Path, lines: int = 10) -> str:
    """The last lines without their times, for a terminated container's message."""
    try:
        return b"".join(_shown(line, False) for line in path.read_bytes().splitlines(True)[-lines:]).decode()
    except OSError:
        return ""


def _stamped(line: bytes) -> bytes:
    now = datetime.now(UTC)
    return f"{now:%Y-%m-%dT%H:%M:%S.%f}000Z stdout F ".encode() + line + b"\n"


def _shown(line: bytes, timestamps: bool) -> bytes:
    time, _, rest = line.partition(b" stdout F ")
    return time + b" " + rest if timestamps else rest


def _last(lines: list[bytes], tail: int | None) -> list[bytes]:
    return lines if tail is None else lines[max(0, len(lines) - tail) :]
