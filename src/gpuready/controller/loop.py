"""The one shape of every loop: take a key, reconcile it, and come back later if that failed.

A loop never acts on what an event said; events only name keys. One key's failure delays that key alone.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable

from gpuready.errors import GPUReadyError
from gpuready.kube.errors import Conflict, Unreachable
from gpuready.kube.queue import WorkQueue
from gpuready.log import get_logger

# While the API server is away every try fails alike: it says nothing about the key, so the wait does not
# grow and nothing is left waiting for a minute when the server is back.
AWAY_RETRY_S = 2.0


class Loop(ABC):
    def __init__(self, name: str, *, workers: int = 1) -> None:
        self.name = name
        self.queue = WorkQueue()
        self.reconciled = 0  # passes that began
        self.results: Counter[str] = Counter()  # of passes that ended: ok, conflict, away, failed
        self.on_pass: Callable[[float], None] = lambda duration_s: None
        self._workers = workers
        self._log = get_logger(f"controller.{name}")

    @property
    def failed(self) -> int:
        return self.results["failed"]

    @abstractmethod
    async def reconcile(self, key: str) -> None:
        """Bring what `key` names to what it should be; raise GPUReadyError to be called again."""

    def begin(self) -> None:  # noqa: B027, a loop without a memory has nothing to forget
        """A term begins: others have acted since the last. Forget what it knew, and look at every key."""

    async def run(self) -> None:
        """One term, until cancelled."""
        self.begin()
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name} {number}")

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._try(key)
            finally:
                self.queue.done(key)

    async def _try(self, key: str) -> None:
        self.reconciled += 1
        began = time.monotonic()
        result = await self._result_of(key)
        self.results[result] += 1
        self.on_pass(time.monotonic() - began)

    async def _result_of(self, key: str) -> str:
        try:
            await self.reconcile(key)
        except Conflict:
            # Somebody wrote in between; the watch brings the newer object.
            self.queue.add_rate_limited(key)
            return "conflict"
        except Unreachable as exc:
            self.queue.add_after(key, AWAY_RETRY_S)
            self._log.debug("API server away", key=key, error=str(exc), retry_in_s=AWAY_RETRY_S)
            return "away"
        except GPUReadyError as exc:
            wait = self.queue.add_rate_limited(key)
            self._log.warning("not reconciled", key=key, error=str(exc), retry_in_s=round(wait, 1))
            return "failed"
        except Exception:
            # A mistake of ours in one object must not stop the others.
            self.queue.add_rate_limited(key)
            self._log.exception("not reconciled", key=key)
            return "failed"
        self.queue.forget(key)
        return "ok"
