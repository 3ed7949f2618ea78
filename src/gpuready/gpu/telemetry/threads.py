"""The two kinds of threads: one that looks at GPUs, and one for what the node tells as a whole.

GPUs share a thread, which costs an idle node least, until one of them keeps it: see `Reader`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpuready.gpu.nvml import NvmlError
from gpuready.gpu.nvml_telemetry import TelemetryNvml
from gpuready.gpu.telemetry.device_reader import Clock, DeviceReader
from gpuready.gpu.telemetry.library import Library
from gpuready.gpu.telemetry.looks import Look
from gpuready.gpu.telemetry.model import Device, Value
from gpuready.gpu.telemetry.turns import Order, Turns

TellXid = Callable[[str, int], None]  # uuid, code


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """facts: of fields of scope NODE, by the name of their source: "driver_version", "count", ..."""

    count: int = 0
    facts: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""
    at: float = 0.0


class NodeThread(Turns[TelemetryNvml, NodeFacts]):
    """Asks nothing of a single GPU, so that none of them can hang it."""

    def look(self, session: TelemetryNvml, order: Order) -> NodeFacts:
        count = session.count()
        major, minor = session.cuda_version()
        facts: dict[str, Value] = {
            "count": count,
            "driver_version": session.driver_version(),
            "cuda_version": major * 1000 + minor * 10,
        }
        try:
            version = session.ask("nvmlSystemGetNVMLVersion")
            facts["nvml_version"] = version if isinstance(version, str) else version.decode()
        except NvmlError:
            pass  # an old library: the field is left out
        return NodeFacts(count, facts, at=self._clock.monotonic())

    def failed(self, reason: str, order: Order) -> NodeFacts:
        return NodeFacts(error=reason, at=self._clock.monotonic())


@dataclass(eq=False, slots=True)
class Seat:
    """One GPU's place in a thread; it is used by the thread that has it.

    answered    number of the order that `answer` belongs to
    owes_since  monotonic time at which a look at it was begun, until that look ends
    """

    index: int
    device: Device | None = None
    reader: DeviceReader | None = None
    answer: Look | None = None
    answered: int = -1
    owes_since: float | None = None

    def leave(self, look: Look, order: Order) -> None:
        self.device, self.answer = look.device, look
        self.owes_since, self.answered = None, order.number

    def stand_up(self) -> None:
        """Whatever was wrong: the next look begins with finding the GPU."""
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()


class GpuThread(Turns[TelemetryNvml, None]):
    """Looks at its GPUs one after the other when that is due, and between two looks waits for their XIDs."""

    def __init__(
        self,
        seats: Sequence[Seat],
        library: Library,
        clock: Clock,
        done: Callable[[], None],
        tell_xid: TellXid,
    ) -> None:
        super().__init__(f"gpu-{seats[0].index}", library, clock, done)
        self._tell_xid = tell_xid
        self._taking = threading.Lock()  # who has which seat
        self._seats = list(seats)
        self._at: Seat | None = None
        self._heard: frozenset[str] = frozenset()  # uuids whose XIDs come
        self.looks_since: float | None = None  # with NVML open, which may take long for all GPUs alike

    # --- from the reader --------------------------------------------------------------------------------
    @property
    def seats(self) -> Sequence[Seat]:
        return tuple(self._seats)

    def give_up_others(self) -> list[Seat]:
        """All but the GPU that is being looked at: whatever keeps this thread is no fault of theirs."""
        with self._taking:
            kept = [seat for seat in self._seats if seat is self._at]
            others = [seat for seat in self._seats if seat is not self._at]
            self._seats = kept
        return others

    def dismiss(self, seat: Seat) -> None:
        """The GPU is there no more."""
        with self._taking:
            self._seats = [each for each in self._seats if each is not seat]
        if not self._seats:
            self.stop()

    # --- the thread -------------------------------------------------------------------------------------
    def look(self, nvml: TelemetryNvml, order: Order) -> None:
        """raises  NvmlError when no GPU answers: perhaps a session that is opened anew helps"""
        self.looks_since = self._clock.monotonic()
        try:
            for seat in self.seats:
                self._begin(seat, order, lambda seat: self._find(seat, nvml))
            self._listen(nvml, {seat.device.uuid for seat in self._seats if seat.reader and seat.device})
            self._drain(nvml)
            for seat in self.seats:
                self._begin(seat, order, lambda seat: self._read(seat, order))
        finally:
            self.looks_since = None
        failures = [seat.answer.error for seat in self._seats if seat.answer and seat.answer.error]
        if failures and len(failures) == len(self._seats):
            self._close()

    def _begin(self, seat: Seat, order: Order, step: Callable[[Seat], None]) -> None:
        """One step of a look at one GPU, unless it has its answer or is no longer ours."""
        with self._taking:
            if seat not in self._seats or seat.answered >= order.number:
                return
            self._at = seat
            seat.owes_since = seat.owes_since or self._clock.monotonic()
        try:
            step(seat)
        except NvmlError as exc:
            self._fail(seat, order, exc.what)
        except Exception as exc:  # a GPU without an answer says nothing: better a reason and another try
            self._fail(seat, order, f"asking NVML failed: {type(exc).__name__}: {exc}")
        finally:
            self._at = None
        if seat.answered >= order.number:
            self._done()

    def _find(self, seat: Seat, nvml: TelemetryNvml) -> None:
        if seat.reader is None:
            known = seat.device.uuid if seat.device else ""
            seat.reader = DeviceReader(nvml, seat.index, self._clock, known)
            seat.device = seat.device or seat.reader.device

    def _read(self, seat: Seat, order: Order) -> None:
        assert seat.reader is not None
        seat.leave(seat.reader.read(order.fields, order.interval_s), order)

    def _fail(self, seat: Seat, order: Order, reason: str) -> None:
        seat.stand_up()
        seat.leave(Look(seat.device, error=reason, started_at=self._clock.monotonic()), order)

    def failed(self, reason: str, order: Order) -> None:
        """NVML as a whole."""
        for seat in self.seats:
            if seat.answered < order.number:
                self._fail(seat, order, reason)

    def closing(self, nvml: TelemetryNvml) -> None:
        """What was raised before the session failed, an XID 79 above all, is not lost with it."""
        self._drain(nvml)
        for seat in self.seats:
            seat.stand_up()
        self._heard = frozenset()

    # --- XIDs -------------------------------------------------------------------------------------------
    def wait(self, nvml: TelemetryNvml, seconds: float) -> bool:
        if not self._heard:
            return False
        try:
            event = nvml.next_xid(math.ceil(seconds * 1000))
        except NvmlError:
            return self._listen_without_the_lost(nvml)
        if event is not None:
            self._tell(event.uuid, event.code)
        return True

    def _listen(self, nvml: TelemetryNvml, uuids: Collection[str]) -> None:
        """Hear the XIDs of these GPUs, if it is not so already."""
        if self._heard == uuids:
            return
        handles = {
            seat.device.uuid: seat.reader.handle
            for seat in self._seats
            if seat.reader and seat.device and seat.device.uuid in uuids
        }
        refused = nvml.watch_xids(handles) if handles else {}
        self._heard = frozenset(handles.keys() - refused.keys())

    def _listen_without_the_lost(self, nvml: TelemetryNvml) -> bool:
        """A GPU that is lost ends every wait at once; False when it cannot be told which one it is."""
        answering = {uuid for uuid in self._heard if _answers(nvml, uuid)}
        if answering in (self._heard, set()):
            self._heard = frozenset()  # the next look says more
            return False
        self._listen(nvml, answering)
        return True

    def _drain(self, nvml: TelemetryNvml) -> None:
        try:
            while self._heard and (event := nvml.next_xid(0)):
                self._tell(event.uuid, event.code)
        except NvmlError:
            self._heard = frozenset()

    def _tell(self, uuid: str, code: int) -> None:
        """Of our own GPUs: the others' are told by the thread that has them now."""
        mine = [seat.device.uuid for seat in self._seats if seat.device]
        if not uuid and len(mine) == 1:
            uuid = mine[0]  # NVML could not say of which
        if uuid in mine:
            self._tell_xid(uuid, code)


def _answers(nvml: TelemetryNvml, uuid: str) -> bool:
    try:
        nvml.handle_by_uuid(uuid)
    except NvmlError:
        return False
    return True
