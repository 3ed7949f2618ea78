"""requests.jsonl of the API server: who asked what, and with which outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class RequestLine:
    """One request. `fields` is the whole line of the log."""

    fields: dict[str, Any]

    @property
    def is_write(self) -> bool:
        return self.fields.get("verb") in WRITES

    @property
    def is_lease(self) -> bool:
        return self.fields.get("resource") == "leases"

    @property
    def client(self) -> str:
        return str(self.fields.get("client"))

    @property
    def time(self) -> datetime:
        return parse_rfc3339(self.fields["time"])

    @property
    def what(self) -> str:
        """resource, with its subresource"""
        sub = self.fields.get("subresource")
        return f"{self.fields['resource']}/{sub}" if sub else str(self.fields["resource"])

    @property
    def name(self) -> str:
        namespace, name = self.fields.get("namespace"), self.fields.get("name") or ""
        return f"{namespace}/{name}" if namespace else str(name)


@dataclass(frozen=True)
class Filter:
    """Which lines are asked for; all of them unless told otherwise."""

    writes_only: bool = False
    leases: bool = True
    client: str | None = None
    since: datetime | None = None

    def takes(self, line: RequestLine) -> bool:
        return (
            (not self.writes_only or line.is_write)
            and (self.leases or not line.is_lease)
            and (self.client is None or line.client == self.client)
            and (self.since is None or line.time >= self.since)
        )


EVERYTHING = Filter()


def read(path: Path, wanted: Filter = EVERYTHING) -> Iterator[RequestLine]:
    """Lines in the order they were written; a line cut short by a kill is skipped."""
    if not path.exists():
        return
    with path.open() as stream:
        for text in stream:
            try:
                line = RequestLine(json.loads(text))
            except ValueError:
                continue
            if wanted.takes(line):
                yield line


def parse_rfc3339(text: str) -> datetime:
    """raises ValueError; a time without a zone is refused too"""
    found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return found
