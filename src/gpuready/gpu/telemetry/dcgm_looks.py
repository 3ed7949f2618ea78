"""What an engine of DCGM has been asked and what it answered, as devices, samples and reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuready.gpu.dcgm import Group, Pair, Part, Reading
from gpuready.gpu.telemetry.dcgm_values import Ages, Refusal, find_blank, is_event, told
from gpuready.gpu.telemetry.model import Absent, Device, Entity, Field, Instance, Sample, Scope, Silent

NAME, INDEX, UUID, MINOR, PCI_BUS_ID = 50, 52, 54, 55, 57
_IDENTITY = {
    Group.GPU: (NAME, INDEX, UUID, MINOR, PCI_BUS_ID),
    Group.GPU_INSTANCE: (NAME,),
    Group.COMPUTE_INSTANCE: (UUID,),
}
_TOO_OLD = "DCGM has read it last more than two intervals ago"

Answers = dict[int, Reading | Refusal]  # by field id


@dataclass(frozen=True, slots=True)
class DcgmLook:
    """error: why there is nothing; "" when the engine answered

    by_number  the devices that told who they are, by the engine's number of them
    """

    devices: tuple[Device, ...] = ()
    samples: tuple[Sample, ...] = ()
    absent: tuple[Absent, ...] = ()
    silent: tuple[Silent, ...] = ()
    version: str = ""
    error: str = ""
    at: float = 0.0
    by_number: Mapping[int, Device] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What an engine has: the numbers of its GPUs and of their NVLinks, and the parts of MIG GPUs.

    inactive  GPUs that it does not support, or no longer reaches
    """

    gpus: tuple[int, ...] = ()
    inactive: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    links: tuple[int, ...] = ()

    def instances(self, gpu: int) -> list[Part]:
        return [part for part in self.parts if part.gpu == gpu and not part.compute]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be watched. fields: by id; interval_s: between two readings"""

    found: Found
    fields: tuple[Field, ...]
    interval_s: float

    def of(self, pair: Pair) -> list[int]:
        """Ids of what is wanted of an entity, whose identity is always."""
        scopes = self.scopes(pair)
        wanted = (each.id for each in self.fields if each.scope in scopes)
        return list(dict.fromkeys((*_IDENTITY.get(pair[0], ()), *wanted)))

    def pairs(self) -> Iterator[Pair]:
        yield from ((Group.GPU, number) for number in self.found.gpus)
        yield from (part.pair for part in self.found.parts)
        yield from ((Group.LINK, number) for number in self.found.links)

    def scopes(self, pair: Pair) -> set[Scope]:
        """Of the fields that this entity answers; facts of the node are asked of the first GPU."""
        group, number = pair
        if group is Group.GPU:
            whole = set() if self.found.instances(number) else {Scope.INSTANCE}
            return {Scope.GPU, *whole, *({Scope.NODE} if number == self.found.gpus[0] else ())}
        return {Group.GPU_INSTANCE: {Scope.INSTANCE}, Group.LINK: {Scope.LINK}}.get(group, set())


def is_link_of_gpu(number: int) -> bool:
    """Switches have links, too. Source: DCGM v4.6.0, dcgm_link_t: 8 bits of kind, 16 of link, 8 of GPU."""
    return number & 0xFF == Group.GPU


def look_of(
    wish: Wish,
    answers: Mapping[Pair, Answers | Refusal],
    ages: Ages,
    now: float,
    version: str = "",
    known: Mapping[int, Device] | None = None,
) -> DcgmLook:
    """known: GPUs by the engine's number, which stays while it runs; one that is lost tells no UUID"""
    devices: list[Device] = []
    by_number: dict[int, Device] = {}
    samples: list[Sample] = []
    absent: list[Absent] = []
    silent: list[Silent] = []
    for gpu in wish.found.gpus:
        device = _device(wish.found, gpu, answers)
        if isinstance(device, Silent) and known and gpu in known:
            silent.append(replace(device, uuid=known[gpu].uuid, index=known[gpu].index))
            devices.append(known[gpu])
            continue
        if isinstance(device, Silent):
            silent.append(device)
            continue
        devices.append(device)
        by_number[gpu] = device
        results = [
            result
            for pair, entity in _entities(wish.found, gpu, device)
            for result in _results(wish, pair, entity, answers[pair], ages, now)
        ]
        samples += sorted((each for each in results if isinstance(each, Sample)), key=_id)
        reasons = [each for each in results if isinstance(each, Absent)]
        absent += reasons
        if reasons and len(reasons) == len(results) and all(each.reason == _TOO_OLD for each in reasons):
            silent.append(Silent(device.uuid, device.index, _TOO_OLD, now))
    for gone in wish.found.inactive:
        if known and gone in known:  # the others were never shown
            devices.append(known[gone])
            silent.append(Silent(known[gone].uuid, known[gone].index, "DCGM reaches it no more", now))
    return DcgmLook(
        tuple(devices), tuple(samples), tuple(absent), tuple(silent), version, at=now, by_number=by_number
    )


