"""How well two GPUs of a node reach each other, as one number per pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gpuready.gpu.nvml import Handle, Nvml, NvmlError

PER_NVLINK = 100
SAME_NUMA_NODE = 20
_PCIE = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
# Source: go-gpuallocator v0.6.0, gpuallocator/besteffort_policy.go:304 (calculateGPUPairScore).


class Placed(Protocol):
    """Where a GPU sits, as `inventory.GPU` says it."""

    @property
    def uuid(self) -> str: ...
    @property
    def pci_address(self) -> str: ...
    @property
    def numa_node(self) -> int | None: ...


def pair_scores(
    nvml: Nvml, gpus: Sequence[Placed], handles: Mapping[str, Handle]
) -> tuple[tuple[int, ...], ...]:
    """scores[i][j] for GPUs in the order given: PCIe class plus 100 for each NVLink between them.

    A link to an NVSwitch leads to no GPU and does not count, so behind switches only PCIe tells pairs apart.
    """
    size = len(gpus)
    scores = [[0] * size for _ in range(size)]
    peers = [_count(nvml.nvlink_peers(handles[gpu.uuid])) if size > 1 else {} for gpu in gpus]
    for i in range(size):
        for j in range(i + 1, size):
            links = peers[i].get(gpus[j].pci_address, 0)
            score = _pcie(nvml, gpus[i], gpus[j], handles) + PER_NVLINK * links
            scores[i][j] = scores[j][i] = score
    return tuple(tuple(line) for line in scores)


def _pcie(nvml: Nvml, one: Placed, other: Placed, handles: Mapping[str, Handle]) -> int:
    try:
        level = nvml.common_ancestor(handles[one.uuid], handles[other.uuid])
    except NvmlError:
        level = None
    if level is not None:
        return _PCIE.get(level, 0)
    same_node = one.numa_node is not None and one.numa_node == other.numa_node
    return SAME_NUMA_NODE if same_node else 0


def _count(addresses: Sequence[str]) -> dict[str, int]:
    return {address: addresses.count(address) for address in addresses}
