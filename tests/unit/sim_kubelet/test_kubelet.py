"""The kubelet against an API server: Node, pods, volumes, probes, deletion, restart and reboot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuready_sim.client import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, ApiStatus, Object, SimClient
from gpuready_sim.hardware import machine
from gpuready_sim.kubelet.node_writer import RegistrationRefused

from .conftest import FAST, Node, until, watch_until
from .plugins import Plugin
from .pods import container, pod

SLEEP = ["sleep", "infinity"]


def sleeper(name: str = "main", **more: Any) -> Object:
    return container(name, image="any", command=SLEEP, **more)


def state_of(pod: Object, name: str = "main") -> Object:
    status = pod["status"]
    listed = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next((dict(c["state"]) for c in listed if c["name"] == name), {})


def reason_of(pod: Object, name: str = "main") -> str:
    return next((s.get("reason", "") for s in state_of(pod, name).values()), "")


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


# --- the node -------------------------------------------------------------------------------------------


async def test_a_node_says_what_it_is(make_node: Callable[..., Any], client: SimClient) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    made = await make_node(labels={"pool": "a"}, taints=[taint])
    node = await client.get(NODES, made.name)
    info = node["status"]["nodeInfo"]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == made.name
    assert node["metadata"]["labels"]["pool"] == "a"
    assert taint in node["spec"]["taints"]  # beside the one of a node not yet seen Ready
    assert (info["osImage"], info["kernelVersion"]) == ("Ubuntu 22.04", "5.15.0-113-generic")
    assert info["containerRuntimeVersion"] == "containerd://2.1.9"
    assert info["bootID"] == (made.root / "proc/sys/kernel/random/boot_id").read_text().strip()
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    lease = await until(client, LEASES, made.name, lambda lease: True, "kube-node-lease")
    assert lease["spec"]["holderIdentity"] == made.name


async def test_a_node_that_the_server_never_accepts_does_not_start_and_says_why(
    make_node: Callable[..., Any],
) -> None:
    with pytest.raises(RegistrationRefused) as caught:
        await make_node(labels={"b ad": "1"})
    assert "cannot be registered" in caught.value.what
    assert "b ad" in caught.value.why


async def test_device_changes_reach_the_node_at_once(gpu_node: tuple[Node, Plugin]) -> None:
    node, plugin = gpu_node
    await plugin.say(gpu_1="Unhealthy")
    seen = await node.until_node(lambda n: n["status"]["allocatable"].get("nvidia.com/gpu") == "1")
    assert seen["status"]["capacity"]["nvidia.com/gpu"] == "2"


@pytest.fixture
async def gpu_node(make_node: Callable[..., Any]) -> AsyncIterator[tuple[Node, Plugin]]:
    node = await make_node(gpus=2)
    plugin = Plugin(node.root / "var/lib/kubelet/device-plugins")
    await plugin.start()
    await node.until_node(lambda n: n["status"]["allocatable"].get("nvidia.com/gpu") == "2")
    yield node, plugin
    await plugin.stop()


# --- a pod's life ---------------------------------------------------------------------------------------


async def test_a_pod_runs_becomes_ready_and_has_the_nodes_address(node: Node) -> None:
    made = await node.run(pod(containers=[sleeper()]))
    seen = await node.until_pod(made, is_ready)
    assert seen["status"]["phase"] == "Running"
    assert seen["status"]["podIP"] == seen["status"]["hostIP"] == node.kubelet.identity.address
    assert seen["status"]["containerStatuses"][0]["started"] is True
    for reason in ("Pulled", "Created", "Started"):
        await node.until_event(made, reason, "")


async def test_a_deleted_pod_ends_its_process_and_is_gone(node: Node, client: SimClient) -> None:
    made = await node.run(pod(containers=[sleeper()]))
    await node.until_pod(made, is_ready)
    running = node.kubelet.find_container("default", made["metadata"]["name"], "main")
    assert running is not None
    await client.delete(PODS, made["metadata"]["name"], "default")
    await node.until_gone(made)
    assert running.exit_code == 143
    await node.until_event(made, "Killing", "Stopping container main")


async def test_a_finished_pod_succeeds_or_fails_by_its_exit_code(node: Node) -> None:
    good = await node.run(pod(containers=[container(image="any", command=["true"])], restartPolicy="Never"))
    bad = await node.run(pod(containers=[container(image="any", command=["false"])], restartPolicy="Never"))
    assert reason_of(await node.until_phase(good, "Succeeded")) == "Completed"
    assert reason_of(await node.until_phase(bad, "Failed")) == "Error"


async def test_a_container_that_keeps_failing_backs_off(node: Node) -> None:
    made = await node.run(pod(containers=[container(image="any", command=["false"])]))
    seen = await node.until_pod(made, lambda p: reason_of(p) == "CrashLoopBackOff")
    assert seen["status"]["phase"] == "Running"
    status = seen["status"]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["exitCode"] == 1
    text = f"restarting failed container=main pod={made['metadata']['name']}_default("
    assert text in status["state"]["waiting"]["message"]
    await node.until_pod(made, lambda p: p["status"]["containerStatuses"][0]["restartCount"] >= 2)


async def test_an_unknown_image_is_refused_with_the_list(node: Node) -> None:
    made = await node.run(pod(containers=[container(image="nginx:1", command=["nginx"])]))
    seen = await node.until_pod(made, lambda p: reason_of(p) == "CreateContainerError")
    assert seen["status"]["phase"] == "Pending"
    assert "the simulator runs only" in state_of(seen)["waiting"]["message"]
    await node.until_event(made, "Failed", "the simulator runs only")


async def test_a_driver_that_was_never_released_cannot_be_pulled(node: Node) -> None:
    image = "nvcr.io/nvidia/driver:999.1.2-ubuntu22.04"
    made = await node.run(pod(containers=[container(image=image, args=["init"])]))
    first = await node.until_pod(made, lambda p: reason_of(p) == "ErrImagePull")
    then = await node.until_pod(made, lambda p: reason_of(p) == "ImagePullBackOff")

    not_found = f'failed to resolve reference "{image}": {image}: not found'
    assert state_of(first)["waiting"]["message"].endswith(not_found)
    assert state_of(then)["waiting"]["message"].startswith(
        f'Back-off pulling image "{image}": ErrImagePull: '
    )
    await node.until_event(made, "Failed", f'Failed to pull image "{image}": rpc error: code = NotFound')
    await node.until_event(made, "BackOff", f'Back-off pulling image "{image}"')


async def test_nvidia_smi_without_a_gpu_is_a_run_error(node: Node) -> None:
    made = await node.run(
        pod(containers=[container(image="cuda", command=["nvidia-smi"])], restartPolicy="Never")
    )
    seen = await node.until_phase(made, "Failed")
    assert reason_of(seen) == "StartError"
    assert 'exec: "nvidia-smi": executable file not found' in state_of(seen)["terminated"]["message"]


async def test_init_containers_run_in_order_before_the_others(
    node: Node, config_map: Callable[..., Any]
) -> None:
    init = [container("one", image="any", command=["true"]), container("two", image="any", command=SLEEP)]
    made = await node.run(pod(containers=[sleeper()], init=init))
    seen = await node.until_pod(made, lambda p: "running" in state_of(p, "two"))
    assert reason_of(seen, "one") == "Completed"
    assert reason_of(seen) == "PodInitializing"
    assert seen["status"]["phase"] == "Pending"
    second = node.kubelet.find_container("default", made["metadata"]["name"], "two")
    assert second is not None
    second.terminate()  # 143: on failure an init container runs again
    await node.until_pod(
        made, lambda p: any(c["restartCount"] == 1 for c in p["status"]["initContainerStatuses"])
    )


# --- environment and volumes ----------------------------------------------------------------------------


async def test_the_environment_is_composed_from_fields_and_config_maps(
    node: Node, config_map: Callable[..., Any]
) -> None:
    await config_map("settings", level="debug")
    env = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
        {"name": "ALL", "value": "$(NODE) $(IP) $(LEVEL) $(KUBERNETES_SERVICE_HOST) $(UNKNOWN) $$(NODE)"},
    ]
    made = await node.run(
        pod(containers=[container(image="any", command=["printenv", "ALL"], env=env)], restartPolicy="Never")
    )
    await node.until_phase(made, "Succeeded")
    ip = node.kubelet.identity.address
    log = await logs(node, made)
    assert log == f"{node.name} {ip} debug 127.0.0.1 $(UNKNOWN) $(NODE)\n"


async def test_a_missing_key_is_a_config_error_until_it_is_there(
    node: Node, config_map: Callable[..., Any]
) -> None:
    reference = {"configMapKeyRef": {"name": "later", "key": "x"}}
    env = [{"name": "X", "valueFrom": reference}]
    made = await node.run(pod(containers=[sleeper(env=env)]))
    seen = await node.until_pod(made, lambda p: reason_of(p) == "CreateContainerConfigError")
    assert state_of(seen)["waiting"]["message"] == 'configmap "later" not found'
    await config_map("later", x="1")
    await node.until_pod(made, is_ready)


async def test_a_config_map_volume_changes_with_its_config_map(
    node: Node, client: SimClient, config_map: Callable[..., Any]
) -> None:
    await config_map("plugin-config", default="one")
    volumes = [{"name": "config", "configMap": {"name": "plugin-config"}}]
    mounts = [{"name": "config", "mountPath": "/config"}]
    made = await node.run(pod(containers=[sleeper(volumeMounts=mounts)], volumes=volumes))
    await node.until_pod(made, is_ready)
    running = node.kubelet.find_container("default", made["metadata"]["name"], "main")
    assert running is not None
    file = running.root.path / "config/default"
    assert file.read_text() == "one"
    await client.merge_patch(
        CONFIG_MAPS, "plugin-config", {"data": {"default": "two", "new": "x"}}, "default"
    )
    async with asyncio.timeout(30):
        while file.read_text() != "two":
            await asyncio.sleep(0.02)
    assert (file.parent / "new").read_text() == "x"


async def test_a_volume_that_cannot_be_mounted_says_why_and_waits(
    node: Node, config_map: Callable[..., Any]
) -> None:
    volumes = [{"name": "cfg", "configMap": {"name": "absent"}}]
    made = await node.run(pod(containers=[sleeper()], volumes=volumes))
    text = 'MountVolume.SetUp failed for volume "cfg" : configmap "absent" not found'
    await node.until_event(made, "FailedMount", text)
    await config_map("absent", x="1")
    await node.until_pod(made, is_ready)

    volumes = [{"name": "h", "hostPath": {"path": "/etc/os-release", "type": "Directory"}}]
    made = await node.run(pod(containers=[sleeper()], volumes=volumes))
    await node.until_event(
        made, "FailedMount", "hostPath type check failed: /etc/os-release is not a directory"
    )


async def test_host_paths_tokens_and_the_downward_api_are_files(node: Node) -> None:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    volumes = [
        {"name": "host", "hostPath": {"path": "/"}},
        {"name": "run", "hostPath": {"path": "/run/gpuready", "type": "DirectoryOrCreate"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "sa", "projected": {"sources": [token, {"downwardAPI": {"items": [label]}}]}},
    ]
    places = {
        "host": "/host",
        "run": "/run/gpuready",
        "scratch": "/work",
        "sa": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    mounts = [{"name": name, "mountPath": path} for name, path in places.items()]
    wanted = pod(containers=[sleeper(volumeMounts=mounts)], volumes=volumes)
    wanted["metadata"]["labels"] = {"app": "x"}
    made = await node.run(wanted)
    await node.until_pod(made, is_ready)
    running = node.kubelet.find_container("default", made["metadata"]["name"], "main")
    assert running is not None
    root = running.root.path
    assert (root / "host/etc/os-release").exists()
    (root / "run/gpuready/record").write_text("x")
    assert (node.root / "run/gpuready/record").exists()
    secrets = root / "var/run/secrets/kubernetes.io/serviceaccount"
    assert secrets.joinpath("token").read_text().count(".") == 2
    assert secrets.joinpath("labels").read_text() == 'app="x"'


async def logs(node: Node, made: Object, **query: str) -> str:
    """Through the API server, as kubectl does."""
    meta = made["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log"
    return (await node.client.raw_bytes("GET", path, params={"container": "main", **query})).decode()


async def test_logs_can_be_cut_and_the_previous_ones_read(node: Node) -> None:
    env = [{"name": f"A{n}", "value": str(n)} for n in range(3)]
    made = await node.run(pod(containers=[container(image="any", command=["printenv"], env=env)]))
    await node.until_pod(
        made, lambda p: p["status"].get("containerStatuses", [{}])[0].get("restartCount") == 1
    )
    assert "A0=0" in await logs(node, made, previous="true")
    assert len((await logs(node, made, tailLines="2", previous="true")).splitlines()) == 2
    stamped = await logs(node, made, timestamps="true", previous="true")
    assert stamped.startswith("20")


# --- probes ---------------------------------------------------------------------------------------------


def http_probe(port: int) -> Object:
    return {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 1, "failureThreshold": 2}


class Health:
    """A health answer that the test decides."""

    def __init__(self, address: str) -> None:
        self.code = 200
        self.port = 0
        self._address = address

    async def __aenter__(self) -> Health:
        self._server = await asyncio.start_server(self._answer, self._address, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {self.code} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


async def test_readiness_follows_its_probe(node: Node) -> None:
    async with Health(node.kubelet.identity.address) as health:
        health.code = 503
        made = await node.run(pod(containers=[sleeper(readinessProbe=http_probe(health.port))]))
        await node.until_event(
            made, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"
        )
        seen = await node.until_phase(made, "Running")
        assert not is_ready(seen)
        health.code = 200
        await node.until_pod(made, is_ready)
        health.code = 500
        seen = await node.until_pod(made, lambda p: not is_ready(p))
        ready = next(c for c in seen["status"]["conditions"] if c["type"] == "Ready")
        assert (ready["reason"], ready["message"]) == (
            "ContainersNotReady",
            "containers with unready status: [main]",
        )


async def test_a_failed_liveness_probe_restarts_the_container(node: Node) -> None:
    async with Health(node.kubelet.identity.address) as health:
        made = await node.run(pod(containers=[sleeper(livenessProbe=http_probe(health.port))]))
        await node.until_pod(made, is_ready)
        health.code = 500
        await node.until_event(made, "Killing", "Container main failed liveness probe, will be restarted")
        health.code = 200
        await node.until_pod(
            made, lambda p: is_ready(p) and p["status"]["containerStatuses"][0]["restartCount"] > 0
        )


async def test_a_container_is_not_started_before_its_startup_probe_says_so(node: Node) -> None:
    async with Health(node.kubelet.identity.address) as health:
        health.code = 500
        probe = {**http_probe(health.port), "failureThreshold": 1000}
        made = await node.run(pod(containers=[sleeper(startupProbe=probe)]))
        seen = await node.until_phase(made, "Running")
        assert seen["status"]["containerStatuses"][0]["started"] is False
        health.code = 200
        await node.until_pod(made, is_ready)


# --- devices --------------------------------------------------------------------------------------------


async def test_a_pod_with_a_gpu_gets_the_plugins_answer(gpu_node: tuple[Node, Plugin]) -> None:
    node, _ = gpu_node
    wanted = container(image="any", command=["printenv", "IDS"], gpus=1)
    made = await node.run(pod(containers=[wanted], restartPolicy="Never"))
    await node.until_phase(made, "Succeeded")
    assert (await logs(node, made)).strip() in ("gpu-0", "gpu-1")


async def test_a_pod_that_the_plugin_refuses_fails_with_its_words(make_node: Callable[..., Any]) -> None:
    node = await make_node(gpus=2)
    plugin = Plugin(node.root / "var/lib/kubelet/device-plugins", refuse_with="request 1, replicas share")
    await plugin.start()
    await node.until_node(lambda n: n["status"]["allocatable"].get("nvidia.com/gpu") == "2")
    made = await node.run(pod(containers=[sleeper(gpus=2)]))
    seen = await node.until_phase(made, "Failed")
    cause = "rpc error: code = Unknown desc = request 1, replicas share"
    text = f"Allocate failed due to {cause}, which is unexpected"
    assert seen["status"]["reason"] == "UnexpectedAdmissionError"
    assert seen["status"]["message"] == f"Pod was rejected: {text}"
    await node.until_event(made, "UnexpectedAdmissionError", text)
    await plugin.stop()


async def test_a_pod_forced_onto_a_node_whose_plugin_is_gone_for_good_is_out_of_gpus(
    make_node: Callable[..., Any],
) -> None:
    node = await make_node(timing=replace(FAST, plugin_grace_s=0.1))
    plugin = Plugin(node.root / "var/lib/kubelet/device-plugins")
    await plugin.start()
    await node.until_node(lambda n: n["status"]["allocatable"].get("nvidia.com/gpu") == "2")
    await plugin.stop()
    await node.until_node(lambda n: n["status"]["capacity"].get("nvidia.com/gpu") == "0")
    made = await node.run(pod(containers=[sleeper(gpus=1)]))
    seen = await node.until_phase(made, "Failed")
    assert seen["status"]["reason"] == "OutOfnvidia.com/gpu"
    assert "requested: 1, used: 0, capacity: 0" in seen["status"]["message"]


async def test_unhealthy_devices_show_in_the_status_of_the_pod_that_holds_them(
    gpu_node: tuple[Node, Plugin],
) -> None:
    node, plugin = gpu_node
    made = await node.run(pod(containers=[sleeper(gpus=2)]))
    await node.until_pod(made, is_ready)
    await plugin.say(gpu_1="Unhealthy")

    def health(p: Object) -> dict[str, str]:
        (resource,) = p["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
        return {r["resourceID"]: r["health"] for r in resource["resources"]}

    seen = await node.until_pod(made, lambda p: health(p)["gpu-1"] == "Unhealthy")
    assert health(seen)["gpu-0"] == "Healthy"
    assert seen["status"]["phase"] == "Running"


# --- restart and reboot ---------------------------------------------------------------------------------


async def test_a_kubelet_restart_leaves_containers_running(gpu_node: tuple[Node, Plugin]) -> None:
    node, plugin = gpu_node
    made = await node.run(pod(containers=[sleeper(gpus=1)]))
    await node.until_pod(made, is_ready)
    before = node.kubelet.find_container("default", made["metadata"]["name"], "main")
    await node.kubelet.restart()
    await node.until_node(lambda n: n["status"]["allocatable"]["nvidia.com/gpu"] == "0")
    await plugin.stop()
    await plugin.start()
    await node.until_node(lambda n: n["status"]["allocatable"]["nvidia.com/gpu"] == "2")
    assert before is not None
    assert before.is_running
    assert node.kubelet.find_container("default", made["metadata"]["name"], "main") is before


async def test_a_reboot_starts_pods_again_and_says_so(
    gpu_node: tuple[Node, Plugin], client: SimClient
) -> None:
    node, plugin = gpu_node
    plain = await node.run(pod(containers=[sleeper()]))
    with_gpu = await node.run(pod(containers=[sleeper(gpus=1)]))
    await node.until_pod(plain, is_ready)
    await node.until_pod(with_gpu, is_ready)
    old = node.kubelet.find_container("default", plain["metadata"]["name"], "main")
    await node.kubelet.power_off()
    await plugin.stop()
    assert old is not None
    assert old.exit_code == 137
    boot_id = machine.reboot(node.dir)
    await node.kubelet.power_on()
    await node.until_node(lambda n: n["status"]["nodeInfo"]["bootID"] == boot_id)
    seen = await node.until_pod(
        plain, lambda p: is_ready(p) and p["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    assert seen["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "Unknown"
    # As on real nodes: the device plugin is not back when the pod is admitted again.
    seen = await node.until_phase(with_gpu, "Failed")
    assert "no healthy devices present" in seen["status"]["message"]
    await watch_until(
        client,
        EVENTS,
        f"involvedObject.name={node.name}",
        lambda _, event: event["reason"] == "Rebooted" and boot_id in event["message"],
        "default",
    )


async def test_a_pod_deleted_while_its_node_was_off_does_not_come_back(node: Node, client: SimClient) -> None:
    made = await node.run(pod(containers=[sleeper()]))
    await node.until_pod(made, is_ready)
    await node.kubelet.power_off()
    await client.delete(PODS, made["metadata"]["name"], "default", grace_s=0)
    await node.kubelet.power_on()
    after = await node.run(pod(containers=[sleeper()]))
    await node.until_pod(after, is_ready)
    assert node.kubelet.find_container("default", made["metadata"]["name"], "main") is None


async def test_a_node_that_others_called_not_ready_says_that_it_is(node: Node, client: SimClient) -> None:
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    patch = {"status": {"conditions": [condition]}}
    await client.strategic_patch(NODES, node.name, patch, subresource="status")
    await node.until_node(
        lambda n: {c["type"]: c["status"] for c in n["status"]["conditions"]}["Ready"] == "True"
    )


async def test_a_pod_that_others_called_not_ready_says_that_it_is(node: Node, client: SimClient) -> None:
    made = await node.run(pod(containers=[sleeper()]))
    before = await node.until_pod(made, is_ready)
    name = made["metadata"]["name"]
    wrong = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "wrong"}
    patch = {"status": {"conditions": [{**wrong, "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}
    written = await client.strategic_patch(PODS, name, patch, "default", subresource="status")
    assert not is_ready(written)
    after = await node.until_pod(made, is_ready)
    ready = next(c for c in after["status"]["conditions"] if c["type"] == "Ready")
    assert not ready.get("reason")
    assert not ready.get("message")
    assert ready["lastTransitionTime"] > "2020"
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]


async def test_a_quiet_node_is_not_written_to(make_node: Callable[..., Any], client: SimClient) -> None:
    node = await make_node(timing=replace(FAST, status_interval_s=0.02))
    before = await client.get(NODES, node.name)
    # Ten periods, told by the Lease that is renewed at the same pace.
    async with asyncio.timeout(30):
        renewals = 0
        async for _ in client.watch(
            LEASES, "0", "kube-node-lease", field_selector=f"metadata.name={node.name}"
        ):
            renewals += 1
            if renewals == 2:
                break
    after = await client.get(NODES, node.name)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_logs_of_a_container_that_waits_say_so(node: Node) -> None:
    made = await node.run(pod(containers=[container(image="nginx:1", command=["nginx"])]))
    await node.until_pod(made, lambda p: reason_of(p) == "CreateContainerError")
    with pytest.raises(
        ApiStatus, match=r'container "main" in pod .* is waiting to start: CreateContainerError'
    ):
        await logs(node, made)


async def test_labels_of_a_running_pod_reach_its_downward_volume(node: Node, client: SimClient) -> None:
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    volumes = [{"name": "info", "downwardAPI": {"items": [label]}}]
    wanted = pod(containers=[sleeper(volumeMounts=[{"name": "info", "mountPath": "/info"}])], volumes=volumes)
    made = await node.run(wanted)
    await node.until_pod(made, is_ready)
    name = made["metadata"]["name"]
    await client.merge_patch(PODS, name, {"metadata": {"labels": {"app": "new"}}}, "default")
    running = node.kubelet.find_container("default", name, "main")
    assert running is not None
    async with asyncio.timeout(30):
        while running.root.path.joinpath("info/labels").read_text() != 'app="new"':
            await asyncio.sleep(0.02)


async def test_no_process_of_a_pod_survives_a_forced_deletion(node: Node, client: SimClient) -> None:
    made = await node.run(pod(containers=[sleeper()]))
    await node.until_pod(made, is_ready)
    running = node.kubelet.find_container("default", made["metadata"]["name"], "main")
    assert running is not None
    await client.delete(PODS, made["metadata"]["name"], "default", grace_s=0)
    async with asyncio.timeout(30):
        await running.wait()
    assert running.exit_code == 143
