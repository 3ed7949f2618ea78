"""The one shape of every loop: take a key, reconcile it, and come back later if that failed.

A loop never acts on what an event said; events only name keys. One key's failure delays that key alone.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable

from gpuready.controller.troubles import Troubles
from gpuready.errors import GPUReadyError, InternalError
from gpuready.kube.errors import ApiStatusError, Away, Conflict, is_passing
from gpuready.kube.queue import WorkQueue
from gpuready.log import get_logger

# While the API server is away every try fails alike: it says nothing about the key, so the wait does not
# grow and nothing is left waiting for a minute when the server is back.
AWAY_RETRY_S = 2.0
# So often in a row it may be somebody else's turn before it is worth a word.
CONFLICTS_BEFORE_TROUBLE = 5


class Postponed(GPUReadyError):
    """Not done, already told, and to be tried again; `retry_after` is the server's wish in seconds."""

    retry_after: float | None = None


class Loop(ABC):
    def __init__(self, name: str, *, workers: int = 1) -> None:
        self.name = name
        self.queue = WorkQueue()
        self.reconciled = 0  # passes that began
        self.results: Counter[str] = Counter()  # of passes that ended: ok, conflict, away, failed
        self.on_pass: Callable[[float], None] = lambda duration_s: None
        self._workers = workers
        self._log = get_logger(f"controller.{name}")
        self.troubles = Troubles(name, self._log)

    @property
    def failed(self) -> int:
        return self.results["failed"]

    @abstractmethod
    async def reconcile(self, key: str) -> None:
        """Bring what `key` names to what it should be; raise GPUReadyError to be called again."""

    def begin(self) -> None:  # noqa: B027, a loop without a memory has nothing to forget
        """A term begins: others have acted since the last. Forget what it knew, and look at every key."""

    def look_again(self) -> None:  # noqa: B027, nothing to look at is fine
        """Something that was kept from us can be read: decide on everything anew."""

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
        except Conflict as exc:
            # Somebody wrote in between; the watch brings the newer object.
            self._put_off(key, exc, tell=self.queue.retries(key) >= CONFLICTS_BEFORE_TROUBLE)
            return "conflict"
        except Away as exc:
            self.queue.add_after(key, AWAY_RETRY_S)
            self._log.debug("API server away", key=key, error=str(exc), retry_in_s=AWAY_RETRY_S)
            return "away"
        except Postponed as exc:
            self._put_off(key, exc, tell=False)
            return "failed"
        except GPUReadyError as exc:
            # What may pass by itself is worth a word when it happens twice.
            self._put_off(key, exc, tell=not is_passing(exc) or self.queue.retries(key) > 0)
            return "failed"
        except Exception as exc:
            # A mistake of ours in one object must not stop the others.
            self._log.exception("not reconciled", key=key)
            self._put_off(key, InternalError.of(exc), tell=True)
            return "failed"
        self.queue.forget(key)
        self.troubles.over(key)
        return "ok"

    def _put_off(self, key: str, exc: GPUReadyError, *, tell: bool) -> None:
        asked = exc.retry_after if isinstance(exc, ApiStatusError | Postponed) else None
        wait_s = self.queue.add_rate_limited(key, at_least_s=asked or 0.0)
        if tell:
            self.troubles.failed(key, str(exc), wait_s)
        self._log.debug("put off", key=key, error=str(exc), retry_in_s=round(wait_s, 1))
