"""One collection and who holds the GPUs, as families of metrics. Pure.

A device's series carry its identity and never churn; who uses it and how much are families of their own:
`gpuready_allocation_info` and `gpuready_pod_*`. Labels and their order are the original's.

Source: dcgm-exporter 4.5.3-4.8.2, internal/pkg/rendermetrics/render_metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from gpuready.gpu.telemetry.model import Collection, Device, Entity, Instance, Sample
from gpuready.node.kubelet.pod_resources import Holder
from gpuready.operands.exporter.attribution import OLD_NAMES, Allocation, Attribution, Key, PodNames, view_of
from gpuready.operands.exporter.exposition import GAUGE, Family, labels_text
from gpuready.operands.exporter.settings import EXCLUSIVE, VIRTUAL_GPUS
from gpuready.operands.exporter.usage import PodUse, Use

OUR_FIELDS = 20_000  # ids from here on are no DCGM fields: they are always shown, under their own names
GPU_UTIL, FB_USED = 203, 252
MIB = 2**20

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Listed:
    """One row of the CSV: how a field is called, typed and explained on the page."""

    name: str
    kind: str
    help: str


@dataclass(frozen=True)
class Style:
    """How lines look.

    listed          DCGM field id -> its rows of the CSV; a field may stand there in two spellings
    labels          ids of fields that are labels of every line
    hostname        value of the label `hostname_label`; "" leaves it out
    jobs            (GPU index, instance id or None) -> ids of HPC jobs
    pod_extra       (namespace, pod) -> further labels
    old_names       `uuid`, `pod_name` … as older dashboards want them
    """

    listed: Mapping[int, Sequence[Listed]] = field(default_factory=dict)
    labels: Mapping[int, str] = field(default_factory=dict)
    hostname: str = ""
    hostname_label: str = "Hostname"
    view: str = EXCLUSIVE
    old_names: bool = False
    replace_blanks: bool = False
    pod_extra: Mapping[tuple[str, str], Pairs] = field(default_factory=dict)
    jobs: Mapping[tuple[int, int | None], Sequence[str]] = field(default_factory=dict)

    @property
    def pod_names(self) -> PodNames:
        names = OLD_NAMES if self.old_names else PodNames()
        return PodNames(names.pod, names.namespace, names.container, self.pod_extra)

    @property
    def host(self) -> Pairs:
        """The label with the node's name, unless there is none."""
        return ((self.hostname_label, self.hostname),) if self.hostname and self.hostname_label else ()

    @property
    def uuid_label(self) -> str:
        return "uuid" if self.old_names else "UUID"


def device_families(
    collection: Collection, attribution: Attribution, style: Style, memory: Use, time: Use
) -> list[Family]:
    """Of every field that is listed, with a line for each device that has a value, by field id."""
    rows = _label_rows(collection, style)
    lines: dict[tuple[int, int], list[tuple[str, int | float]]] = {}
    shown: dict[tuple[int, int], Listed] = {}
    places: dict[tuple[str, int | None, int | None], _Place] = {}
    own_use = {GPU_UTIL: _by_pod(time, 100.0), FB_USED: _by_pod(memory, 1 / MIB)}
    for sample in collection.samples:
        entity = sample.entity
        if isinstance(sample.value, str):
            continue
        names = _listed(sample, style)
        if not names:
            continue
        key = (entity.uuid, entity.instance.id if entity.instance else None, entity.link)
        if key not in places:
            identified = identity(entity, style) + rows.get(entity.uuid, rows.get("", ()))
            places[key] = _Place(entity, identified, attribution.holders_of(entity), style)
        made = places[key].lines(sample, own_use.get(sample.field.id))
        for number, listed in enumerate(names):
            shown[sample.field.id, number] = listed
            lines.setdefault((sample.field.id, number), []).extend(made)
    return [Family(shown[key].name, shown[key].kind, shown[key].help, lines[key]) for key in sorted(lines)]


class _Place:
    """A device, instance or link: what its lines begin with, made once for all of its fields."""

    def __init__(
        self, entity: Entity, identified: Pairs, holders: Sequence[Allocation], style: Style
    ) -> None:
        self._entity, self._identified, self._holders, self._style = entity, identified, holders, style
        self._pods = [pairs for pairs, _ in _with_jobs(_pod_lines(holders, style, 0, None), entity, style)]
        self._texts = [self._text((), pairs) for pairs in self._pods]

    def lines(
        self, sample: Sample, own_use: Mapping[tuple[Key, tuple[str, str]], float] | None
    ) -> list[tuple[str, int | float]]:
        value = sample.value
        assert not isinstance(value, str)
        if own_use is not None and self._style.view == VIRTUAL_GPUS:
            rows = _pod_lines(self._holders, self._style, value, own_use)
            rows = _with_jobs(rows, self._entity, self._style)
            return [(self._text(sample.labels, pairs), each) for pairs, each in rows]
        if sample.labels:
            return [(self._text(sample.labels, pairs), value) for pairs in self._pods]
        return [(text, value) for text in self._texts]

    def _text(self, own: Pairs, pairs: Pairs) -> str:
        return labels_text(self._identified + tuple(sorted({**dict(own), **dict(pairs)}.items())))


