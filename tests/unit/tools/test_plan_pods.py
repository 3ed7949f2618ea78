"""`gpuready plan`: which pods start, stop and restart, and which workloads that reaches."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tools.cluster import node
from tests.unit.tools.planned import (
    DRIVER,
    PLUGIN,
    TEAM_TAINT,
    Object,
    cluster,
    daemon_pod,
    gpu_machine,
    named,
    policy,
    training,
)

from gpuready import names
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.policy.plan import key_of
from gpuready.tools.plan import look as looks
from gpuready.tools.plan import pods
from gpuready.tools.plan.forecast import Fate, PodFate, Trouble
from gpuready.tools.plan.foresee import foresee
from gpuready.tools.plan.pods import DaemonSetOutlook, pod_changes
from gpuready.tools.plan.text import text_of


def daemonset(on_delete: bool = False, **spec: Any) -> Object:
    pod = {"nodeSelector": {names.GPU_PRESENT: "true"}, **spec}
    strategy = {"type": "OnDelete" if on_delete else "RollingUpdate"}
    return {
        "kind": "DaemonSet",
        "metadata": {"name": PLUGIN, "labels": {names.OPERAND_LABEL: "device-plugin"}},
        "spec": {"template": {"spec": pod}, "updateStrategy": strategy},
    }


TOLERANT = [{"key": "team", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("desired", "renewed", "runs", "taints", "fate"),
    [
        pytest.param(daemonset(), True, True, [], PodFate.RESTARTS, id="another template"),
        pytest.param(daemonset(), False, True, [], None, id="the same template"),
        pytest.param(daemonset(on_delete=True), True, True, [], PodFate.OUTDATED, id="replaced by hand only"),
        pytest.param(daemonset(), False, False, [], PodFate.STARTS, id="a node that had none"),
        pytest.param(None, False, True, [], PodFate.STOPS, id="the DaemonSet goes"),
        pytest.param(None, False, False, [], None, id="it was not there"),
        pytest.param(daemonset(), False, False, [TEAM_TAINT], None, id="a taint keeps it away"),
        pytest.param(daemonset(), False, True, [TEAM_TAINT], None, id="a taint that came later leaves it"),
        pytest.param(daemonset(), True, True, [TEAM_TAINT], PodFate.STOPS, id="its successor may not start"),
        pytest.param(
            daemonset(tolerations=TOLERANT), True, False, [TEAM_TAINT], PodFate.STARTS, id="tolerated now"
        ),
        pytest.param(
            daemonset(nodeSelector={"x": "y"}), False, True, [], PodFate.STOPS, id="selects other nodes now"
        ),
    ],
)
def test_what_becomes_of_a_pod(
    desired: Object | None, renewed: bool, runs: bool, taints: list[Object], fate: PodFate | None
) -> None:
    there = [daemon_pod(PLUGIN, "gpu-1", "device-plugin")] if runs else []
    outlook = DaemonSetOutlook(PLUGIN, "device-plugin", desired, renewed)

    changes = pod_changes([outlook], [node("gpu-1", gpus=8, taints=taints)], there)

    assert [each.fate for each in changes] == ([fate] if fate else [])


def test_pods_that_waited_for_their_deletion_restart_once_that_is_not_asked_for_any_more() -> None:
    """Of OnDelete's pods those of an earlier template, and none behind a taint that came later."""
    raw, seen = cluster(*map(gpu_machine, "abc"), daemonsets={"updateStrategy": "OnDelete"})
    agent = looks.node_agent.DAEMONSET
    revisions = {PLUGIN: "new"}
    hashes = {"a": "old", "b": "new", "c": "old"}
    made = [
        daemon_pod(PLUGIN, name, "device-plugin", **{"controller-revision-hash": revision})
        for name, revision in hashes.items()
    ]
    made += [daemon_pod(agent, name, "node-agent") for name in hashes]
    seen.nodes[2]["spec"]["taints"] = [TEAM_TAINT]
    seen = replace(seen, pods=made, revisions=revisions)

    changed = foresee({**raw, "spec": {**raw["spec"], "daemonsets": {}}}, seen)

    fates = {(pod.fate, pod.node) for pod in changed.pods if pod.daemonset == PLUGIN}
    assert fates == {(PodFate.RESTARTS, "a"), (PodFate.STOPS, "c")}
    assert not [pod for pod in foresee(raw, seen).pods if pod.daemonset == PLUGIN], "they go on waiting"


