"""An API server that keeps one Lease, and candidates with clocks of their own, under one virtual time.

Candidates run the real decisions of kube/lease.py. Requests take time on the way there and back and may be
lost on either; candidates are killed, started, cut off and stopped. After each event at most one may lead.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gpuready.kube import lease
from gpuready.kube.lease import Action, Record, Refusal, Standing, Timing

WALL = datetime(2026, 1, 1, tzinfo=UTC)


class Server:
    """What the API server does with one Lease: optimistic concurrency by resourceVersion."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.told: Callable[[], None] = lambda: None  # after what nobody asked for through `answer`

    def answer(self, action: Action, sent: dict[str, Any] | None) -> Record | Refusal:
        if action is Action.LOOK:
            return Record(self.lease) if self.lease else Refusal.ABSENT
        assert sent is not None
        if action is Action.CREATE:
            return Refusal.CONFLICT if self.lease else self._store(sent)
        if self.lease is None:
            return Refusal.ABSENT
        if sent["metadata"]["resourceVersion"] != str(self.version):
            return Refusal.CONFLICT
        return self._store(sent)

    def forge(self) -> None:
        """Somebody who is no operator writes the longest Lease there is over whatever is there."""
        meta = {"name": "lease", "namespace": "ns"}
        spec = {"holderIdentity": "evil", "leaseDurationSeconds": 2**31 - 1, "leaseTransitions": 2**31 - 1}
        self._store({"metadata": meta, "spec": spec})
        self.told()

    def delete(self) -> None:
        self.lease = None
        self.version += 1
        self.told()

    def _store(self, sent: dict[str, Any]) -> Record:
        self.version += 1
        self.lease = {**sent, "metadata": {**sent["metadata"], "resourceVersion": str(self.version)}}
        return Record(self.lease)


class Candidate:
    """`rate`: its seconds per second of the world; `offset`: what its clock showed at the beginning."""

    def __init__(self, world: World, name: str, timing: Timing, rate: float, offset: float) -> None:
        self.world, self.name, self.timing = world, name, timing
        self.rate, self.offset = rate, offset
        self.lives = 0
        self.alive = self.cut_off = False
        self.stopped_until = 0.0
        self.standing = Standing(name, timing)
        self._turn = 0  # whatever was planned in an earlier turn is void
        self._asks = False

    @property
    def clock(self) -> float:
        return self.offset + self.rate * self.world.now

    @property
    def is_up_to_date(self) -> bool:
        """It knows who leads, and has nothing on its way that it sent when it did not."""
        if not self.alive or self.cut_off:
            return False
        record = self.standing.record
        return self.leads or (
            not self._asks and record is not None and record.version == str(self.world.server.version)
        )

    @property
    def leads(self) -> bool:
        return self.alive and self.standing.leads(self.clock)

    def start(self) -> None:
        if self.alive:
            return
        if self.world.now < self.world.births_from:
            self.world.at(self.world.births_from, self.start)
            return
        self.lives += 1
        self.alive, self._asks = True, False
        self.standing = Standing(f"{self.name}-{self.lives}", self.timing)
        self._plan(0.0)

    def kill(self) -> None:
        self.alive = False
        self._turn += 1

    def end(self) -> None:
        """Cleanly: what it holds is released."""
        record = self.standing.record
        if self.leads and record is not None and not self._asks and not self.cut_off:
            self.world.server.answer(Action.RENEW, lease.released(record, WALL))
            self.world.changed()
        self.kill()

    def hear(self, record: Record | None, life: int) -> None:
        """What a watch of that life brings, when it runs again."""
        if self.world.now < self.stopped_until:
            self.world.at(self.stopped_until, lambda: self.hear(record, life))
        elif life == self.lives:
            self.see(record)

    def see(self, record: Record | None) -> None:
        """The watch tells; a leader has none."""
        if not self.alive or self.cut_off or self.standing.led_from is not None:
            return
        self.standing = lease.seen(self.standing, record, self.clock)
        if not self._asks:
            self._plan(0.0)

    def _plan(self, in_s: float) -> None:
        self._turn += 1
        self._later(in_s, self._go)

    def _later(self, in_s: float, do: Callable[[], None]) -> None:
        """In so many seconds of its own, unless it has turned to something else; when it runs again."""
        turn = self._turn

        def due() -> None:
            if turn != self._turn:
                return
            if self.world.now < self.stopped_until:
                self.world.at(self.stopped_until, due)
            else:
                do()

        self.world.at(self.world.now + max(0.0, in_s) / self.rate, due)

    def _go(self) -> None:
        step = lease.next_step(self.standing, self.clock)
        match step.action:
            case Action.WAIT:
                self._plan(max(step.until - self.clock, 1e-6))
            case Action.STEP_DOWN:
                self.standing = lease.stepped_down(self.standing, self.clock)
                self._plan(0.0)
            case action:
                self._ask(action)

    def _ask(self, action: Action) -> None:
        before, started = self.standing, self.clock
        self.standing = lease.asking(before)
        self._asks = True
        self._turn += 1
        sent = None
        if action is not Action.LOOK:
            sent = lease.claimed(before, {"name": "lease", "namespace": "ns"}, {}, WALL)
        patience_s = self.timing.patience_s
        if before.leads(started):
            patience_s = min(patience_s, before.leads_until - started)

        def learn(answer: Record | Refusal) -> None:
            self._asks = False
            if action is not Action.LOOK or self.standing.in_doubt:
                self.standing = lease.answered(before, action, answer, started=started, now=self.clock)
            self._plan(0.0)

        self._later(patience_s, lambda: learn(Refusal.NO_ANSWER))
        self.world.send(self, action, sent, lambda answer: self._later(0.0, lambda: learn(answer)))


