"""NVML and DCGM as one source of collections.

DCGM's value counts wherever it has one. In its place, and for what DCGM does not know (processes, XIDs as
they come, our own metrics), stands NVML's; where DCGM is to stand alone, NVML is asked for the latter only.
`Sources` gives orders and gathers answers; `merged` joins them and is pure.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuready.gpu.dcgm import EMBEDDED, HostEngine
from gpuready.gpu.telemetry.dcgm_looks import DcgmLook
from gpuready.gpu.telemetry.dcgm_reader import DcgmThread
from gpuready.gpu.telemetry.device_reader import Clock
from gpuready.gpu.telemetry.engines import Engines
from gpuready.gpu.telemetry.fields import is_dcgms
from gpuready.gpu.telemetry.model import Absent, Collection, Device, Engine, Entity, Field, Sample, Silent
from gpuready.gpu.telemetry.reader import Reader
from gpuready.gpu.telemetry.turns import Order

Key = tuple[int, str, int | None, int | None]


class Sources:
    """A reader like `Reader`, over one. alone: DCGM's fields are never taken from NVML."""

    def __init__(
        self, nvml: Reader, engines: Engines, engine: HostEngine | None, clock: Clock, *, alone: bool
    ) -> None:
        self._nvml, self._engines, self._clock = nvml, engines, clock
        self._told = Engine(engine.address if engine else EMBEDDED, alone=alone)
        self._gathered = threading.Condition()
        self._released = False
        self._number = 0
        self._dcgm = DcgmThread(engines, clock, self._poke)
        self._last = DcgmLook(error="DCGM has not answered yet")

    def start(self) -> None:
        self._nvml.start()
        self._dcgm.start()

    def collect(
        self, fields: Sequence[Field], due_at: float, interval_s: float, patience_s: float
    ) -> Collection | None:
        """As `Reader.collect`; DCGM may take as long as NVML."""
        self._number += 1
        asked = tuple(sorted(set(fields), key=lambda of: of.id))
        self._dcgm.give(Order(self._number, due_at, asked, interval_s))
        others = [of for of in asked if not (self._told.alone and is_dcgms(of))]
        found = self._nvml.collect(others, due_at, interval_s, patience_s)
        if found is None:
            return None
        self._wait_for_dcgm(due_at, due_at + patience_s)
        look, problem = self._newest(interval_s)
        told = replace(self._told, problem=problem, opened=self._engines.opened, failed=self._engines.failed)
        wanted = tuple(filter(is_dcgms, asked))
        return replace(merged(found, look, told, wanted), ended_at=self._clock.monotonic())

    def hurry(self) -> None:
        self._nvml.hurry()

    def release(self) -> None:
        """Give the driver up, and the engine with it: it is stopped where it is ours."""
        self._released = True
        self._dcgm.release()
        self._nvml.release()
        self._poke()

    def resume(self) -> None:
        self._released = False
        self._dcgm.resume()
        self._nvml.resume()
        self._poke()

    def stop(self) -> None:
        self._dcgm.stop()
        self._nvml.stop()

    @property
    def holds_nvml(self) -> bool:
        return self._nvml.holds_nvml or self._dcgm.holds_session

    @property
    def outdated(self) -> str:
        return self._nvml.outdated

    # --- inside -----------------------------------------------------------------------------------------
    def _poke(self) -> None:
        with self._gathered:
            self._gathered.notify()

    def _wait_for_dcgm(self, due_at: float, until: float) -> None:
        owes_since = self._dcgm.owes_since
        if owes_since is not None and owes_since < due_at:
            return  # it was asked for the look before, and NVML's values must not get old over it
        with self._gathered:
            self._gathered.wait_for(
                lambda: self._dcgm.answered >= self._number or self._released,
                max(0.0, until - self._clock.monotonic()),
            )

    def _newest(self, interval_s: float) -> tuple[DcgmLook | None, str]:
        """The newest look that still counts, and why there is no newer one."""
        now, problem = self._clock.monotonic(), ""
        answer = self._dcgm.answer
        if answer is not None and not answer.error:
            self._last = answer
            self._told = replace(self._told, version=answer.version)
        if self._released:
            return None, "the driver is being changed: DCGM is given up until it is back"
        if self._dcgm.answered < self._number:
            problem = _silence(now - self._dcgm.owes_since if self._dcgm.owes_since else 0.0)
        elif answer is not None:
            problem = answer.error
        counts = not self._last.error and now - self._last.at <= 2 * interval_s
        return self._last if counts else None, problem


