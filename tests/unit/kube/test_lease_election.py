"""The candidates as they really run: requests, watches, cancelled work, all under a virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kube.lease_world import Server
from tests.unit.kube.virtual_time import run

from gpuready.errors import GPUReadyError
from gpuready.kube import lease
from gpuready.kube.election import Elector
from gpuready.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unreachable
from gpuready.kube.fence import Fence, Fenced
from gpuready.kube.lease import Action, Record, Refusal, Timing
from gpuready.kube.resources import Resource
from gpuready.kube.wire import WatchEvent

NAME, NAMESPACE = "lease", "ns"


def now() -> float:
    return asyncio.get_running_loop().time()


class LeaseApi:
    """What all candidates share: one Lease, and who watches it."""

    def __init__(self) -> None:
        self.server = Server()
        self.watchers: set[asyncio.Queue[WatchEvent[Any]]] = set()

    @property
    def holder(self) -> str:
        return Record(self.server.lease).holder if self.server.lease else ""

    def delete(self) -> None:
        gone = self.server.lease
        assert gone is not None
        self.server.lease = None
        self.server.version += 1
        meta = {**gone["metadata"], "resourceVersion": str(self.server.version)}
        self._tell(WatchEvent("DELETED", meta["resourceVersion"], {**gone, "metadata": meta}))

    def take(self, action: Action, sent: dict[str, Any] | None) -> Record | Refusal:
        before = self.server.version
        said = self.server.answer(action, sent)
        if self.server.version != before:
            self._tell(WatchEvent("MODIFIED", str(self.server.version), self.server.lease))
        return said

    def _tell(self, event: WatchEvent[Any]) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(event)


class Connection:
    """One candidate's way to the API server, as a client of it; it can be cut off, slow, or lose answers."""

    def __init__(self, api: LeaseApi, seed: int = 0) -> None:
        self.api = api
        self.sent: list[Action] = []
        self.cut_off = self.loses_answers = self.is_refused = False
        self.slow_s = 0.005
        self._random = random.Random(seed)

    async def get(self, resource: Resource, name: str, namespace: str) -> Mapping[str, Any]:
        return await self._ask(Action.LOOK, None)

    async def create(self, resource: Resource, obj: dict[str, Any]) -> Mapping[str, Any]:
        return await self._ask(Action.CREATE, obj)

    async def replace(self, resource: Resource, obj: dict[str, Any]) -> Mapping[str, Any]:
        return await self._ask(Action.TAKE, obj)

    async def _ask(self, action: Action, sent: dict[str, Any] | None) -> Mapping[str, Any]:
        self.sent.append(action)
        await self._travel()
        if self.is_refused:
            raise Forbidden("leases are forbidden", status=403)
        said = self.api.take(action, sent)
        await self._travel()
        if self.loses_answers:
            raise Unreachable("no answer")
        match said:
            case Record():
                return said.lease
            case Refusal.ABSENT:
                raise NotFound("no such lease", status=404)
        raise (AlreadyExists if action is Action.CREATE else Conflict)("written before", status=409)

    async def _travel(self) -> None:
        if self.cut_off:
            await asyncio.sleep(1000)
        await asyncio.sleep(self._random.uniform(0, 2 * self.slow_s))
        if self.cut_off:
            await asyncio.sleep(1000)

    async def list_decoded(self, resource: Resource, decode: Any, **scope: Any) -> tuple[list[Any], str]:
        await self._travel()
        found = self.api.server.lease
        return ([decode(msgspec.json.encode(found))] if found else []), str(self.api.server.version)

    async def watch(
        self, resource: Resource, *, opened: Callable[[], None], **options: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        heard: asyncio.Queue[WatchEvent[Any]] = asyncio.Queue()
        if str(self.api.server.version) != options["resource_version"] and self.api.server.lease:
            heard.put_nowait(WatchEvent("MODIFIED", str(self.api.server.version), self.api.server.lease))
        self.api.watchers.add(heard)
        try:
            opened()
            while True:
                event = await heard.get()
                await self._travel()
                yield event
        finally:
            self.api.watchers.discard(heard)


class Candidate:
    """An elector whose work writes ten times a second, through its fence."""

    def __init__(self, api: LeaseApi, name: str, timing: Timing | None = None, seed: int = 0) -> None:
        self.way = Connection(api, seed)
        self.slept_s = 0.0
        self.fence = Fence(self.clock)
        client: Any = self.way
        self.elector = Elector(
            client, NAMESPACE, NAME, name, timing or Timing(), self.fence, clock=self.clock
        )
        self.name = name
        self.wrote: list[float] = []
        self.stood_by: list[str] = []
        self.write_s = 0.001
        self.works = False
        self._task: asyncio.Task[None] | None = None

    def clock(self) -> float:
        return now() + self.slept_s

    def start(self) -> None:
        self._task = asyncio.create_task(
            self.elector.run(self._work, standing_by=lambda record: self.stood_by.append(record.holder))
        )

    async def _work(self) -> None:
        self.works = True
        try:
            while True:
                with suppress(Fenced), self.fence.passing():
                    self.wrote.append(now())
                    await asyncio.sleep(self.write_s)
                await asyncio.sleep(0.1)
        finally:
            self.works = False

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def kill(self) -> None:
        """Nothing it still says arrives."""
        self.way.cut_off = True
        self.fence = Fence()  # closed for ever
        await self.end()


@asynccontextmanager
async def candidates(*found: Candidate) -> AsyncIterator[None]:
    for one in found:
        one.start()
        await asyncio.sleep(1)
    try:
        yield
    finally:
        for one in found:
            await one.end()


def test_who_is_alone_leads_by_one_request() -> None:
    async def story() -> None:
        me = Candidate(LeaseApi(), "a")
        me.start()
        await asyncio.sleep(0.1)
        assert me.works
        assert me.way.sent == [Action.CREATE]
        assert me.stood_by == []
        await me.end()

    run(story())


def test_it_renews_every_two_seconds_and_asks_nothing_else() -> None:
    async def story() -> None:
        me = Candidate(LeaseApi(), "a")
        async with candidates(me):
            await asyncio.sleep(60)
            assert me.works
            assert set(me.way.sent) == {Action.CREATE, Action.TAKE}
            assert 29 <= len(me.way.sent) <= 32

    run(story())


def test_a_candidate_that_waits_only_watches() -> None:
    async def story() -> None:
        api = LeaseApi()
        first, second = Candidate(api, "a"), Candidate(api, "b")
        async with candidates(first, second):
            await asyncio.sleep(60)
            assert not second.works
            assert second.stood_by == ["a"]
            assert second.way.sent == [Action.CREATE, Action.LOOK]

    run(story())


def test_a_clean_end_hands_over_at_once_and_after_the_last_write() -> None:
    async def story() -> None:
        api = LeaseApi()
        first, second = Candidate(api, "a"), Candidate(api, "b")
        first.write_s = 0.5
        async with candidates(first, second):
            await asyncio.sleep(10)
            await first.end()
            await asyncio.sleep(0.1)
            assert second.works
            assert second.wrote[0] > first.wrote[-1] + first.write_s
            lease_now = Record(api.server.lease or {})
            assert (lease_now.holder, lease_now.spec["leaseTransitions"]) == ("b", 1)

    run(story())


def test_a_write_that_is_not_answered_at_the_end_keeps_the_lease_until_its_time_is_over() -> None:
    async def story() -> None:
        api = LeaseApi()
        first, second = Candidate(api, "a"), Candidate(api, "b")
        first.write_s = 100.0
        async with candidates(first, second):
            await asyncio.sleep(10)
            ended = now()
            await first.end()
            assert now() - ended < 1.1
            assert api.holder == "a"
            await asyncio.sleep(12)
            assert not second.works
            await asyncio.sleep(5)
            assert second.works

    run(story())


def test_who_is_cut_off_stops_before_another_begins_and_is_a_candidate_again_afterwards() -> None:
    async def story() -> None:
        api = LeaseApi()
        first, second = Candidate(api, "a"), Candidate(api, "b")
        async with candidates(first, second):
            await asyncio.sleep(10)
            first.way.cut_off = True
            cut = now()
            await asyncio.sleep(30)
            assert not first.works
            assert first.wrote[-1] <= cut + 10.1
            assert second.wrote[0] >= first.wrote[-1] + 3
            assert second.works

            first.way.cut_off = False
            await asyncio.sleep(10)
            assert first.stood_by == ["b"]
            await second.end()
            await asyncio.sleep(3)
            assert first.works

    run(story())


def test_who_was_stopped_may_not_write_even_before_he_has_noticed() -> None:
    async def story() -> None:
        me = Candidate(LeaseApi(), "a")
        async with candidates(me):
            await asyncio.sleep(5)
            assert me.fence.is_open
            me.slept_s = 60.0
            assert not me.fence.is_open
            assert not me.elector.leads
            await asyncio.sleep(3)
            assert me.fence.is_open  # nobody has taken the Lease: a new term

    run(story())


def test_a_leader_that_loses_answers_only_goes_on() -> None:
    """The renewals are granted; each lost answer costs a look, and no term."""

    async def story() -> None:
        me = Candidate(LeaseApi(), "a")
        async with candidates(me):
            await asyncio.sleep(5)
            me.way.loses_answers = True
            await asyncio.sleep(6)
            me.way.loses_answers = False
            await asyncio.sleep(30)
            gaps = [b - a for a, b in pairwise(me.wrote)]
            assert max(gaps) < 0.2
            assert Record(me.way.api.server.lease or {}).spec["leaseTransitions"] == 0

    run(story())


def test_who_ends_while_his_first_request_is_under_way_leaves_nothing_held() -> None:
    async def story() -> None:
        api = LeaseApi()
        me = Candidate(api, "a")
        me.way.slow_s = 0.2
        me.start()
        while not api.holder:
            await asyncio.sleep(0.01)
        await me.end()
        assert me.wrote == []
        assert api.holder == ""

    run(story())


def test_a_lease_deleted_by_hand_is_made_anew_by_its_leader() -> None:
    async def story() -> None:
        api = LeaseApi()
        first, second = Candidate(api, "a"), Candidate(api, "b")
        async with candidates(first, second):
            await asyncio.sleep(10)
            api.delete()
            await asyncio.sleep(20)
            assert api.holder == "a"
            assert first.works
            assert second.wrote == []

    run(story())


def test_a_lease_that_somebody_else_was_given_by_hand_is_lost_at_the_next_renewal() -> None:
    async def story() -> None:
        api = LeaseApi()
        me = Candidate(api, "a")
        async with candidates(me):
            await asyncio.sleep(10)
            mine = api.server.lease or {}
            api.take(Action.TAKE, {**mine, "spec": {**mine["spec"], "holderIdentity": "by hand"}})
            await asyncio.sleep(2.1)
            assert not me.works
            assert me.stood_by == ["by hand"]
            await asyncio.sleep(15)
            assert me.works

    run(story())


def test_who_may_not_ask_for_leases_says_so_and_leads_when_he_may() -> None:
    async def story() -> None:
        me = Candidate(LeaseApi(), "a")
        me.way.is_refused = True
        async with candidates(me):
            await asyncio.sleep(20)
            assert not me.works
            assert "leases are forbidden" in me.elector.trouble
            me.way.is_refused = False
            await asyncio.sleep(3)
            assert me.works
            assert me.elector.trouble == ""

    run(story())


def test_work_that_fails_is_raised_and_the_lease_is_free() -> None:
    async def story() -> None:
        api = LeaseApi()
        me = Candidate(api, "a")

        async def work() -> None:
            await asyncio.sleep(5)
            raise GPUReadyError("a mistake")

        with pytest.raises(GPUReadyError, match="a mistake"):
            await me.elector.run(work)
        assert api.holder == ""

    run(story())


# --- whatever happens ---------------------------------------------------------------------------------------

FAULTS_S = 90.0
FAULT = st.tuples(
    st.floats(0, FAULTS_S),
    st.sampled_from(["end", "kill", "cut off", "slow", "lose"]),
    st.integers(0, 2),
    st.floats(0.1, 30),
)


class Story:
    def __init__(self, seed: int, count: int) -> None:
        self.api = LeaseApi()
        self.seed = seed
        self.lives = 0
        self.all: list[Candidate] = []
        self.seats = [self._new() for _ in range(count)]

    def _new(self) -> Candidate:
        self.lives += 1
        one = Candidate(self.api, f"c{self.lives}", Timing(), self.seed + self.lives)
        self.all.append(one)
        one.start()
        return one

    async def happen(self, at: float, kind: str, seat: int, for_s: float) -> None:
        await asyncio.sleep(at)
        seat %= len(self.seats)
        one = self.seats[seat]
        if kind in ("end", "kill"):
            await (one.end() if kind == "end" else one.kill())
            await asyncio.sleep(for_s)
            if self.seats[seat] is one:
                self.seats[seat] = self._new()
            return
        name, value, usual = {
            "cut off": ("cut_off", True, False),
            "slow": ("slow_s", 3.0, 0.005),
            "lose": ("loses_answers", True, False),
        }[kind]
        setattr(one.way, name, value)
        await asyncio.sleep(for_s)
        if one in self.seats:
            setattr(one.way, name, usual)

    def check(self) -> None:
        """Whoever writes after another has written is alone from then on, by a margin."""
        log = sorted((at, one.name) for one in self.all for at in one.wrote)
        spans: list[tuple[str, float, float]] = []
        for at, name in log:
            if spans and spans[-1][0] == name:
                spans[-1] = (name, spans[-1][1], at)
            else:
                spans.append((name, at, at))
        for (one, _, until), (other, since, _) in pairwise(spans):
            assert since > until, f"{one} wrote until {until}, {other} from {since}"


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(2, 3),
    faults=st.lists(FAULT, max_size=12),
)
def test_writes_of_two_never_interleave_and_in_the_end_one_leads(
    seed: int, count: int, faults: list[tuple[float, str, int, float]]
) -> None:
    async def story() -> None:
        told = Story(seed, count)
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                group.create_task(told.happen(*fault))
        await asyncio.sleep(lease.Timing.lease_s + lease.Timing.renew_s + 5)
        told.check()
        assert sum(one.works for one in told.seats) == 1
        for one in told.all:
            await one.end()

    run(story())
