"""requests.jsonl: one line per request, for `gpuready-sim requests` and for tests that count writes."""

from __future__ import annotations

import asyncio
import datetime
import os
from pathlib import Path

from gpuready_sim.apiserver.requests import Request
from gpuready_sim.apiserver.store import encode

_FLUSH_S = 0.05


class Audit:
    """Collects lines and writes them together, 50 ms later at most."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._descriptor = -1
        self._pending: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, request: Request, code: int, duration_s: float) -> None:
        if self._descriptor < 0:
            return
        self._pending.append(encode(_record(request, code, duration_s)))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            os.write(self._descriptor, b"\n".join(self._pending) + b"\n")
            self._pending = []

    def close(self) -> None:
        self.flush()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _record(request: Request, code: int, duration_s: float) -> dict[str, object]:
    target = request.target
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return {
        "time": now.replace("+00:00", "Z"),
        "client": request.agent,
        "user": request.user.name,
        "verb": request.verb,
        "resource": target.plural if target else request.path,
        "subresource": target.subresource if target else "",
        "namespace": target.namespace if target else "",
        "name": (target.name if target else "") or request.created_name,
        "code": code,
        "ms": round(duration_s * 1000, 1),
    }
