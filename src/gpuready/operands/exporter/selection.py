"""Which devices are shown: the original's `--devices`, and its way of repeating a GPU's values. Pure.

Source: dcgm-exporter 4.5.3-4.8.2, pkg/cmd/app.go (parseDeviceOptions).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from gpuready.errors import UsageError
from gpuready.gpu.telemetry.model import Collection, Entity, Sample, Scope

FLEX, MAJOR, MINOR = "f", "g", "i"


@dataclass(frozen=True)
class Selection:
    """`kind` and the numbers listed behind it; None = all of that kind.

    f   each GPU's instances where it has some, else the GPU; what is a GPU's alone is shown in any case
    g   GPUs, by their index
    i   instances, counted through all GPUs in their order
    """

    kind: str = FLEX
    numbers: frozenset[int] | None = None


def parse_selection(text: str) -> Selection:
    """ "f", "g", "g:0,2-3", "i:1". raises  UsageError"""
    kind, colon, listed = text.partition(":")
    if kind not in (FLEX, MAJOR, MINOR) or (kind == FLEX and colon):
        raise _wrong(text)
    if not colon:
        return Selection(kind)
    numbers: set[int] = set()
    for part in listed.split(","):
        first, dash, last = part.partition("-")
        if not (_is_number(first) and (not dash or _is_number(last))):
            raise _wrong(text)
        numbers |= set(range(int(first), int(last or first) + 1))
    return Selection(kind, frozenset(numbers))


def selected(collection: Collection, selection: Selection, labels: Container[int] = ()) -> Collection:
    """The collection with the samples of these devices only; the devices themselves all stay known.

    labels  ids of fields that are labels of every line: an instance has those of its GPU, shown or not
    """
    if selection == Selection():
        return collection
    order = [(device.uuid, each.id) for device in collection.devices for each in device.instances]
    places = {key: number for number, key in enumerate(order)}
    kept = tuple(
        each
        for each in collection.samples
        if each.field.id in labels or _is_kept(each.entity, selection, places)
    )
    return replace(collection, samples=kept)


def repeated(collection: Collection) -> Collection:
    """GPU-level values once for each instance, as the original has them: whoever adds them adds too much."""
    samples: list[Sample] = []
    for each in collection.samples:
        device = each.entity.device
        is_gpus = each.field.scope is Scope.GPU and each.entity.instance is None and each.entity.link is None
        if device is None or not device.instances or not is_gpus:
            samples.append(each)
            continue
        samples += [replace(each, entity=Entity(device, instance)) for instance in device.instances]
    return replace(collection, samples=tuple(samples))


def _is_kept(entity: Entity, selection: Selection, places: dict[tuple[str, int], int]) -> bool:
    if entity.device is None:
        return True
    if selection.kind == MAJOR:
        number = None if entity.instance else entity.device.index
    else:
        number = places.get((entity.uuid, entity.instance.id)) if entity.instance else None
    return number is not None and (selection.numbers is None or number in selection.numbers)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6


def _wrong(text: str) -> UsageError:
    return UsageError(
        f"DCGM_EXPORTER_DEVICES_STR={text}",
        why="it must be f, g or i, and after g and i perhaps a list such as :0,2-3",
        next_step="correct the value",
    )


def numbers_missing(collection: Collection, selection: Selection) -> Sequence[int]:
    """Listed numbers that no device has."""
    if selection.numbers is None:
        return ()
    count = (
        {device.index for device in collection.devices}
        if selection.kind == MAJOR
        else set(range(sum(len(device.instances) for device in collection.devices)))
    )
    return sorted(selection.numbers - count)
