"""The real device plugin as a process, between a simulated NVML and a simulated kubelet."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.sim.plugin_node import VERSION, WITH_AGENT, PluginNode

from gpuready.node.root import Root
from gpuready.operands.device_plugin.daemon import Daemon
from gpuready.operands.device_plugin.settings import Settings
from gpuready_sim.hardware import driver_tree, machine
from gpuready_sim.kubelet.allocation import Refused

NEWER = "570.86.10"
SHARED = {
    "version": "v1",
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}},
}
RENAMED = {
    "version": "v1",
    "sharing": {
        "timeSlicing": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}
    },
}
WHOLE = {"version": "v1"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[PluginNode]:
    node = PluginNode(tmp_path)
    await node.kubelet.start()
    yield node
    await node.end()


@pytest.fixture
async def ready(node: PluginNode) -> PluginNode:
    """Four GPUs, handed out by CDI."""
    node.install()
    await node.start(DEVICE_LIST_STRATEGY="cdi-cri")
    await node.until_allocatable(4)
    await node.until_no_problem()
    return node


def spec_of(node: PluginNode) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(
        (node.root / "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json").read_bytes()
    )
    return spec


def missing_host_paths(node: PluginNode) -> list[str]:
    edits = [spec_of(node)["containerEdits"], *(d["containerEdits"] for d in spec_of(node)["devices"])]
    paths = [mount["hostPath"] for e in edits for mount in e.get("mounts", ())]
    paths += [one.get("hostPath", one["path"]) for e in edits for one in e.get("deviceNodes", ())]
    return [path for path in paths if not (node.root / path.lstrip("/")).exists()]


def device(node: PluginNode, index: int) -> dict[str, Any]:
    found: dict[str, Any] = node.record()["devices"][index]
    return found


# --- the main job -----------------------------------------------------------------------------------------
async def test_a_pod_gets_its_gpus_and_a_spec_that_resolves_them(ready: PluginNode) -> None:
    [options] = await ready.allocate(2)

    named = {f"{spec_of(ready)['kind']}={d['name']}" for d in spec_of(ready)["devices"]}
    assert len(options.cdi_devices) == 2
    assert set(options.cdi_devices) <= named
    assert missing_host_paths(ready) == []
    assert str(ready.root) not in json.dumps(spec_of(ready))
    assert ready.kubelet.numa_of("nvidia.com/gpu", ready.uuids()[0]) == (0,)
    assert ready.record()["registered"] is True


@pytest.mark.parametrize("strategy", ["envvar", "cdi-annotations", "volume-mounts", "envvar,cdi-cri"])
async def test_each_list_strategy_reaches_the_container(node: PluginNode, strategy: str) -> None:
    node.install()
    await node.start(DEVICE_LIST_STRATEGY=strategy, PASS_DEVICE_SPECS="true")
    await node.until_allocatable(4)
    [options] = await node.allocate(1)

    told = [*options.envs.values(), *options.annotations.values(), *options.cdi_devices]
    told += [mount.container_path for mount in options.mounts]
    assert any(uuid in text for uuid in node.uuids() for text in told)
    assert bool(options.devices) is (strategy != "cdi-annotations")


async def test_probes_are_answered(ready: PluginNode) -> None:
    def ask(path: str) -> tuple[int, str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{ready._port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()

    assert await asyncio.to_thread(ask, "/healthz") == (200, "ok\n")
    assert await asyncio.to_thread(ask, "/readyz") == (200, "registered\n")


async def test_it_is_light_and_imports_nothing_heavy(ready: PluginNode) -> None:
    assert ready.process is not None
    status = Path(f"/proc/{ready.process.pid}/status").read_text()
    resident_kb = int(status.split("VmRSS:")[1].split()[0])
    libraries = Path(f"/proc/{ready.process.pid}/maps").read_text()

    assert resident_kb < 45_000  # 33,000 in a warm run; the first one compiles pynvml
    assert "aiohttp" not in libraries
    assert "_yaml" not in libraries
    assert "libssl" not in libraries
    assert "libcrypto" not in libraries


# --- health -----------------------------------------------------------------------------------------------
async def test_an_xid_takes_one_gpu_away_at_once_and_a_reset_brings_it_back(ready: PluginNode) -> None:
    with ready.gpus() as state:
        state.raise_xid(1, 109)
    assert await ready.until_allocatable(3) < 0.5
    assert ready.kubelet.capacity()["nvidia.com/gpu"] == 4
    await ready.until(lambda: device(ready, 1)["health"] == "Unhealthy")
    told = device(ready, 1)
    assert (told["reason"], told["lastXid"]["code"], told["lastXid"]["action"]) == (
        "GpuResetRequired",
        109,
        "ResetGpu",
    )

    with ready.gpus() as state:
        state.reset(1)
    await ready.until_allocatable(4)
    assert ready.kubelet.registrations == {"nvidia.com/gpu": 1}


async def test_an_application_error_is_noted_and_changes_nothing(ready: PluginNode) -> None:
    with ready.gpus() as state:
        state.raise_xid(0, 13)
    await ready.until(lambda: device(ready, 0)["lastXid"] is not None)

    assert device(ready, 0)["health"] == "Healthy"
    assert ready.kubelet.allocatable()["nvidia.com/gpu"] == 4


async def test_an_unknown_xid_passes_after_clean_probes(ready: PluginNode) -> None:
    with ready.gpus() as state:
        state.raise_xid(0, 999)
    await ready.until_allocatable(3)
    await ready.until_allocatable(4)


async def test_79_survives_reset_and_restart_of_the_plugin_and_ends_with_a_reboot(ready: PluginNode) -> None:
    with ready.gpus() as state:
        state.raise_xid(2, 79)
        state.reset(2)
    await ready.until_allocatable(3)
    await ready.kill()
    await ready.start(DEVICE_LIST_STRATEGY="cdi-cri")
    await ready.until_allocatable(0)
    await ready.until_allocatable(3)
    assert ready.kubelet.capacity()["nvidia.com/gpu"] == 4
    assert device(ready, 2)["reason"] == "FallenOffBus"
    assert device(ready, 2)["lastXid"]["code"] == 79

    await ready.stop()
    machine.reboot(ready.folder)
    ready.make_directories()
    await ready.restart_kubelet()
    machine.load_driver(ready.folder, VERSION)
    await ready.start(DEVICE_LIST_STRATEGY="cdi-cri")
    await ready.until_allocatable(4)


async def test_a_gpu_lost_without_an_xid_is_found(ready: PluginNode) -> None:
    with ready.gpus() as state:
        state.set_lost(3)
    await ready.until_allocatable(3)
    await ready.until(lambda: device(ready, 3)["reason"] == "GpuLost")


async def test_all_shares_of_a_gpu_go_and_come_together(node: PluginNode) -> None:
    node.install()
    (node.container / "config/config.json").write_text(json.dumps(SHARED))
    await node.start(CONFIG_FILE="/config/config.json")
    await node.until_allocatable(12)
    with node.gpus() as state:
        state.raise_xid(0, 109)
    await node.until_allocatable(9)
    with node.gpus() as state:
        state.reset(0)
    await node.until_allocatable(12)


async def test_c26_a_corrupted_inforom_is_flagged_and_its_gpu_still_used(node: PluginNode) -> None:
    node.install()
    with node.gpus() as state:
        state.set_inforom_corrupt(2)
    await node.start()
    await node.until_allocatable(4)
    await node.until(lambda: device(node, 2)["reason"] == "InfoRomCorrupted")
    assert device(node, 2)["health"] == "Healthy"
    await node.stop()

    await node.start(GPUREADY_INFOROM="exclude")
    await node.until_allocatable(3)
    assert device(node, 2)["health"] == "Unhealthy"


# --- the kubelet ------------------------------------------------------------------------------------------
async def test_a_kubelet_restart_and_a_removed_socket_are_survived(ready: PluginNode) -> None:
    await ready.restart_kubelet()
    assert await ready.until_allocatable(4) < 2
    (ready.root / "var/lib/kubelet/device-plugins/nvidia-gpu.sock").unlink()
    await ready.until(lambda: ready.kubelet.registrations["nvidia.com/gpu"] == 2)
    await ready.until_allocatable(4)


async def test_a_killed_plugin_comes_back_and_a_stopped_one_leaves_nothing(ready: PluginNode) -> None:
    await ready.kill()
    await ready.until_allocatable(0)
    await ready.start(DEVICE_LIST_STRATEGY="cdi-cri")
    await ready.until_allocatable(4)

    started = time.monotonic()
    assert await ready.stop() == 0
    assert time.monotonic() - started < 5
    assert not (ready.root / "var/lib/kubelet/device-plugins/nvidia-gpu.sock").exists()
    assert ready.record()["registered"] is False
    with ready.gpus() as state:
        assert state.holders() == []


# --- configuration ----------------------------------------------------------------------------------------
async def test_sharing_is_changed_live_without_a_new_registration(node: PluginNode) -> None:
    node.install()
    node.write_desired(WHOLE, configName="whole", digest="1")
    await node.start(GPUREADY_DESIRED_DIR="/run/gpuready/desired")
    await node.until_allocatable(4)
    node.write_desired(SHARED, configName="shared", digest="2")
    await node.until_allocatable(12)
    await node.until(lambda: node.record()["config"]["name"] == "shared")

    assert node.kubelet.registrations == {"nvidia.com/gpu": 1}
    [options] = await node.allocate(2)
    assert len(options.envs["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2


async def test_a_renamed_resource_replaces_the_plain_one(node: PluginNode) -> None:
    node.install()
    node.write_desired(WHOLE)
    await node.start(GPUREADY_DESIRED_DIR="/run/gpuready/desired")
    await node.until_allocatable(4)
    node.write_desired(RENAMED)
    await node.until_allocatable(12, "nvidia.com/gpu.shared")
    await node.until_allocatable(0)


async def test_a_bad_configuration_keeps_the_last_good(node: PluginNode) -> None:
    node.install()
    node.write_desired(SHARED)
    await node.start(GPUREADY_DESIRED_DIR="/run/gpuready/desired")
    await node.until_allocatable(12)
    node.write_desired({"version": "v7"})
    await node.until(lambda: node.record()["config"]["error"] is not None)

    assert "v7" in node.record()["config"]["error"]["message"]
    assert node.kubelet.allocatable()["nvidia.com/gpu"] == 12


async def test_nothing_registers_before_gate_and_wish_of_this_boot(node: PluginNode) -> None:
    node.install()
    node.open_gate(boot="an-earlier-one")
    node.write_desired(WHOLE, bootId="an-earlier-one")
    await node.start(**WITH_AGENT)
    await node.until_reason("WaitingForConfig")
    node.write_desired(None, error={"reason": "ConfigMissing", "message": "no key x"})
    await node.until_reason("ConfigMissing")
    node.write_desired(WHOLE)
    await node.until_reason("WaitingForDriver")
    assert "stale" in node.record()["problem"]["message"]
    assert node.kubelet.registrations == {}

    node.open_gate()
    assert await node.until_allocatable(4) < 2


async def test_a_wish_that_comes_between_the_first_look_and_the_first_watch_is_not_missed(
    node: PluginNode,
) -> None:
    class SlowToWatch(Daemon):
        def _turn(self) -> None:
            super()._turn()
            if not (node.root / "run/gpuready/desired/device-plugin.json").exists():
                node.write_desired(WHOLE)

    env = node.env(**WITH_AGENT)
    daemon = SlowToWatch(Settings.from_env(env), Root.from_env(env))

    running = asyncio.create_task(daemon.run())
    await node.until_reason("WaitingForDriver")

    daemon.stop()
    await running


async def test_c17_one_share_each_is_refused_with_a_text_for_the_user(node: PluginNode) -> None:
    node.install()
    config = json.loads(json.dumps(SHARED))
    config["sharing"]["timeSlicing"]["failRequestsGreaterThanOne"] = True
    node.write_desired(config)
    await node.start(GPUREADY_DESIRED_DIR="/run/gpuready/desired")
    await node.until_allocatable(12)

    with pytest.raises(Refused, match="maximum request size for shared resources is 1; found 2"):
        await node.allocate(2)
    assert len(await node.allocate(1, containers=2)) == 2


async def test_what_an_uninstall_took_away_does_not_come_back(node: PluginNode) -> None:
    """The node agent takes the wish first, then our files; whoever runs then, or starts, makes none anew."""
    node.install()
    node.open_gate()
    node.write_desired(WHOLE)
    await node.start(DEVICE_LIST_STRATEGY="cdi-cri", **WITH_AGENT)
    await node.until_allocatable(4)
    await node.until_no_problem()
    ours = [node.root / "run/gpuready/records", node.root / "var/run/cdi"]

    shutil.rmtree(node.root / "run/gpuready/desired")
    await asyncio.sleep(0.3)  # less than the agent waits for
    for folder in ours:
        for file in folder.iterdir():
            file.unlink()
    await asyncio.sleep(0.5)
    await node.stop()
    await node.start(**WITH_AGENT)
    await asyncio.sleep(1.5)
    await node.stop()

    assert [file for folder in ours for file in folder.iterdir()] == []


# --- the driver -------------------------------------------------------------------------------------------
async def test_without_a_driver_it_waits_and_says_so_and_starts_by_itself(node: PluginNode) -> None:
    await node.start(DEVICE_LIST_STRATEGY="cdi-cri")
    await node.until_reason("NvmlLibraryNotFound")
    driver_tree.install_driver(node.root, VERSION)
    await node.until_reason("DriverNotLoaded")
    machine.load_driver(node.folder, VERSION)
    assert await node.until_allocatable(4) < 3


async def test_a_driver_in_a_container_is_found_and_its_root_named(node: PluginNode) -> None:
    await node.start(DEVICE_LIST_STRATEGY="cdi-cri")
    await node.until_reason("NvmlLibraryNotFound")
    driver_tree.install_driver(node.root / "run/nvidia/driver", VERSION)
    machine.load_driver(node.folder, VERSION)
    await node.until_allocatable(4)

    library = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}"
    mounts = {m["containerPath"]: m["hostPath"] for m in spec_of(node)["containerEdits"]["mounts"]}
    assert mounts[library] == f"/run/nvidia/driver{library}"
    assert missing_host_paths(node) == []


async def test_a_driver_update_is_named_gives_nvml_up_and_ends_in_the_new_version(ready: PluginNode) -> None:
    assert ready.process is not None
    pid = ready.process.pid
    driver_tree.update_driver(ready.root, NEWER)
    await ready.until_allocatable(0)
    await ready.until_reason("DriverLibraryMismatch")
    assert device(ready, 0)["reason"] == "DriverLibraryMismatch"
    assert VERSION in ready.record()["problem"]["message"]
    assert NEWER in ready.record()["problem"]["message"]
    await ready.until(lambda: missing_host_paths(ready) == [])
    assert ready.kubelet.capacity()["nvidia.com/gpu"] == 4

    with ready.gpus() as state:
        await ready.until(lambda: state.holders() == [])
    machine.unload_driver(ready.folder)
    machine.load_driver(ready.folder, NEWER)
    await ready.until_allocatable(4)
    await ready.until_no_problem()
    assert ready.record()["driver"] == {"module": NEWER, "library": NEWER}
    assert ready.record()["cdi"]["driverVersion"] == NEWER
    assert ready.process.pid == pid  # the same container, a new program


async def test_a_hanging_nvml_is_named_and_hinders_nobody(node: PluginNode) -> None:
    node.install()
    await node.start(GPUREADY_NVML_SILENT_S="0.5")
    await node.until_allocatable(4)
    with node.gpus() as state:
        state.set_hang_s(30)
        await node.until_reason("NvmlNotAnswering")
        started = time.monotonic()
        await node.allocate(2)
        await node.restart_kubelet()
        await node.until_allocatable(4)
        assert time.monotonic() - started < 3
        state.set_hang_s(0)
        await node.until_no_problem()
        state.raise_xid(0, 109)
    await node.until_allocatable(3)


async def test_waiting_for_events_is_no_silence_however_short_the_patience(node: PluginNode) -> None:
    node.install()

    await node.start(GPUREADY_NVML_SILENT_S="0.1", GPUREADY_INVENTORY_S="1")
    await node.until_no_problem()
    written_at = node.record()["time"]
    with pytest.raises(AssertionError):  # it looks each second, and waits a second for events
        await node.until(lambda: node.record()["time"] != written_at, deadline_s=2.5)

    assert node.record()["problem"] is None


async def test_a_stop_while_nvml_hangs_ends_in_time(node: PluginNode) -> None:
    node.install()
    await node.start(GPUREADY_NVML_SILENT_S="0.5")
    await node.until_allocatable(4)
    with node.gpus() as state:
        state.set_hang_s(30)
        await node.until_reason("NvmlNotAnswering")
        started = time.monotonic()
        assert await node.stop() == 0
        assert time.monotonic() - started < 5
        state.set_hang_s(0)


async def test_the_spec_is_written_again_when_somebody_removes_it(ready: PluginNode) -> None:
    path = ready.root / "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
    path.unlink()
    await ready.until(path.exists)


async def test_a_storm_of_xids_is_survived(ready: PluginNode) -> None:
    with ready.gpus() as state:
        for _ in range(500):
            state.raise_xid(0, 13)
        state.raise_xid(1, 109)
    assert await ready.until_allocatable(3) < 2
    await ready.until(lambda: device(ready, 1)["health"] == "Unhealthy")


async def test_files_that_could_not_be_written_are_once_they_can(ready: PluginNode) -> None:
    records, specs = ready.root / "run/gpuready/records", ready.root / "var/run/cdi"
    for folder in (records, specs):
        shutil.rmtree(folder.rename(folder.with_name(f"{folder.name}-taken-away")))
        folder.write_text("")
    await ready.until_allocatable(0)

    for folder in (records, specs):
        folder.unlink()
        folder.mkdir()  # of which no event tells a program that sees it by a mount

    await ready.until_allocatable(4)
    await ready.until_no_problem()
    assert missing_host_paths(ready) == []


async def test_the_spec_goes_when_no_strategy_uses_it(node: PluginNode) -> None:
    node.install()
    path = node.root / "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
    node.write_desired({"flags": {"plugin": {"deviceListStrategy": ["cdi-cri"]}}})
    await node.start(GPUREADY_DESIRED_DIR="/run/gpuready/desired")
    await node.until_allocatable(4)
    assert path.exists()
    node.write_desired({"flags": {"plugin": {"deviceListStrategy": ["envvar"]}}})
    await node.until(lambda: not path.exists())
    [options] = await node.allocate(1)
    assert options.envs["NVIDIA_VISIBLE_DEVICES"] in node.uuids()


async def test_a_gpu_without_its_device_node_spoils_nothing_for_the_others(ready: PluginNode) -> None:
    (ready.root / "dev/nvidia3").unlink()
    await ready.until_allocatable(3)
    assert missing_host_paths(ready) == []


async def test_an_environment_that_makes_no_sense_ends_with_2(node: PluginNode) -> None:
    await node.start(DEVICE_LIST_STRATEGY="cdi")
    assert node.process is not None
    assert await node.process.wait() == 2


async def test_hup_is_harmless(ready: PluginNode) -> None:
    assert ready.process is not None
    os.kill(ready.process.pid, signal.SIGHUP)
    with ready.gpus() as state:
        state.raise_xid(0, 109)
    await ready.until_allocatable(3)
    assert ready.process.returncode is None
