"""Which devices a container gets, what the plugin is asked, and why a pod is refused."""

from __future__ import annotations

import base64
import json

import pytest

from gpuready_sim.client import Object
from gpuready_sim.kubelet.protos.deviceplugin.v1beta1 import api_pb2

from .scene import Scene

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

REFUSED = "UnexpectedAdmissionError"


def refusal(text: str) -> tuple[str, str]:
    return REFUSED, f"Pod was rejected: Allocate failed due to {text}, which is unexpected"


async def test_a_container_gets_what_the_plugin_answers(scene: Scene) -> None:
    plugin = await scene.started()
    lines = (await scene.printed(gpus=1)).splitlines()
    ((_, ids),) = plugin.calls
    assert f"IDS={ids[0]}" in lines


async def test_two_pods_get_devices_of_their_own(scene: Scene) -> None:
    await scene.started()
    pods = [await scene.running(gpus=1), await scene.running(gpus=1)]
    assert [await scene.held(pod) for pod in pods] in ([{"gpu-0"}, {"gpu-1"}], [{"gpu-1"}, {"gpu-0"}])


async def test_two_containers_of_one_pod_get_devices_of_their_own(scene: Scene) -> None:
    plugin = await scene.started()
    pod = await scene.running(containers=[scene.container("a", gpus=1), scene.container("b", gpus=1)])
    assert await scene.held(pod, "a") | await scene.held(pod, "b") == {"gpu-0", "gpu-1"}
    assert [len(ids) for _, ids in plugin.calls] == [1, 1]


async def test_a_full_node_refuses(scene: Scene) -> None:
    await scene.started()
    await scene.running(gpus=1)
    assert await scene.refused(gpus=2) == refusal(
        f"requested number of devices unavailable for {scene.resource}. Requested: 2, Available: 1"
    )


async def test_an_unhealthy_device_is_not_handed_out(scene: Scene) -> None:
    plugin = await scene.started()
    await plugin.say(gpu_0="Unhealthy")
    await scene.until_gpus(2, 1)
    assert await scene.held(await scene.running(gpus=1)) == {"gpu-1"}


async def test_a_pod_whose_device_becomes_unhealthy_runs_on_and_says_so(scene: Scene) -> None:
    plugin = await scene.started()
    pod = await scene.running(gpus=2)
    await plugin.say(gpu_1="Unhealthy")

    def told(seen: Object) -> bool:
        return health(seen) == {"gpu-0": "Healthy", "gpu-1": "Unhealthy"}

    def health(seen: Object) -> dict[str, str]:
        (main,) = seen["status"]["containerStatuses"]
        rows = main.get("allocatedResourcesStatus") or []
        return {r["resourceID"]: r["health"] for row in rows for r in row["resources"]}

    seen = await scene.until_pod(pod, told)
    assert seen["status"]["phase"] == "Running"
    assert await scene.held(pod) == {"gpu-0", "gpu-1"}


async def test_devices_of_a_finished_pod_are_free_for_the_next(scene: Scene) -> None:
    await scene.started()
    containers = [scene.container(gpus=2, command=["true"])]
    done = await scene.pod(containers=containers, restartPolicy="Never")
    await scene.until_phase(done, "Succeeded")
    assert await scene.held(await scene.running(gpus=2)) == {"gpu-0", "gpu-1"}


async def test_devices_of_a_deleted_pod_are_free_for_the_next(scene: Scene) -> None:
    await scene.started()
    await scene.gone(await scene.running(gpus=2))
    await scene.running(gpus=2)


