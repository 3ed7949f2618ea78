"""Taking the inventory: one bad GPU never hides the others (case C26)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuready.gpu.inventory import Inventory, pci_gpus, take_inventory
from gpuready.gpu.nvml import Nvml, NvmlError, RemappedRows, short_pci_address
from gpuready.gpu.tree import Tree


class FakeNvml:
    """NVML of a node with four GPUs; `broken` maps (index, call) to a return code."""

    def __init__(self, broken: dict[tuple[int, str], int] | None = None, listed: int = 4) -> None:
        self.broken = broken or {}
        self.listed = listed
        self.asked: list[str] = []

    def driver_version(self) -> str:
        return "580.1"

    def cuda_version(self) -> tuple[int, int]:
        return (13, 0)

    def count(self) -> int:
        return self.listed

    def handle(self, index: int) -> int:
        self._check(index, "handle")
        return index

    def __getattr__(self, name: str) -> Callable[..., Any]:
        values = {
            "uuid": lambda index: f"GPU-{index}",
            "product": lambda index: "NVIDIA L4",
            "minor": lambda index: index,
            "pci_address": lambda index: f"0000:{index + 1:02x}:00.0",
            "memory_mib": lambda index: 23034,
            "compute_capability": lambda index: (8, 9),
            "mig_mode": lambda index: None,
            "is_inforom_valid": lambda index: self.broken.get((index, "inforom")) != 14,
            "remapped_rows": lambda index: RemappedRows(False, False),
            "recovery_action": lambda index: 0,
            "common_ancestor": lambda index, other: 10,
            "nvlink_peers": lambda index: [],
        }

        def call(index: int, *more: Any) -> Any:
            self.asked.append(name)
            self._check(index, name)
            return values[name](index, *more)

        return call

    def _check(self, index: int, name: str) -> None:
        code = self.broken.get((index, name))
        if code:
            raise NvmlError(code, name)


def kernel(root: Path, gpus: int = 4) -> Tree:
    """A /sys with GPUs, a GPU's audio function and a network card."""
    rows = [(f"0000:{number + 1:02x}:00.0", "0x10de", "0x030200") for number in range(gpus)]
    rows += [("0000:01:00.1", "0x10de", "0x040300"), ("0000:90:00.0", "0x15b3", "0x020000")]
    for address, vendor, kind in rows:
        folder = root / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
        (folder / "numa_node").write_text("1\n" if address > "0000:03" else "-1\n")
    return Tree(root)


def take(nvml: FakeNvml, tree: Tree, before: Inventory | None = None) -> Inventory:
    return take_inventory(nvml, tree, before)  # type: ignore[arg-type]


def test_every_gpu_is_listed_with_its_place(tmp_path: Path) -> None:
    found = take(FakeNvml(), kernel(tmp_path))

    assert [gpu.uuid for gpu in found.gpus] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    assert [gpu.numa_node for gpu in found.gpus] == [None, None, 1, 1]
    assert {gpu.mode for gpu in found.gpus} == {"compute"}
    assert found.pair_scores[0] == (0, 50, 50, 50)
    assert (found.failures, found.missing) == ((), ())


def test_c26_a_corrupted_inforom_is_a_fact_of_its_gpu(tmp_path: Path) -> None:
    found = take(FakeNvml({(2, "inforom"): 14}), kernel(tmp_path))

    assert [gpu.inforom_valid for gpu in found.gpus] == [True, True, False, True]


@pytest.mark.parametrize("call", ["handle", "uuid", "memory_mib", "pci_address"])
@pytest.mark.parametrize(("code", "name"), [(14, "CorruptedInfoRom"), (15, "GpuIsLost"), (999, "Unknown")])
def test_c26_a_gpu_that_fails_hides_no_other_and_has_its_address(
    tmp_path: Path, call: str, code: int, name: str
) -> None:
    found = take(FakeNvml({(2, call): code}), kernel(tmp_path))

    assert [gpu.index for gpu in found.gpus] == [0, 1, 3]
    [failure] = found.failures
    assert (failure.index, failure.name, failure.pci_address) == (2, name, "0000:03:00.0")
    assert found.missing == ()


def test_c26_three_of_four_names_the_missing_address(tmp_path: Path) -> None:
    found = take(FakeNvml(listed=3), kernel(tmp_path))

    assert len(found.gpus) == 3
    assert found.missing == ("0000:04:00.0",)


def test_a_health_fact_that_is_refused_costs_no_gpu(tmp_path: Path) -> None:
    found = take(FakeNvml({(0, "remapped_rows"): 999, (1, "mig_mode"): 999}), kernel(tmp_path))

    assert len(found.gpus) == 4
    assert found.gpus[0].remap_pending is None


def test_how_gpus_reach_each_other_is_asked_once(tmp_path: Path) -> None:
    tree, nvml = kernel(tmp_path), FakeNvml()
    first = take(nvml, tree)
    nvml.asked.clear()
    second = take(nvml, tree, first)

    assert second == first
    assert "common_ancestor" not in nvml.asked


def test_the_inventory_survives_json(tmp_path: Path) -> None:
    import json

    found = take(FakeNvml({(2, "handle"): 15}), kernel(tmp_path))

    assert Inventory.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_only_gpus_count_on_the_bus(tmp_path: Path) -> None:
    assert len(pci_gpus(kernel(tmp_path, 2))) == 2


def test_addresses_are_written_as_sysfs_does() -> None:
    assert short_pci_address("00000000:1B:00.0") == "0000:1b:00.0"
    assert short_pci_address("00000001:0f:00.0") == "0001:0f:00.0"


def test_a_library_that_cannot_be_loaded_is_told_without_where_we_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    library = tmp_path / "libnvidia-ml.so.570.86.10"
    library.write_text("no library")

    with pytest.raises(NvmlError) as caught:
        Nvml(library)

    assert "libnvidia-ml.so.570.86.10" in caught.value.what
    assert str(tmp_path) not in caught.value.what
