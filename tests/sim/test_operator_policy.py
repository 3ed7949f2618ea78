"""What becomes of a policy: a chart's, one that contradicts itself, a second one, one with parts off."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.sim.operator_cluster import (
    GPU_NODES,
    NAMESPACE,
    PLUGIN,
    POLICIES,
    POLICY,
    condition,
    edit,
    error,
    label,
    labels,
    offers,
    operand,
    operand_pods,
    ready,
    wait_http,
    writes,
)

from gpuready_sim.client import DAEMON_SETS, NODES, ApiStatus, Resource
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRIVER = "nvidia-driver-daemonset"
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
CHART_POLICY = Path(__file__).parents[1] / "data/chart-policy.yaml"
SPEC = """
nodes:
- {name: l4, gpus: {L4: 2}, driver: {where: host}}
- {name: a100, gpus: {A100-SXM4-40GB: 2}, driver: {where: container}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC) as running:
        yield running


def chart_policy() -> dict[str, Any]:
    """As the chart writes it, with the one line that makes it ours.

    What there is no program of ours for would run as NVIDIA's image, which no simulated node can.
    """
    obj = yaml.safe_load(CHART_POLICY.read_text())
    obj["spec"]["gpuready"] = {"images": "own"}
    for block in ("toolkit", "migManager"):
        obj["spec"][block]["enabled"] = False
    return obj


async def test_a_policy_written_by_the_original_chart_becomes_ready_with_own_images(cluster):
    await cluster.apply(chart_policy())

    policy_ = await ready(cluster)

    # The chart lets the startup probe wait for 60 s; the driver link does not wait for it.
    assert await cluster.allocatable("a100") == 2
    assert await cluster.allocatable("l4") == 2
    rows = {row["name"]: (row["state"], row["flavour"]) for row in policy_["status"]["operands"]}
    assert rows["driver"] == ("ready", "original")
    assert rows["device-plugin"] == rows["gpu-feature-discovery"] == rows["dcgm-exporter"] == ("ready", "own")
    assert rows["toolkit"][0] == "disabled"
    assert "driver-upgrade" in condition(policy_, "NotImplemented")["message"]


async def test_a_contradiction_is_named_and_what_runs_is_left_alone_until_it_is_corrected(cluster):
    before = await operand_pods(cluster)

    cdi = {"enabled": False, "nriPluginEnabled": True}
    await edit(cluster, {"cdi": cdi, "hostPaths": {"rootFS": "host"}})
    bad = await error(cluster, "PolicyInvalid", "spec.cdi.nriPluginEnabled", "spec.hostPaths.rootFS")

    message = condition(bad, "Error")["message"]
    for words in ("false while spec.cdi.enabled is false", '"host" is not an absolute path', "left as it is"):
        assert words in message
    assert bad["status"]["state"] == "notReady"
    assert condition(bad, "Ready")["status"] == "False"
    assert {row["name"] for row in bad["status"]["operands"]} >= {"driver", "device-plugin"}
    await _event(cluster, "PolicyInvalid")

    await _restart_operator(cluster)
    # The new process has never seen a good text: it tells what runs.
    still_bad = await cluster.wait(
        POLICIES, POLICY, until=lambda obj: operand(obj, "device-plugin").get("reason") == "LeftAsItIs"
    )
    assert _error_since(still_bad) == _error_since(bad)
    assert "spec.cdi.nriPluginEnabled" in condition(still_bad, "Error")["message"]
    plugin, driver = operand(still_bad, "device-plugin"), operand(still_bad, "driver")
    assert (plugin["state"], plugin["ready"], plugin["flavour"]) == ("ready", 2, "own")
    assert (driver["state"], driver["flavour"]) == ("ready", "original")
    assert await operand_pods(cluster) == before
    assert await cluster.allocatable("a100") == 2

    await edit(cluster, {"cdi": {"enabled": True, "nriPluginEnabled": None}, "hostPaths": {"rootFS": "/"}})
    await ready(cluster)
    assert await operand_pods(cluster) == before


async def test_a_value_outside_its_choices_does_not_even_reach_the_operator(cluster):
    with pytest.raises(ApiStatus) as refused:
        await edit(cluster, {"mig": {"strategy": "doubled"}})

    assert refused.value.code == 422
    for words in ("spec.mig.strategy", "doubled", "single", "mixed"):
        assert words in str(refused.value)