async def test_a_container_that_starts_again_keeps_its_devices_and_the_plugin_is_not_asked(
    scene: Scene,
) -> None:
    plugin = await scene.started()
    pod = await scene.pod(containers=[scene.container(gpus=1, command=["true"])])
    await scene.until_pod(
        pod, lambda seen: seen["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 1
    )
    assert [call for call, _ in plugin.calls] == ["allocate"]
    assert await scene.held(pod) == set(plugin.calls[0][1])


async def test_the_plugins_words_reach_the_pod(scene: Scene) -> None:
    await scene.started(refuse_with="card is on fire: größe")
    assert await scene.refused(gpus=1) == refusal("rpc error: code = Unknown desc = card is on fire: größe")


async def test_an_answer_for_no_container_is_refused(scene: Scene) -> None:
    await scene.started(answers=0)
    reason, message = await scene.refused(gpus=1)
    assert reason == REFUSED
    assert "no containers return in allocation response" in message


async def test_a_plugin_that_is_gone_refuses_new_pods_only(scene: Scene) -> None:
    plugin = await scene.started()
    old = await scene.running(gpus=1)
    await plugin.stop()
    await scene.until_gpus(2, 0)
    assert await scene.refused(gpus=1) == refusal(
        f"no healthy devices present; cannot allocate unhealthy devices {scene.resource}"
    )
    assert len(await scene.held(old)) == 1


async def test_a_resource_that_nobody_ever_registered_is_not_the_kubelets_business(scene: Scene) -> None:
    pod = await scene.running(gpus=1)
    assert await scene.held(pod) == set()


async def test_the_plugins_preference_is_followed_as_far_as_it_is_available(scene: Scene) -> None:
    plugin = await scene.started([f"gpu-{n}" for n in range(8)], prefer=["gpu-3", "gpu-5", "gpu-99"])
    assert await scene.held(await scene.running(gpus=2)) == {"gpu-3", "gpu-5"}
    third = await scene.held(await scene.running(gpus=3))  # both preferred ones are taken
    assert len(third - {"gpu-3", "gpu-5"}) == 3
    assert [call for call, _ in plugin.calls] == ["prefer", "allocate", "prefer", "allocate"]
    assert len(plugin.calls[0][1]) == 8
    assert len(plugin.calls[2][1]) == 6


async def test_the_plugin_is_asked_even_when_there_is_no_choice(scene: Scene) -> None:
    plugin = await scene.started(prefer=[])
    await scene.running(gpus=2)
    assert [call for call, _ in plugin.calls] == ["prefer", "allocate"]


async def test_a_plugin_that_fails_to_prefer_refuses_the_pod(scene: Scene) -> None:
    await scene.started(prefer=[], prefer_fails_with="no idea")
    assert await scene.refused(gpus=1) == refusal(
        "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown desc = no idea"
    )


async def test_devices_of_an_init_container_serve_the_container_after_it(scene: Scene) -> None:
    plugin = await scene.started([f"gpu-{n}" for n in range(3)])
    init = [scene.container("init", gpus=1, command=["true"])]
    pod = await scene.running(gpus=2, init=init)
    first, second = (set(ids) for _, ids in plugin.calls)
    assert first < second
    assert await scene.held(pod) == second


async def test_a_sidecar_keeps_its_devices(scene: Scene) -> None:
    await scene.started([f"gpu-{n}" for n in range(3)])
    init = [scene.container("side", gpus=1, restartPolicy="Always")]
    pod = await scene.running(gpus=2, init=init)
    assert await scene.held(pod, "side") | await scene.held(pod) == {"gpu-0", "gpu-1", "gpu-2"}


async def test_for_the_same_key_or_path_one_resource_wins(scene: Scene) -> None:
    """Which of them is chance in the real kubelet: it walks through a Go map."""

    def answer(who: str) -> api_pb2.ContainerAllocateResponse:
        return api_pb2.ContainerAllocateResponse(
            envs={"WHO": who, who: "yes"},
            mounts=[api_pb2.Mount(container_path="/same", host_path="/etc/os-release", read_only=True)],
        )

    other = f"{scene.resource}-nic"
    await scene.started(answer=answer("first"))
    await scene.started(["nic-0"], resource=other, answer=answer("second"))
    limits = {scene.resource: "1", other: "1"}
    lines = (await scene.printed(limits=limits)).splitlines()
    assert {"first=yes", "second=yes"} < set(lines)
    assert len([line for line in lines if line.startswith("WHO=")]) == 1


async def test_pre_start_is_called_before_each_start_where_the_plugin_asks_for_it(scene: Scene) -> None:
    plugin = await scene.started(pre_start=True)
    pod = await scene.pod(containers=[scene.container(gpus=1, command=["true"])])
    await scene.until_pod(
        pod, lambda seen: seen["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 1
    )
    assert [call for call, _ in plugin.calls[:3]] == ["allocate", "pre-start", "pre-start"]
    assert len({ids for _, ids in plugin.calls}) == 1


async def test_after_a_kubelet_restart_running_containers_keep_their_devices(scene: Scene) -> None:
    plugin = await scene.started()
    old = await scene.running(gpus=1)
    before = await scene.held(old)
    await scene.restart_kubelet()
    await scene.until_gpus(0, 0)
    assert await scene.refused(gpus=1) == refusal(
        f"no healthy devices present; cannot allocate unhealthy devices {scene.resource}"
    )
    await plugin.stop()
    await plugin.start()
    await scene.until_gpus(2, 2)
    assert await scene.held(old) == before
    assert await scene.refused(gpus=2) == refusal(
        f"requested number of devices unavailable for {scene.resource}. Requested: 2, Available: 1"
    )
    seen = await scene.until_phase(old, "Running")
    assert seen["status"]["containerStatuses"][0]["restartCount"] == 0
    assert [call for call, _ in plugin.calls] == ["allocate"]


async def test_the_checkpoint_names_pods_devices_and_the_plugins_answer(scene: Scene) -> None:
    await scene.started(numa={"gpu-0": (0,), "gpu-1": (0, 1)})
    pod = await scene.running(gpus=2)
    (entry,) = scene.checkpoint()["entries"]
    assert (entry["PodUID"], entry["ContainerName"]) == (pod["metadata"]["uid"], "main")
    assert {numa: sorted(ids) for numa, ids in entry["DeviceIDs"].items()} == {
        "0": ["gpu-0", "gpu-1"],
        "1": ["gpu-1"],
    }
    answer = api_pb2.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
    assert json.dumps(dict(answer.envs)) == '{"IDS": "gpu-0,gpu-1"}'
