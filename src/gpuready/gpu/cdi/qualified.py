"""Names of CDI devices: vendor/class=device, and the names that one GPU has. Pure.

Source: container-device-interface 1.1, pkg/parser; nvidia-container-toolkit v1.19.1, pkg/nvcdi/namer.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from gpuready.gpu.inventory import GPU
from gpuready.gpu.nvml import Partition

ALL = "all"
_PART = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class Style(StrEnum):
    """How devices are named: index 0 and 1:0, type-index gpu0 and mig1:0, uuid GPU-… and MIG-…."""

    INDEX = "index"
    TYPE_INDEX = "type-index"
    UUID = "uuid"


@dataclass(frozen=True)
class Name:
    """kind  "nvidia.com/gpu"; device  "0"."""

    kind: str
    device: str

    def __str__(self) -> str:
        return f"{self.kind}={self.device}"


def find_name(text: str) -> Name | None:
    """None for what is not qualified: first "=", first "/"; a path never is."""
    kind, _, device = text.partition("=")
    return Name(kind, device) if is_kind(kind) and is_device(device) else None


def is_kind(text: str) -> bool:
    vendor, slash, class_ = text.partition("/")
    return bool(slash and _PART.fullmatch(vendor) and _PART.fullmatch(class_))


def is_device(text: str) -> bool:
    return _DEVICE.fullmatch(text) is not None


def name_of_gpu(gpu: GPU, style: Style) -> str:
    return {Style.INDEX: str(gpu.index), Style.TYPE_INDEX: f"gpu{gpu.index}", Style.UUID: gpu.uuid}[style]


def name_of_partition(gpu: GPU, partition: Partition, style: Style) -> str:
    both = f"{gpu.index}:{partition.index}"
    return {Style.INDEX: both, Style.TYPE_INDEX: f"mig{both}", Style.UUID: partition.uuid}[style]
