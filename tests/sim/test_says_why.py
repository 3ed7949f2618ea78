"""What a user meets who changes a policy that works: each time the state, and why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import (
    DEPLOY,
    GPU_NODES,
    NAMESPACE,
    POLICIES,
    POLICY,
    condition,
    edit,
    error,
    label,
    link,
    operand,
    operand_pods,
    policy,
    ready,
)

from gpuready.kube.client import KubeClient
from gpuready.tools import snapshot
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import Report, report_of
from gpuready_sim.client import NODES, PODS
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = "nodes: [{name: a100, gpus: {A100-SXM4-40GB: 1}, driver: {where: container}}]"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "cuda",
                "command": ["sleep", "infinity"],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }
        ],
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC) as running:
        yield running


async def doctor(cluster: Cluster) -> Report:
    async with KubeClient.from_kubeconfig(str(cluster.kubeconfig)) as client:
        return report_of(await snapshot.gather(client))


async def test_a_device_plugin_that_would_not_start_is_said_everywhere(cluster: Cluster) -> None:
    wrong = [{"name": "MIG_STRATEGY", "value": "banana"}]
    await cluster.apply(policy(devicePlugin={"env": wrong}), POD)

    told = await error(cluster, "OperandRefused", "MIG_STRATEGY=banana")
    await cluster.wait(
        NODES,
        "a100",
        until=lambda node: condition(node, "GPUReady").get("reason") == "EnvInvalid",
    )
    told = await cluster.wait(
        POLICIES,
        POLICY,
        until=lambda obj: obj["status"]["nodes"]["brokenBy"] == {"device-plugin": 1},
    )
    report = await doctor(cluster)

    assert told["status"]["nodes"]["ready"] == 0
    assert [finding.subject for finding in report.findings] == [
        f"policy/{POLICY}",
        "node/a100",
        "pod/default/train",
    ]
    assert all("correct the value" in finding.next_step for finding in report.findings)


async def test_what_was_refused_runs_once_its_settings_are_right(cluster: Cluster) -> None:
    await edit(cluster, {"devicePlugin": {"env": None}})

    await ready(cluster)
    await cluster.wait(PODS, "train", "default", until=lambda pod: pod["status"].get("phase") == "Running")
    assert (await doctor(cluster)).findings == ()


async def test_another_driver_version_is_asked_for_and_the_old_one_works_on(cluster: Cluster) -> None:
    (name,) = (await operand_pods(cluster, "driver")).values()
    await edit(cluster, {"driver": {"version": "570.124.06", "upgradePolicy": {"autoUpgrade": True}}})

    told = await error(cluster, "OperandNotReady", "a100 runs 570.86.10, the policy asks for 570.124.06")
    node = await cluster.wait(
        GPU_NODES, "a100", until=lambda obj: link(obj, "driver").get("reason") == "DriverOutdated"
    )
    report = await doctor(cluster)

    assert operand(told, "driver")["reason"] == "DriverOutdated"
    assert operand(told, "driver-upgrade")["reason"] == "NotImplemented"
    assert link(node, "driver")["state"] == "degraded"
    assert f"delete the pod {name}" in link(node, "driver")["nextStep"]
    assert told["status"]["nodes"]["ready"] == 1
    shown = text.report_text(report)
    assert shown.splitlines()[0].startswith("warn  node/a100  driver  570.86.10 works")
    assert "1 node waits for another driver (a100); maxUnavailable 25% of 1 driver node is 1" in shown

    # What the next step says, word by word.
    await cluster.client.delete(PODS, "train", "default", grace_s=0)
    await label(cluster, "a100", DEPLOY + "device-plugin", "paused-for-driver-upgrade")
    (plugin,) = (await operand_pods(cluster, "device-plugin")).values()
    await cluster.wait_gone(PODS, plugin, NAMESPACE)
    await cluster.client.delete(PODS, name, NAMESPACE)
    await cluster.wait_gone(PODS, name, NAMESPACE)
    await label(cluster, "a100", DEPLOY + "device-plugin", "true")
    await ready(cluster)
    assert (await cluster.client.get(GPU_NODES, "a100"))["status"]["driver"]["version"] == "570.124.06"


async def test_a_driver_pod_that_cannot_start_is_named_with_its_reason(cluster: Cluster) -> None:
    await edit(cluster, {"driver": {"version": "999.1.1"}})
    await error(cluster, "OperandNotReady", "the policy asks for 999.1.1")
    (name,) = (await operand_pods(cluster, "driver")).values()
    await cluster.client.delete(PODS, name, NAMESPACE, grace_s=0)  # it waits while the driver is in use

    told = await error(cluster, "OperandNotReady", "cannot be pulled")

    assert operand(told, "driver")["reason"] == "DriverPodFailing"
    report = await doctor(cluster)
    assert [finding.reason for finding in report.findings if finding.link == "driver"] == ["DriverPodFailing"]
