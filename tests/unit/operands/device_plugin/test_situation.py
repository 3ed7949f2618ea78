"""What the plugin does and says in every situation: one row each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuready.chain.device_plugin import PluginRecord
from gpuready.gpu.health import Health, LastXid
from gpuready.gpu.xid import Recovery
from gpuready.operands.device_plugin.config import Chosen, ConfigError, Effective
from gpuready.operands.device_plugin.record import record_of, remembered, remembered_allocations, stamped
from gpuready.operands.device_plugin.resources import Card
from gpuready.operands.device_plugin.situation import Facts, NvmlTrouble, Problem, decide

CARDS = tuple(Card(f"GPU-{n}", n, n, "NVIDIA L4", 23034, f"0000:0{n}:00.0", 0) for n in range(2))
SICK = Health(
    healthy=False,
    reason="GpuResetRequired",
    message="XID 109: context switch timeout",
    recovery=Recovery.RESET,
    last_xid=LastXid(109, 1_700_000_000.5, "ResetGpu"),
)


def facts(**changes: Any) -> Facts:
    """A node on which all is well."""
    fine = Facts(
        chosen=Chosen(Effective(), "any", "d1"),
        module="570.86.10",
        library="570.86.10",
        loaded_path="/lib/a",
        library_path="/lib/a",
        cards=CARDS,
        inventory_taken=True,
    )
    return replace(fine, **changes)


def test_all_is_well() -> None:
    plan = decide(facts())

    assert plan.problem is None
    assert plan.hold_nvml
    assert not plan.restart
    assert [device.healthy for device in plan.resources[0].devices] == [True, True]


BAD = ConfigError("ConfigInvalid", "replicas: 1", "correct it")
MISMATCH = {"module": "550.1.1", "library": "570.86.10"}


@pytest.mark.parametrize(
    ("changes", "reason", "offered", "healthy", "holds"),
    [
        pytest.param(
            {"chosen": Chosen(waiting="x")}, "WaitingForConfig", 0, 0, True, id="no configuration yet"
        ),
        pytest.param({"chosen": Chosen(error=BAD)}, "ConfigInvalid", 0, 0, True, id="bad, and no last good"),
        pytest.param(
            {"chosen": Chosen(Effective(), error=BAD)}, None, 2, 2, True, id="bad, the last good stays"
        ),
        pytest.param(
            {"gate_waiting": "no gate", "cards": (), "inventory_taken": False},
            "WaitingForDriver",
            0,
            0,
            False,
            id="gate",
        ),
        pytest.param(
            {"library": "", "library_path": "", "cards": (), "inventory_taken": False},
            "NvmlLibraryNotFound",
            0,
            0,
            False,
            id="no driver at all",
        ),
        pytest.param(
            {"module": "", "cards": (), "inventory_taken": False},
            "DriverNotLoaded",
            0,
            0,
            False,
            id="never loaded",
        ),
        pytest.param({"module": ""}, "DriverNotLoaded", 2, 0, False, id="unloaded under us: capacity stays"),
        pytest.param(MISMATCH, "DriverLibraryMismatch", 2, 0, False, id="mismatch gives NVML up at once"),
        pytest.param({"silent_s": 7.0}, "NvmlNotAnswering", 2, 2, True, id="hangs: last known health"),
        pytest.param(
            {"trouble": NvmlTrouble(999, "Unknown", "x")},
            "NvmlUnknown",
            2,
            0,
            True,
            id="NVML as a whole refuses",
        ),
        pytest.param(
            {"trouble": NvmlTrouble(18, "DriverLibraryMismatch", "x")},
            "DriverLibraryMismatch",
            2,
            0,
            True,
            id="18",
        ),
        pytest.param(
            {"inventory_taken": False}, "WaitingForNvml", 0, 0, True, id="restarted, not yet answered"
        ),
        pytest.param({"cards": ()}, "NoGpus", 0, 0, True, id="no GPU"),
        pytest.param({"cdi_missing": ("/x",)}, "CdiHostPathMissing", 2, 0, True, id="spec would be stale"),
        pytest.param(
            {"cdi_error": "read-only"}, "CdiSpecNotWritten", 2, 0, True, id="spec cannot be written"
        ),
        pytest.param({"health": {"GPU-1": SICK}}, None, 2, 1, True, id="one sick GPU"),
        pytest.param({"excluded": {"GPU-0": Problem("X", "x")}}, None, 2, 1, True, id="one excluded"),
        pytest.param({"flagged": {"GPU-0": Problem("X", "x")}}, None, 2, 2, True, id="one flagged"),
    ],
)
def test_situations(
    changes: dict[str, Any], reason: str | None, offered: int, healthy: int, holds: bool
) -> None:
    plan = decide(facts(**changes))

    devices = [device for resource in plan.resources for device in resource.devices]
    assert (plan.problem.reason if plan.problem else None) == reason
    assert (len(devices), sum(d.healthy for d in devices), plan.hold_nvml) == (offered, healthy, holds)


def test_a_mismatch_names_both_versions_and_the_way_out() -> None:
    plan = decide(facts(**MISMATCH))

    assert plan.problem is not None
    assert "570.86.10" in plan.problem.message
    assert "550.1.1" in plan.problem.message
    assert "reload" in plan.problem.next_step
    assert plan.reasons["GPU-0"].reason == "DriverLibraryMismatch"


def test_a_new_library_is_loaded_by_a_new_process_once_the_versions_agree() -> None:
    other = {"library_path": "/lib/b"}

    assert not decide(facts(**other, **MISMATCH)).restart
    assert decide(facts(**other)).restart
    assert not decide(facts(**other, loaded_path="")).restart


# --- the record -------------------------------------------------------------------------------------------
def test_the_record_says_what_the_contract_names() -> None:
    known = facts(health={"GPU-1": SICK})
    row = stamped(record_of(known, decide(known), registered=True), pid=7, boot="boot-1", now=1_700_000_001)

    assert row["resources"] == [{"name": "nvidia.com/gpu", "devices": 2, "healthy": 1}]
    assert row["devices"][1]["health"] == "Unhealthy"
    assert row["devices"][1]["reason"] == "GpuResetRequired"
    assert row["devices"][1]["lastXid"] == {
        "code": 109,
        "time": "2023-11-14T22:13:20.500Z",
        "action": "ResetGpu",
    }
    assert (row["problem"], row["registered"], row["bootId"]) == (None, True, "boot-1")
    assert row["driver"] == {"module": "570.86.10", "library": "570.86.10"}


def test_without_a_stream_the_record_says_so() -> None:
    row = record_of(facts(), decide(facts()), registered=False, registration_problem="no socket")
    assert row["problem"]["reason"] == "NotRegistered"
    assert row["problem"]["message"] == "no socket"


def test_a_restart_within_a_boot_remembers_a_reboot_forgets() -> None:
    known = facts(health={"GPU-1": SICK})
    row = stamped(record_of(known, decide(known), registered=True), pid=7, boot="boot-1", now=0)

    cards, health = remembered(row, "boot-1")
    assert tuple(cards) == CARDS
    assert health["GPU-0"].healthy
    assert (health["GPU-1"].recovery, health["GPU-1"].last_xid) == (Recovery.RESET, SICK.last_xid)
    assert remembered(row, "boot-2") == ([], {})


def test_what_the_driver_did_is_not_remembered_as_the_gpus_own_trouble() -> None:
    known = facts(**MISMATCH)
    row = stamped(record_of(known, decide(known), registered=True), pid=7, boot="boot-1", now=0)
    assert row["devices"][0]["health"] == "Unhealthy"

    _, health = remembered(row, "boot-1")
    assert health["GPU-0"].healthy


def test_a_loss_without_an_xid_is_looked_at_again_not_remembered() -> None:
    lost = Health(healthy=False, reason="GpuLost", message="does not answer", recovery=Recovery.REBOOT)
    known = facts(health={"GPU-1": lost})
    row = stamped(record_of(known, decide(known), registered=True), pid=7, boot="boot-1", now=0)

    _, health = remembered(row, "boot-1")
    assert health["GPU-1"].healthy


def test_a_restart_within_a_boot_goes_on_counting_allocations() -> None:
    told = {"count": 3, "repeated": []}
    record = record_of(facts(), decide(facts()), registered=True, allocations=told)
    row = stamped(record, pid=7, boot="boot-1", now=0)

    assert remembered_allocations(row, "boot-1") == told
    assert remembered_allocations(row, "boot-2") == {}


def test_the_record_says_which_gpus_are_cut_up() -> None:
    known = facts(cards=(CARDS[0], replace(CARDS[1], mig_enabled=True)))
    row = stamped(record_of(known, decide(known), registered=True), pid=7, boot="boot-1", now=0)

    assert [device.get("migEnabled") for device in row["devices"]] == [None, True]
    assert remembered(row, "boot-1")[0] == list(known.cards)
    assert [device.mig_enabled for device in PluginRecord.from_json(row).devices] == [False, True]