def identity(entity: Entity, style: Style) -> Pairs:
    """gpu, UUID, pci_bus_id, device, modelName, GPU_I_*, Hostname; of a link under its own names."""
    device = entity.device
    if device is None:
        return style.host
    if entity.link is not None:
        return (
            ("nvlink", str(entity.link)),
            ("gpu", str(device.index)),
            ("gpu_uuid", device.uuid),
            ("pci_bus_id", device.pci_bus_id),
            ("device", f"nvidia{device.minor}"),
            ("model_name", _model(device, style)),
            *((("hostname", style.hostname),) if style.hostname else ()),
        )
    return (
        ("gpu", str(device.index)),
        (style.uuid_label, device.uuid),
        ("pci_bus_id", device.pci_bus_id),
        ("device", f"nvidia{device.minor}"),
        ("modelName", _model(device, style)),
        *_instance(entity.instance),
        *style.host,
    )


def pod_families(
    collection: Collection,
    attribution: Attribution,
    style: Style,
    memory: Use,
    time: Use,
    held_since: Mapping[Holder, float] | None = None,
) -> list[Family]:
    """Who holds what, how much of it each pod uses, and for how long a device that is held does nothing.

    held_since  monotonic, when each holder was first told of; None: nothing is known of holders
    """
    known = _Known(collection, style)
    extra = style.pod_extra
    held = [
        (
            labels_text(
                (
                    *known.short(each.key),
                    ("namespace", each.namespace),
                    ("pod", each.pod),
                    ("container", each.container),
                    ("resource", each.resource),
                    ("replica", each.replica),
                    ("sharing", each.sharing),
                    *extra.get(each.pod_key, ()),
                )
            ),
            1,
        )
        for each in attribution.allocations
    ]
    counts = [
        (labels_text(known.short(key)), len(attribution.by_device.get(key, ())))
        for key in (known.schedulable() if held_since is not None else ())
    ]
    used, unused = _usage(known, memory, 1.0), _rest(known, memory, 1.0)
    busy, idle_rest = _usage(known, time, 1.0), _rest(known, time, 1.0)
    return [
        Family(
            "gpuready_allocation_info", GAUGE, "1 for each device, or share of one, that a pod holds.", held
        ),
        Family("gpuready_allocated_shares", GAUGE, "How many of them each device has.", counts),
        Family("gpuready_pod_memory_used_bytes", GAUGE, "Memory of a GPU that a pod's processes use.", used),
        Family(
            "gpuready_unattributed_memory_used_bytes",
            GAUGE,
            "Memory in use on a GPU that belongs to no known pod.",
            unused,
        ),
        Family(
            "gpuready_pod_sm_utilization_ratio",
            GAUGE,
            "Share of a GPU's time that a pod's processes use, 0-1.",
            busy,
        ),
        Family(
            "gpuready_unattributed_sm_utilization_ratio",
            GAUGE,
            "Share of a GPU's time in use that belongs to no known pod, 0-1.",
            idle_rest,
        ),
        Family(
            "gpuready_allocation_idle_seconds",
            GAUGE,
            "For how long a device that a pod holds has done nothing.",
            _idle(collection, attribution, known, held_since or {}),
        ),
    ]


class _Known:
    """The devices of a collection, and how lines about pods name them: by as little as tells them apart."""

    def __init__(self, collection: Collection, style: Style) -> None:
        self._style = style
        self._devices = {device.uuid: device for device in collection.devices}

    def short(self, key: Key) -> Pairs:
        uuid, instance_id = key
        device = self._devices.get(uuid)
        if device is None:
            return ((self._style.uuid_label, uuid),)
        instance = next((i for i in device.instances if i.id == instance_id), None)
        return (
            ("gpu", str(device.index)),
            (self._style.uuid_label, uuid),
            *_instance(instance),
            *self._style.host,
        )

    def schedulable(self) -> Iterator[Key]:
        """Whole GPUs, and the instances of those that are cut up."""
        for device in self._devices.values():
            if not device.instances:
                yield device.uuid, None
            for instance in device.instances:
                yield device.uuid, instance.id


