"""What the exporter counts about itself: `gpuready_exporter_*`. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gpuready import names
from gpuready.gpu.telemetry.model import Collection, Device, Engine, Silent
from gpuready.operands.exporter.attribution import Attribution, Pairs
from gpuready.operands.exporter.exposition import COUNTER, GAUGE, Family, labels_text
from gpuready.operands.exporter.holders import Holdings

NO_MAPPING = "NoMapping"  # why no device has a holder: the kubelet has said nothing yet, or too long ago

_PREFIX = "gpuready_exporter"


@dataclass(frozen=True)
class Counted:
    """What happened so far.

    holdings        None where the kubelet is not asked at all
    rejected_lines  of the counters' CSV, as read last
    processes       on the GPUs, that no pod is known for
    series          of the page before this one; render_s: how long that took
    """

    collections: int = 0
    holdings: Holdings | None = None
    rejected_lines: int = 0
    reloads: int = 0
    processes: int = 0
    series: int = 0
    render_s: float = 0.0


def own_families(
    collection: Collection, attribution: Attribution, counted: Counted, now: float, host: Pairs = ()
) -> list[Family]:
    """
    now   of the monotonic clock
    host  the label with the node's name, for what is of one GPU
    """
    took = max(0.0, collection.ended_at - collection.started_at)
    return [
        _one("build_info", "Version of the exporter.", 1, (("version", names.VERSION),)),
        _one("nvml_up", "Whether NVML as a whole answered in the last look.", int(_nvml_answers(collection))),
        *(_dcgm(collection.engine) if collection.engine is not None else ()),
        _one("collection_seconds", "How long the last look at the GPUs took.", took),
        _count("collections_total", "Looks at the GPUs.", counted.collections),
        *_by_gpu(collection, now, host),
        _absent(collection),
        _one("rejected_lines", "Lines of the counters' CSV that are not used.", counted.rejected_lines),
        _count("csv_reloads_total", "How often another CSV was taken up.", counted.reloads),
        *(_mapping(attribution, counted.holdings, now) if counted.holdings is not None else ()),
        _one("unattributed_processes", "Processes on GPUs that no pod is known for.", counted.processes),
        _one("series", "Series of the page before.", counted.series),
        _one("render_seconds", "How long it took to make the page before.", counted.render_s),
    ]


def _nvml_answers(collection: Collection) -> bool:
    return not (collection.problem or (collection.engine and collection.engine.nvml_problem))


def _dcgm(engine: Engine) -> list[Family]:
    pairs = (("engine", engine.address), ("version", engine.version))
    results = (("ok", engine.opened), ("failed", engine.failed))
    return [
        _one("dcgm_up", "Whether DCGM answered in the last look.", int(not engine.problem), pairs),
        _one("dcgm_samples", "Values of the last look that are DCGM's.", engine.samples),
        Family(
            f"{_PREFIX}_dcgm_sessions_total",
            COUNTER,
            "Sessions with DCGM, and attempts to have one.",
            [(labels_text((("result", result),)), number) for result, number in results],
        ),
    ]


def _by_gpu(collection: Collection, now: float, host: Pairs) -> list[Family]:
    silent = {each.uuid for each in collection.silent}
    newest: dict[str, float] = {}
    for sample in collection.samples:
        uuid = sample.entity.uuid
        newest[uuid] = max(newest.get(uuid, sample.taken_at), sample.taken_at)
    ages = [
        (_gpu(device, host), round(max(0.0, now - newest[device.uuid]), 3))
        for device in collection.devices
        if device.uuid in newest
    ]
    return [
        Family(
            f"{_PREFIX}_gpu_silent",
            GAUGE,
            "1 for a GPU that does not answer; its other series are absent.",
            [(_gpu(device, host), int(device.uuid in silent)) for device in collection.devices]
            + [(_unidentified(each, host), 1) for each in collection.silent if not each.uuid],
        ),
        Family(f"{_PREFIX}_sample_age_seconds", GAUGE, "Age of a GPU's newest sample when shown.", ages),
    ]


def _absent(collection: Collection) -> Family:
    counts = Counter((each.field.name, each.reason) for each in collection.absent)
    rows = [
        (labels_text((("field", name), ("reason", reason))), number)
        for (name, reason), number in sorted(counts.items())
    ]
    return Family(f"{_PREFIX}_absent_fields", GAUGE, "Devices that have no value of a field, and why.", rows)


def _mapping(attribution: Attribution, holdings: Holdings, now: float) -> list[Family]:
    age = holdings.age_s(now)
    reasons = Counter(each.reason for each in attribution.unknown)
    if not holdings.is_known:
        reasons[NO_MAPPING] += 1
    results = (("ok", holdings.lists), ("failed", holdings.failures))
    return [
        *(
            [_one("mapping_age_seconds", "Age of what the kubelet said of pods.", round(age, 3))]
            if age is not None
            else []
        ),
        Family(
            f"{_PREFIX}_kubelet_lists_total",
            COUNTER,
            "Questions to the kubelet.",
            [(labels_text((("result", result),)), number) for result, number in results],
        ),
        _one("kubelet_list_seconds", "How long the kubelet's last answer took.", holdings.list_s),
        Family(
            f"{_PREFIX}_unattributed_devices",
            GAUGE,
            "Devices that pods hold and that are no GPU known here, by reason.",
            [(labels_text((("reason", reason),)), number) for reason, number in sorted(reasons.items())],
        ),
    ]


def _gpu(device: Device, host: Pairs) -> str:
    return labels_text((("gpu", str(device.index)), ("UUID", device.uuid), *host))


def _unidentified(silent: Silent, host: Pairs) -> str:
    """One that was lost, or hung, before it told its UUID: only NVML's number of it is known."""
    return labels_text((("gpu", str(silent.index)), *host))


def _one(name: str, text: str, value: int | float, pairs: tuple[tuple[str, str], ...] = ()) -> Family:
    return Family(f"{_PREFIX}_{name}", GAUGE, text, [(labels_text(pairs), value)])


def _count(name: str, text: str, value: int) -> Family:
    return Family(f"{_PREFIX}_{name}", COUNTER, text, [("", value)])
