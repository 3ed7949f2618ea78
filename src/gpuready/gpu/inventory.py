"""Which GPUs a node has and what is wrong with each, read once through NVML and sysfs.

One GPU that does not answer never hides the others: it is listed under `failures`, and a GPU that the PCI
bus has but NVML does not list under `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from gpuready.gpu.nvml import GPU_IS_LOST, RESET_REQUIRED, Handle, Nvml, NvmlError, Partition
from gpuready.gpu.topology.scores import pair_scores
from gpuready.gpu.tree import Tree

_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
_NOT_GPUS = ("DGX Display", "NVIDIA DGX Display")
# The service display of a DGX: never for workloads. Source: k8s-device-plugin v0.19.3, internal/rm.


@dataclass(frozen=True)
class GPU:
    """One physical GPU that answered.

    pci_address          as sysfs writes it: "0000:1a:00.0"
    compute_capability   (major, minor)
    mig_enabled          None where the model has no MIG
    numa_node            None where the machine tells none
    mode                 "compute", "graphics" or "unknown", from its PCI class
    inforom_valid …      health as NVML tells it; None where the model or driver does not
    partitions           its MIG devices
    """

    uuid: str
    index: int
    minor: int
    pci_address: str
    product: str
    memory_mib: int
    compute_capability: tuple[int, int]
    mig_enabled: bool | None = None
    numa_node: int | None = None
    mode: str = "unknown"
    inforom_valid: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    recovery_action: int | None = None
    drm_nodes: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()

    @property
    def family(self) -> str:
        return family_of(self.compute_capability)


@dataclass(frozen=True)
class Failure:
    """A GPU that NVML lists but that does not answer; `pci_address` is "" when even that is unknown."""

    index: int
    code: int
    name: str
    message: str
    pci_address: str = ""

    @property
    def is_lost(self) -> bool:
        return self.code in (GPU_IS_LOST, RESET_REQUIRED)


@dataclass(frozen=True)
class Inventory:
    """gpus in NVML index order; pair_scores[i][j] of GPUs i and j as ordered in `gpus`."""

    gpus: tuple[GPU, ...] = ()
    failures: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()
    driver_version: str = ""
    cuda_version: tuple[int, int] = (0, 0)
    machine: str = ""
    pair_scores: tuple[tuple[int, ...], ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        gpus = tuple(_gpu_from_json(gpu) for gpu in row["gpus"])
        failures = tuple(Failure(**failure) for failure in row.get("failures", ()))
        return cls(
            gpus=gpus,
            failures=failures,
            missing=tuple(row.get("missing", ())),
            driver_version=row.get("driver_version", ""),
            cuda_version=_pair(row.get("cuda_version", (0, 0))),
            machine=row.get("machine", ""),
            pair_scores=tuple(tuple(line) for line in row.get("pair_scores", ())),
        )


def take_inventory(nvml: Nvml, kernel: Tree, before: Inventory | None = None) -> Inventory:
    """Ask NVML and sysfs about every GPU.

    kernel   the tree with the host's /sys
    before   an earlier answer: how GPUs reach each other is not asked again while they are the same
    raises   NvmlError only when NVML as a whole does not answer
    """
    gpus: list[GPU] = []
    failures: list[Failure] = []
    handles: dict[str, Handle] = {}
    for index in range(nvml.count()):
        try:
            handle = nvml.handle(index)
            gpu = _read_gpu(nvml, kernel, index, handle)
        except NvmlError as exc:
            failures.append(Failure(index, exc.code, exc.name, exc.what))
            continue
        if gpu.product not in _NOT_GPUS:
            gpus.append(gpu)
            handles[gpu.uuid] = handle
    missing = _missing(kernel, gpus, failures)
    return Inventory(
        gpus=tuple(gpus),
        failures=_with_addresses(failures, missing),
        missing=() if failures else missing,
        driver_version=nvml.driver_version(),
        cuda_version=nvml.cuda_version(),
        machine=kernel.read_text("/sys/class/dmi/id/product_name") or "",
        pair_scores=_scores_of(before, gpus) or pair_scores(nvml, gpus, handles),
    )


def _scores_of(before: Inventory | None, gpus: list[GPU]) -> tuple[tuple[int, ...], ...]:
    same = before is not None and [gpu.uuid for gpu in before.gpus] == [gpu.uuid for gpu in gpus]
    return before.pair_scores if before is not None and same else ()


def family_of(capability: tuple[int, int]) -> str:
    """Source: k8s-device-plugin v0.19.3, internal/lm/resource.go (getArchFamily)."""
    major, minor = capability
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


_FAMILIES = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}


def _read_gpu(nvml: Nvml, kernel: Tree, index: int, handle: Handle) -> GPU:
    address = nvml.pci_address(handle)
    mig_enabled = _optional(lambda: nvml.mig_mode(handle))
    rows = _optional(lambda: nvml.remapped_rows(handle))
    return GPU(
        uuid=nvml.uuid(handle),
        index=index,
        minor=nvml.minor(handle),
        pci_address=address,
        product=nvml.product(handle),
        memory_mib=nvml.memory_mib(handle),
        compute_capability=nvml.compute_capability(handle),
        mig_enabled=mig_enabled,
        numa_node=_numa_node(kernel, address),
        mode=_mode(kernel, address),
        inforom_valid=_optional(lambda: nvml.is_inforom_valid(handle)),
        remap_pending=rows.pending if rows else None,
        remap_failed=rows.failed if rows else None,
        recovery_action=_optional(lambda: nvml.recovery_action(handle)),
        drm_nodes=tuple(kernel.names_in(f"/sys/bus/pci/devices/{address}/drm")),
        partitions=tuple(_optional(lambda: nvml.partitions(handle)) or ()) if mig_enabled else (),
    )


def _optional(read: Any) -> Any:
    """A health fact must not cost us the GPU: a refusal means "not known"."""
    try:
        return read()
    except NvmlError:
        return None


def _numa_node(kernel: Tree, address: str) -> int | None:
    text = kernel.read_text(f"/sys/bus/pci/devices/{address}/numa_node")
    try:
        number = int(text) if text else -1
    except ValueError:
        return None
    return number if number >= 0 else None


def _mode(kernel: Tree, address: str) -> str:
    text = kernel.read_text(f"/sys/bus/pci/devices/{address}/class") or ""
    return {"0x0302": "compute", "0x0300": "graphics"}.get(text[:6], "unknown")


def _missing(kernel: Tree, gpus: list[GPU], failures: list[Failure]) -> tuple[str, ...]:
    """GPUs on the PCI bus that NVML gave no address of."""
    seen = {gpu.pci_address for gpu in gpus} | {failure.pci_address for failure in failures}
    return tuple(address for address in pci_gpus(kernel) if address not in seen)


def pci_gpus(kernel: Tree) -> list[str]:
    """Addresses of NVIDIA's GPUs (3D controllers and VGA) as sysfs lists them."""
    found = []
    for address in kernel.names_in("/sys/bus/pci/devices"):
        device = f"/sys/bus/pci/devices/{address}"
        if kernel.read_text(f"{device}/vendor") != _NVIDIA:
            continue
        if (kernel.read_text(f"{device}/class") or "")[:6] in _GPU_CLASSES:
            found.append(address)
    return found


def _with_addresses(failures: list[Failure], missing: tuple[str, ...]) -> tuple[Failure, ...]:
    """As many failures as nameless PCI addresses: they are these, in the same order."""
    if len(failures) != len(missing):
        return tuple(failures)
    pairs = zip(failures, missing, strict=True)
    return tuple(Failure(f.index, f.code, f.name, f.message, address) for f, address in pairs)


def _gpu_from_json(row: Mapping[str, Any]) -> GPU:
    return GPU(
        **{
            **row,
            "compute_capability": _pair(row["compute_capability"]),
            "drm_nodes": tuple(row.get("drm_nodes", ())),
            "partitions": tuple(Partition(**each) for each in row.get("partitions", ())),
        }
    )


def _pair(value: Any) -> tuple[int, int]:
    first, second = value
    return int(first), int(second)
