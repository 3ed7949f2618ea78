"""The node agent as a whole: a machine's files on one side, an API server over HTTP on the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.operands.node_agent.fake_api import FakeApi
from tests.unit.operands.node_agent.machine import (
    FakeChild,
    Machine,
    inventory,
    mismatch,
)
from tests.unit.operands.node_agent.one_node import (
    PCI,
    condition,
    eventually,
    gpu_node,
    host_driver,
    labels,
    link,
    node,
    running,
    show_gpus,
    status,
    whole,
)

from gpuready import names
from gpuready.node import gates
from gpuready.operands.node_agent import reporter


@pytest.mark.parametrize("gate", [names.DRIVER_READY, names.PLUGIN_READY, names.CUDA_READY])
async def test_a_record_that_somebody_spoils_on_a_quiet_node_is_written_again(
    api: FakeApi, tmp_path: Path, gate: str
) -> None:
    """Nothing else happens there: the file itself must wake the agent."""
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    directory = machine.base / names.GATES_DIR.lstrip("/")
    async with running(api, machine, child):
        await whole(api, machine)
        path = gates.record_path(directory, gate)
        await eventually(path.exists)

        for _ in range(4):  # the first may be found by a look that something else led to
            path.write_text("{}")

            await eventually(lambda: (gates.read_record(directory, gate) or {}).get("state") == "ok", 30)


async def test_a_bare_gpu_machine_is_labelled_before_anybody_asks(api: FakeApi, tmp_path: Path) -> None:
    await api.put("nodes", node())

    async with running(api, Machine(tmp_path), FakeChild(inventory())):
        await api.until(lambda: labels(api).get(PCI) == "true")
        await api.until(lambda: condition(api).get("reason") == "NoGpuNode")

    assert labels(api)[names.KERNEL_LABEL] == "5.15.0-116-generic"


async def test_a_cpu_machine_is_left_alone(api: FakeApi, tmp_path: Path) -> None:
    await api.put("nodes", node())

    async with running(api, Machine(tmp_path, gpus=0), FakeChild(inventory(0))) as agent:
        await eventually(lambda: agent.is_ready()[0])
        await show_gpus(api, 0)

    assert api.writes == []


async def test_the_chain_fills_in_from_host_driver_to_ready(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await api.until(lambda: link(api, "device-plugin")["reason"] == "PluginNotStarted")
        assert (
            machine.gate("driver-ready").read_text().startswith("IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\n")
        )
        assert machine.desired()["config"] == {"version": "v1"}
        assert machine.desired()["source"] == "api"
        await whole(api, machine)
        await eventually(lambda: machine.gate("plugin-ready").exists())

    assert status(api)["driver"] == {
        "owner": "host",
        "version": "570.86.10",
        "libraryVersion": "570.86.10",
        "moduleVersion": "570.86.10",
        "root": "/",
    }
    assert status(api)["runtime"] == {"name": "containerd", "version": "1.7.27"}
    assert (status(api)["gpus"], status(api)["healthy"]) == (2, 2)
    assert [row["uuid"] for row in status(api)["devices"]] == ["GPU-0", "GPU-1"]
    assert labels(api)["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    assert child.asked == 1


async def test_a_restart_on_an_unchanged_node_writes_nothing(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    async with running(api, machine, child):
        await whole(api, machine)
        await api.until(lambda: labels(api).get("nvidia.com/gpu.count") == "2")
    api.writes.clear()
    stamps = {path: path.stat().st_mtime_ns for path in machine.base.rglob("*") if path.is_file()}
    left = [machine.path(f"{each}/.x.json.9.tmp") for each in (names.DESIRED_DIR, names.RECORDS_DIR)]
    for path in left:  # by writers that were killed
        path.write_text("{")

    async with running(api, machine, FakeChild(inventory())) as agent:
        await eventually(lambda: agent.is_ready()[0])
        await api.change("nodes", "n1", {"metadata": {"annotations": {"somebody": "else"}}})
        await asyncio.sleep(0.4)  # nothing may happen: there is nothing to wait for

    assert api.writes == []
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert [path for path in left if path.exists()] == []


async def test_a_label_removed_by_hand_is_back_within_a_second(api: FakeApi, tmp_path: Path) -> None:
    await api.put("nodes", node())

    async with running(api, Machine(tmp_path), FakeChild(inventory())):
        await api.until(lambda: labels(api).get(PCI) == "true")
        await api.change("nodes", "n1", {"metadata": {"labels": {PCI: None}}})
        await api.until(lambda: labels(api).get(PCI) == "true", deadline_s=1.0)
        await api.change("nodes", "n1", {"metadata": {"labels": {PCI: "false"}}})
        await api.change("nodes", "n1", {"metadata": {"annotations": {"a": "b"}}})
        await asyncio.sleep(0.3)  # nothing may happen

    assert labels(api)[PCI] == "false"


async def test_a_heartbeat_that_gets_in_the_way_of_a_label_delays_it_only(
    api: FakeApi, tmp_path: Path
) -> None:
    await api.put("nodes", node())
    api.conflicts = 2

    async with running(api, Machine(tmp_path), FakeChild(inventory())):
        await api.until(lambda: labels(api).get(PCI) == "true", deadline_s=3.0)

    assert api.conflicts == 0


async def test_where_nfd_labels_the_agent_does_not(api: FakeApi, tmp_path: Path) -> None:
    by_nfd = {"labels": {PCI: "true"}, "annotations": {names.NFD_OWNED_ANNOTATION: "pci-10de.present"}}
    await api.put("nodes", node(**by_nfd))

    async with running(api, Machine(tmp_path), FakeChild(inventory())):
        await api.until(lambda: condition(api).get("reason") == "NoGpuNode")

    assert labels(api) == {PCI: "true"}


async def test_a_driver_update_under_a_loaded_module_is_named_and_the_gate_retracted(
    api: FakeApi, tmp_path: Path
) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await whole(api, machine)
        child.answer = mismatch()
        machine.install_driver("570.124.06")

        await api.until(lambda: condition(api)["reason"] == "DriverLibraryMismatch")
        assert "library 570.124.06, module 570.86.10" in condition(api)["message"]
        assert not machine.gate("driver-ready").exists()
        assert "DriverLibraryMismatch" in gates.state_of(machine.gate(""), "driver-ready", "boot-1").why
        await api.until(lambda: any(e["reason"] == "DriverLibraryMismatch" for e in api.events))
        assert status(api)["driver"]["owner"] == "host"

        child.answer = inventory(version="570.124.06")
        machine.load_module("570.124.06")
        machine.write_record(cdi={"driverVersion": "570.124.06"})
        await api.until(lambda: condition(api)["status"] == "True")
        await eventually(lambda: machine.gate("driver-ready").exists())


async def test_a_paused_device_plugin_makes_every_holder_of_ours_let_the_driver_go(
    api: FakeApi, tmp_path: Path
) -> None:
    machine, child = host_driver(tmp_path)
    pause = machine.path(names.PAUSE_FILE)
    paused = {names.DEPLOY_DEVICE_PLUGIN: "paused-for-driver-upgrade"}
    await api.put("nodes", node(labels=paused))
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await eventually(pause.exists)
        assert pause.read_text() == f"node label {names.DEPLOY_DEVICE_PLUGIN}=paused-for-driver-upgrade"

        await api.change("nodes", "n1", {"metadata": {"labels": {names.DEPLOY_DEVICE_PLUGIN: "true"}}})
        await eventually(lambda: not pause.exists())


async def test_a_pause_that_somebody_else_wrote_is_left_to_him(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    pause = machine.path(names.PAUSE_FILE)
    pause.write_text("the card is being reset")
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await whole(api, machine)

    assert pause.read_text() == "the card is being reset"


async def test_a_container_driver_is_waited_for_and_then_taken(api: FakeApi, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, FakeChild(inventory())):
        await api.until(lambda: link(api, "driver")["reason"] == "DriverInstalling")
        assert status(api)["driver"]["owner"] == "container"
        machine.load_module()
        machine.install_driver(root="run/nvidia/driver")
        await api.until(lambda: link(api, "driver")["state"] == "ok")

    assert (
        "IS_HOST_DRIVER=false\nNVIDIA_DRIVER_ROOT=/run/nvidia/driver\n"
        in machine.gate("driver-ready").read_text()
    )


async def test_an_xid_is_told_with_action_and_again_when_it_is_over(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await whole(api, machine)
        machine.write_record(unhealthy={1: 109})
        await show_gpus(api, 1, capacity=2)
        await api.until(lambda: any(e["reason"] == "GpuUnhealthy" for e in api.events))
        await api.until(lambda: condition(api)["reason"] == "UnhealthyDevices")
        assert condition(api)["status"] == "True"
        assert status(api)["healthy"] == 1
        assert status(api)["devices"][1]["lastXid"]["code"] == 109
        told = next(e for e in api.events if e["reason"] == "GpuUnhealthy")
        assert "GPU 1 (GPU-1)" in told["message"]
        assert "XID 109" in told["message"]

        machine.write_record()
        await show_gpus(api, 2)
        await api.until(lambda: any(e["reason"] == "GpuRecovered" for e in api.events))
        await api.until(lambda: condition(api)["reason"] == "ChainWhole")


async def test_a_plugin_that_vanished_is_seen_by_what_the_kubelet_shows(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await whole(api, machine)
        await show_gpus(api, 0, capacity=2)
        await api.until(lambda: condition(api)["reason"] == "KubeletShowsNothing")

    assert not machine.gate("plugin-ready").exists()


async def test_what_nvidias_programs_do_is_seen_and_left_to_them(api: FakeApi, tmp_path: Path) -> None:
    """The original's validator alone writes gates, its device plugin leaves no record."""
    machine, child = host_driver(tmp_path)
    told = gpu_node(enabled=False, original=True)
    told["spec"]["gates"] = {"enabled": False}
    await api.put("nodes", node())
    await api.put("gpunodes", told)

    async with running(api, machine, child):
        await api.until(lambda: link(api, "device-plugin")["reason"] == "PluginNotStarted")
        machine.gate("driver-ready").parent.mkdir(parents=True, exist_ok=True)
        machine.gate("driver-ready").write_text("theirs")
        await show_gpus(api, machine.count)
        await api.until(lambda: condition(api).get("reason") == "CudaNotReady")
        machine.gate("cuda-ready").touch()
        await api.until(lambda: condition(api).get("status") == "True")
        assert "NVIDIA's device plugin offers nvidia.com/gpu: 2" in link(api, "device-plugin")["message"]
        assert link(api, "cuda")["message"] == "NVIDIA's validator has found CUDA ready"
        await show_gpus(api, 0)
        await api.until(lambda: condition(api)["status"] == "False")

    assert machine.gate("driver-ready").read_text() == "theirs"
    assert not machine.gate("driver-ready.json").exists()
    assert not machine.gate("plugin-ready").exists()
    assert not machine.path(f"{names.DESIRED_DIR}/device-plugin.json").exists()