def merged(nvml: Collection, look: DcgmLook | None, engine: Engine, asked: Sequence[Field]) -> Collection:
    """look   None: nothing of DCGM counts
    asked  of DCGM
    """
    if look is None:
        problem = engine.problem or "DCGM has told nothing for two intervals"
        absent = (*nvml.absent, *_all_absent(asked, nvml, problem))
        engine = replace(engine, nvml_problem=nvml.problem, problem=problem)
        return replace(nvml, absent=absent, engine=engine)
    look = _without_gone(look, nvml, engine)
    devices = _devices(nvml.devices, look.devices)
    known = {device.uuid: device for device in devices}
    own = [replace(each, entity=_same(each.entity, known)) for each in look.samples]
    samples = {_key(each): each for each in own}
    # Some fields have several lines of one device, told apart by their labels: all of NVML's, or DCGM's one.
    others = [each for each in nvml.samples if _key(each) not in samples]
    told = samples.keys() | {_key(each) for each in others}
    reasons = {_key(each): each for each in (*nvml.absent, *look.absent) if _key(each) not in told}
    answering = _answering(nvml, own, engine)
    return replace(
        nvml,
        devices=devices,
        samples=tuple(_ordered([*own, *others], devices)),
        absent=tuple(reasons.values()),
        silent=tuple(_silent([*look.silent, *nvml.silent], answering)),
        driver_version=nvml.driver_version or _driver_version(own),
        problem="",
        engine=replace(engine, samples=len(own), nvml_problem=nvml.problem),
    )


def _without_gone(look: DcgmLook, nvml: Collection, engine: Engine) -> DcgmLook:
    """An engine never forgets a GPU: one that it has no value of, and that NVML has not, was taken out."""
    if engine.alone or nvml.problem:
        return look
    there = {device.uuid for device in nvml.devices} | {each.entity.uuid for each in look.samples}
    return replace(
        look,
        devices=tuple(device for device in look.devices if device.uuid in there),
        absent=tuple(each for each in look.absent if each.entity.uuid in {"", *there}),
        silent=tuple(each for each in look.silent if each.uuid in {"", *there}),
    )


def _silence(seconds: float) -> str:
    return f"DCGM has not answered for {max(0.0, seconds):.0f} s"


def _all_absent(asked: Sequence[Field], nvml: Collection, reason: str) -> list[Absent]:
    """Of what NVML says nothing of."""
    told = {each.field.id for each in nvml.samples} | {each.field.id for each in nvml.absent}
    return [Absent(of, Entity(), reason, supported=True) for of in asked if of.id not in told]


def _answering(nvml: Collection, own: Sequence[Sample], engine: Engine) -> list[Device]:
    """The GPUs that somebody tells of whose word counts."""
    told = {each.entity.uuid: each.entity.device for each in own}
    silent = {each.uuid for each in nvml.silent}
    if not engine.alone and not nvml.problem:
        told |= {device.uuid: device for device in nvml.devices if device.uuid not in silent}
    return [device for device in told.values() if device is not None]


def _silent(silent: Sequence[Silent], answering: Sequence[Device]) -> Iterator[Silent]:
    """Each GPU once, that nobody tells of; one without a UUID goes by its number."""
    uuids, numbers = {device.uuid for device in answering}, {device.index for device in answering}
    found: dict[str | int, Silent] = {each.uuid or each.index: each for each in silent}
    return (
        each for each in found.values() if each.uuid not in uuids and (each.uuid or each.index not in numbers)
    )


def _devices(nvml: Sequence[Device], dcgm: Sequence[Device]) -> tuple[Device, ...]:
    """NVML's description where there are two: the kubelet's ids are NVML's."""
    known = {device.uuid for device in nvml}
    return (*nvml, *(device for device in dcgm if device.uuid not in known))


def _same(entity: Entity, known: dict[str, Device]) -> Entity:
    device = known.get(entity.uuid)
    if device is None or device is entity.device:
        return entity
    instance = entity.instance
    if instance is not None:
        instance = next((each for each in device.instances if each.id == instance.id), instance)
    return Entity(device, instance, entity.link)


def _key(of: Sample | Absent) -> Key:
    entity = of.entity
    return of.field.id, entity.uuid, entity.instance.id if entity.instance else None, entity.link


def _ordered(samples: Sequence[Sample], devices: Sequence[Device]) -> list[Sample]:
    """Facts of the node, then by device and field; a device's own before those of its parts."""
    places = {device.uuid: place for place, device in enumerate(devices)}

    def place(sample: Sample) -> tuple[int, int, int, int]:
        entity = sample.entity
        part = entity.instance.id if entity.instance else -1 if entity.link is None else entity.link
        return places.get(entity.uuid, -1), sample.field.id, part, 0

    return sorted(samples, key=place)


def _driver_version(samples: Sequence[Sample]) -> str:
    return next((str(each.value) for each in samples if each.field.id == 1), "")