class World:
    def __init__(self, seed: int, timing: Timing, clocks: list[tuple[float, float]]) -> None:
        self.now = 0.0
        self.server = Server()
        self.server.told = self.changed
        self.random = random.Random(seed)
        self.slow_s, self.loses = 0.02, 0.0
        self.births_from = 0.0
        self.leaders: list[str] = []  # in the order in which they began
        self.candidates = [
            Candidate(self, f"c{number}", timing, rate, offset)
            for number, (rate, offset) in enumerate(clocks)
        ]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, do))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do()
            self._check()
        self.now = until
        self._check()

    def delete(self) -> None:
        """Somebody deletes the Lease, and all who are there have known of its holder.

        Who has not, or begins before that holder has found out, sees a cluster that never had one. He leads
        at once, beside the other until that one's next renewal: no candidate can tell.
        """
        if all(candidate.is_up_to_date for candidate in self.candidates):
            self.server.delete()
            slowest = min(candidate.rate for candidate in self.candidates)
            self.births_from = self.now + self.candidates[0].timing.renew_s / slowest

    def leading(self) -> list[str]:
        return [candidate.standing.me for candidate in self.candidates if candidate.leads]

    def _check(self) -> None:
        leading = self.leading()
        assert len(leading) <= 1, f"{leading} lead at {self.now:.3f}: {self.server.lease}"
        if leading and leading != self.leaders[-1:]:
            self.leaders += leading

    # --- the network ---------------------------------------------------------------------------------------

    def send(
        self,
        sender: Candidate,
        action: Action,
        sent: dict[str, Any] | None,
        answer: Callable[[Record | Refusal], None],
    ) -> None:
        """Whatever is sent arrives once, late, or never; so does its answer."""
        if sender.cut_off or self._lost():
            return

        def arrive() -> None:
            before = self.server.version
            said = self.server.answer(action, sent)
            if self.server.version != before:
                self.changed()
            if not sender.cut_off and not self._lost():
                self.at(self.now + self._delay(), lambda: answer(said))

        self.at(self.now + self._delay(), arrive)

    def changed(self) -> None:
        """Each watch tells of it in time of its own, but in order."""
        for candidate in self.candidates:
            if not self._lost():
                shown = Record(self.server.lease) if self.server.lease else None
                self.at(self.now + 0.01, lambda c=candidate, r=shown, life=candidate.lives: c.hear(r, life))

    def _lost(self) -> bool:
        return self.random.random() < self.loses

    def _delay(self) -> float:
        return self.random.expovariate(1 / self.slow_s)