async def test_an_object_that_the_api_server_refuses_is_named_and_sent_once(cluster):
    pods = await operand_pods(cluster)
    start = datetime.now(UTC)

    await edit(cluster, {"devicePlugin": {"resources": {"limits": {"cpu": "lots"}}}})
    refused = await error(cluster, "ReconcileFailed", f"DaemonSet/{PLUGIN}", "quantities must match")
    await label(cluster, "l4", "team", "ml")  # wakes the operator
    await label(cluster, "l4", "team", None)

    assert operand(refused, "device-plugin")["reason"] == "ApplyFailed"
    assert await operand_pods(cluster) == pods
    assert await cluster.allocatable("l4") == 2
    await edit(cluster, {"devicePlugin": {"resources": None}})
    await ready(cluster)
    # 500 is the real server's answer to an applied object that does not fit its schema.
    assert writes(cluster, start)["gpuready-operator patch daemonsets 500"] == 1


async def test_a_second_policy_waits_and_takes_over_without_touching_a_node(cluster):
    pods = await operand_pods(cluster)
    node_labels = labels(await cluster.node("a100"))
    gpu_node = await cluster.client.get(GPU_NODES, "a100")

    await cluster.apply({**chart_policy(), "metadata": {"name": "next-policy"}})
    ignored = await cluster.wait(POLICIES, "next-policy", until=_has_state("ignored"))
    assert POLICY in condition(ignored, "Ready")["message"]
    await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, _is_owned_by(POLICY, "next-policy"))
    await cluster.client.delete(POLICIES, POLICY)
    await ready(cluster, "next-policy")
    await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, _is_owned_by("next-policy"))

    assert await operand_pods(cluster) == pods
    assert labels(await cluster.node("a100")) == node_labels
    assert (await cluster.client.get(GPU_NODES, "a100"))["metadata"]["uid"] == gpu_node["metadata"]["uid"]

    await cluster.apply(chart_policy())
    await cluster.wait(POLICIES, POLICY, until=_has_state("ignored"))
    await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, _is_owned_by("next-policy", POLICY))
    await cluster.client.delete(POLICIES, "next-policy")
    await ready(cluster)
    assert await operand_pods(cluster) == pods


async def test_an_operand_that_is_switched_off_goes_and_comes_back(cluster):
    agents = await operand_pods(cluster, "node-agent")

    await edit(cluster, {"devicePlugin": {"enabled": False}})
    await cluster.wait_gone(DAEMON_SETS, PLUGIN, NAMESPACE)
    off = await ready(cluster)
    assert operand(off, "device-plugin")["state"] == "disabled"
    await cluster.wait(NODES, "l4", until=offers(0))

    await edit(cluster, {"devicePlugin": {"enabled": True}})
    await ready(cluster)
    await cluster.wait(NODES, "l4", until=offers(2))
    assert await operand_pods(cluster, "node-agent") == agents


async def test_an_image_of_the_originals_takes_the_place_of_ours_and_is_as_ready_as_its_pods(cluster):
    """No simulated node runs NVIDIA's programs: their pods say so, the policy how many are missing."""
    await edit(cluster, {"gpuready": {"images": "asNamed"}})
    told = await error(cluster, "OperandNotReady", f"device-plugin: {PLUGIN}: ", "pods ready")

    row = operand(told, "device-plugin")
    assert (row["flavour"], row["reason"], row["desired"]) == ("original", "PodsNotReady", 2)
    plugin = await cluster.client.get(DAEMON_SETS, PLUGIN, NAMESPACE)
    pod = plugin["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example.org/nvidia/k8s-device-plugin:v0.19.3"
    await cluster.wait(DAEMON_SETS, "nvidia-operator-validator", NAMESPACE)
    role = await cluster.client.get(ROLES, "nvidia-operator-validator", NAMESPACE)
    assert role["metadata"]["ownerReferences"][0]["name"] == POLICY

    await edit(cluster, {"gpuready": {"images": "own"}})
    await ready(cluster)
    await cluster.wait_gone(DAEMON_SETS, "nvidia-operator-validator", NAMESPACE)
    assert await cluster.allocatable("l4") == 2


async def test_a_driver_that_is_switched_off_goes_as_a_daemonset_and_comes_back(cluster):
    await edit(cluster, {"driver": {"enabled": False}})
    await cluster.wait_gone(DAEMON_SETS, DRIVER, NAMESPACE)
    off = await cluster.wait(POLICIES, POLICY, until=_is_disabled("driver"))
    assert operand(off, "driver")["desired"] == 0
    assert await cluster.allocatable("l4") == 2, "its driver is the host's"

    # The container ends only when nothing holds the module: that is the container's business, not ours.
    await edit(cluster, {"driver": {"enabled": True}})
    await cluster.wait(DAEMON_SETS, DRIVER, NAMESPACE)


async def test_what_a_policy_names_and_is_not_there_holds_back_the_roll_out_until_it_is(cluster):
    """New pods would be refused, and the old ones be gone by then."""
    await ready(cluster)
    pods = await operand_pods(cluster)
    named = {"daemonsets": {"priorityClassName": "gpu-first"}, "devicePlugin": {"imagePullSecrets": ["site"]}}

    await edit(cluster, named)
    told = await error(cluster, "OperandRefused", "PriorityClass gpu-first", "Secret gpu-operator/site")

    plugin = operand(told, "device-plugin")
    assert plugin["reason"] == "ReferenceMissing"
    for words in (
        "which spec.daemonsets.priorityClassName names",
        "which spec.devicePlugin.imagePullSecrets names",
        "What runs is left as it is",
        "next: kubectl create priorityclass gpu-first",
    ):
        assert words in plugin["message"]
    assert "node agent: there is no PriorityClass gpu-first" in condition(told, "Error")["message"]
    assert await operand_pods(cluster) == pods
    assert await cluster.allocatable("l4") == 2

    await cluster.apply(PRIORITY_CLASS)
    half = await error(cluster, "OperandRefused", "device-plugin: there is no Secret")
    assert "PriorityClass" not in condition(half, "Error")["message"]
    await cluster.apply(SECRET)
    await ready(cluster)

    daemonset = await cluster.client.get(DAEMON_SETS, PLUGIN, NAMESPACE)
    assert daemonset["spec"]["template"]["spec"]["priorityClassName"] == "gpu-first"


async def test_a_node_does_not_wait_for_a_device_plugin_that_is_held_back(cluster):
    """Nothing of it runs and nothing will come: the node is told so, and why."""
    await edit(cluster, {"devicePlugin": {"enabled": False}})
    await cluster.wait_gone(DAEMON_SETS, PLUGIN, NAMESPACE)
    await edit(cluster, {"devicePlugin": {"enabled": True, "imagePullSecrets": ["absent"]}})
    await error(cluster, "OperandRefused", "Secret gpu-operator/absent")

    def is_told(node: dict[str, Any]) -> bool:
        plugin = node["spec"]["devicePlugin"]
        return not plugin["enabled"] and "Secret gpu-operator/absent" in plugin["refused"]["message"]

    await cluster.wait(GPU_NODES, "l4", until=is_told)

    await edit(cluster, {"devicePlugin": {"imagePullSecrets": ["site"]}})
    await ready(cluster)
    assert (await cluster.client.get(GPU_NODES, "l4"))["spec"]["devicePlugin"]["enabled"] is True


PRIORITY_CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "gpu-first"},
    "value": 1000,
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "site", "namespace": NAMESPACE}}


