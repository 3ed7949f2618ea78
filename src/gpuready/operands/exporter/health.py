"""What the exporter says of itself, for /health, for its record and through it for GPUNode. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpuready.chain.verdict import State
from gpuready.errors import GPUReadyError
from gpuready.gpu.telemetry.model import Collection, Engine

READY = "Ready"


@dataclass(frozen=True)
class Health:
    """`details`: one line for each GPU, field or source that something is wrong with."""

    state: State
    reason: str
    message: str
    next_step: str = ""
    details: tuple[str, ...] = ()

    @property
    def serves(self) -> bool:
        """There are values to scrape, perhaps not of every GPU."""
        return self.state in (State.OK, State.DEGRADED)

    @property
    def text(self) -> str:
        lines = [str(self.state).upper(), self.message if self.reason != READY else "", *self.details]
        if self.next_step:
            lines.append(f"next: {self.next_step}")
        return "\n".join(line for line in lines if line)


@dataclass(frozen=True)
class Facts:
    """What `judge` looks at.

    listening     why nobody can reach us, with what to do; None when they can
    waiting       why the driver's gate is closed; "" when it is open
    paused        why the GPUs are left alone for a while; "" when they are not
    counters      why no counters can be used; "" when some can
    kept          why the counters' file as it is now is not taken up, and older ones are used; "" when it is
    rejected      one line for each line of the CSV that is not used
    untold        one line for each that is used and that no GPU here tells anything of: no fault by itself
    collection    the last look; None before the first
    age_s         since it ended
    pods          why the kubelet's last answer is missing; "" when it is there, or nobody asks
    """

    listening: GPUReadyError | None = None
    waiting: str = ""
    paused: str = ""
    counters: str = ""
    kept: str = ""
    rejected: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    collection: Collection | None = None
    age_s: float = 0.0
    interval_s: float = 30.0
    pods: str = ""


def judge(facts: Facts) -> Health:
    """The first thing that keeps values away; else the first that keeps some away."""
    for find in (_unreachable, _without_driver, _without_values, _without_some):
        if health := find(facts):
            return health
    return Health(State.OK, READY, "every GPU answers")


def _unreachable(facts: Facts) -> Health | None:
    error = facts.listening
    if error is None:
        return None
    return Health(State.BROKEN, "CannotListen", f"{error.what}: {error.why}", error.next_step)


def _without_driver(facts: Facts) -> Health | None:
    if facts.paused:
        return Health(State.WAITING, "Paused", f"the GPUs are about to be changed: {facts.paused}")
    if not facts.waiting:
        return None
    step = "see the driver link: gpuready doctor"
    return Health(State.WAITING, "WaitingForDriver", facts.waiting, step)


def _without_values(facts: Facts) -> Health | None:
    if facts.counters:
        return Health(
            State.BROKEN, "CountersNotUsable", facts.counters, "gpuready exporter lint FILE tells more"
        )
    seen = facts.collection
    if seen is None:
        return Health(State.WAITING, "Collecting", "the first look at the GPUs is on its way")
    if seen.problem:
        return Health(State.BROKEN, "NvmlUnavailable", seen.problem, _LOOK_AT_DRIVER)
    if facts.age_s > 2 * facts.interval_s:
        message = "the last look at the GPUs is older than two intervals, so its values are not shown"
        return Health(State.BROKEN, "Stale", message, "restart the pod if this lasts, and report it")
    if seen.silent and len(seen.silent) == _known(seen):
        return Health(State.BROKEN, "GpusSilent", "no GPU answers", _LOOK_AT_GPU, _silent_lines(seen))
    return None


def _without_some(facts: Facts) -> Health | None:
    """The first that keeps some away, with the others among its details: none hides another."""
    found = list(_each_that_lacks(facts))
    if not found:
        return None
    first, *others = found
    details = [line for other in others for line in (other.message, *other.details)]
    return replace(first, details=(*first.details, *details))


def _each_that_lacks(facts: Facts) -> Iterator[Health]:
    seen = facts.collection
    if seen is not None and seen.engine is not None and (health := _without_dcgm(seen.engine)):
        yield health
    if seen is not None and seen.silent:
        message = f"{len(seen.silent)} of {_known(seen)} GPUs do not answer, their values are absent"
        yield Health(State.DEGRADED, "GpuSilent", message, _LOOK_AT_GPU, _silent_lines(seen))
    if facts.kept:
        message = f"the counters' file is not taken up, the last good one is used: {facts.kept}"
        yield Health(State.DEGRADED, "CountersKept", message, "gpuready exporter lint FILE tells more")
    if facts.rejected:
        yield _with_rejected((*facts.rejected, *facts.untold), len(facts.rejected))
    if facts.pods:
        message = f"the kubelet does not tell which pods hold GPUs: {facts.pods}"
        yield Health(State.DEGRADED, "PodsNotKnown", message, "what it said last is kept; is it up?")


def _with_rejected(said: Sequence[str], rejected: int) -> Health:
    lines = "1 line" if rejected == 1 else f"{rejected} lines"
    message = f"{lines} of the counters' CSV cannot be used"
    step = "correct them; gpuready exporter lint FILE checks it"
    more = (f"and {len(said) - _MOST_LINES} more",) if len(said) > _MOST_LINES else ()
    return Health(State.DEGRADED, "CountersRejected", message, step, (*said[:_MOST_LINES], *more))


def _without_dcgm(engine: Engine) -> Health | None:
    """Only some values, or worse ones: where DCGM stands alone and tells nothing, there are none."""
    if engine.problem:
        instead = "none, as DCGM is the only source" if engine.alone else "NVML's"
        kept = (
            "its last ones are shown while they are new enough" if engine.samples else f"values are {instead}"
        )
        message = f"DCGM ({engine.address}) does not answer, {kept}: {_SECONDS.sub('', engine.problem)}"
        state = State.BROKEN if engine.alone and not engine.samples else State.DEGRADED
        return Health(state, "DcgmUnavailable", message, _LOOK_AT_DCGM)
    if engine.nvml_problem:
        message = f"NVML does not answer, so XIDs and what pods use are not known: {engine.nvml_problem}"
        return Health(State.DEGRADED, "NvmlUnavailable", message, _LOOK_AT_DRIVER)
    return None


_MOST_LINES = 20
_LOOK_AT_DRIVER = "see the driver link: gpuready doctor"
_LOOK_AT_DCGM = (
    "is nv-hostengine up and libdcgm.so.4 installed? The source nvml does without DCGM "
    "(spec.gpuready.exporter.source, GPUREADY_EXPORTER_SOURCE)"
)
_LOOK_AT_GPU = "look for XIDs of that GPU: gpuready doctor, dmesg; reset it or drain the node"


def _known(collection: Collection) -> int:
    """One that was lost before it told its UUID is among the silent only."""
    identified = {device.uuid for device in collection.devices}
    return len(identified) + sum(each.uuid not in identified for each in collection.silent)


def _silent_lines(collection: Collection) -> tuple[str, ...]:
    """Without the seconds, which grow: who reads the record would hear of a change at each look."""
    return tuple(
        f"GPU {each.index} ({each.uuid or 'not identified'}): {_SECONDS.sub('', each.reason)}"
        for each in collection.silent
    )


_SECONDS = re.compile(r" for \d+ s$")