def _listed(sample: Sample, style: Style) -> Sequence[Listed]:
    known = sample.field
    if known.id >= OUR_FIELDS:
        return (Listed(known.name, str(known.kind), known.help),)
    return style.listed.get(known.id, ())


def _label_rows(collection: Collection, style: Style) -> Mapping[str, Pairs]:
    """uuid -> labels that fields are; "" for those of the node. A device has the node's, too."""
    found: dict[str, dict[str, str]] = {}
    for sample in collection.samples:
        name = style.labels.get(sample.field.id)
        if name is not None:
            found.setdefault(sample.entity.uuid, {})[name] = str(sample.value)
    of_node = found.pop("", {})
    rows = {uuid: tuple(sorted({**of_node, **own}.items())) for uuid, own in found.items()}
    return {"": tuple(sorted(of_node.items())), **rows}


def _pod_lines(
    holders: Sequence[Allocation],
    style: Style,
    value: int | float,
    own_use: Mapping[tuple[Key, tuple[str, str]], float] | None,
) -> list[tuple[Pairs, int | float]]:
    """In the view of copies each has the device's value, save where it is known how much is the pod's own."""
    pairs = view_of(holders, style.view, style.pod_names)
    if style.view != VIRTUAL_GPUS or own_use is None or not holders:
        return [(each, value) for each in pairs]
    names = style.pod_names
    mine = [
        (
            names.pairs(each) + ((("vgpu", each.replica),) if each.replica else ()),
            own_use[each.key, each.pod_key],
        )
        for each in holders
        if (each.key, each.pod_key) in own_use
    ]
    return [((), value), *sorted(mine)]


def _with_jobs(
    lines: list[tuple[Pairs, int | float]], entity: Entity, style: Style
) -> list[tuple[Pairs, int | float]]:
    """A copy for each HPC job of the device; without a job, as it is."""
    if entity.device is None or not style.jobs:
        return lines
    jobs = style.jobs.get((entity.device.index, entity.instance.id if entity.instance else None), ())
    if not jobs:
        return lines
    return [((*pairs, ("hpc_job", job)), value) for pairs, value in lines for job in jobs]


def _by_pod(use: Use, factor: float) -> Mapping[tuple[Key, tuple[str, str]], float]:
    return {(row.key, (row.namespace, row.pod)): row.amount * factor for row in use.by_pod}


def _usage(known: _Known, use: Use, factor: float) -> list[tuple[str, int | float]]:
    return [(labels_text(known.short(row.key) + _pod(row)), row.amount * factor) for row in use.by_pod]


def _rest(known: _Known, use: Use, factor: float) -> list[tuple[str, int | float]]:
    return [
        (labels_text(known.short(key)), use.remainder[key] * factor)
        for key in known.schedulable()
        if key in use.remainder
    ]


def _pod(row: PodUse) -> Pairs:
    return ("namespace", row.namespace), ("pod", row.pod), ("container", row.container)


def _idle(
    collection: Collection, attribution: Attribution, known: _Known, held_since: Mapping[Holder, float]
) -> list[tuple[str, int | float]]:
    """Nothing of a device that was never looked at; 0 of one that is busy now.

    A pod has not let lie idle what it did not hold yet.
    """
    rows: dict[str, int | float] = {}
    for seen in collection.activity:
        key = (seen.uuid, seen.gpu_instance_id)
        for each in attribution.by_device.get(key, ()):
            holder = Holder(each.namespace, each.pod, each.container)
            held_s = collection.ended_at - held_since.get(holder, -inf)
            idle_s = round(max(0.0, min(seen.idle_s, held_s)), 3)
            pod = (("namespace", each.namespace), ("pod", each.pod), ("container", each.container))
            rows.setdefault(labels_text(known.short(key) + pod), idle_s)
    return list(rows.items())


def _instance(instance: Instance | None) -> Pairs:
    return (("GPU_I_PROFILE", instance.profile), ("GPU_I_ID", str(instance.id))) if instance else ()


def _model(device: Device, style: Style) -> str:
    return device.model.replace(" ", "-") if style.replace_blanks else device.model


def usage_inputs(
    collection: Collection,
) -> tuple[Mapping[Key, float], Mapping[Key, float]]:
    """The devices' own values: bytes of memory in use, and share of the time, 0-1."""
    memory: dict[Key, float] = {}
    time: dict[Key, float] = {}
    for sample in collection.samples:
        if isinstance(sample.value, str) or sample.entity.device is None:
            continue
        key = (sample.entity.uuid, sample.entity.instance.id if sample.entity.instance else None)
        if sample.field.id == FB_USED:
            memory[key] = float(sample.value) * MIB
        elif sample.field.id == GPU_UTIL:
            time[key] = sample.value / 100
    return memory, time
