"""What the control plane wants of a daemon of this node, as a file that the daemon watches.

The node agent mirrors GPUNode.spec into `/run/gpuready/desired/<operand>.json`, and keeps the same in
`/var/lib/gpuready/desired` so that a node that boots while the API server is away goes on with what it knew.
A file of another boot counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from gpuready.node.files import find_object, write_if_changed
from gpuready.shape import Needed

# Wished instead of a configuration: give the host back what it had.
AWAY: Mapping[str, Any] = {"enabled": False}


class Source(StrEnum):
    API = "api"
    LAST_KNOWN = "last-known"


@dataclass(frozen=True)
class Desired:
    """One operand's wish. `config` None with an `error` = nothing valid to run with, and why.

    error   {"reason", "message", "nextStep"} or None; with a config = the last good one stays in force
    """

    operand: str
    boot_id: str
    generation: int = 0
    source: Source = Source.API
    config: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    config_name: str = ""
    digest: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "operand": self.operand,
            "bootId": self.boot_id,
            "generation": self.generation,
            "source": str(self.source),
            "config": self.config,
            "error": self.error,
            "configName": self.config_name,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        return cls(
            operand=str(row["operand"]),
            boot_id=str(row.get("bootId") or ""),
            generation=int(row.get("generation") or 0),
            source=Source(row.get("source") or Source.API),
            config=row.get("config"),
            error=row.get("error"),
            config_name=str(row.get("configName") or ""),
            digest=str(row.get("digest") or ""),
        )


_ERROR = {"reason": str, "message": str, "nextStep": str, "evidence": [str]}
_SHAPE = Needed(
    {
        "operand": str,
        "bootId": str,
        "generation": int,
        "source": Source,
        "config": {},
        "error": _ERROR,
        "configName": str,
        "digest": str,
    },
    ("operand",),
)


def find(directory: Path, operand: str, boot_id: str = "") -> Desired | None:
    """This boot's wish; any boot's when `boot_id` is "". None when absent, stale or unreadable."""
    row = find_object(path_of(directory, operand), _SHAPE)
    if row is None:
        return None
    wish = Desired.from_json(row)
    return wish if not boot_id or wish.boot_id == boot_id else None


def write(directory: Path, wish: Desired) -> bool:
    """True when the file differed."""
    return write_if_changed(path_of(directory, wish.operand), json.dumps(wish.to_json(), indent=1).encode())


def remove(directory: Path, operand: str) -> None:
    path_of(directory, operand).unlink(missing_ok=True)


def path_of(directory: Path, operand: str) -> Path:
    return directory / f"{operand}.json"
