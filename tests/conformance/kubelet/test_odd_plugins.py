"""Plugins and devices that nobody expects, and a kubelet that starts again at a bad moment."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from grpclib.encoding.proto import ProtoCodec
from grpclib.exceptions import GRPCError
from tests.unit.sim_kubelet.plugins import Plugin

from gpuready_sim.client import NODES, PODS
from gpuready_sim.kubelet.protos.deviceplugin.v1beta1 import api_pb2
from gpuready_sim.kubelet.quantities import parse_quantity

from .kubelets import NAME
from .scene import NAMESPACE, Scene

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]


# --- lists ----------------------------------------------------------------------------------------------
async def test_thousands_of_devices_are_counted(scene: Scene) -> None:
    plugin = await scene.started([f"GPU-{n:05}" for n in range(20_000)])
    await plugin.say(**{f"GPU_{n:05}": "Unhealthy" for n in range(5_000)})
    await scene.until_gpus(20_000, 15_000)


async def test_a_thousand_lists_in_a_row_end_with_the_last_one(scene: Scene) -> None:
    plugin = await scene.started()
    for n in range(1_000):
        await plugin.say(gpu_1="Unhealthy" if n % 2 else "Healthy")
        await asyncio.sleep(0)
    await scene.until_gpus(2, 1)


async def test_a_device_that_is_listed_as_healthy_and_as_unhealthy_is_both(scene: Scene) -> None:
    class Undecided(Plugin):
        async def ListAndWatch(self, stream: Any) -> None:
            await stream.recv_message()
            both = [api_pb2.Device(ID="gpu-0", health=word) for word in ("Healthy", "Unhealthy")]
            await stream.send_message(api_pb2.ListAndWatchResponse(devices=both))
            await asyncio.Event().wait()

    plugin = scene.added(Undecided)
    await plugin.start()
    await scene.until_gpus(2, 1)
    assert await scene.held(await scene.running(gpus=1)) == {"gpu-0"}


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("", id="nothing"),
        pytest.param("a b/c=d,e:f\n\"'\\", id="signs of all kinds"),
        pytest.param("gpü-😀-" + "x" * 500, id="long and not English"),
        pytest.param("-1", id="a number"),
    ],
)
async def test_an_id_may_be_anything_that_is_text(scene: Scene, device: str) -> None:
    plugin = await scene.started([device])
    pod = await scene.running(gpus=1)
    assert plugin.calls == [("allocate", (device,))]
    assert await scene.held(pod) == {device}
    (entry,) = scene.checkpoint()["entries"]
    assert entry["DeviceIDs"] == {"-1": [device]}


async def test_an_id_that_is_no_text_breaks_the_stream(scene: Scene) -> None:
    class Garbling(Plugin):
        async def ListAndWatch(self, stream: Any) -> None:
            await stream.recv_message()
            await stream.send_message(
                api_pb2.ListAndWatchResponse(devices=[self._device("gpu-0", "Healthy")])
            )
            await says_more.wait()
            stream._codec = _Garbled()
            await stream.send_message(api_pb2.ListAndWatchResponse())
            await asyncio.Event().wait()

    says_more = asyncio.Event()
    await scene.added(Garbling).start()
    await scene.until_gpus(1, 1)
    says_more.set()
    await scene.until_gpus(1, 0)


class _Garbled(ProtoCodec):
    """Lists a device whose id is no UTF-8."""

    def encode(self, message: Any, message_type: Any) -> bytes:
        if isinstance(message, api_pb2.ListAndWatchResponse):
            return b"\x0a\x0d\x0a\x02\xff\xfe\x12\x07Healthy"
        return super().encode(message, message_type)


async def test_numa_nodes_that_the_machine_does_not_have_are_passed_on(scene: Scene) -> None:
    numa = {"gpu-0": (77,), "gpu-1": (-5,), "gpu-2": (-1,)}
    await scene.started(list(numa), numa=numa)
    pod = await scene.running(gpus=3)
    (container,) = (await scene.listed(pod)).containers
    listed = {
        one.device_ids[0]: [node.ID for node in one.topology.nodes]
        for one in container.devices
        if one.resource_name == scene.resource
    }
    assert listed == {"gpu-0": [77], "gpu-1": [-5], "gpu-2": []}
    (entry,) = scene.checkpoint()["entries"]
    assert entry["DeviceIDs"] == {"77": ["gpu-0"], "-5": ["gpu-1"], "-1": ["gpu-2"]}


# --- registrations --------------------------------------------------------------------------------------
async def test_two_sockets_that_register_one_name_at_once_share_it_until_one_of_them_ends(
    scene: Scene,
) -> None:
    plugins = [scene.plugin(["gpu-0", "gpu-1"]) for _ in range(2)]
    for plugin in plugins:
        await plugin.serve()
    await asyncio.gather(*(plugin.register() for plugin in plugins))
    await scene.until_gpus(2, 2)
    await plugins[0].stop()
    await scene.until_gpus(2, 0)
    await plugins[1].register()
    await scene.until_gpus(2, 2)


async def test_one_socket_may_serve_two_names(scene: Scene) -> None:
    plugin = await scene.started()
    plugin.resource = other = f"{scene.resource}-renamed"
    await plugin.register()
    await scene.until_gpus(2, 2, other)
    assert await scene.gpus() == ("2", "2")
    await plugin.stop()
    await scene.until_gpus(2, 0)
    await scene.until_gpus(2, 0, other)


async def test_a_renamed_resource_hands_out_again_what_the_old_name_handed_out(scene: Scene) -> None:
    """The kubelet knows devices by resource only: to it these are four."""
    old = await scene.started()
    first = await scene.running(gpus=2)
    await old.stop()
    new = f"{scene.resource}-renamed"
    await scene.started(resource=new, endpoint=old.endpoint)
    second = await scene.running(containers=[scene.container(limits={new: "2"})])
    assert await scene.held(first) == await scene.held(second, resource=new) == {"gpu-0", "gpu-1"}


@pytest.mark.parametrize("endpoint", ["deeper/plugin.sock", "../outside.sock", "a name with spaces"])
async def test_an_endpoint_is_a_path_from_the_directory(scene: Scene, endpoint: str) -> None:
    (scene.kubelet.plugin_dir / "deeper").mkdir(exist_ok=True)
    await scene.started(endpoint=endpoint)


async def test_a_plugin_that_never_tells_its_options_keeps_nobody_else_waiting(scene: Scene) -> None:
    class Silent(Plugin):
        async def GetDevicePluginOptions(self, stream: Any) -> None:
            await stream.recv_message()
            await asyncio.Event().wait()

    silent = scene.added(Silent, resource=f"{scene.resource}-silent")
    await silent.serve()
    waits = asyncio.create_task(silent.register())
    await scene.started(endpoint="other.sock")
    assert not waits.done()
    await silent.stop()
    with pytest.raises(GRPCError, match="failed to get device plugin options: rpc error: code = Unavailable"):
        await waits
    assert await scene.gpus(silent.resource) == (None, None)


async def test_a_socket_that_is_removed_while_its_plugin_is_followed_is_not_missed(scene: Scene) -> None:
    plugin = await scene.started()
    (scene.kubelet.plugin_dir / plugin.endpoint).unlink()
    await plugin.say(gpu_1="Unhealthy")
    await scene.until_gpus(2, 1)
    assert await scene.held(await scene.running(gpus=1)) == {"gpu-0"}


# --- allocation -----------------------------------------------------------------------------------------
async def test_a_plugin_that_does_not_answer_keeps_every_pod_waiting_until_it_does(scene: Scene) -> None:
    let_go = asyncio.Event()

    class Slow(Plugin):
        async def Allocate(self, stream: Any) -> None:
            await let_go.wait()
            await super().Allocate(stream)

    plugin = scene.added(Slow)
    await plugin.start()
    await scene.until_gpus(2, 2)
    slow, plain = await scene.pod(gpus=1), await scene.pod()
    other = await scene.started(resource=f"{scene.resource}-other", endpoint="other.sock")
    await other.say(gpu_0="Unhealthy")
    await scene.until_gpus(2, 1, other.resource)
    assert [await scene.phase(pod) for pod in (slow, plain)] == ["Pending", "Pending"]
    let_go.set()
    await scene.until_phase(slow, "Running")
    await scene.until_phase(plain, "Running")


async def test_of_several_answers_the_first_counts(scene: Scene) -> None:
    await scene.started(answers=3)
    assert "IDS=gpu-" in await scene.printed(limits={scene.resource: "1"})


@pytest.mark.parametrize(
    "prefer",
    [
        pytest.param(["unknown-1", "unknown-2"], id="devices that are nowhere"),
        pytest.param(["gpu-2", "gpu-2"], id="one device twice"),
        pytest.param(["gpu-3", "gpu-2"], id="one that is unhealthy"),
    ],
)
async def test_a_preference_that_cannot_be_is_filled_up(scene: Scene, prefer: list[str]) -> None:
    plugin = await scene.started(["gpu-0", "gpu-1", "gpu-2", "gpu-3"], prefer=prefer)
    await plugin.say(gpu_3="Unhealthy")
    await scene.until_gpus(4, 3)
    held = await scene.held(await scene.running(gpus=2))
    assert len(held) == 2
    assert held <= {"gpu-0", "gpu-1", "gpu-2"}
    assert held >= {"gpu-2"} & set(prefer)


async def test_a_preference_for_more_than_was_asked_is_cut(scene: Scene) -> None:
    await scene.started(["gpu-0", "gpu-1", "gpu-2"], prefer=["gpu-0", "gpu-2"])
    held = await scene.held(await scene.running(gpus=1))
    assert held in ({"gpu-0"}, {"gpu-2"})


async def test_what_a_refused_pod_had_got_already_is_free_for_the_next(scene: Scene) -> None:
    other = f"{scene.resource}-other"
    await scene.started()
    await scene.started(resource=other, endpoint="other.sock", refuse_with="never")
    both = [scene.container("first", gpus=2), scene.container("second", limits={other: "1"})]
    reason, message = await scene.refused(0, containers=both)
    assert (reason, message.count("never")) == ("UnexpectedAdmissionError", 1)
    assert await scene.held(await scene.running(gpus=2)) == {"gpu-0", "gpu-1"}


async def test_init_containers_and_sidecars_pass_devices_on_as_far_as_they_end(scene: Scene) -> None:
    await scene.started(["gpu-0", "gpu-1", "gpu-2"])
    ends = ["true"]
    pod = await scene.running(
        init=[
            scene.container("first", gpus=2, command=ends),
            scene.container("beside", gpus=1, restartPolicy="Always"),
            scene.container("second", gpus=2, command=ends),
        ],
        containers=[scene.container(gpus=1), scene.container("more", gpus=1)],
    )
    held = [await scene.held(pod, name) for name in ("beside", "main", "more")]
    assert [len(ids) for ids in held] == [1, 1, 1]
    assert set.union(*held) == {"gpu-0", "gpu-1", "gpu-2"}


async def test_a_sidecar_counts_beside_the_containers_of_its_pod(scene: Scene) -> None:
    node = await scene.kubelet.client.get(NODES, NAME)
    share = int(parse_quantity(node["status"]["allocatable"]["memory"]) * 2 / 5)
    asks = {"resources": {"requests": {"memory": str(share)}}}
    beside = scene.container("beside", restartPolicy="Always", **asks)
    await scene.running(init=[beside], containers=[scene.container(**asks)])
    reason, message = await scene.refused(0, containers=[scene.container(**asks)])
    assert reason == "OutOfmemory"
    assert f"requested: {share}, used: {2 * share}, " in message


async def test_a_container_that_starts_again_keeps_a_device_that_became_unhealthy(scene: Scene) -> None:
    plugin = await scene.started()
    crashing = scene.container(gpus=1, command=["sleep", "3"])
    pod = await scene.running(containers=[crashing])
    (device,) = await scene.held(pod)
    await plugin.say(**{device.replace("-", "_"): "Unhealthy"})
    await scene.until_gpus(2, 1)
    await scene.until_pod(pod, lambda seen: seen["status"]["containerStatuses"][0]["restartCount"] > 0)
    assert await scene.held(pod) == {device}
    assert plugin.calls == [("allocate", (device,))]


# --- a kubelet that starts again ------------------------------------------------------------------------
async def test_a_pod_that_is_ending_holds_its_devices_over_a_kubelet_restart(scene: Scene) -> None:
    plugin = await scene.started()
    takes_leave = {"preStop": {"exec": {"command": ["sleep", "15"]}}}
    busy = scene.container(gpus=2, lifecycle=takes_leave)
    pod = await scene.running(containers=[busy], terminationGracePeriodSeconds=30)
    await scene.kubelet.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
    await scene.restart_kubelet()
    await plugin.stop()
    await plugin.start()
    await scene.until_gpus(2, 2)
    reason, message = await scene.refused(2)
    assert reason == "UnexpectedAdmissionError"
    assert message.endswith(
        f"requested number of devices unavailable for {scene.resource}. Requested: 2, Available: 0, "
        "which is unexpected"
    )


def _truncate(text: str) -> str:
    return text[: len(text) // 2]


def _forget(text: str) -> str:
    """Its entries are gone, by somebody's hand: the checksum is another one's."""
    found = json.loads(text)
    return json.dumps({**found, "Data": {**found["Data"], "PodDeviceEntries": []}})


def _as_before_1_20(text: str) -> str:
    """Ids as a list, as long as kubelets knew no NUMA nodes."""
    found = json.loads(text)
    for entry in found["Data"]["PodDeviceEntries"]:
        entry["DeviceIDs"] = [one for ids in entry["DeviceIDs"].values() for one in ids]
    return json.dumps(found)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_truncate, id="cut off"),
        pytest.param(_forget, id="edited"),
        pytest.param(_as_before_1_20, id="of an old version"),
        pytest.param(lambda text: "", id="empty"),
    ],
)
async def test_a_checkpoint_that_cannot_be_read_is_passed_over(scene: Scene, spoil: Any) -> None:
    """The kubelet does not know who holds what any more; the pod runs on, and counts by what it asked for."""
    plugin = await scene.started()
    pod = await scene.running(gpus=1)
    file = scene.kubelet.plugin_dir / "kubelet_internal_checkpoint"
    file.write_text(spoil(file.read_text()))
    await scene.restart_kubelet()
    await plugin.stop()
    await plugin.start()
    await scene.until_gpus(2, 2)
    assert await scene.held(pod) == set()
    assert scene.checkpoint()["entries"] == []
    assert (await scene.refused(2)) == (
        f"OutOf{scene.resource}",
        f"Pod was rejected: Node didn't have enough resource: {scene.resource}, requested: 2, used: 1, "
        "capacity: 2",
    )
    assert (await scene.until_phase(pod, "Running"))["status"]["containerStatuses"][0]["restartCount"] == 0
