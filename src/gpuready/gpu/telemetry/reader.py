"""Looks at all GPUs of a node, in one thread as long as they answer, and nobody waits for one that hangs.

A GPU that keeps the thread it shares has it for itself from then on, and the others go on in another one.
So a node at rest pays for one thread, and a GPU that hangs loses only its own samples.

`Reader` gives orders and gathers answers; `joined` makes a `Collection` of them and is pure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuready.gpu.telemetry.device_reader import Clock
from gpuready.gpu.telemetry.fields import sources_of
from gpuready.gpu.telemetry.history import History, Windows
from gpuready.gpu.telemetry.library import Library
from gpuready.gpu.telemetry.looks import Look
from gpuready.gpu.telemetry.model import Absent, Collection, Device, Entity, Field, Sample, Scope, Silent
from gpuready.gpu.telemetry.sources import Fact
from gpuready.gpu.telemetry.threads import GpuThread, NodeFacts, NodeThread, Seat
from gpuready.gpu.telemetry.turns import Order, Turns
from gpuready.gpu.tree import Tree

_APART = 0.25
# Of the patience for a look: so long a thread may take for all of its GPUs before it has to give some up.
_RELEASED = "the driver is being changed: NVML is given up until it is back"


@dataclass(frozen=True, slots=True)
class Seen:
    """One GPU as it stands when the answers are gathered.

    look     the last that was answered, or the refusal; None before the first
    answers  whether `look` belongs to this collection
    owes     since when it owes an answer (monotonic), while it does
    """

    index: int
    device: Device | None
    look: Look | None
    answers: bool
    owes: float


class Reader:
    """start() once; collect() as often as wanted, from one thread; release() and resume() from any.

    driver      gives the driver's tree, asked anew each time NVML is opened
    windows     how long XIDs and clock events count as recent
    is_removed  whether the kernel module no longer has the GPU with this bus id: nobody will miss its samples
    """

    def __init__(
        self,
        driver: Callable[[], Tree],
        clock: Clock,
        windows: Windows | None = None,
        is_removed: Callable[[str], bool] = lambda bus_id: False,
    ) -> None:
        self._library = Library(driver)
        self._is_removed = is_removed
        self._clock = clock
        self._history = History(windows)
        self._gathered = threading.Condition()
        self._xids: list[tuple[str, int, float, float]] = []
        self._number = 0
        self._relieved_in = 0
        self._released = self._stopping = self._hurried = False
        self._node = NodeThread("nvml", self._library, clock, self._poke)
        self._seats: list[Seat] = []
        self._gpus: list[GpuThread] = []

    def start(self) -> None:
        self._node.start()

    def collect(
        self, fields: Sequence[Field], due_at: float, interval_s: float, patience_s: float
    ) -> Collection | None:
        """Wait until `due_at`, look, and wait at most `patience_s` more for the answers.

        None when it was cut short by `hurry` or `stop` before it was due.
        """
        self._number += 1
        asked = tuple(sorted(set(fields), key=lambda of: of.id))
        order = Order(self._number, due_at, asked, interval_s)
        self._node.give(order)
        for gpu in self._gpus:
            gpu.give(order)
        if not self._wait_until_due(due_at):
            return None
        # An order that comes before its time finds threads that wait for XIDs: that is no GPU's silence.
        heard_at = max((gpu.deaf_until for gpu in self._gpus), default=due_at)
        deadline = max(due_at, heard_at) + patience_s
        self._wait_for(lambda: self._node.answered >= order.number or self._released, deadline)
        self._follow_count(order)
        self._wait_for_all(order, deadline, patience_s)
        return self._gather(order, interval_s)

    def hurry(self) -> None:
        """Let a `collect` that waits to be due return at once."""
        with self._gathered:
            self._hurried = True
            self._gathered.notify()

    def release(self) -> None:
        """Give the driver up. `holds_nvml` tells when it is done; a hanging call can keep it."""
        self._released = True
        for thread in self._threads():
            thread.release()
        self._poke()

    def resume(self) -> None:
        self._released = False
        for thread in self._threads():
            thread.resume()
        self._poke()

    def stop(self) -> None:
        """Threads end by themselves, or with the process; nobody waits for them."""
        self._stopping = True
        for thread in self._threads():
            thread.stop()
        self._poke()

    @property
    def holds_nvml(self) -> bool:
        return self._node.holds_session or any(gpu.holds_session for gpu in self._gpus)

    @property
    def outdated(self) -> str:
        """Why only a new process can read this driver; "" while this one can."""
        return self._library.outdated

    # --- inside -----------------------------------------------------------------------------------------
    def _threads(self) -> list[Turns[Any, Any]]:
        return [self._node, *self._gpus]

    def _poke(self) -> None:
        with self._gathered:
            self._gathered.notify()

    def _tell_xid(self, uuid: str, code: int) -> None:
        with self._gathered:
            self._xids.append((uuid, code, self._clock.monotonic(), self._clock.time()))

    def _wait_until_due(self, due_at: float) -> bool:
        self._wait_for(lambda: self._hurried or self._stopping, due_at)
        hurried, self._hurried = self._hurried, False
        return not hurried and not self._stopping

    def _wait_for(self, there: Callable[[], bool], until: float) -> None:
        with self._gathered:
            self._gathered.wait_for(there, max(0.0, until - self._clock.monotonic()))

    def _wait_for_all(self, order: Order, deadline: float, patience_s: float) -> None:
        def there() -> bool:
            return all(seat.answered >= order.number for seat in self._seats) or self._released

        while not there() and (now := self._clock.monotonic()) < deadline:
            self._wait_for(there, min(deadline, now + patience_s * _APART / 2))
            for gpu in list(self._gpus):
                if not there() and gpu.looks_since is not None:
                    self._relieve(gpu, order, self._clock.monotonic() - gpu.looks_since, patience_s)

    def _relieve(self, gpu: GpuThread, order: Order, looked_s: float, patience_s: float) -> None:
        """Take from a thread that is not done in time what it is not looking at."""
        if len(gpu.seats) < 2 or looked_s < patience_s * _APART:
            return
        others = gpu.give_up_others()
        if not gpu.seats:
            gpu.stop()
        if self._relieved_in == order.number:  # another one hangs: no time to find out how many more
            for seat in others:
                self._start_thread([seat], order)
        else:
            self._start_thread(others, order)
        self._relieved_in = order.number

    def _follow_count(self, order: Order) -> None:
        """A seat for each GPU that NVML counts; a GPU that is lost keeps its own, which says so."""
        facts = self._node.answer
        count = facts.count if facts and not facts.error else 0
        taken = {seat.index for seat in self._seats}
        fresh = [Seat(index) for index in range(count) if index not in taken][: count - len(taken)]
        self._seats = sorted([*self._seats, *fresh], key=lambda seat: seat.index)
        if fresh:
            self._start_thread(fresh, order)

    def _forget_removed(self, order: Order) -> None:
        for seat in list(self._seats):
            silent = seat.answered < order.number or (seat.answer is not None and seat.answer.error)
            if silent and seat.device and self._is_removed(seat.device.pci_bus_id):
                self._seats.remove(seat)
                for gpu in self._gpus:
                    gpu.dismiss(seat)

    def _start_thread(self, seats: Sequence[Seat], order: Order) -> None:
        gpu = GpuThread(seats, self._library, self._clock, self._poke, self._tell_xid)
        gpu.give(order)
        gpu.start()
        self._gpus = [each for each in self._gpus if each.seats or each.holds_session]
        self._gpus.append(gpu)

    def _gather(self, order: Order, interval_s: float) -> Collection:
        now, time = self._clock.monotonic(), self._clock.time()
        problem = _problem(self._node, order, self._released)
        if not problem:
            self._forget_removed(order)
        seen = _distinct([_seen(seat, order) for seat in self._seats])
        with self._gathered:
            xids, self._xids = self._xids, []
        for uuid, code, at, raised in xids:
            self._history.add_xid(uuid, code, at, raised)
        for each in seen:
            if each.answers and each.look and not each.look.error:
                self._history.add_look(each.look, now, time)
        collection = joined(seen, self._node.answer, self._history, order.fields, now, interval_s, problem)
        return replace(collection, started_at=order.due_at, ended_at=self._clock.monotonic(), ended_time=time)


def joined(
    seen: Sequence[Seen],
    node: NodeFacts | None,
    history: History,
    fields: Sequence[Field],
    now: float,
    interval_s: float,
    problem: str = "",
) -> Collection:
    """The collection of these answers; what is older than two intervals does not count. `fields`: by id."""
    oldest = now if problem else now - 2 * interval_s
    looks = [look for each in seen if (look := _usable(each, oldest))]
    silent = tuple(_silent(each, now) for each in seen if not each.answers or (each.look and each.look.error))
    facts = node.facts if node and not problem else {}
    samples = [_node_sample(of, facts, now) for of in fields if of.scope is Scope.NODE]
    for each in seen:
        samples += _samples_of(each, looks, history, fields, now)
    return Collection(
        devices=tuple(each.device for each in seen if each.device),
        samples=tuple(sample for sample in samples if sample),
        absent=tuple(absent for look in looks for absent in look.absent) + _missing_facts(fields, facts),
        processes=tuple(process for look in looks for process in look.processes),
        xids=history.xids(),
        activity=history.activity([look.device.uuid for look in looks if look.device], now),
        silent=() if problem else silent,
        driver_version=str(facts.get("driver_version", "")),
        problem=problem,
    )


def _seen(seat: Seat, order: Order) -> Seen:
    answers = seat.answered >= order.number
    return Seen(seat.index, seat.device, seat.answer, answers, seat.owes_since or order.due_at)


def _distinct(seen: Sequence[Seen]) -> list[Seen]:
    """Numbers shift when NVML no longer counts a lost GPU: two seats may have found the same one."""
    found: dict[object, Seen] = {}
    for each in seen:
        found.setdefault(each.device.uuid if each.device else each.index, each)
    return list(found.values())


def _usable(seen: Seen, oldest: float) -> Look | None:
    look = seen.look
    return look if look and not look.error and look.started_at >= oldest else None


def _silent(seen: Seen, now: float) -> Silent:
    uuid = seen.device.uuid if seen.device else ""
    if seen.answers and seen.look:
        return Silent(uuid, seen.index, seen.look.error, seen.look.started_at)
    return Silent(uuid, seen.index, f"NVML has not answered for {max(0.0, now - seen.owes):.0f} s", seen.owes)


def _samples_of(
    seen: Seen, looks: Sequence[Look], history: History, fields: Sequence[Field], now: float
) -> list[Sample]:
    """What was read, and what is computed: XIDs are told of a silent GPU as well."""
    if seen.device is None:
        return []
    look = seen.look if seen.look in looks else None
    read = list(look.samples) if look else []
    computed = history.samples(look or Look(seen.device, started_at=now), fields, now)
    return sorted([*read, *computed], key=lambda sample: sample.field.id)


def _node_sample(of: Field, facts: Mapping[str, object], now: float) -> Sample | None:
    for source in sources_of(of):
        if isinstance(source, Fact) and isinstance(value := facts.get(source.name), int | float | str):
            return Sample(of, Entity(), value, now)
    return None


def _missing_facts(fields: Sequence[Field], facts: Mapping[str, object]) -> tuple[Absent, ...]:
    return tuple(
        Absent(of, Entity(), "NVML does not tell it", supported=not facts)
        for of in fields
        if of.scope is Scope.NODE and _node_sample(of, facts, 0.0) is None
    )


def _problem(node: NodeThread, order: Order, released: bool) -> str:
    """Why NVML as a whole tells nothing."""
    if released:
        return _RELEASED
    if node.answer is None:
        return "NVML has not answered yet"
    return node.answer.error if node.answered >= order.number else ""