async def test_a_bad_config_without_a_last_good_reaches_user_and_plugin(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    error = {"reason": "ConfigKeyMissing", "message": "no key 'four'; it has 'one'", "nextStep": "correct it"}
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node(config=None, error=error))

    async with running(api, machine, child):
        await api.until(lambda: condition(api).get("reason") == "ConfigKeyMissing")

    assert machine.desired()["config"] is None
    assert machine.desired()["error"] == error


async def test_a_reboot_makes_old_gates_and_records_stale(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    async with running(api, machine, child):
        await whole(api, machine)
        await eventually(lambda: machine.gate("plugin-ready").exists())

    machine.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    assert not gates.state_of(machine.gate(""), "plugin-ready", "boot-2").is_open
    async with running(api, machine, child):
        await api.until(lambda: status(api)["bootID"] == "boot-2")
        assert link(api, "device-plugin")["reason"] == "PluginNotStarted"
        await eventually(lambda: machine.desired()["bootId"] == "boot-2")

    assert not machine.gate("plugin-ready").exists()


async def test_a_boot_without_api_server_goes_on_with_the_last_known(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node(configName="two"))
    async with running(api, machine, child):
        await eventually(lambda: machine.path(f"{names.LAST_KNOWN_DIR}/device-plugin.json").exists())
    await api.go_away()
    machine.path(f"{names.DESIRED_DIR}/device-plugin.json").unlink()
    machine.write("proc/sys/kernel/random/boot_id", "boot-2\n")

    async with running(api, machine, child):
        await eventually(lambda: machine.path(f"{names.DESIRED_DIR}/device-plugin.json").exists(), 8)
        assert machine.desired()["source"] == "last-known"
        assert (machine.desired()["bootId"], machine.desired()["configName"]) == ("boot-2", "two")
        await api.start()
        await eventually(lambda: machine.desired()["source"] == "api", 8)


async def test_an_outage_and_a_lost_history_are_survived(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await whole(api, machine)
        await api.go_away()
        child.answer = mismatch()
        machine.install_driver("570.124.06")
        await eventually(lambda: not machine.gate("driver-ready").exists())  # the file side does not wait
        await api.start()
        await api.until(lambda: condition(api)["reason"] == "DriverLibraryMismatch")

        await api.forget_history()
        child.answer = inventory(version="570.124.06")
        machine.load_module("570.124.06")
        machine.write_record(cdi={"driverVersion": "570.124.06"})
        await api.until(lambda: condition(api)["status"] == "True")


async def test_uninstall_leaves_nothing_of_ours_and_does_not_begin_again(
    api: FakeApi, tmp_path: Path
) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await whole(api, machine)
        cdi = machine.path(names.PLUGIN_CDI_FILE)
        cdi.parent.mkdir(parents=True)
        cdi.write_text("{}")
        await api.change("gpunodes", "n1", {"spec": {"uninstall": True}})
        await eventually(lambda: not machine.gate("driver-ready").exists())
        assert cdi.exists()  # the plugin still serves pods
        machine.write_record(registered=False)  # its last word
        await api.until(lambda: status(api).get("uninstalled"))
        assert not cdi.exists()
        await api.delete("gpunodes", "n1")
        await api.change("nodes", "n1", {"metadata": {"labels": {PCI: None}}})
        await asyncio.sleep(0.3)  # nothing may happen

    left = [path for path in machine.base.rglob("*") if path.is_file() and machine.host not in path.parents]
    assert left == []
    assert PCI not in labels(api)


async def test_a_hanging_driver_is_named_and_recovers(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    sound = child.answer
    child.answer = child._timed_out().nvml
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await api.until(lambda: condition(api).get("reason") == "NvmlTimeout")
        child.answer = sound
        await api.until(lambda: link(api, "driver")["state"] == "ok")


async def test_the_word_of_a_controller_that_missed_us_is_taken_back(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "_YIELD_S", 0.2)
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child):
        await whole(api, machine)
        silent = {"type": names.GPU_READY_CONDITION, "status": "Unknown", "reason": "AgentSilent"}
        ready = {"type": "Ready", "status": "True"}
        await api.change("nodes", "n1", {"status": {"conditions": [ready, silent]}})
        await api.until(lambda: condition(api)["status"] == "True")
