"""Everything on the page, from one look at the GPUs and what is known of pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuready.gpu.telemetry.model import Collection, ProcessUse
from gpuready.node.kubelet.pod_resources import Holder
from gpuready.operands.exporter.attribution import Attribution, Pairs, attribute
from gpuready.operands.exporter.exposition import Family
from gpuready.operands.exporter.families import (
    Style,
    device_families,
    pod_families,
    usage_inputs,
)
from gpuready.operands.exporter.holders import Holdings
from gpuready.operands.exporter.self_metrics import Counted, own_families
from gpuready.operands.exporter.usage import Use, shared_out

PodKey = tuple[str, str]


@dataclass(frozen=True)
class Known:
    """What is known of pods beside the kubelet's answer.

    pod_of   pid -> pod, of the processes on the GPUs
    extra    pod -> further labels: uid, labels of its own
    """

    pod_of: Mapping[int, PodKey] = field(default_factory=dict)
    extra: Mapping[PodKey, Pairs] = field(default_factory=dict)


def families_of(
    collection: Collection,
    known: Known,
    style: Style,
    counted: Counted,
    now: float,
    *,
    resource_names: tuple[str, ...] = (),
    claims: bool = True,
) -> list[Family]:
    """now   of the monotonic clock"""
    held = counted.holdings.held if counted.holdings else ()
    attribution = attribute(held, collection.devices, resource_names=resource_names, claims=claims)
    look = replace(style, pod_extra=known.extra)
    memory, time = uses_of(collection, known, attribution)
    strangers = sum(process.pid not in known.pod_of for process in collection.processes)
    return [
        *device_families(collection, attribution, look, memory, time),
        *(
            pod_families(collection, attribution, look, memory, time, _since(counted.holdings))
            if counted.holdings
            else ()
        ),
        *own_families(collection, attribution, replace(counted, processes=strangers), now, look.host),
    ]


def uses_of(collection: Collection, known: Known, attribution: Attribution) -> tuple[Use, Use]:
    """Memory in bytes and share of the time, of pods and of nobody."""
    memory, time = usage_inputs(collection)
    processes = collection.processes
    return (
        shared_out([(each, each.memory_bytes) for each in processes], known.pod_of, attribution, memory),
        shared_out([(each, _share(each)) for each in processes], known.pod_of, attribution, time),
    )


def without_samples(collection: Collection) -> Collection:
    """What still holds when a look is too old: which GPUs there are, and that nothing is known of them."""
    return replace(collection, samples=(), processes=(), activity=())


def _since(holdings: Holdings) -> Mapping[Holder, float] | None:
    return holdings.since if holdings.is_known else None


def _share(process: ProcessUse) -> float | None:
    return None if process.sm_percent is None else process.sm_percent / 100