async def test_the_status_was_written_at_most_once_a_second_all_along(cluster):
    times = [
        line.time
        for line in cluster.requests(writes_only=True)
        if line.what == "clusterpolicies/status" and line.name == POLICY and line.fields["code"] == 200
    ]
    gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(times)]
    # One exception: a restarted operator does not know when its predecessor wrote.
    assert len([gap for gap in gaps if gap < 0.95]) <= 1


async def test_no_request_of_the_operator_was_in_vain(cluster):
    """It never meets a conflict with itself: what it wrote and has not seen yet it does not write again."""
    asked = Counter(
        f"{line.fields['verb']} {line.what} {line.fields['code']}"
        for line in cluster.requests(writes_only=True)
        if line.fields["client"] == "gpuready-operator"
    )
    failed = Counter({what: count for what, count in asked.items() if int(what.rpartition(" ")[2]) >= 400})
    del failed["patch daemonsets 500"]  # the refused one above
    conflicts = sum(count for what, count in failed.items() if what.endswith(" 409"))
    # With the node agent and the garbage collector, as part of life; with itself it would be every other one.
    assert failed.total() == conflicts <= asked.total() / 20, asked


async def _event(cluster: Cluster, reason: str) -> None:
    """The Event follows the status by a request."""
    async with asyncio.timeout(30):
        while reason not in [event["reason"] for event in await cluster.events(POLICY)]:
            await asyncio.sleep(0.1)


async def _restart_operator(cluster: Cluster) -> None:
    """Kill it; its supervisor starts it again."""
    old = await _operator_of(cluster)
    os.kill(old["pid"], signal.SIGRTMIN)
    readyz = f"http://127.0.0.1:{old['healthPort']}/readyz"
    await wait_http(readyz, status=0)
    await wait_http(readyz)


async def _operator_of(cluster: Cluster) -> Any:
    return next(row for row in (await cluster.status())["processes"] if row["name"] == "operator")


def _error_since(obj: dict[str, Any]) -> str:
    return str(condition(obj, "Error")["lastTransitionTime"])


def _has_state(state: str):
    return lambda obj: (obj.get("status") or {}).get("state") == state


def _is_disabled(name: str):
    return lambda obj: operand(obj, name).get("reason") == "Disabled"


def _is_owned_by(*policies: str):
    def check(obj: dict[str, Any]) -> bool:
        owners = obj["metadata"].get("ownerReferences") or ()
        return [owner["name"] for owner in owners] == list(policies) and owners[0]["controller"] is True

    return check
