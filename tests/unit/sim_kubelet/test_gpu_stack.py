"""Driver container, our device plugin and a GPU pod on one node: nothing but the operator is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuready_sim.client import PODS, Object
from gpuready_sim.hardware import machine

from .conftest import Node
from .pods import container, pod
from .test_kubelet import is_ready, logs

DRIVER = "570.86.10"
READY_FILE = "run/nvidia/validations/.driver-ctr-ready"


def with_host_paths(places: dict[str, str]) -> tuple[list[Object], list[Object]]:
    """Volumes and mounts: container path -> host path."""
    volumes = [
        {"name": f"v{n}", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
        for n, path in enumerate(places.values())
    ]
    return volumes, [{"name": f"v{n}", "mountPath": path} for n, path in enumerate(places)]


def driver_pod() -> Object:
    volumes, mounts = with_host_paths(
        {"/run/nvidia": "/run/nvidia", "/lib/firmware": "/run/nvidia/driver/lib/firmware"}
    )
    spec = container(
        image=f"NGC/nvidia/driver:{DRIVER}-ubuntu22.04",
        command=["nvidia-driver"],
        args=["init"],
        securityContext={"privileged": True},
        volumeMounts=mounts,
        startupProbe={
            "exec": {"command": ["sh", "/usr/local/bin/startup-probe.sh"]},
            "periodSeconds": 10,
            "timeoutSeconds": 60,
            "failureThreshold": 120,
        },
        lifecycle={"preStop": {"exec": {"command": ["/bin/sh", "-c", f"rm -f /{READY_FILE}"]}}},
    )
    return pod(containers=[spec], volumes=volumes)


def plugin_pod(driver_root: str) -> Object:
    paths = ("/var/lib/kubelet/device-plugins", "/var/run/cdi", "/run/gpuready", "/run/nvidia")
    volumes, mounts = with_host_paths({"/host": "/", **{path: path for path in paths}})
    env = [
        {"name": "NVIDIA_DRIVER_ROOT", "value": driver_root},
        {"name": "DEVICE_LIST_STRATEGY", "value": "cdi-cri"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    spec = container(
        command=["gpuready", "device-plugin"],
        env=env,
        volumeMounts=mounts,
        securityContext={"privileged": True},
    )
    return pod(containers=[spec], volumes=volumes)


async def test_a_gpu_reaches_a_pod(make_node: Callable[..., Any]) -> None:
    node: Node = await make_node(gpus=4)
    driver = await node.run(driver_pod())
    await node.until_pod(driver, is_ready)
    assert (node.root / READY_FILE).read_text().splitlines()[0] == "GDRCOPY_ENABLED: false"

    await node.run(plugin_pod("/run/nvidia/driver"))
    await node.until_node(lambda n: n["status"]["allocatable"].get("nvidia.com/gpu") == "4")

    asks = container(image="cuda", command=["nvidia-smi", "-L"], gpus=1)
    made = await node.run(pod(containers=[asks], restartPolicy="Never"))
    await node.until_phase(made, "Succeeded")
    lines = (await logs(node, made)).splitlines()
    with machine.gpu_state(node.dir) as state:
        uuids = [gpu.uuid for gpu in state.gpus()]
    assert len(lines) == 1
    assert any(uuid in lines[0] for uuid in uuids)

    await node.kubelet.restart()
    await node.until_node(lambda n: n["status"]["allocatable"].get("nvidia.com/gpu") == "4")


async def test_a_deleted_driver_pod_unloads_its_driver(make_node: Callable[..., Any]) -> None:
    with_gpu: Node = await make_node(gpus=1)
    driver = await with_gpu.run(driver_pod())
    await with_gpu.until_pod(driver, is_ready)
    await with_gpu.client.delete(PODS, driver["metadata"]["name"], "default")
    await with_gpu.until_gone(driver)
    assert machine.loaded_version(with_gpu.dir) is None
    assert not (with_gpu.root / READY_FILE).exists()
