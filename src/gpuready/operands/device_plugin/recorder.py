"""Writes the record when it changes, and reads back what an earlier process of this boot knew."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuready.gpu.health import Health
from gpuready.log import get_logger
from gpuready.node.files import find_object, read_regular, write_atomic
from gpuready.node.records import PLUGIN_RECORD
from gpuready.operands.device_plugin.record import (
    differ_in_bursts_alone,
    remembered,
    remembered_allocations,
    stamped,
)
from gpuready.operands.device_plugin.resources import Card

_PAUSE_S = 0.5
# A GPU in trouble can raise thousands of XIDs a second, and pods come in bursts: records that differ in
# nothing else wait this long.

log = get_logger("device-plugin")


class Recorder:
    """One file, or none when `path` is None. `again` asks for another `write` in the loop's thread."""

    def __init__(self, path: Path | None, boot: str, again: Callable[[], None]) -> None:
        self._path = path
        self._boot = boot
        self._again = again
        self._written: Mapping[str, Any] = {}
        self._content: bytes | None = None
        self._written_at = 0.0

    @property
    def path(self) -> Path | None:
        return self._path

    @property
    def has_failed(self) -> bool:
        """The last write did: `write` tries again when it is asked."""
        return self._content == b""

    def remember(self) -> tuple[list[Card], dict[str, Health]]:
        """A plugin that restarts within a boot knows which GPUs there were and what XIDs did to them."""
        try:
            return remembered(self._find(), self._boot)
        except (ValueError, OverflowError):  # a time or a recovery that is none
            return [], {}

    def remember_allocations(self) -> Mapping[str, Any]:
        return remembered_allocations(self._find(), self._boot)

    def _find(self) -> Mapping[str, Any]:
        return (find_object(self._path, PLUGIN_RECORD) if self._path else None) or {}

    def write(self, record: Mapping[str, Any], *, at_once: bool = False) -> None:
        if self._path is None or (record == self._written and self._is_untouched(self._path)):
            return
        loop = asyncio.get_running_loop()
        due_at = self._written_at + _PAUSE_S
        is_hasty = loop.time() < due_at and not at_once
        if is_hasty and (record == self._written or differ_in_bursts_alone(record, self._written)):
            loop.call_at(due_at, self._again)
            return
        self._written, self._written_at = record, loop.time()
        row = stamped(record, pid=os.getpid(), boot=self._boot, now=time.time())
        content = json.dumps(row, indent=1).encode()
        try:
            write_atomic(self._path, content)
        except OSError as exc:
            if not self.has_failed:
                log.warning("record not written", file=self._path.name, reason=exc.strerror)
            content = b""
        self._content = content

    def _is_untouched(self, path: Path) -> bool:
        """Nobody has removed or overwritten what we wrote: it is all that the node agent knows of us."""
        try:
            return read_regular(path) == self._content
        except OSError:
            return False
