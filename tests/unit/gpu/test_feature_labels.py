"""Feature labels against what GPU feature discovery printed, and where ours are better."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.gpu.feature_labels import Sharing, feature_labels, fit, product_label
from gpuready.gpu.inventory import GPU, Inventory, family_of

RECORDED = Path(__file__).parents[2] / "fixtures/originals/gfd"
VALID = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")
C21_N5 = "Quadro RTX 6000/8000 (rev. A) with a very long marketing name that exceeds sixty-three characters"


def gpu(index: int = 0, product: str = "NVIDIA L4", **changes: Any) -> GPU:
    values = {
        "uuid": f"GPU-{index}",
        "index": index,
        "minor": index,
        "pci_address": f"0000:{index:02x}:00.0",
        "product": product,
        "memory_mib": 23034,
        "compute_capability": (8, 9),
    }
    return GPU(**{**values, **changes})


def inventory(*gpus: GPU) -> Inventory:
    return Inventory(gpus=gpus, driver_version="550.163.01", cuda_version=(12, 4), machine="Test Server 8U")


def recorded() -> list[Any]:
    found = []
    for name in ("a100", "h100", "t4"):
        data = json.loads((RECORDED / f"{name}.json").read_text())
        found += [
            pytest.param(data["inputs"], case, id=f"{name}-{key}") for key, case in data["cases"].items()
        ]
    return found


@pytest.mark.parametrize(("inputs", "case"), recorded())
def test_labels_are_the_original_ones(inputs: dict[str, Any], case: dict[str, Any]) -> None:
    labels = feature_labels(
        _inventory_from(inputs),
        _sharing_from(case["config"] or ""),
        mig_strategy=next(a.split("=")[1] for a in case["args"] if a.startswith("--mig-strategy")),
    )

    expected = {
        key: value for key, value in case["labels"].items() if not key.endswith(("gfd.timestamp", "clique"))
    }
    assert labels == expected


def _inventory_from(inputs: dict[str, Any]) -> Inventory:
    devices = inputs["sysfs"]["pciDevices"]
    modes = {"0x030200": "compute", "0x030000": "graphics"}
    gpus = []
    for row in inputs["nvml"]["gpus"]:
        address = row["busId"][4:].lower()
        gpus.append(
            gpu(
                row["index"],
                row["name"],
                memory_mib=row["memoryBytes"] // 2**20,
                compute_capability=tuple(row["computeCapability"]),
                mig_enabled=bool(row["migMode"]),
                mode=modes.get(devices[address]["class"], "unknown"),
            )
        )
    cuda = inputs["nvml"]["cudaDriverVersion"]
    return Inventory(
        gpus=tuple(gpus),
        driver_version=inputs["nvml"]["driverVersion"],
        cuda_version=(cuda // 1000, cuda % 1000 // 10),
        machine=inputs["sysfs"]["machineProductName"],
    )


def _sharing_from(config: str) -> Sharing:
    if "replicas" not in config:
        return Sharing()
    strategy = "mps" if "mps:" in config else "time-slicing"
    return Sharing(strategy, 4, renamed="renameByDefault: true" in config)


def test_c21_n1_a_shared_product_is_marked() -> None:
    labels = feature_labels(inventory(gpu(0), gpu(1)), Sharing("time-slicing", 6))

    assert labels["nvidia.com/gpu.product"] == "NVIDIA-L4-SHARED"
    assert labels["nvidia.com/gpu.count"] == "2"
    assert labels["nvidia.com/gpu.replicas"] == "6"
    assert labels["nvidia.com/gpu.sharing-strategy"] == "time-slicing"


def test_c21_n2_a_renamed_resource_leaves_the_product_alone() -> None:
    labels = feature_labels(inventory(gpu(0), gpu(1)), Sharing("time-slicing", 6, renamed=True))

    assert labels["nvidia.com/gpu.product"] == "NVIDIA-L4"
    assert labels["nvidia.com/gpu.replicas"] == "6"


@pytest.mark.parametrize("shared", [False, True])
def test_c21_n5_an_odd_name_becomes_a_valid_label(shared: bool) -> None:
    value = product_label(C21_N5, shared=shared)

    assert VALID.match(value)
    assert value.startswith("Quadro-RTX-60008000-rev.-A-with")
    assert value.endswith("-SHARED") is shared


@given(st.text(max_size=200), st.booleans())
def test_every_name_becomes_a_valid_label(product: str, shared: bool) -> None:
    assert VALID.match(product_label(product, shared=shared))
    assert VALID.match(fit(product_label(product)))


def test_long_names_that_differ_at_the_end_keep_different_labels() -> None:
    assert product_label("A" * 80 + "1") != product_label("A" * 80 + "2")


def test_two_models_are_described_by_the_one_with_most_gpus() -> None:
    mixed = [gpu(0, "NVIDIA T4", memory_mib=16384, compute_capability=(7, 5)), *(gpu(n) for n in range(1, 4))]
    labels = feature_labels(inventory(*mixed))

    assert labels["nvidia.com/gpu.product"] == "NVIDIA-L4"
    assert labels["nvidia.com/gpu.count"] == "3"
    assert labels["nvidia.com/gpu.memory"] == "23034"
    assert labels["nvidia.com/gpu.family"] == "ada-lovelace"


def test_of_two_models_with_as_many_gpus_the_lower_index_wins() -> None:
    labels = feature_labels(inventory(gpu(0, "NVIDIA T4", compute_capability=(7, 5)), gpu(1)))

    assert labels["nvidia.com/gpu.product"] == "NVIDIA-T4"
    assert labels["nvidia.com/gpu.family"] == "turing"


def test_a_node_without_gpus_has_only_the_vgpu_label() -> None:
    assert feature_labels(Inventory()) == {"nvidia.com/vgpu.present": "false"}


def test_a_model_without_mig_is_not_mig_capable() -> None:
    assert feature_labels(inventory(gpu(mig_enabled=None)))["nvidia.com/mig.capable"] == "false"


@pytest.mark.parametrize(
    ("capability", "family"),
    [
        ((7, 0), "volta"),
        ((7, 5), "turing"),
        ((8, 6), "ampere"),
        ((8, 9), "ada-lovelace"),
        ((9, 0), "hopper"),
        ((12, 0), "blackwell"),
        ((99, 0), "undefined"),
    ],
)
def test_families(capability: tuple[int, int], family: str) -> None:
    assert family_of(capability) == family
