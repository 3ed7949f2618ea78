"""The GPUs as the plugin knows them, fact after fact."""

from __future__ import annotations

from typing import Any

from gpuready.gpu.health import Health, Probe
from gpuready.gpu.inventory import GPU, Failure, Inventory
from gpuready.gpu.xid import Policy
from gpuready.operands.device_plugin.fleet import Fleet, after_inventory, after_probe, after_xid

POLICY = Policy(clean_probes=2)


def gpu(index: int, **changes: Any) -> GPU:
    return GPU(f"GPU-{index}", index, index, f"0000:0{index}:00.0", "NVIDIA L4", 23034, (8, 9), **changes)


def inventory(*indexes: int, failures: tuple[Failure, ...] = (), missing: tuple[str, ...] = ()) -> Inventory:
    return Inventory(gpus=tuple(gpu(n) for n in indexes), failures=failures, missing=missing)


def fleet(*indexes: int) -> Fleet:
    return after_inventory(Fleet(), inventory(*indexes), 0, POLICY)


def health(known: Fleet, index: int) -> Health:
    return known.health[f"GPU-{index}"]


def test_a_lost_gpu_stays_and_is_unhealthy() -> None:
    lost = Failure(1, 15, "GpuIsLost", "lost", "0000:01:00.0")
    known = after_inventory(fleet(0, 1, 2), inventory(0, 2, failures=(lost,)), 1, POLICY)

    assert len(known.cards) == 3
    assert [health(known, n).healthy for n in range(3)] == [True, False, True]
    assert health(known, 1).reason == "GpuLost"
    assert "0000:01:00.0" in known.sentences()[0]


def test_a_failing_gpu_without_an_address_is_known_by_its_index() -> None:
    known = after_inventory(fleet(0, 1), inventory(0, failures=(Failure(1, 999, "Unknown", "x"),)), 1, POLICY)
    assert health(known, 1).reason == "GpuNotAnswering"


def test_a_gpu_that_left_the_bus_is_well_again_when_it_is_back() -> None:
    known = after_inventory(fleet(0, 1), inventory(0, missing=("0000:01:00.0",)), 1, POLICY)
    assert not health(known, 1).healthy
    for _ in range(9):
        known = after_probe(known, "GPU-1", Probe(recovery_action=0), 2, POLICY)
    assert not health(known, 1).healthy

    assert health(after_inventory(known, inventory(0, 1), 3, POLICY), 1).healthy


def test_an_xid_without_a_gpu_means_every_gpu() -> None:
    known = after_xid(fleet(0, 1), "", 109, 1, POLICY)
    assert known.suspects == {"GPU-0", "GPU-1"}


def test_an_xid_of_somebody_elses_gpu_is_ignored() -> None:
    assert after_xid(fleet(0), "GPU-9", 79, 1, POLICY) == fleet(0)


def test_the_inventory_does_not_shorten_a_trial() -> None:
    known = after_xid(fleet(0), "GPU-0", 999, 1, POLICY)
    for second in range(9):
        known = after_inventory(known, inventory(0), 2 + second, POLICY)
    assert not health(known, 0).healthy
    for second in range(2):
        known = after_probe(known, "GPU-0", Probe(), 20 + second, POLICY)
    assert health(known, 0).healthy


def test_a_corrupted_inforom_is_known() -> None:
    known = after_inventory(Fleet(), Inventory(gpus=(gpu(0), gpu(1, inforom_valid=False))), 0, POLICY)
    assert known.corrupted_inforom == ["GPU-1"]
    assert health(known, 1).healthy


def test_a_gpu_is_known_to_be_cut_up_for_as_long_as_it_is() -> None:
    cut = after_inventory(fleet(0, 1), Inventory(gpus=(gpu(0), gpu(1, mig_enabled=True))), 1, POLICY)
    whole = after_inventory(cut, inventory(0, 1), 2, POLICY)

    assert [card.mig_enabled for card in cut.cards.values()] == [False, True]
    assert [card.mig_enabled for card in whole.cards.values()] == [False, False]
