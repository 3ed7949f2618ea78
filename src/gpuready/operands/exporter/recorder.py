"""The record by which the node agent knows how the exporter is; see node/operand_records.py."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuready.log import get_logger
from gpuready.node.files import read_regular, write_atomic
from gpuready.operands.exporter.health import Health

log = get_logger("exporter")


class Recorder:
    """`write` whenever something may have changed. path None: nobody reads records here."""

    def __init__(self, path: Path | None, boot: str) -> None:
        self._path, self._boot = path, boot
        self._said: dict[str, Any] = {}
        self._content = b""
        self._trouble = ""

    def write(self, health: Health, *, may_make: bool) -> None:
        """may_make   False: a record that is gone stays gone, as an uninstall has taken it away"""
        if self._path is None or not (may_make or self._path.exists()):
            return
        said = {
            "state": str(health.state),
            "reason": health.reason,
            "message": health.message,
            "details": list(health.details),
            "nextStep": health.next_step,
        }
        if said == self._said and self._is_untouched(self._path):
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = {"bootId": self._boot, **said, "pid": os.getpid(), "time": now}
        self._content, self._said = json.dumps(row, indent=1).encode(), said
        try:
            write_atomic(self._path, self._content)
        except OSError as exc:
            trouble = exc.strerror or str(exc)
            if trouble != self._trouble:
                log.warning("record not written", file=self._path.name, reason=trouble)
            self._said, self._trouble = {}, trouble
        else:
            self._trouble = ""

    def remove(self) -> None:
        """Ours alone: a successor on the same node may have written its own already."""
        if self._path is not None and self._content and self._is_untouched(self._path):
            self._path.unlink(missing_ok=True)

    def _is_untouched(self, path: Path) -> bool:
        try:
            return read_regular(path) == self._content
        except OSError:
            return False
