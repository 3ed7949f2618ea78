"""How device plugins come, go and come again, and what the Node says of their devices."""

from __future__ import annotations

import os
import socket

import pytest
from grpclib.exceptions import GRPCError

from gpuready_sim.kubelet.sockets import Directory

from .scene import Scene

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]


async def test_a_registered_plugin_gives_the_node_its_devices(scene: Scene) -> None:
    assert await scene.gpus() == (None, None)
    await scene.plugin().start()
    await scene.until_gpus(2, 2)


async def test_an_unhealthy_device_leaves_allocatable_but_stays_in_capacity(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.say(gpu_1="Unhealthy")
    await scene.until_gpus(2, 1)
    await plugin.say(gpu_1="Healthy")
    await scene.until_gpus(2, 2)


async def test_any_other_word_than_healthy_means_unhealthy(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.say(gpu_1="healthy")
    await scene.until_gpus(2, 1)


async def test_a_device_that_is_no_longer_listed_leaves_capacity_too(scene: Scene) -> None:
    plugin = await scene.started()
    del plugin.devices["gpu-1"]
    await plugin.say()
    await scene.until_gpus(1, 1)


async def test_an_empty_list_is_a_resource_without_devices(scene: Scene) -> None:
    plugin = await scene.started()
    plugin.devices.clear()
    await plugin.say()
    await scene.until_gpus(0, 0)


@pytest.mark.parametrize(
    ("version", "resource", "text"),
    [
        pytest.param(
            "v1alpha1",
            "example.com/gpu",
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="an old version",
        ),
        pytest.param(
            "",
            "example.com/gpu",
            'requested API version "" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="no version",
        ),
        pytest.param("v1beta1", "gpu", 'the ResourceName "gpu" is invalid', id="no domain"),
        pytest.param("v1beta1", "", 'the ResourceName "" is invalid', id="no name"),
        pytest.param(
            "v1beta1",
            "kubernetes.io/gpu",
            'the ResourceName "kubernetes.io/gpu" is invalid',
            id="a reserved domain",
        ),
        pytest.param(
            "v1beta1",
            "requests.example.com/gpu",
            'the ResourceName "requests.example.com/gpu" is invalid',
            id="the prefix of quotas",
        ),
        pytest.param("v1beta1", "a.b/c d", 'the ResourceName "a.b/c d" is invalid', id="a space"),
        pytest.param(
            "v1beta1", f"a.b/{'x' * 64}", f'the ResourceName "a.b/{"x" * 64}" is invalid', id="too long"
        ),
    ],
)
async def test_a_bad_registration_is_refused(scene: Scene, version: str, resource: str, text: str) -> None:
    plugin = scene.plugin(resource=resource)
    await plugin.serve()
    with pytest.raises(GRPCError) as refused:
        await plugin.register(version)
    assert refused.value.message == text
    assert refused.value.status.name == "UNKNOWN"


async def test_a_plugin_that_registers_before_it_serves_is_told_so(scene: Scene) -> None:
    with pytest.raises(GRPCError) as refused:
        await scene.plugin().register()
    assert refused.value.message == "failed to dial device plugin: context deadline exceeded"


async def test_a_lost_plugin_leaves_its_capacity(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.stop()
    await scene.until_gpus(2, 0)


@pytest.mark.skipif(
    not os.environ.get("CONFORMANCE_SLOW"), reason="takes five minutes: set CONFORMANCE_SLOW=1"
)
@pytest.mark.timeout(420)
async def test_a_plugin_that_stays_away_for_five_minutes_leaves_zero(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.stop()
    await scene.until_gpus(2, 0)
    await scene.until_gpus(0, 0, deadline_s=360)
    await plugin.start()
    await scene.until_gpus(2, 2)


async def test_a_plugin_that_comes_back_restores_allocatable(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.stop()
    await scene.until_gpus(2, 0)
    await plugin.start()
    await scene.until_gpus(2, 2)


async def test_a_plugin_that_ends_its_stream_politely_is_lost_too(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.end_streams()
    await scene.until_gpus(2, 0)


async def test_the_end_of_an_old_stream_disconnects_the_newer_plugin_of_the_same_name(scene: Scene) -> None:
    old = await scene.started()
    new = scene.plugin(["gpu-0"])
    await new.start()
    await scene.until_gpus(1, 1)
    await old.end_streams()
    await scene.until_gpus(1, 0)
    await new.register()
    await scene.until_gpus(1, 1)


async def test_after_a_failed_registration_the_loss_of_the_plugin_that_works_is_not_noticed(
    scene: Scene,
) -> None:
    """The kubelet forgets the working client together with the one that it could not dial."""
    works = await scene.started()
    with pytest.raises(GRPCError):
        await scene.plugin().register()
    await works.stop()
    other = await scene.started(resource=f"{scene.resource}-other")
    await other.stop()
    await scene.until_gpus(2, 0, other.resource)
    assert await scene.gpus() == ("2", "2")


async def test_a_kubelet_restart_removes_the_plugins_sockets_and_waits_for_them(scene: Scene) -> None:
    plugin = await scene.started()
    directory = scene.kubelet.plugin_dir
    (directory / "a-file").touch()
    (directory / "a-directory").mkdir(exist_ok=True)
    await scene.restart_kubelet()
    assert not (directory / plugin.endpoint).exists()
    assert (directory / "a-file").exists()
    assert (directory / "a-directory").is_dir()
    assert (directory / "kubelet.sock").is_socket()
    await scene.until_gpus(0, 0)
    await plugin.stop()
    await plugin.start()
    await scene.until_gpus(2, 2)


async def test_two_resources_come_and_go_on_their_own(scene: Scene) -> None:
    await scene.started()
    shared = await scene.started(
        [f"gpu-2::{n}" for n in range(5)], resource=f"{scene.resource}.shared", endpoint=f"{scene.name}.s"
    )
    await shared.stop()
    await scene.until_gpus(5, 0, shared.resource)
    assert await scene.gpus() == ("2", "2")


async def test_a_list_over_four_mebibytes_breaks_the_stream(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.say(**{f"replica_{'x' * 40}{n}": "Healthy" for n in range(80_000)})
    await scene.until_gpus(2, 0)


async def test_bytes_that_are_no_grpc_do_not_hurt_the_kubelet(scene: Scene) -> None:
    directory = Directory(scene.kubelet.plugin_dir)
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(directory.short("kubelet.sock"))
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
    directory.close()
    await scene.started()


async def test_the_checkpoint_names_the_healthy_devices_of_each_resource(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.say(gpu_1="Unhealthy")
    await scene.until_gpus(2, 1)
    assert scene.checkpoint()["registered"] == {scene.resource: ["gpu-0"]}
