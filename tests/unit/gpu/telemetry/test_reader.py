"""Looking at the GPUs of a simulated machine: what is told, what is absent, and what one bad GPU costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.gpu.telemetry.conftest import VERSION, Node, samples, values

from gpuready.gpu.telemetry.model import Collection
from gpuready_sim.hardware import call_faults, machine, mig, work
from gpuready_sim.hardware.course import Course

Build = Callable[..., Node]


def test_a_look_tells_who_the_gpus_are_and_what_was_asked_of_each(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 2))
    found = gpus.collect("DEV_GPU_TEMP", "DEV_POWER_USAGE", "DEV_FB_TOTAL", "DEV_BRAND", "DRIVER_VERSION")
    info = gpus.state.gpus()
    assert [(device.uuid, device.index, device.minor) for device in found.devices] == [
        (info[0].uuid, 0, 0),
        (info[1].uuid, 1, 1),
    ]
    assert found.devices[0].pci_bus_id == f"0000{info[0].pci_address}".upper()
    assert found.devices[0].model == "NVIDIA A100-SXM4-40GB"
    assert [(sample.field.id, sample.entity.uuid) for sample in found.samples] == [
        (1, ""), (51, info[0].uuid), (150, info[0].uuid), (155, info[0].uuid), (250, info[0].uuid),
        (51, info[1].uuid), (150, info[1].uuid), (155, info[1].uuid), (250, info[1].uuid),
    ]  # fmt: skip
    assert values(found, "DRIVER_VERSION") == [VERSION]
    assert values(found, "DEV_FB_TOTAL") == [40960, 40960]
    assert found.driver_version == VERSION
    assert found.problem == ""
    assert found.started_at <= found.samples[-1].taken_at <= found.ended_at


def test_a_field_that_a_gpu_has_not_is_absent_with_a_reason_and_costs_nothing_else(node: Build) -> None:
    found = node(("A100-SXM4-40GB", 1)).collect("PROF_SM_ACTIVE", "DEV_FAN_SPEED", "DEV_GPU_TEMP")
    assert [(absent.field.id, absent.reason, absent.supported) for absent in found.absent] == [
        (191, "NVML answers NotSupported", False),
        (1002, "the GPU has no GPM, which profiling fields need: Hopper or newer", False),
    ]
    assert len(values(found, "DEV_GPU_TEMP")) == 1


def test_profiling_fields_are_measured_between_two_looks(node: Build) -> None:
    gpus = node(("H100-SXM5-80GB", 1))
    gpus.state.stop_clock()
    work.set_load(gpus.state, 0, Course.constant(80))
    names = ("PROF_GR_ENGINE_ACTIVE", "PROF_PCIE_TX_BYTES", "DEV_NVLINK_BANDWIDTH_TOTAL")
    first = gpus.collect(*names)
    assert {absent.field.id for absent in first.absent if absent.supported} == {449, 1001, 1009}
    gpus.state.advance_clock(10)
    second = gpus.collect(*names)
    assert values(second, "PROF_GR_ENGINE_ACTIVE") == [pytest.approx(0.8, abs=0.01)]
    assert float(values(second, "PROF_PCIE_TX_BYTES")[0]) > 2**20
    work.set_load(gpus.state, 0, Course.constant(0))
    gpus.state.advance_clock(10)
    third = gpus.collect(*names)
    assert values(third, "PROF_GR_ENGINE_ACTIVE") == [pytest.approx(0, abs=0.01)]
    taken = [samples(each, "PROF_GR_ENGINE_ACTIVE")[0].taken_at for each in (second, third)]
    assert taken[0] < taken[1]


def test_instances_have_series_of_their_own_and_what_is_the_gpus_is_told_once(node: Build) -> None:
    gpus = node(("H100-SXM5-80GB", 1))
    mig.enable(gpus.state, 0)
    uuids = mig.layout(gpus.state, 0, ["1g.10gb", "2g.20gb"])
    found = gpus.collect("DEV_POWER_USAGE", "DEV_FB_TOTAL", "DEV_GPU_UTIL", "DEV_MIG_MODE")
    [device] = found.devices
    assert device.mig_enabled
    assert {each.profile: each.mig_uuids for each in device.instances} == {
        "1g.10gb": (uuids[0],),
        "2g.20gb": (uuids[1],),
    }
    assert len(values(found, "DEV_POWER_USAGE")) == 1
    profiles = {
        s.entity.instance.profile: s.value for s in samples(found, "DEV_FB_TOTAL") if s.entity.instance
    }
    assert profiles == {"1g.10gb": 9984, "2g.20gb": 20096}
    assert [absent.reason for absent in found.absent] == ["NVML answers NotSupported"]  # GPU_UTIL under MIG


def test_an_instance_that_computes_shows_in_its_own_profiling_fields(node: Build) -> None:
    gpus = node(("H100-SXM5-80GB", 1))
    gpus.state.stop_clock()
    mig.enable(gpus.state, 0)
    mig.layout(gpus.state, 0, ["1g.10gb", "2g.20gb"])
    [device] = gpus.collect("PROF_SM_ACTIVE").devices
    mig.set_load(gpus.state, 0, device.instances[1].id, Course.constant(60))
    gpus.state.advance_clock(10)
    found = gpus.collect("PROF_GR_ENGINE_ACTIVE", "PROF_PCIE_TX_BYTES")
    engines = samples(found, "PROF_GR_ENGINE_ACTIVE")
    assert [(s.entity.instance and s.entity.instance.id, s.value) for s in engines] == [
        (device.instances[0].id, pytest.approx(0, abs=0.01)),
        (device.instances[1].id, pytest.approx(0.6, abs=0.01)),
    ]
    assert {part.gpu_instance_id: part.busy_time is not None for part in found.activity} == {
        device.instances[0].id: False,
        device.instances[1].id: True,
    }


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlGpmQueryDeviceSupport",
        "nvmlGpmSampleGet",
        "nvmlGpmMetricsGet",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceRegisterEvents",
    ],
)
def test_an_error_of_any_call_costs_the_other_gpu_nothing_and_passes_with_it(node: Build, call: str) -> None:
    gpus = node(("H100-SXM5-80GB", 2))
    call_faults.fail(gpus.state, call, 999, gpu=1)
    names = ("DEV_GPU_TEMP", "DEV_FB_USED", "DEV_SM_CLOCK", "PROF_SM_ACTIVE", "DEV_TOTAL_ENERGY_CONSUMPTION")
    gpus.collect(*names)
    found = gpus.collect(*names)
    good = gpus.state.gpus()[0].uuid
    assert len([sample for sample in found.samples if sample.entity.uuid == good]) == len(names)
    assert all(silent.index == 1 for silent in found.silent)
    assert all("Unknown" in absent.reason and absent.supported for absent in found.absent)
    call_faults.mend(gpus.state)
    gpus.collect(*names)
    whole = gpus.collect(*names)
    assert (len(whole.samples), whole.silent, whole.absent) == (2 * len(names), (), ())


def test_a_gpu_that_hangs_loses_only_its_own_samples_and_is_named(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 3))
    gpus.collect("DEV_GPU_TEMP")
    uuids = [gpu.uuid for gpu in gpus.state.gpus()]
    call_faults.hang(gpus.state, "*", 3600, gpu=1)
    found = gpus.until(lambda: _if_whole(gpus.collect("DEV_GPU_TEMP", interval_s=1, patience_s=0.5), 2))
    assert [device.uuid for device in found.devices] == uuids
    assert [sample.entity.uuid for sample in samples(found, "DEV_GPU_TEMP")] == [uuids[0], uuids[2]]
    [silent] = found.silent
    assert (silent.uuid, silent.index) == (uuids[1], 1)
    assert silent.reason.startswith("NVML has not answered for ")
    call_faults.mend(gpus.state)
    back = gpus.until(lambda: _if_whole(gpus.collect("DEV_GPU_TEMP"), 3))
    assert back.silent == ()


def test_gpus_share_a_thread_until_some_hang_and_then_only_those_have_one_of_their_own(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 6))
    for _ in range(3):
        assert _if_whole(gpus.collect("DEV_GPU_TEMP"), 6)
    assert _threads(gpus) == 1
    for index in (1, 4):
        call_faults.hang(gpus.state, "nvmlDeviceGetTemperature", 3600, gpu=index)
    found = gpus.collect("DEV_GPU_TEMP", patience_s=2)
    assert [silent.index for silent in found.silent] == [1, 4]
    before = _threads(gpus)
    call_faults.mend(gpus.state)
    back = gpus.until(lambda: _if_whole(gpus.collect("DEV_GPU_TEMP"), 6))
    assert back.silent == ()
    assert 3 <= _threads(gpus) <= before <= 6


def _threads(gpus: Node) -> int:
    """Those that look at GPUs: beside the main one, and the one that asks of the node."""
    return len(list(Path(f"/proc/{gpus.process.pid}/task").iterdir())) - 2


def test_gpus_that_are_to_be_looked_at_before_their_time_are_not_silent_for_it(node: Build) -> None:
    """Threads wait for XIDs for up to two seconds meanwhile; with a look each second nobody waits so long."""
    gpus = node(("A100-SXM4-40GB", 2))
    gpus.collect("DEV_GPU_TEMP")

    found = gpus.tell("hurried", "0.2", "DEV_GPU_TEMP", "DEV_POWER_USAGE")

    assert found.silent == ()
    assert len(values(found, "DEV_POWER_USAGE")) == 2


def test_the_values_of_a_gpu_that_hangs_are_kept_while_they_are_fresh(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 2))
    before = gpus.collect("DEV_GPU_TEMP")
    call_faults.hang(gpus.state, "*", 3600, gpu=1)
    soon = gpus.collect("DEV_GPU_TEMP", interval_s=60, patience_s=0.2)
    assert samples(soon, "DEV_GPU_TEMP")[1] == samples(before, "DEV_GPU_TEMP")[1]
    assert [silent.index for silent in soon.silent if silent.index == 1] == [1]


def test_a_gpu_that_hangs_from_the_start_does_not_hide_the_others(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 3))
    call_faults.hang(gpus.state, "*", 3600, gpu=0)
    found = gpus.until(lambda: _if_whole(gpus.collect("DEV_GPU_TEMP", patience_s=1), 2))
    assert [device.index for device in found.devices] == [1, 2]
    assert [(silent.uuid, silent.index) for silent in found.silent] == [("", 0)]


def test_a_gpu_that_is_lost_says_so_keeps_its_xid_and_comes_back_as_itself(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 2))
    names = ("DEV_GPU_TEMP", "DEV_XID_ERRORS", "gpuready_xid_errors_total")
    before = gpus.collect(*names)
    gpus.state.raise_xid(1, 79)
    found = gpus.until(lambda: _if(found := gpus.collect(*names), bool(found.xids)))
    lost = before.devices[1].uuid
    assert [device.uuid for device in found.devices] == [device.uuid for device in before.devices]
    assert [(silent.uuid, "GpuIsLost" in silent.reason) for silent in found.silent] == [(lost, True)]
    assert [(xid.uuid, xid.code, xid.count) for xid in found.xids] == [(lost, 79, 1)]
    assert [s.entity.uuid for s in samples(found, "DEV_GPU_TEMP")] == [before.devices[0].uuid]
    [total] = samples(found, "gpuready_xid_errors_total")
    assert (total.entity.uuid, total.value, total.labels) == (lost, 1, (("xid", "79"),))
    gpus.state.set_lost(1, False)
    back = gpus.until(lambda: _if_whole(gpus.collect(*names), 2))
    assert [xid.count for xid in back.xids] == [1]
    gpus.state.raise_xid(1, 79)
    again = gpus.until(lambda: _if(found := gpus.collect(*names), found.xids[0].count > 1))
    assert [xid.count for xid in again.xids] == [2]


def test_the_last_xid_expires_and_the_counter_does_not(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 1), xid_window_s=0.5)
    names = ("DEV_XID_ERRORS", "gpuready_xid_errors_total", "DCGM_EXP_XID_ERRORS_COUNT")
    gpus.collect(*names)
    for code in (43, 31, 31):
        gpus.state.raise_xid(0, code)
    seen = gpus.until(lambda: _if(found := gpus.collect(*names), sum(xid.count for xid in found.xids) == 3))
    assert [(xid.code, xid.count) for xid in seen.xids] == [(31, 2), (43, 1)]
    later = gpus.until(lambda: _if(found := gpus.collect(*names), values(found, "DEV_XID_ERRORS") == [0]))
    totals = {s.labels: s.value for s in samples(later, "gpuready_xid_errors_total")}
    assert totals == {(("xid", "31"),): 2, (("xid", "43"),): 1}
    [none] = samples(later, "DCGM_EXP_XID_ERRORS_COUNT")
    assert (none.value, none.labels) == (0, (("window_size_in_ms", "500"),))


def test_processes_are_told_with_their_memory_and_their_share(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 2))
    gpus.collect()
    pid = gpus.process.pid
    work.set_load(gpus.state, 1, Course.constant(80))
    work.set_contexts(gpus.state, 1, [work.Context(pid, 2048, sm_percent=40)])
    found = gpus.until(lambda: _if(found := gpus.collect(), any(p.sm_percent for p in found.processes)))
    [process] = found.processes
    assert (process.uuid, process.pid, process.memory_bytes) == (found.devices[1].uuid, pid, 2048 * 2**20)
    assert process.sm_percent == pytest.approx(40, abs=1)
    assert {each.uuid: each.busy_time is not None for each in found.activity} == {
        found.devices[0].uuid: False,
        found.devices[1].uuid: True,
    }


def test_what_holds_the_clocks_back_is_told_by_reason(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 1))
    gpus.state.stop_clock()
    work.set_load(gpus.state, 0, Course.constant(90))
    work.throttle(gpus.state, 0, ["power-cap"])
    seconds, counted = "gpuready_clock_event_seconds_total", "DCGM_EXP_CLOCK_EVENTS_COUNT"
    names = ("gpuready_clock_event_active", seconds, counted)
    before = gpus.collect(*names)
    gpus.state.advance_clock(5)
    after = gpus.collect(*names)
    active = {s.labels[0][1] for s in samples(after, "gpuready_clock_event_active") if s.value}
    assert active == {"power_cap"}
    held = [{s.labels[0][1]: float(s.value) for s in samples(c, seconds)} for c in (before, after)]
    assert held[1]["power_cap"] - held[0]["power_cap"] == pytest.approx(5, abs=0.01)
    assert held[1]["thermal"] == held[0]["thermal"]
    [count] = samples(after, counted)
    assert count.labels == (("clock_event", "power_cap"), ("window_size_in_ms", "300000"))
    assert count.value == 2


def test_a_reloaded_driver_is_survived_and_another_one_asks_for_a_new_process(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 2))
    gpus.collect("DEV_GPU_TEMP")
    gpus.tell("release")
    gpus.until(lambda: not gpus.tell("holds_nvml"))
    paused = gpus.collect("DEV_GPU_TEMP")
    assert paused.problem == "the driver is being changed: NVML is given up until it is back"
    assert (paused.samples, paused.silent, len(paused.devices)) == ((), (), 2)
    machine.unload_driver(gpus.node_dir)
    machine.load_driver(gpus.node_dir, VERSION)
    gpus.tell("resume")
    assert _if_whole(gpus.collect("DEV_GPU_TEMP"), 2)
    assert gpus.tell("outdated") == ""

    gpus.tell("release")
    gpus.until(lambda: not gpus.tell("holds_nvml"))
    machine.unload_driver(gpus.node_dir)
    machine.remove_driver(gpus.node_dir / "root")
    machine.install_driver(gpus.node_dir / "root", "570.86.10")
    machine.load_driver(gpus.node_dir, "570.86.10")
    gpus.tell("resume")
    found = gpus.collect("DEV_GPU_TEMP")
    assert "DriverLibraryMismatch" in found.problem
    assert "550.163.01" in gpus.tell("outdated")


def test_a_driver_unloaded_under_the_reader_is_a_problem_with_a_reason_until_it_is_back(node: Build) -> None:
    gpus = node(("A100-SXM4-40GB", 2))
    gpus.collect("DEV_GPU_TEMP")
    gpus.state.unload_module()
    found = gpus.until(lambda: _if(found := gpus.collect("DEV_GPU_TEMP"), bool(found.problem)))
    assert "DriverNotLoaded" in found.problem
    assert found.samples == ()
    gpus.state.load_module(VERSION)
    assert gpus.until(lambda: _if_whole(gpus.collect("DEV_GPU_TEMP"), 2)).problem == ""


def _if(found: Collection, good: bool) -> Collection | None:
    return found if good else None


def _if_whole(found: Collection, gpus: int) -> Collection | None:
    return _if(found, len(values(found, "DEV_GPU_TEMP")) == gpus)
