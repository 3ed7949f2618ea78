"""Node labels that describe the GPUs, as GPU feature discovery names them.

Pure. A node with several models is described by one of them, always the same: the model with most GPUs,
then the one with the lowest index, and every label comes from that model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuready.gpu.inventory import GPU, Inventory

PREFIX = "nvidia.com/"
_LONGEST = 63
_DROPPED = re.compile(r"[^A-Za-z0-9\-_. ]")
_SHARED = "SHARED"


@dataclass(frozen=True)
class Sharing:
    """strategy: none, time-slicing or mps; 1 replica = exclusive; renamed: offered as `….shared`."""

    strategy: str = "none"
    replicas: int = 1
    renamed: bool = False


def feature_labels(
    inventory: Inventory,
    sharing: Sharing = Sharing(),
    *,
    mig_strategy: str = "none",
    vgpu_present: bool = False,
    timestamp: int | None = None,
) -> dict[str, str]:
    """All labels, by full name; without GPUs only the timestamp and vgpu.present.

    timestamp  unix seconds; None leaves nvidia.com/gfd.timestamp out (it would change the node each time)

    Source: k8s-device-plugin v0.19.3, internal/lm/{nvml.go,resource.go,mig-strategy.go}.
    """
    labels = {"vgpu.present": _bool(vgpu_present)}
    if timestamp is not None:
        labels["gfd.timestamp"] = str(timestamp)
    shared: dict[str, str] = {}
    if inventory.gpus:
        model = primary_product([gpu.product for gpu in inventory.gpus])
        labels |= {"gpu.machine": _machine(inventory.machine)}
        labels |= _versions(inventory)
        labels |= _capabilities(inventory.gpus, mig_strategy)
        labels |= _gpu_labels(inventory.gpus, model)
        shared = sharing_labels(model, sharing, mig=any(gpu.mig_enabled for gpu in inventory.gpus))
    return dict(sorted({**{PREFIX + key: value for key, value in labels.items()}, **shared}.items()))


def sharing_labels(model: str, sharing: Sharing, *, mig: bool = False) -> dict[str, str]:
    """The labels that change when the same GPUs are shared in another way, by full name.

    mig   MIG is enabled on one of them
    """
    shared = sharing.replicas > 1
    labels = {
        "gpu.product": product_label(model, shared=shared and not sharing.renamed),
        "gpu.replicas": str(sharing.replicas),
        "gpu.sharing-strategy": sharing.strategy if shared else "none",
        "mps.capable": _bool(shared and sharing.strategy == "mps" and not mig),
    }
    return {PREFIX + key: value for key, value in labels.items()}


def primary_product(products: Sequence[str]) -> str:
    """Of the GPUs of one node, in index order: the model that most of them are, the first one on a tie."""
    return min(products, key=lambda product: (-products.count(product), products.index(product)))


def product_label(product: str, *, shared: bool = False) -> str:
    """A valid label value for a model's name; a long one is cut and ends with a digest of the whole."""
    words = _DROPPED.sub("", product).split()
    if shared:
        words.append(_SHARED)
    return fit("-".join(words))


def fit(value: str) -> str:
    """At most 63 characters, beginning and ending with a letter or digit."""
    trimmed = value.strip("-_.")
    if len(trimmed) <= _LONGEST:
        return trimmed
    digest = hashlib.sha256(value.encode()).hexdigest()[:8]
    tail = f"-{digest}" + (f"-{_SHARED}" if trimmed.endswith(f"-{_SHARED}") else "")
    return trimmed[: _LONGEST - len(tail)].rstrip("-_.") + tail


def _gpu_labels(gpus: Sequence[GPU], model: str) -> dict[str, str]:
    mine = [gpu for gpu in gpus if gpu.product == model]
    first = mine[0]
    major, minor = first.compute_capability
    labels = {
        "gpu.count": str(len(mine)),
        "gpu.family": first.family,
        "gpu.compute.major": str(major),
        "gpu.compute.minor": str(minor),
        "gpu.mode": _mode(gpus),
    }
    if first.memory_mib:
        labels["gpu.memory"] = str(first.memory_mib)
    return labels


def _capabilities(gpus: Sequence[GPU], mig_strategy: str) -> dict[str, str]:
    labels = {"mig.capable": _bool(any(gpu.mig_enabled is not None for gpu in gpus))}
    if mig_strategy != "none":
        labels["mig.strategy"] = mig_strategy
    return labels


def _versions(inventory: Inventory) -> dict[str, str]:
    """Both spellings, the deprecated one too: people select nodes by either."""
    parts = [*inventory.driver_version.split("."), "", ""]
    major, minor = (str(number) for number in inventory.cuda_version)
    return {
        "cuda.driver.major": parts[0],
        "cuda.driver.minor": parts[1],
        "cuda.driver.rev": parts[2],
        "cuda.driver-version.major": parts[0],
        "cuda.driver-version.minor": parts[1],
        "cuda.driver-version.revision": parts[2],
        "cuda.driver-version.full": inventory.driver_version,
        "cuda.runtime.major": major,
        "cuda.runtime.minor": minor,
        "cuda.runtime-version.major": major,
        "cuda.runtime-version.minor": minor,
        "cuda.runtime-version.full": f"{major}.{minor}",
    }


def _machine(product_name: str) -> str:
    return fit("-".join(_DROPPED.sub("", product_name).split())) or "unknown"


def _mode(gpus: Sequence[GPU]) -> str:
    modes = {gpu.mode for gpu in gpus}
    return modes.pop() if len(modes) == 1 else "unknown"


def _bool(value: bool) -> str:
    return "true" if value else "false"
