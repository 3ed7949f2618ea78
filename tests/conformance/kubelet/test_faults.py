"""Plugins that misbehave, and answers that the runtime cannot carry out."""

from __future__ import annotations

import json

import pytest
from grpclib.exceptions import GRPCError

from gpuready_sim.client import Object
from gpuready_sim.kubelet.protos.deviceplugin.v1beta1 import api_pb2

from .scene import Scene

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]


def waiting(pod: Object) -> Object:
    """Why its container waits."""
    (main,) = pod["status"].get("containerStatuses") or ({},)
    return dict((main.get("state") or {}).get("waiting") or {})


async def until_waiting(scene: Scene, reason: str) -> str:
    """The message of a pod with one device whose container waits for this reason."""
    pod = await scene.pod(gpus=1)
    return str(
        waiting(await scene.until_pod(pod, lambda seen: waiting(seen).get("reason") == reason))["message"]
    )


async def test_a_plugin_that_does_not_tell_its_options_is_not_registered(scene: Scene) -> None:
    plugin = scene.plugin(options_fail_with="not today")
    await plugin.serve()
    with pytest.raises(GRPCError) as refused:
        await plugin.register()
    assert refused.value.message == (
        "failed to get device plugin options: rpc error: code = Unknown desc = not today"
    )
    assert await scene.gpus() == (None, None)


async def test_a_plugin_that_never_lists_has_no_devices(scene: Scene) -> None:
    await scene.plugin(list_fails_with="no list").start()
    await scene.until_gpus(0, 0)


async def test_a_device_that_is_listed_twice_counts_once(scene: Scene) -> None:
    plugin = scene.plugin(repeat=2)
    await plugin.start()
    await scene.until_gpus(2, 2)


async def test_a_limit_of_zero_asks_nobody(scene: Scene) -> None:
    plugin = await scene.started()
    await scene.running(containers=[scene.container(limits={scene.resource: "0"})])
    assert plugin.calls == []


async def test_a_plugin_that_dies_while_it_is_asked_refuses_the_pod(scene: Scene) -> None:
    plugin = await scene.started(dies_in_allocate=True)
    reason, message = await scene.refused(gpus=1)
    assert reason == "UnexpectedAdmissionError"
    assert "Allocate failed due to rpc error: code = Unavailable desc = error reading from server" in message
    assert plugin.calls[0][0] == "allocate"
    await scene.until_gpus(2, 0)


async def test_a_plugin_that_fails_before_the_start_keeps_the_container_waiting(scene: Scene) -> None:
    await scene.started(pre_start=True, pre_start_fails_with="too hot")
    assert await until_waiting(scene, "CreateContainerConfigError") == (
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = too hot"
    )


async def test_a_cdi_device_that_no_file_describes_keeps_the_container_waiting(scene: Scene) -> None:
    answer = api_pb2.ContainerAllocateResponse(cdi_devices=[api_pb2.CDIDevice(name="example.com/gpu=none")])
    await scene.started(answer=answer)
    message = await until_waiting(scene, "CreateContainerError")
    assert "CDI device injection failed: unresolvable CDI devices example.com/gpu=none" in message


async def test_a_cdi_device_brings_its_variables_and_mounts(scene: Scene) -> None:
    kind = f"example.com/{scene.name}"
    spec = {
        "cdiVersion": "0.6.0",
        "kind": kind,
        "devices": [{"name": "a", "containerEdits": {"env": ["DEVICE=a"]}}],
        "containerEdits": {
            "env": ["ALL=1"],
            "mounts": [
                {
                    "hostPath": "/etc/hostname",
                    "containerPath": "/brought",
                    "options": ["ro", "nosuid", "bind"],
                }
            ],
        },
    }
    file = scene.kubelet.host("/var/run/cdi") / f"{scene.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(spec))
    answer = api_pb2.ContainerAllocateResponse(
        envs={"BY": "plugin"}, cdi_devices=[api_pb2.CDIDevice(name=f"{kind}=a")]
    )
    await scene.started(answer=answer)
    lines = (await scene.printed(gpus=1)).splitlines()
    assert {"ALL=1", "DEVICE=a", "BY=plugin"} <= set(lines)
    file.unlink()


async def test_a_mount_that_is_not_there_is_made_as_an_empty_directory(scene: Scene) -> None:
    """A plugin that gives a wrong path gets no error: the container sees nothing there."""
    mount = api_pb2.Mount(container_path="/in", host_path=f"/not/{scene.name}")
    await scene.started(answer=api_pb2.ContainerAllocateResponse(mounts=[mount]))
    await scene.running(gpus=1)
    assert scene.kubelet.host(f"/not/{scene.name}").is_dir()


async def test_a_device_node_that_is_not_there_keeps_the_container_waiting(scene: Scene) -> None:
    device = api_pb2.DeviceSpec(container_path="/dev/none", host_path="/dev/none", permissions="rw")
    await scene.started(answer=api_pb2.ContainerAllocateResponse(devices=[device]))
    assert "/dev/none" in await until_waiting(scene, "CreateContainerError")
