"""What `gpuready plan` says beforehand is what happens: every edit is planned, applied and compared."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sim.foretold import (
    NOTHING,
    changes_of_labels,
    changes_of_pods,
    expect_gpu_nodes,
    expect_objects,
    look,
    planned_labels,
    planned_pods,
)
from tests.sim.operator_cluster import (
    NAMESPACE,
    PLUGIN,
    error,
    policy,
    quiet,
    ready,
)

from gpuready.cli import main
from gpuready_sim.client import DAEMON_SETS, PODS, ApiStatus
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

Object = dict[str, Any]
SPEC = """
nodes:
- {name: l4, gpus: {L4: 2}, driver: {where: host}}
- {name: a100, gpus: {A100-SXM4-40GB: 2}, driver: {where: container}}
"""
DRIVER = "nvidia-driver-daemonset"
FOUR_EACH = {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
SHARING = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "sharing", "namespace": NAMESPACE},
    "data": {"four": json.dumps({"version": "v1", "sharing": {"timeSlicing": FOUR_EACH}})},
}
WORKLOAD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "training", "namespace": "default"},
    "spec": {
        "nodeName": "a100",
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "command": ["sleep", "3600"],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC) as running:
        await running.apply(SHARING, policy())
        await ready(running)
        await running.apply(WORKLOAD)
        await running.wait(PODS, "training", "default", lambda pod: pod["status"].get("phase") == "Running")
        await settled(running)
        yield running


async def settled(cluster: Cluster, error_reason: str = "") -> None:
    """The newest text is followed, every rollout is over, and nobody of ours writes any more."""
    await (error(cluster, error_reason) if error_reason else ready(cluster))
    for name in (PLUGIN, DRIVER):
        try:
            await cluster.client.get(DAEMON_SETS, name, NAMESPACE)
        except ApiStatus:
            continue  # pruned
        await cluster.wait(DAEMON_SETS, name, NAMESPACE, _is_rolled_out, timeout_s=60)
    await quiet(cluster)
    await _until_no_pod_is_going(cluster)


def _is_rolled_out(obj: Object) -> bool:
    status = obj.get("status") or {}
    if status.get("observedGeneration") != obj["metadata"]["generation"]:
        return False
    wanted = status.get("desiredNumberScheduled", 0)
    on_delete = obj["spec"]["updateStrategy"]["type"] == "OnDelete"
    updated = wanted if on_delete else status.get("updatedNumberScheduled", 0)
    return updated == wanted == status.get("numberReady", 0)


async def _until_no_pod_is_going(cluster: Cluster) -> None:
    for pod in await cluster.pods(NAMESPACE, "gpuready.dev/operand"):
        if pod["metadata"].get("deletionTimestamp"):
            await cluster.wait_gone(PODS, pod["metadata"]["name"], NAMESPACE)


class Rehearsal:
    """Edits of one policy, each on top of those before it: planned, then done."""

    def __init__(self, cluster: Cluster, file: Path) -> None:
        self._cluster = cluster
        self._file = file
        self.spec: Object = {}

    async def plan(self, **edit: Any) -> tuple[int, Object]:
        """(exit status, the plan)"""
        self._file.write_text(json.dumps(policy(**{**self.spec, **edit})))
        shown = io.StringIO()
        arguments = ["plan", "-f", str(self._file), "-o", "json"]
        with contextlib.redirect_stdout(shown):
            code = await asyncio.to_thread(main, [*arguments, "--kubeconfig", str(self._cluster.kubeconfig)])
        return code, json.loads(shown.getvalue())

    async def run(self, *, fails_with: str = "", **edit: Any) -> Object:
        """Plan the edit, apply it, and hold the plan to what happened."""
        code, planned = await self.plan(**edit)
        before = await look(self._cluster)
        self.spec |= edit
        await self._cluster.apply(policy(**self.spec))
        await settled(self._cluster, fails_with)
        after = await look(self._cluster)

        assert code == (0 if before == after else 1)
        expect_objects(planned["objects"], before, after)
        assert planned_labels(planned) == changes_of_labels(before, after)
        expect_gpu_nodes(planned["gpuNodes"], before, after)
        assert planned_pods(planned) == changes_of_pods(before, after)
        assert await self.plan() == (0, {**planned, **NOTHING, "workloads": []})
        return planned


@pytest.fixture(scope="module")
def rehearsal(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    return Rehearsal(cluster, tmp_path_factory.mktemp("plan") / "policy.yaml")


async def test_the_policy_that_is_in_force_changes_nothing(rehearsal: Rehearsal) -> None:
    code, planned = await rehearsal.plan()

    assert code == 0
    assert {key: planned[key] for key in NOTHING} == NOTHING
    rows = {row["name"]: row["flavour"] for row in planned["operands"]}
    assert rows["device-plugin"] == "own"


async def test_an_env_of_the_device_plugin_restarts_its_pods_and_nothing_else(rehearsal: Rehearsal) -> None:
    planned = await rehearsal.run(devicePlugin={"env": [{"name": "FAVOURITE", "value": "blue"}]})

    assert [row["name"] for row in planned["objects"]["changed"]] == [PLUGIN]
    assert {row["node"] for row in planned["pods"]["restarts"]} == {"l4", "a100"}
    assert planned["workloads"] == []


async def test_a_sharing_reaches_the_nodes_by_itself_and_an_env_that_is_taken_back_is_named(
    rehearsal: Rehearsal,
) -> None:
    planned = await rehearsal.run(devicePlugin={"config": {"name": "sharing", "default": "four"}})

    (changed,) = planned["objects"]["changed"]
    gone = {"name": "FAVOURITE", "value": "blue"}
    assert [(row["old"], row["new"]) for row in changed["fields"]] == [(gone, None)]
    assert {row["node"] for row in planned["gpuNodes"]} == {"l4", "a100"}
    by_agent = {row["node"]: row["labels"] for row in planned["nodeLabels"] if row["by"] == "node-agent"}
    assert by_agent["l4"] == {
        "nvidia.com/gpu.product": "NVIDIA-L4-SHARED",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }


async def test_labels_that_are_switched_off_go_and_tolerations_only_outdate_the_driver(
    rehearsal: Rehearsal,
) -> None:
    wanted = [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "operator": "Exists"}]
    planned = await rehearsal.run(gfd={"enabled": False}, daemonsets={"tolerations": wanted})

    gone = {row["by"] for row in planned["nodeLabels"] if None in row["labels"].values()}
    assert gone == {"node-agent", "operator"}, "without the product, a100 is not known to have MIG"
    assert {row["daemonSet"] for row in planned["pods"]["restarts"]} == {PLUGIN}
    assert [row["daemonSet"] for row in planned["pods"]["outdated"]] == [DRIVER]
    assert planned["workloads"] == [], "the driver that is loaded is the one that is asked for"


async def test_an_operand_that_is_switched_off_is_pruned_and_its_pods_stop(rehearsal: Rehearsal) -> None:
    planned = await rehearsal.run(devicePlugin={"enabled": False})

    assert ("DaemonSet", PLUGIN) in {(row["kind"], row["name"]) for row in planned["objects"]["pruned"]}
    assert {row["node"] for row in planned["pods"]["stops"]} == {"l4", "a100"}


async def test_another_driver_waits_and_names_the_workload_that_is_in_its_way(rehearsal: Rehearsal) -> None:
    planned = await rehearsal.run(driver={"version": "570.124.06"}, fails_with="OperandNotReady")

    assert [row["daemonSet"] for row in planned["pods"]["outdated"]] == [DRIVER]
    (workload,) = planned["workloads"]
    assert (workload["pod"], workload["node"]) == ("default/training", "a100")
    assert workload["holds"] == {"nvidia.com/gpu": 1}
    assert workload["trouble"] == "mustLeaveFirst"
    images = next(row["images"] for row in planned["operands"] if row["name"] == "driver")
    assert any(image.endswith("/driver:570.124.06-ubuntu22.04") for image in images)


async def test_a_named_image_is_taken_with_the_contract_of_its_maker(rehearsal: Rehearsal) -> None:
    driver = {"version": "570.86.10", "repository": "registry.example/nvidia"}
    planned = await rehearsal.run(driver=driver, fails_with="OperandNotReady")

    operand = next(row for row in planned["operands"] if row["name"] == "driver")
    assert operand["flavour"] == "original"
    assert "registry.example/nvidia/driver:570.86.10-ubuntu22.04" in operand["images"]


async def test_a_policy_that_makes_no_sense_is_named_and_leaves_everything_alone(
    rehearsal: Rehearsal, cluster: Cluster
) -> None:
    before = await look(cluster)
    nonsense = {"cdi": {"enabled": False, "nriPluginEnabled": True}}

    code, planned = await rehearsal.plan(**nonsense, devicePlugin={"fooo": 1})

    assert code == 1
    assert planned["problems"]
    assert all("spec.cdi.nriPluginEnabled" in text for text in planned["problems"])
    assert planned["unknownFields"] == ["spec.devicePlugin.fooo"]
    assert {key: planned[key] for key in NOTHING} == NOTHING
    await cluster.apply(policy(**nonsense))
    await error(cluster, "PolicyInvalid")
    assert await look(cluster) == before


async def test_a_secret_that_is_missing_is_refused_in_the_words_of_the_plan(
    rehearsal: Rehearsal, cluster: Cluster
) -> None:
    before = await look(cluster)
    edit = {"driver": {**rehearsal.spec["driver"], "imagePullSecrets": ["absent"]}}

    code, planned = await rehearsal.plan(**edit)

    assert code == 1
    (row,) = (each for each in planned["operands"] if each["name"] == "driver")
    assert row["refused"].startswith("there is no Secret gpu-operator/absent, which spec.driver.")
    assert {key: planned[key] for key in NOTHING} == NOTHING
    await cluster.apply(policy(**{**rehearsal.spec, **edit}))
    await error(cluster, "OperandRefused", row["refused"])
    assert await look(cluster) == before


@pytest.mark.parametrize(
    ("namespace", "said"),
    [
        pytest.param("nope", "there is no namespace nope", id="one that there is not"),
        pytest.param("default", "nothing of the operator is in the namespace default", id="another one"),
    ],
)
async def test_a_namespace_where_the_operator_is_not_is_a_mistake_that_names_the_right_one(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], namespace: str, said: str
) -> None:
    (tmp_path / "policy.yaml").write_text(json.dumps(policy()))
    typed = ["plan", "-f", str(tmp_path / "policy.yaml"), "--namespace", namespace]

    code = await asyncio.to_thread(main, [*typed, "--kubeconfig", str(cluster.kubeconfig)])

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert said in shown.err
    assert f"the operator's objects are in {NAMESPACE}" in shown.err
    assert f"gpuready plan --namespace {NAMESPACE}" in shown.err


async def test_of_all_these_plans_the_api_server_saw_reads_alone(cluster: Cluster) -> None:
    asked = Counter(
        line.fields["verb"] for line in cluster.requests() if line.fields["client"] == "gpuready-cli"
    )

    assert asked.keys() == {"get", "list"}
