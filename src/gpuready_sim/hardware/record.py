"""What a new GPU's record in gpus.state says: its model's figures, its place, and who it is.

Identity is deterministic: the same node name and index give the same UUID on every run.
"""

from __future__ import annotations

import uuid
from typing import Any

from gpuready_sim.hardware.catalogue import NVIDIA_VENDOR, Model
from gpuready_sim.hardware.mig_profiles import write_profiles

_PCI_BUSES = (0x1A, 0x1B, 0x4A, 0x4B, 0x8A, 0x8B, 0xCA, 0xCB)  # of one PCI domain, in order


def describe_gpu(gpu: Any, model: Model, index: int, seed: str) -> None:
    """Fill an empty `nvsim_gpu`; two GPUs share a PCIe switch, half of eight a NUMA node."""
    gpu.uuid = uuid_of(seed, index).encode()
    gpu.serial = str(1320000000000 + uuid.uuid5(uuid.NAMESPACE_DNS, f"{seed}/{index}").int % 10**9).encode()
    gpu.minor = index
    gpu.pci_domain = index // len(_PCI_BUSES)
    gpu.pci_bus = _PCI_BUSES[index % len(_PCI_BUSES)]
    gpu.pcie_switch = index // 2
    gpu.numa_node = index % len(_PCI_BUSES) // (len(_PCI_BUSES) // 2)
    _describe_model(gpu, model)


def _describe_model(gpu: Any, model: Model) -> None:
    gpu.name = model.name.encode()
    gpu.board_part = model.board_part.encode()
    gpu.vbios = model.vbios.encode()
    gpu.pci_device_id = model.pci_device_id << 16 | NVIDIA_VENDOR
    gpu.pci_subsystem_id = model.pci_subsystem_id << 16 | NVIDIA_VENDOR
    gpu.pci_class = model.pci_class
    gpu.compute_major, gpu.compute_minor = model.compute
    gpu.architecture = model.architecture
    gpu.brand = model.brand
    gpu.cores = model.cores
    gpu.multiprocessors = model.multiprocessors
    gpu.mig_capable = model.mig
    gpu.ecc_capable = model.ecc
    gpu.row_remapper = model.row_remapper
    gpu.page_retirement = model.page_retirement
    gpu.fabric = model.fabric
    gpu.fans = model.fans
    gpu.has_display = model.has_display
    gpu.memory_mib = model.memory_mib
    gpu.memory_reserved_mib = model.memory_reserved_mib
    gpu.memory_bus_bits = model.memory_bus_bits
    gpu.bar1_mib = model.bar1_mib
    gpu.pcie_generation = model.pcie_generation
    gpu.pcie_width = 16
    gpu.nvlinks = model.nvlinks
    gpu.nvlink_version = model.nvlink_version
    gpu.nvlink_mbps = model.nvlink_mbps
    gpu.power_idle_mw = model.power_idle_w * 1000
    gpu.power_limit_mw = gpu.power_default_mw = model.power_limit_w * 1000
    gpu.power_min_mw = model.power_min_w * 1000
    gpu.power_max_mw = model.power_max_w * 1000
    gpu.temperature_shutdown_c = model.shutdown_c
    gpu.temperature_slowdown_c = model.slowdown_c
    gpu.temperature_memory_max_c = model.memory_max_c
    gpu.temperature_max_c = model.slowdown_c - 4
    gpu.clock_graphics_max_mhz = model.clock_graphics_mhz
    gpu.clock_memory_max_mhz = model.clock_memory_mhz
    gpu.clock_video_max_mhz = model.clock_video_mhz
    gpu.clock_graphics_idle_mhz = model.clock_idle_mhz
    gpu.persistence = 1
    write_profiles(gpu, model.key)


def uuid_of(seed: str, index: int) -> str:
    """The UUID of a node's GPU: the same for the same node name and index, on every run."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{seed}/{index}.gpu.gpuready.dev')}"
