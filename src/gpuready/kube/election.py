"""Leads while the Lease is ours: the shell around kube/lease.py, which decides.

    campaign ─▶ granted ─▶ the term's work runs, renewals beside it ─▶ lost ─▶ work cancelled ─▶ campaign
                                                                    └▶ told to end ─▶ drained ─▶ released

A candidate waits by watching the Lease: it sees a release at once, and asks nothing while the leader renews.
Losing is no error: the process goes on as a candidate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.kube import lease
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import AlreadyExists, Conflict, NotFound
from gpuready.kube.fence import Fence, boot_clock
from gpuready.kube.lease import Action, Record, Refusal, Standing, Timing
from gpuready.kube.resources import LEASES
from gpuready.log import get_logger

# An operator that is told to end has seconds: writes that are not answered by then keep the Lease unreleased.
DRAIN_S = 1.0
RELEASE_S = 1.0
_VACANT = "/"  # in place of a holder: none has such a name

log = get_logger("kube.election")


class Elector:
    """One candidate.

    client       for the Lease alone, without the fence
    fence        of the client that the work uses: open while we lead
    annotations  that the Lease has while it is ours
    sever        takes back, as far as that can be done, the writes that the work has under way
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        me: str,
        timing: Timing,
        fence: Fence,
        *,
        annotations: Mapping[str, str] | None = None,
        sever: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.me = me
        self.namespace, self.name = namespace, name
        self.trouble = ""  # why the last request was not granted or not answered
        self._client = client
        self._fence = fence
        self._annotations = dict(annotations or {})
        self._sever = sever
        self._clock = clock
        self._wall = wall
        self._standing = Standing(me, timing)
        self._news = asyncio.Event()

    # --- what others ask -----------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        return self._standing.leads(self._clock())

    @property
    def record(self) -> Record | None:
        """The Lease as last seen."""
        return self._standing.record

    @property
    def free_in_s(self) -> float:
        """For a candidate: when it may take the Lease, if there is no news until then."""
        return max(0.0, self._standing.may_be_taken_from - self._clock())

    @property
    def believed_s(self) -> float:
        """For how long the last word of the holder counts, see `Standing.believed_s`."""
        return self._standing.believed_s

    @property
    def unrenewed_s(self) -> float:
        """For a leader: how old its last granted request is; it stops at `timing.renew_s`."""
        return self._clock() - (self._standing.led_from or self._clock())

    @property
    def timing(self) -> Timing:
        return self._standing.timing

    # --- campaign and term ---------------------------------------------------------------------------------

    async def run(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        *,
        standing_by: Callable[[Record], None] = lambda record: None,
    ) -> None:
        """Until cancelled: wait for the Lease, then run `work` for as long as it is ours, again and again.

        work         cancelled when the Lease is lost; whatever it raises ends the election and is raised
        standing_by  told of each new holder that we wait for
        """
        while True:
            await self._campaign(standing_by)
            await self._term(work)

    async def _campaign(self, standing_by: Callable[[Record], None]) -> None:
        """Until the Lease is ours."""
        told = ""
        async with self._maybe_watching() as watch:
            while not self.leads:
                step = lease.next_step(self._standing, self._clock())
                if step.action is Action.WAIT:
                    record = self._standing.record
                    if record is not None and record.holder not in ("", told):
                        told = record.holder
                        standing_by(record)
                    elif record is None and told != _VACANT and self.free_in_s:
                        told = _VACANT
                        log.info(
                            "waiting out a deleted lease", lease=self.name, retry_in_s=round(self.free_in_s)
                        )
                    watch()
                    await self._wait(step.until)
                elif step.action is Action.STEP_DOWN:  # granted to a process that was stopped meanwhile
                    self._standing = lease.stepped_down(self._standing, self._clock())
                else:
                    await self._ask_for_it(step.action)

    async def _ask_for_it(self, action: Action) -> None:
        try:
            await self._act(action)
        except asyncio.CancelledError:
            await self._release()  # it may have been granted: nobody must wait for us
            raise

    async def _term(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        log.info("leading", lease=self.name, holder=self.me)
        working = asyncio.create_task(work(), name="work of the leader")
        renewing = asyncio.create_task(self._keep(), name="renew the Lease")
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._resign(working, renewing)
        for task in (working, renewing):
            if not task.cancelled():
                task.result()

    async def _keep(self) -> None:
        """Renew until it is lost."""
        while True:
            step = lease.next_step(self._standing, self._clock())
            if step.action is Action.STEP_DOWN:
                return
            if step.action is Action.WAIT:
                await self._wait(step.until)
            else:
                await self._act(step.action)

    async def _resign(self, working: asyncio.Task[None], renewing: asyncio.Task[None]) -> None:
        """Stop the work; who is told to end while he leads lets the next begin after his own last write."""
        renewing.cancel()
        await asyncio.wait({renewing})
        leads, holder = self.leads, self._standing.holder
        drained = leads and holder == self.me and await self._fence.drained(DRAIN_S)
        self._fence.shut()
        if not drained:
            self._sever()
        working.cancel()
        await asyncio.wait({working})
        if drained:
            await self._release()
        else:
            log.warning("no longer leading", lease=self.name, holder=holder, reason=self._why_lost(leads))
        self._standing = lease.stepped_down(self._standing, self._clock())

    def _why_lost(self, leads: bool) -> str:
        if self._standing.holder not in ("", self.me):
            return "another holds the Lease"
        if leads:
            return "told to end while writes were under way"
        return f"not renewed for {self.unrenewed_s:.1f} s: {self.trouble or 'this process was stopped'}"

    async def _release(self) -> None:
        """Let the next one begin at once; without it he waits until our time is over."""
        try:
            async with asyncio.timeout(RELEASE_S):
                if self._standing.in_doubt:
                    await self._act(Action.LOOK)
                record = self._standing.record
                if record is not None and record.holder == self.me:
                    await self._client.replace(LEASES, lease.released(record, self._wall()))
                    log.info("lease released", lease=self.name)
        except (GPUReadyError, TimeoutError) as exc:
            log.warning("lease not released", lease=self.name, error=str(exc) or "no answer in time")

    # --- one request ---------------------------------------------------------------------------------------

    async def _act(self, action: Action) -> None:
        """Ask, and learn from the answer, within the time that a leader has left."""
        before, started = self._standing, self._clock()
        self._standing = lease.asking(before)
        answer = await self._in_time(action, before, started)
        if action is Action.LOOK and not self._standing.in_doubt:
            return  # the watch was faster, and what it tells is in order
        now = self._clock()
        self._standing = lease.answered(before, action, answer, started=started, now=now)
        if isinstance(answer, Record):
            self.trouble = ""
            self._fence.open_until(self._standing.leads_until)

    async def _in_time(self, action: Action, standing: Standing, started: float) -> Record | Refusal:
        patience_s = standing.timing.patience_s
        if standing.leads(started):
            patience_s = min(patience_s, standing.leads_until - started)
        try:
            async with asyncio.timeout(patience_s):
                return await self._answer(action, standing)
        except TimeoutError:
            self._complain(f"no answer to {action} within {patience_s:.1f} s")
            return Refusal.NO_ANSWER

    async def _answer(self, action: Action, standing: Standing) -> Record | Refusal:
        try:
            return Record(await self._send(action, standing))
        except (AlreadyExists, Conflict):
            return Refusal.CONFLICT
        except NotFound as exc:
            if action is not Action.CREATE:
                return Refusal.ABSENT
            self._complain(str(exc))  # there is no such namespace
        except GPUReadyError as exc:
            self._complain(str(exc))
        return Refusal.NO_ANSWER

    async def _send(self, action: Action, standing: Standing) -> Mapping[str, Any]:
        if action is Action.LOOK:
            return await self._client.get(LEASES, self.name, self.namespace)
        place = {"name": self.name, "namespace": self.namespace}
        ours = lease.claimed(standing, place, self._annotations, self._wall())
        if action is Action.CREATE:
            return await self._client.create(LEASES, ours)
        return await self._client.replace(LEASES, ours)

    def _complain(self, trouble: str) -> None:
        """Once, while it lasts."""
        if not self.trouble:
            log.warning(
                "lease not renewed" if self.leads else "lease not available", lease=self.name, error=trouble
            )
        self.trouble = trouble

    # --- waiting -------------------------------------------------------------------------------------------

    async def _wait(self, until: float) -> None:
        """Until then by our clock, or until there is news."""
        self._news.clear()
        try:
            async with asyncio.timeout(max(0.0, until - self._clock())):
                await self._news.wait()
        except TimeoutError:
            pass

    @asynccontextmanager
    async def _maybe_watching(self) -> AsyncIterator[Callable[[], None]]:
        """Inside the block, from the first call of what it yields, the Lease is watched."""
        tasks: list[asyncio.Task[None]] = []

        def watch() -> None:
            if not tasks:
                tasks.append(asyncio.create_task(self._watch(), name="watch the Lease"))

        try:
            yield watch
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        selector = f"metadata.name={self.name}"
        cache: WatchCache[dict[str, Any]] = WatchCache(
            self._client, LEASES, namespace=self.namespace, field_selector=selector
        )
        cache.add_handler(lambda old, new: self._see(new))
        await cache.run()

    def _see(self, found: Mapping[str, Any] | None) -> None:
        record = Record(found) if found is not None else None
        self._standing = lease.seen(self._standing, record, self._clock())
        self._news.set()