def test_where_the_toolkit_begins_anew_a_runtime_may_restart_and_that_is_said() -> None:
    raw, seen = cluster(toolkit={"enabled": True})
    said = "1 node: a container runtime whose configuration the toolkit then changes is restarted"

    assert any(each.startswith(said) for each in foresee(raw, seen).remarks)
    made = [daemon_pod("nvidia-container-toolkit-daemonset", "gpu-1", "toolkit")]
    assert not any("runtime" in each for each in foresee(raw, replace(seen, pods=made)).remarks)


def test_the_labels_of_the_namespace_are_told() -> None:
    raw, seen = cluster(psa={"enabled": True})
    level = "pod-security.kubernetes.io/enforce"
    there = {"metadata": {"name": "gpu-operator", "labels": {level: "baseline"}}}

    told = text_of(foresee(raw, replace(seen, own_namespace=there)))

    assert "label   the operator's namespace  by the operator" in told
    assert f"          {level}=privileged" in told
    assert "3 labels on the namespace" in told.splitlines()[-1]


def test_a_driver_that_is_switched_off_is_taken_from_the_pods_that_use_it() -> None:
    present = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true"}
    there = [daemon_pod(DRIVER, "gpu-1", "driver"), training("gpu-1"), training("elsewhere")]
    _, look = cluster(gpu_machine(**present), pods=there, driver={"enabled": True})

    forecast = foresee(policy(), look)

    assert f"DaemonSet/{DRIVER}" in named(forecast, Fate.PRUNED)
    (workload,) = forecast.workloads
    assert (workload.pod, workload.holds) == ("ml/training", {"nvidia.com/gpu": 2})
    assert workload.trouble is Trouble.LOSES_DRIVER
    told = text_of(forecast)
    assert told.startswith("DISTURB ml/training (2 nvidia.com/gpu)  the driver's pod on gpu-1 is taken away")
    assert told.endswith("1 workload disturbed")


def test_a_driver_installed_as_before_disturbs_nobody_although_its_pod_is_outdated() -> None:
    present = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true"}
    _, look = cluster(gpu_machine(**present), driver={"enabled": True})
    (live,) = (obj for obj in look.owned if key_of(obj)[::2] == ("DaemonSet", DRIVER))
    digest = live["spec"]["template"]["metadata"]["labels"][names.DRIVER_CONFIG_LABEL]
    pod = daemon_pod(DRIVER, "gpu-1", "driver", **{names.DRIVER_CONFIG_LABEL: digest})
    look = replace(look, pods=[pod, training("gpu-1")])

    probed = foresee(policy(driver={"enabled": True, "startupProbe": {"periodSeconds": 9}}), look)
    replaced = foresee(policy(driver={"enabled": True, "version": "570.124.06"}), look)

    outdated = [(PodFate.OUTDATED, DRIVER)]
    assert [(each.fate, each.daemonset) for each in probed.pods if each.daemonset == DRIVER] == outdated
    assert [(each.fate, each.daemonset) for each in replaced.pods if each.daemonset == DRIVER] == outdated
    assert probed.workloads == ()
    assert [each.trouble for each in replaced.workloads] == [Trouble.MUST_LEAVE_FIRST]


def test_the_originals_driver_pod_is_judged_by_what_it_shows() -> None:
    """It has no label of ours, before the takeover and after it."""
    present = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true"}
    _, look = cluster(gpu_machine(**present), driver={"enabled": True})
    (live,) = (obj for obj in look.owned if key_of(obj)[::2] == ("DaemonSet", DRIVER))
    pod = daemon_pod(DRIVER, "gpu-1", "")
    pod["metadata"]["labels"] = {"app": DRIVER, "app.kubernetes.io/component": "nvidia-driver"}
    pod["spec"] |= live["spec"]["template"]["spec"]
    gpu_node = decode_gpunode(
        json.dumps(
            {"metadata": {"name": "gpu-1"}, "status": {"driver": {"owner": "container", "version": "1"}}}
        ).encode()
    )
    look = replace(look, pods=[pod, training("gpu-1")], gpu_nodes={"gpu-1": gpu_node})

    probed = foresee(policy(driver={"enabled": True, "startupProbe": {"periodSeconds": 9}}), look)
    other = foresee(policy(driver={"enabled": True, "env": [{"name": "A", "value": "1"}]}), look)

    assert probed.workloads == ()
    assert [each.trouble for each in other.workloads] == [Trouble.MUST_LEAVE_FIRST]


def test_images_are_named_once_each() -> None:
    one = daemonset(containers=[{"image": "a"}, {"image": "b"}], initContainers=[{"image": "a"}])

    assert pods.images_of([one, {"kind": "ConfigMap", "metadata": {"name": "c"}}]) == ("a", "b")
