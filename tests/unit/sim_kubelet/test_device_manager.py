"""What a device plugin sees of the kubelet; tests/conformance/kubelet asks a real one the same.

`Manager` stands for the kubelet: a plugin directory, what the Node would say, and the admission of pods.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from grpclib.exceptions import GRPCError

from gpuready_sim.kubelet.allocation import Refused
from gpuready_sim.kubelet.device_manager import DeviceManager
from gpuready_sim.kubelet.identity import Timing
from gpuready_sim.kubelet.protos.deviceplugin.v1beta1 import api_pb2

from .plugins import Plugin
from .pods import container, pod

GPU = "nvidia.com/gpu"


class Manager:
    def __init__(self, directory: Path, **timing: float) -> None:
        self.directory = directory
        self.active: set[str] = set()
        self.running: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self._timing = Timing(**{"dial_timeout_s": 0.2, **timing})  # type: ignore[arg-type]
        self.real = self._new()

    def _new(self) -> DeviceManager:
        return DeviceManager(
            self.directory,
            timing=self._timing,
            active_pods=lambda: self.active,
            is_running=lambda uid, name: (uid, name) in self.running,
            on_change=self._changed.set,
        )

    async def restart(self) -> None:
        await self.real.stop()
        self.real = self._new()
        await self.real.start()

    async def admit(self, wanted: dict[str, Any]) -> dict[str, Any]:
        await self.real.admit(wanted)
        self.active.add(wanted["metadata"]["uid"])
        return wanted

    def gpus(self, resource: str = GPU) -> tuple[int | None, int | None]:
        return self.real.capacity().get(resource), self.real.allocatable().get(resource)

    async def until(self, capacity: int, allocatable: int, resource: str = GPU) -> None:
        await self.until_true(lambda: self.gpus(resource) == (capacity, allocatable))

    async def until_true(self, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(30):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pytest.fail(f"not within 5 s; capacity and allocatable are {self.gpus()}")


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    made = Manager(tmp_path / "device-plugins")
    await made.real.start()
    yield made
    await made.real.stop()


@pytest.fixture
async def plugin(manager: Manager) -> AsyncIterator[Callable[..., Plugin]]:
    made: list[Plugin] = []

    def build(*args: Any, **kwargs: Any) -> Plugin:
        made.append(Plugin(manager.directory, *args, **kwargs))
        return made[-1]

    yield build
    for one in made:
        await one.stop()


Build = Callable[..., Plugin]


async def test_a_registered_plugin_gives_the_node_its_devices(manager: Manager, plugin: Build) -> None:
    await plugin().start()
    await manager.until(2, 2)
    assert manager.real.registrations == {GPU: 1}


async def test_an_unhealthy_device_leaves_allocatable_but_stays_in_capacity(
    manager: Manager, plugin: Build
) -> None:
    gpus = plugin()
    await gpus.start()
    await manager.until(2, 2)
    await gpus.say(gpu_1="Unhealthy")
    await manager.until(2, 1)
    await gpus.say(gpu_1="Healthy")
    await manager.until(2, 2)


@pytest.mark.parametrize(
    ("version", "resource", "text"),
    [
        pytest.param(
            "v1alpha1",
            GPU,
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="an old version",
        ),
        pytest.param("v1beta1", "gpu", 'the ResourceName "gpu" is invalid', id="no domain"),
        pytest.param(
            "v1beta1",
            "kubernetes.io/gpu",
            'the ResourceName "kubernetes.io/gpu" is invalid',
            id="a reserved domain",
        ),
        pytest.param("v1beta1", "a.b/c d", 'the ResourceName "a.b/c d" is invalid', id="a space"),
    ],
)
async def test_a_bad_registration_is_refused_with_the_kubelets_words(
    plugin: Build, version: str, resource: str, text: str
) -> None:
    gpus = plugin(resource)
    await gpus.serve()
    with pytest.raises(GRPCError) as refused:
        await gpus.register(version)
    assert refused.value.message == text


async def test_a_plugin_that_registers_before_it_serves_is_told_so(plugin: Build) -> None:
    with pytest.raises(GRPCError, match="failed to dial device plugin: context deadline exceeded"):
        await plugin().register()


async def test_a_lost_plugin_leaves_capacity_for_the_grace_period_and_then_zero(tmp_path: Path) -> None:
    manager = Manager(tmp_path / "plugins", plugin_grace_s=0.3)
    await manager.real.start()
    gpus = Plugin(manager.directory)
    await gpus.start()
    await manager.until(2, 2)
    await gpus.stop()
    await manager.until(2, 0)
    await manager.until(0, 0)
    await gpus.start()
    await manager.until(2, 2)
    await gpus.stop()
    await manager.real.stop()


async def test_a_plugin_that_comes_back_within_the_grace_period_restores_allocatable(
    manager: Manager, plugin: Build
) -> None:
    gpus = plugin()
    await gpus.start()
    await manager.until(2, 2)
    await gpus.stop()
    await manager.until(2, 0)
    await gpus.start()
    await manager.until(2, 2)


async def test_the_end_of_an_old_stream_disconnects_the_newer_plugin_of_the_same_name(
    manager: Manager, plugin: Build
) -> None:
    old, new = plugin(endpoint="old.sock"), plugin(endpoint="new.sock", devices=["gpu-0"])
    await old.start()
    await manager.until(2, 2)
    await new.start()
    await manager.until(1, 1)
    await old.end_streams()
    await manager.until(1, 0)
    await new.register()
    await manager.until(1, 1)


async def test_after_a_failed_registration_the_loss_of_the_plugin_that_works_goes_unnoticed(
    manager: Manager, plugin: Build
) -> None:
    works = plugin()
    await works.start()
    await manager.until(2, 2)
    with pytest.raises(GRPCError):
        await plugin(endpoint="nobody.sock").register()
    await works.end_streams()
    other = plugin("example.com/nic", ["nic-0"], endpoint="nic.sock")
    await other.start()
    await manager.until(1, 1, "example.com/nic")
    assert manager.gpus() == (2, 2)


async def test_a_kubelet_restart_removes_the_plugins_sockets_and_waits_for_them(
    manager: Manager, plugin: Build
) -> None:
    gpus = plugin()
    await gpus.start()
    await manager.until(2, 2)
    (manager.directory / "a-file").touch()
    await manager.restart()
    assert not (manager.directory / "plugin.sock").exists()
    assert (manager.directory / "a-file").exists()
    assert (manager.directory / "kubelet.sock").is_socket()
    assert manager.gpus() == (0, 0)
    await gpus.stop()
    await gpus.start()
    await manager.until(2, 2)


async def test_two_resources_come_and_go_on_their_own(manager: Manager, plugin: Build) -> None:
    whole = plugin()
    shared = plugin("nvidia.com/gpu.shared", [f"gpu-2::{n}" for n in range(5)], endpoint="shared.sock")
    await whole.start()
    await shared.start()
    await manager.until(2, 2)
    await manager.until(5, 5, "nvidia.com/gpu.shared")
    await shared.stop()
    await manager.until(5, 0, "nvidia.com/gpu.shared")
    assert manager.gpus() == (2, 2)


async def test_a_list_over_four_mebibytes_breaks_the_stream(manager: Manager, plugin: Build) -> None:
    gpus = plugin()
    await gpus.start()
    await manager.until(2, 2)
    await gpus.say(**{f"replica_{'x' * 40}{n}": "Healthy" for n in range(80_000)})
    await manager.until(2, 0)


async def test_bytes_that_are_no_grpc_do_not_hurt_the_kubelet(manager: Manager, plugin: Build) -> None:
    gpus = plugin()
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(gpus._directory.short("kubelet.sock"))
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
    await gpus.start()
    await manager.until(2, 2)


# --- admission ------------------------------------------------------------------------------------------


async def test_a_pod_gets_devices_nobody_holds(manager: Manager, plugin: Build) -> None:
    gpus = plugin()
    await gpus.start()
    await manager.until(2, 2)
    first, second = await manager.admit(pod(gpus=1)), await manager.admit(pod(gpus=1))
    held = [manager.real.held_by(p["metadata"]["uid"], "main")[GPU] for p in (first, second)]
    assert sorted(ids[0] for ids in held) == ["gpu-0", "gpu-1"]
    options = manager.real.run_options(first["metadata"]["uid"], "main")
    assert options.envs == {"IDS": held[0][0]}


async def test_a_full_node_refuses_with_the_kubelets_words(manager: Manager, plugin: Build) -> None:
    await plugin().start()
    await manager.until(2, 2)
    await manager.admit(pod(gpus=1))
    with pytest.raises(Refused) as refused:
        await manager.admit(pod(gpus=2))
    assert str(refused.value) == (
        "requested number of devices unavailable for nvidia.com/gpu. Requested: 2, Available: 1"
    )


async def test_devices_of_a_finished_pod_are_free_for_the_next(manager: Manager, plugin: Build) -> None:
    await plugin().start()
    await manager.until(2, 2)
    first = await manager.admit(pod(gpus=2))
    manager.active.remove(first["metadata"]["uid"])
    await manager.admit(pod(gpus=2))


async def test_the_plugins_words_reach_the_refusal(manager: Manager, plugin: Build) -> None:
    await plugin(refuse_with="card is on fire: größe").start()
    await manager.until(2, 2)
    with pytest.raises(Refused, match="rpc error: code = Unknown desc = card is on fire: größe"):
        await manager.admit(pod(gpus=1))


async def test_a_plugin_that_is_gone_refuses_new_pods_only(manager: Manager, plugin: Build) -> None:
    gpus = plugin()
    await gpus.start()
    await manager.until(2, 2)
    old = await manager.admit(pod(gpus=1))
    await gpus.stop()
    await manager.until(2, 0)
    with pytest.raises(Refused, match="no healthy devices present; cannot allocate unhealthy devices"):
        await manager.admit(pod(gpus=1))
    assert manager.real.run_options(old["metadata"]["uid"], "main").envs


async def test_the_plugins_preference_is_followed_as_far_as_it_is_available(
    manager: Manager, plugin: Build
) -> None:
    gpus = plugin(devices=[f"gpu-{n}" for n in range(8)], prefer=["gpu-3", "gpu-5", "gpu-99"])
    await gpus.start()
    await manager.until(8, 8)
    wanted = await manager.admit(pod(gpus=2))
    assert set(manager.real.held_by(wanted["metadata"]["uid"], "main")[GPU]) == {"gpu-3", "gpu-5"}
    third = await manager.admit(pod(gpus=3))  # both preferred ones are taken: anything else will do
    assert len(manager.real.held_by(third["metadata"]["uid"], "main")[GPU]) == 3
    assert [call for call, _ in gpus.calls] == ["prefer", "allocate", "prefer", "allocate"]


async def test_devices_of_an_init_container_serve_the_container_after_it(
    manager: Manager, plugin: Build
) -> None:
    await plugin().start()
    await manager.until(2, 2)
    wanted = pod(gpus=2, init=[container("init", gpus=1)])
    await manager.admit(wanted)
    uid = wanted["metadata"]["uid"]
    assert set(manager.real.held_by(uid, "init")[GPU]) <= set(manager.real.held_by(uid, "main")[GPU])


async def test_for_the_same_key_path_or_name_the_first_resource_wins(manager: Manager, plugin: Build) -> None:
    def answer(who: str) -> api_pb2.ContainerAllocateResponse:
        return api_pb2.ContainerAllocateResponse(
            envs={"WHO": who, who: "yes"},
            mounts=[api_pb2.Mount(container_path="/same", host_path=f"/{who}")],
            devices=[api_pb2.DeviceSpec(container_path="/dev/same", host_path=f"/dev/{who}")],
            cdi_devices=[api_pb2.CDIDevice(name=f"vendor.com/gpu={who}")],
        )

    await plugin(GPU, answer=answer("first")).start()
    await plugin("example.com/nic", ["nic-0"], endpoint="nic.sock", answer=answer("second")).start()
    await manager.until(2, 2)
    await manager.until(1, 1, "example.com/nic")
    limits = {GPU: 1, "example.com/nic": 1}
    wanted = await manager.admit(pod(containers=[container(limits=limits)]))
    options = manager.real.run_options(wanted["metadata"]["uid"], "main")
    assert options.envs == {"WHO": "first", "first": "yes", "second": "yes"}
    assert [mount.host_path for mount in options.mounts] == ["/first"]
    assert [device.host_path for device in options.devices] == ["/dev/first"]
    assert options.cdi_devices == ("vendor.com/gpu=first", "vendor.com/gpu=second")


async def test_pre_start_is_called_where_the_plugin_asks_for_it(manager: Manager, plugin: Build) -> None:
    gpus = plugin(pre_start=True)
    await gpus.start()
    await manager.until(2, 2)
    wanted = await manager.admit(pod(gpus=1))
    await manager.real.pre_start(wanted["metadata"]["uid"], "main")
    assert [call for call, _ in gpus.calls] == ["allocate", "pre-start"]
    assert gpus.calls[0][1] == gpus.calls[1][1]


async def test_after_a_kubelet_restart_running_containers_keep_their_devices(
    manager: Manager, plugin: Build
) -> None:
    gpus = plugin()
    await gpus.start()
    await manager.until(2, 2)
    old = await manager.admit(pod(gpus=1))
    manager.running.add((old["metadata"]["uid"], "main"))
    before = manager.real.run_options(old["metadata"]["uid"], "main")
    await manager.restart()

    await manager.admit(old)  # the plugin is not back yet
    assert manager.real.run_options(old["metadata"]["uid"], "main") == before
    with pytest.raises(Refused, match="no healthy devices present"):
        await manager.admit(pod(gpus=1))

    await gpus.stop()
    await gpus.start()
    await manager.until(2, 2)
    with pytest.raises(Refused, match="Requested: 2, Available: 1"):
        await manager.admit(pod(gpus=2))
    assert len([call for call, _ in gpus.calls if call == "allocate"]) == 1


async def test_the_checkpoint_names_healthy_devices_and_each_device_under_its_numa_nodes(
    manager: Manager, plugin: Build
) -> None:
    gpus = plugin(devices=["gpu-0", "gpu-1", "gpu-2"], numa={"gpu-0": (0,), "gpu-1": (0, 1)})
    await gpus.start()
    await manager.until(3, 3)
    await gpus.say(gpu_2="Unhealthy")
    await manager.until(3, 2)
    await manager.admit(pod(gpus=2))
    data = json.loads((manager.directory / "kubelet_internal_checkpoint").read_text())["Data"]
    assert data["RegisteredDevices"] == {GPU: ["gpu-0", "gpu-1"]}
    by_numa = data["PodDeviceEntries"][0]["DeviceIDs"]
    assert {node: sorted(ids) for node, ids in by_numa.items()} == {"0": ["gpu-0", "gpu-1"], "1": ["gpu-1"]}


async def test_the_checkpoint_names_pods_devices_and_the_plugins_answer(
    manager: Manager, plugin: Build
) -> None:
    await plugin().start()
    await manager.until(2, 2)
    wanted = await manager.admit(pod(gpus=2))
    data = json.loads((manager.directory / "kubelet_internal_checkpoint").read_text())["Data"]
    (entry,) = data["PodDeviceEntries"]
    assert (entry["PodUID"], entry["ContainerName"]) == (wanted["metadata"]["uid"], "main")
    assert sorted(entry["DeviceIDs"]["-1"]) == ["gpu-0", "gpu-1"]
    assert entry["AllocResp"]
    assert data["RegisteredDevices"] == {GPU: ["gpu-0", "gpu-1"]}
