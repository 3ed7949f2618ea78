"""What only several looks, or events between them, can tell: XIDs, held-back clocks, idleness. Pure.

Kept by GPU uuid, so that it outlives a driver that is reloaded and a GPU that is lost. Counters never go back
while the process lives. Ages are monotonic: a clock that jumps changes nothing but the times that are shown.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpuready.gpu.telemetry.fields import sources_of
from gpuready.gpu.telemetry.looks import Look
from gpuready.gpu.telemetry.model import Activity, Entity, Field, Sample, Value, XidCount
from gpuready.gpu.telemetry.sources import Derived
from gpuready.gpu.xid import ACTIONS, action_of, meaning_of

CLOCK_EVENTS = {
    0x1: "gpu_idle", 0x2: "clocks_setting", 0x4: "power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake", 0x100: "display_clocks",
}  # fmt: skip
# Source: dcgm-exporter 4.5.3-4.8.2, DCGM_EXP_CLOCK_EVENTS_COUNT.
_FATAL_XIDS = frozenset({48, 74, 79, 94, 95, 119, 120, 140})  # DCGM v4.6.0, modules/health
_PASS, _WARN, _FAIL = 0, 10, 20
_HEALTH_WINDOW_S = 60.0
_MOST_EVENTS = 1000  # of one GPU within a window: a storm of XIDs must not fill the memory

Labels = tuple[tuple[str, str], ...]
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class Windows:
    """How long an XID counts as recent, and how far back clock events are counted; seconds."""

    xid_s: float = 300.0
    clock_s: float = 300.0


@dataclass
class _Gpu:
    """events, clocks, held: (monotonic time, XID / bits / ns held back by each reason), oldest first."""

    totals: dict[int, XidCount] = field(default_factory=dict)
    events: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))
    clocks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))
    held: deque[tuple[float, Mapping[str, int]]] = field(default_factory=deque)
    busy: dict[int | None, _Busy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Busy:
    """time: since 1970, None when it was never seen busy; at: monotonic, of then or of the first look."""

    time: float | None
    at: float


class History:
    """Of all GPUs of a node. Times: `at` monotonic, `time` since 1970."""

    def __init__(self, windows: Windows | None = None) -> None:
        self._windows = windows or Windows()
        self._gpus: dict[str, _Gpu] = {}

    def add_xid(self, uuid: str, code: int, at: float, time: float) -> None:
        gpu = self._gpu(uuid)
        gpu.events.append((at, code))
        before = gpu.totals.get(code)
        first = before.first_time if before else time
        gpu.totals[code] = XidCount(uuid, code, before.count + 1 if before else 1, first, time)

    def add_look(self, look: Look, at: float, time: float) -> None:
        """A look that was answered."""
        if look.device is None:
            return
        gpu = self._gpu(look.device.uuid)
        if look.clock_reasons is not None:
            gpu.clocks.append((at, look.clock_reasons))
        gpu.held.append((at, look.held_ns))
        seen = _Busy(time, at)
        gpu.busy = {
            part: seen if is_busy else gpu.busy.get(part, _Busy(None, at))
            for part, is_busy in look.busy.items()
        }
        _forget(gpu.clocks, at - self._windows.clock_s)
        _forget(gpu.held, at - _HEALTH_WINDOW_S)

    def samples(self, look: Look, fields: Sequence[Field], at: float) -> Iterator[Sample]:
        """The computed ones of the asked fields, of one GPU."""
        if look.device is None:
            return
        entity, gpu = Entity(look.device), self._gpu(look.device.uuid)
        _forget(gpu.events, at - self._windows.xid_s)
        for of in fields:
            for source in sources_of(of):
                if isinstance(source, Derived):
                    for value, labels in self._computed(source.name, gpu, look):
                        yield Sample(of, entity, value, look.started_at, labels)

    def xids(self) -> tuple[XidCount, ...]:
        return tuple(count for gpu in self._gpus.values() for _, count in sorted(gpu.totals.items()))

    def activity(self, uuids: Iterable[str], at: float) -> tuple[Activity, ...]:
        """Of these GPUs: of one that does not answer nobody knows whether it is idle."""
        return tuple(
            Activity(uuid, part, busy.time, max(0.0, at - busy.at))
            for uuid in uuids
            for part, busy in self._gpu(uuid).busy.items()
        )

    def _gpu(self, uuid: str) -> _Gpu:
        return self._gpus.setdefault(uuid, _Gpu())

    # --- computed fields --------------------------------------------------------------------------------
    def _computed(self, name: str, gpu: _Gpu, look: Look) -> Iterator[tuple[Value, Labels]]:
        match name:
            case "last_xid":
                code = gpu.events[-1][1] if gpu.events else 0
                meaning = meaning_of(code) if code else "No Error"
                yield code, (("err_code", str(code)), ("err_msg", meaning))
            case "xid_window":
                window = ("window_size_in_ms", str(round(self._windows.xid_s * 1000)))
                yield from _counts(Counter(str(code) for _, code in gpu.events), window, "xid")
            case "clock_window":
                window = ("window_size_in_ms", str(round(self._windows.clock_s * 1000)))
                seen = Counter(word for _, bits in gpu.clocks for word in _words(bits))
                yield from _counts(seen, window, "clock_event")
            case "xid_total":
                yield from ((each.count, _xid(each)) for each in gpu.totals.values())
            case "xid_actions":
                asked = Counter({each.code: each.count for each in gpu.totals.values()})
                for action in ACTIONS:
                    count = sum(asked[code] for code in asked if action_of(code) == action)
                    yield count, (("action", action),)
            case "xid_time":
                yield from ((each.last_time, _xid(each)) for each in gpu.totals.values())
            case "clock_active":
                if look.clock_reasons is not None:
                    active = _words(look.clock_reasons)
                    yield from ((int(word in active), (("reason", word),)) for word in CLOCK_EVENTS.values())
            case "clock_seconds":
                yield from ((ns / 1e9, (("reason", reason),)) for reason, ns in look.held_ns.items())
            case "busy":
                times = [busy.time for busy in gpu.busy.values() if busy.time is not None]
                if times:
                    yield max(times), ()
            case "health":
                yield from _health(gpu, look)


def _counts(seen: Counter[str], window: tuple[str, str], key: str) -> Iterator[tuple[Value, Labels]]:
    """As the original: one line for each, or a single zero without the key."""
    if not seen:
        yield 0, (window,)
    for what, count in sorted(seen.items()):
        yield count, tuple(sorted((window, (key, what))))


def _words(bits: int) -> set[str]:
    return {word for bit, word in CLOCK_EVENTS.items() if bits & bit}


def _xid(count: XidCount) -> Labels:
    return (("xid", str(count.code)),)


def _health(gpu: _Gpu, look: Look) -> Iterator[tuple[Value, Labels]]:
    """Each watch that we can judge, with the gravest of its incidents.

    Source: DCGM v4.6.0, modules/health; its codes are those of dcgm_errors.h.
    """
    for watch, incidents in _incidents(gpu, look).items():
        value, code = max(incidents, default=(_PASS, ""))
        yield value, (("health_error_code", code), ("health_watch", watch))


def _incidents(gpu: _Gpu, look: Look) -> dict[str, list[tuple[int, str]]]:
    action = _RECOVERY.get(look.health.get("recovery_action", 0))
    return {
        "MEM": [(value, code) for fact, value, code in _MEMORY_FACTS if look.health.get(fact, 0)],
        "THERMAL": [(_WARN, "DCGM_FR_CLOCKS_EVENT_THERMAL")] if _grew(gpu, "thermal") else [],
        "POWER": [(_WARN, "DCGM_FR_CLOCKS_EVENT_POWER")] if _grew(gpu, "power_cap") else [],
        "DRIVER": [action] if action else [],
        "ALL": [(_FAIL, "DCGM_FR_XID_ERROR") for _, code in gpu.events if code in _FATAL_XIDS],
    }


_MEMORY_FACTS = (
    ("double_bit", _FAIL, "DCGM_FR_VOLATILE_DBE_DETECTED"),
    ("remap_failed", _FAIL, "DCGM_FR_ROW_REMAP_FAILURE"),
    ("remap_pending", _WARN, "DCGM_FR_PENDING_ROW_REMAP"),
)
_RECOVERY = {
    1: (_FAIL, "DCGM_FR_GPU_RECOVERY_RESET"),
    2: (_FAIL, "DCGM_FR_GPU_RECOVERY_REBOOT"),
    3: (_WARN, "DCGM_FR_GPU_RECOVERY_DRAIN_P2P"),
    4: (_WARN, "DCGM_FR_GPU_RECOVERY_DRAIN_RESET"),
}


def _grew(gpu: _Gpu, reason: str) -> bool:
    """Whether the time held back grew within the window."""
    if len(gpu.held) < 2:
        return False
    oldest, newest = gpu.held[0][1], gpu.held[-1][1]
    return newest.get(reason, 0) > oldest.get(reason, newest.get(reason, 0))


def _forget(kept: deque[tuple[float, _Kept]], before: float) -> None:
    while kept and kept[0][0] < before:
        kept.popleft()
