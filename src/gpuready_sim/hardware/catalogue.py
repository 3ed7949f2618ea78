"""The GPU models that a simulated machine can hold: one entry each, as NVML and the PCI bus describe them.

PCI device ids and product names are the real ones. The other figures are plausible for the product (clocks,
power limits, part and BIOS numbers) and have not been compared with a card: do not rely on their last digit.
`memory_mib` is what NVML reports as total.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuready_sim.errors import UnknownModelError

NVIDIA_VENDOR = 0x10DE
CLASS_3D = 0x0302  # compute cards
CLASS_VGA = 0x0300  # cards with display outputs


@dataclass(frozen=True)
class Model:
    """One product. `fabric`: its NVLinks end in switches and NVML reports a complete fabric."""

    key: str
    name: str
    pci_device_id: int
    pci_subsystem_id: int
    pci_class: int
    board_part: str
    vbios: str
    compute: tuple[int, int]
    architecture: int  # NVML: turing 6, ampere 7, ada 8, hopper 9
    brand: int  # NVML: geforce 5, nvidia 14
    cores: int
    multiprocessors: int
    memory_mib: int
    memory_reserved_mib: int
    memory_bus_bits: int
    bar1_mib: int
    pcie_generation: int
    clock_graphics_mhz: int
    clock_memory_mhz: int
    clock_video_mhz: int
    power_limit_w: int
    power_min_w: int
    power_max_w: int
    power_idle_w: int
    shutdown_c: int
    slowdown_c: int
    memory_max_c: int
    mig: bool = False
    ecc: bool = True
    row_remapper: bool = True
    page_retirement: bool = False  # what GPUs before Ampere have instead
    nvlinks: int = 0
    nvlink_version: int = 0  # NVML: 3.0 is 4, 4.0 is 6
    nvlink_mbps: int = 0
    fabric: bool = False
    fans: int = 0
    clock_idle_mhz: int = 210

    @property
    def has_display(self) -> bool:
        return self.pci_class == CLASS_VGA


A100_SXM4_40GB = Model(
    key="A100-SXM4-40GB",
    name="NVIDIA A100-SXM4-40GB",
    pci_device_id=0x20B0,
    pci_subsystem_id=0x134F,
    pci_class=CLASS_3D,
    board_part="692-2G506-0200-002",
    vbios="92.00.45.00.03",
    compute=(8, 0),
    architecture=7,
    brand=14,
    cores=6912,
    multiprocessors=108,
    memory_mib=40960,
    memory_reserved_mib=576,
    memory_bus_bits=5120,
    bar1_mib=65536,
    pcie_generation=4,
    clock_graphics_mhz=1410,
    clock_memory_mhz=1215,
    clock_video_mhz=1290,
    power_limit_w=400,
    power_min_w=100,
    power_max_w=400,
    power_idle_w=54,
    shutdown_c=92,
    slowdown_c=89,
    memory_max_c=95,
    mig=True,
    nvlinks=12,
    nvlink_version=4,
    nvlink_mbps=25781,
)

H100_SXM5_80GB = Model(
    key="H100-SXM5-80GB",
    name="NVIDIA H100 80GB HBM3",
    pci_device_id=0x2330,
    pci_subsystem_id=0x16C1,
    pci_class=CLASS_3D,
    board_part="692-2G520-0200-000",
    vbios="96.00.74.00.01",
    compute=(9, 0),
    architecture=9,
    brand=14,
    cores=16896,
    multiprocessors=132,
    memory_mib=81559,
    memory_reserved_mib=551,
    memory_bus_bits=5120,
    bar1_mib=131072,
    pcie_generation=5,
    clock_graphics_mhz=1980,
    clock_memory_mhz=2619,
    clock_video_mhz=1545,
    clock_idle_mhz=345,
    power_limit_w=700,
    power_min_w=200,
    power_max_w=700,
    power_idle_w=70,
    shutdown_c=92,
    slowdown_c=89,
    memory_max_c=95,
    mig=True,
    nvlinks=18,
    nvlink_version=6,
    nvlink_mbps=26562,
    fabric=True,
)

L4 = Model(
    key="L4",
    name="NVIDIA L4",
    pci_device_id=0x27B8,
    pci_subsystem_id=0x16CA,
    pci_class=CLASS_3D,
    board_part="900-2G193-0000-001",
    vbios="95.04.29.00.06",
    compute=(8, 9),
    architecture=8,
    brand=14,
    cores=7424,
    multiprocessors=58,
    memory_mib=23034,
    memory_reserved_mib=566,
    memory_bus_bits=192,
    bar1_mib=32768,
    pcie_generation=4,
    clock_graphics_mhz=2040,
    clock_memory_mhz=6251,
    clock_video_mhz=1770,
    power_limit_w=72,
    power_min_w=40,
    power_max_w=72,
    power_idle_w=12,
    shutdown_c=99,
    slowdown_c=96,
    memory_max_c=95,
)

T4 = Model(
    key="T4",
    name="Tesla T4",
    pci_device_id=0x1EB8,
    pci_subsystem_id=0x12A2,
    pci_class=CLASS_3D,
    board_part="900-2G183-0000-001",
    vbios="90.04.38.00.03",
    compute=(7, 5),
    architecture=6,
    brand=14,
    cores=2560,
    multiprocessors=40,
    memory_mib=15360,
    memory_reserved_mib=449,
    memory_bus_bits=256,
    bar1_mib=256,
    pcie_generation=3,
    clock_graphics_mhz=1590,
    clock_memory_mhz=5001,
    clock_video_mhz=1470,
    clock_idle_mhz=300,
    power_limit_w=70,
    power_min_w=60,
    power_max_w=70,
    power_idle_w=10,
    shutdown_c=96,
    slowdown_c=93,
    memory_max_c=85,
    row_remapper=False,
    page_retirement=True,
)

RTX_4090 = Model(
    key="RTX-4090",
    name="NVIDIA GeForce RTX 4090",
    pci_device_id=0x2684,
    pci_subsystem_id=0x165B,
    pci_class=CLASS_VGA,
    board_part="",
    vbios="95.02.3C.40.8C",
    compute=(8, 9),
    architecture=8,
    brand=5,
    cores=16384,
    multiprocessors=128,
    memory_mib=24564,
    memory_reserved_mib=446,
    memory_bus_bits=384,
    bar1_mib=256,
    pcie_generation=4,
    clock_graphics_mhz=3120,
    clock_memory_mhz=10501,
    clock_video_mhz=2415,
    power_limit_w=450,
    power_min_w=150,
    power_max_w=600,
    power_idle_w=18,
    shutdown_c=100,
    slowdown_c=97,
    memory_max_c=104,
    ecc=False,
    row_remapper=False,
    fans=2,
)

MODELS: dict[str, Model] = {model.key: model for model in (A100_SXM4_40GB, H100_SXM5_80GB, L4, T4, RTX_4090)}


def find_model(key: str) -> Model:
    """The catalogue's entry; raises UnknownModelError, which names the entries there are."""
    if key not in MODELS:
        raise UnknownModelError(key, known=list(MODELS))
    return MODELS[key]
