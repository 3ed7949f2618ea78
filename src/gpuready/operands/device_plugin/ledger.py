"""Which Allocate calls the node agent should hear of: noted in the call, told in the record soon after."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready.gpu.sharing import device_of
from gpuready.operands.device_plugin.record import iso

_SOON_S = 0.3  # one writing for a burst, and none inside a call
_KEPT = 16


@dataclass(frozen=True)
class Repeated:
    """One container got several replicas of one GPU."""

    resource: str
    device: str
    ids: tuple[str, ...]
    time: str

    def to_json(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "device": self.device,
            "ids": list(self.ids),
            "count": len(self.ids),
            "time": self.time,
        }


class Ledger:
    """How often Allocate was answered in this boot, and the last answers that named a GPU more than once.

    tell  called in the loop's thread when there is something new to write
    """

    def __init__(self, tell: Callable[[], None], now: Callable[[], float] = time.time) -> None:
        self._tell, self._now = tell, now
        self._count = 0
        self._repeated: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def remember(self, row: Mapping[str, Any]) -> None:
        """Go on from what an earlier process of this boot wrote."""
        self._count = int(row.get("count") or 0)
        self._repeated.extend(row.get("repeated") or ())

    def note(self, resource: str, ids: Sequence[str]) -> None:
        """Called inside Allocate: counts, and leaves the writing to later."""
        self._count += 1
        device = find_repeated(ids)
        if device:
            self._repeated.append(Repeated(resource, device, tuple(ids), iso(self._now())).to_json())
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(_SOON_S, self._tell_now)

    def to_json(self) -> dict[str, Any]:
        return {"count": self._count, "repeated": list(self._repeated)}

    def close(self) -> None:
        """`tell` is not called any more: the record may be a successor's."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _tell_now(self) -> None:
        self._timer = None
        self._tell()


def find_repeated(ids: Sequence[str]) -> str:
    """The first GPU of which `ids` has more than one replica; "" when each is another's."""
    seen: set[str] = set()
    for device in map(device_of, ids):
        if device in seen:
            return device
        seen.add(device)
    return ""