def _id(sample: Sample) -> int:
    return sample.field.id


def _device(found: Found, gpu: int, answers: Mapping[Pair, Answers | Refusal]) -> Device | Silent:
    of = answers[Group.GPU, gpu]
    if isinstance(of, Refusal):
        return Silent("", gpu, of.reason, 0.0)
    uuid = _text(of, UUID)
    if not uuid:
        return Silent("", gpu, "DCGM does not tell its UUID", 0.0)
    index = _number(of, INDEX, gpu)
    parts = found.instances(gpu)
    return Device(
        uuid=uuid,
        index=index,
        minor=_number(of, MINOR, index),
        pci_bus_id=_text(of, PCI_BUS_ID).upper(),
        model=_text(of, NAME),
        mig_enabled=bool(parts),
        instances=tuple(_instance(found, part, answers) for part in _by_id(parts)),
    )


def _by_id(parts: list[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: part.instance_id)


def _instance(found: Found, part: Part, answers: Mapping[Pair, Answers | Refusal]) -> Instance:
    inside = (
        each
        for each in found.parts
        if each.compute and (each.gpu, each.instance_id) == (part.gpu, part.instance_id)
    )
    uuids = (_text(answers[each.pair], UUID) for each in inside)
    return Instance(part.instance_id, _text(answers[part.pair], NAME), tuple(filter(None, uuids)))


def _entities(found: Found, gpu: int, device: Device) -> Iterator[tuple[Pair, Entity]]:
    """What of this GPU has values."""
    yield (Group.GPU, gpu), Entity(device)
    for part, instance in zip(_by_id(found.instances(gpu)), device.instances, strict=True):
        yield part.pair, Entity(device, instance)
    for number in found.links:
        if number >> 24 == gpu:
            yield (Group.LINK, number), Entity(device, link=number >> 8 & 0xFFFF)


def _results(
    wish: Wish, pair: Pair, entity: Entity, answers: Answers | Refusal, ages: Ages, now: float
) -> Iterator[Sample | Absent]:
    scopes = wish.scopes(pair)
    for of in wish.fields:
        if of.scope not in scopes:
            continue
        place = Entity() if of.scope is Scope.NODE else entity
        answer = answers if isinstance(answers, Refusal) else answers.get(of.id)
        if answer is None:
            yield Absent(of, place, "DCGM leaves it out of its answer", supported=True)
        elif isinstance(answer, Refusal):
            yield Absent(of, place, answer.reason, answer.supported)
        else:
            since = now if is_event(of) else ages.since((pair, of.id), answer.at_us, now)
            result = told(of, place, answer, since)
            is_old = isinstance(result, Sample) and now - since > 2 * wish.interval_s
            yield Absent(of, place, _TOO_OLD, supported=True) if is_old else result


def _text(answers: Answers | Refusal, field_id: int) -> str:
    """ "" where it is not known."""
    value = _known(answers, field_id)
    return value if isinstance(value, str) else ""


def _number(answers: Answers | Refusal, field_id: int, otherwise: int) -> int:
    value = _known(answers, field_id)
    return value if isinstance(value, int) else otherwise


def _known(answers: Answers | Refusal, field_id: int) -> object:
    answer = None if isinstance(answers, Refusal) else answers.get(field_id)
    if not isinstance(answer, Reading) or answer.status != 0 or answer.value is None:
        return None
    return None if find_blank(answer.value) is not None else answer.value
