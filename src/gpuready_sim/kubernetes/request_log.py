"""The API server's audit log, line by line, as requests.jsonl of the cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_POLL_S = 0.1


async def follow(audit_log: Path, requests: Path) -> None:
    """Until cancelled; what has been written by then is in `requests`."""
    requests.touch(mode=0o600)
    reader = _Reader(audit_log)
    with requests.open("a") as out:
        try:
            while True:
                out.writelines(reader.new_lines())
                out.flush()
                await asyncio.sleep(_POLL_S)
        finally:
            out.writelines(reader.new_lines())


class _Reader:
    """Follows one file from its beginning, across the API server's restarts (it appends)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_lines(self) -> Iterator[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            record = request_of(json.loads(line))
            if record is not None:
                yield json.dumps(record) + "\n"


def request_of(event: dict[str, Any]) -> dict[str, Any] | None:
    """A line of requests.jsonl; None for a stage that would count the request twice."""
    verb = event["verb"]
    if event["stage"] != ("ResponseStarted" if verb == "watch" else "ResponseComplete"):
        return None
    about = event.get("objectRef") or {}
    received, done = (_time(event[key]) for key in ("requestReceivedTimestamp", "stageTimestamp"))
    return {
        "time": event["stageTimestamp"],
        "client": event.get("userAgent", "").partition(" ")[0].partition("/")[0],
        "user": (event.get("user") or {}).get("username", ""),
        "verb": verb,
        "resource": about.get("resource") or urlsplit(event["requestURI"]).path,
        "subresource": about.get("subresource", ""),
        "namespace": about.get("namespace", ""),
        "name": about.get("name", ""),
        "code": (event.get("responseStatus") or {}).get("code", 0),
        "ms": round((done - received).total_seconds() * 1000, 1),
    }


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
