"""From a policy to objects and status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuready import names
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.policy.active import active_of, ignored_of, read
from gpuready.controller.policy.observed import NodeView, Observed
from gpuready.controller.policy.operand_rows import operand_row
from gpuready.controller.policy.plan import plan_of
from gpuready.controller.policy.pruning import leaving, leftovers, surplus
from gpuready.controller.policy.status import (
    headline,
    ignored_status,
    new_problem,
    status_of,
)
from gpuready.operands import registry
from gpuready.operands.contract import ClusterView, NodeFacts, Refusal

NOW = "2026-11-29T12:00:00Z"
UBUNTU = {
    names.NFD_PCI_LABELS[0]: "true",
    names.OS_ID_LABEL: "ubuntu",
    names.OS_VERSION_LABEL: "22.04",
    names.DEPLOY_DRIVER: "true",
}
OFF = {"toolkit": {"enabled": False}, "dcgm": {"enabled": False}, "dcgmExporter": {"enabled": False}}


def raw(name: str = "cluster-policy", created: str = NOW, **spec: Any) -> dict[str, Any]:
    wanted = {**OFF, "migManager": {"enabled": False}, **spec}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 3, "creationTimestamp": created},
        "spec": wanted,
    }


def view(*nodes: NodeFacts, base: str = "") -> ClusterView:
    return ClusterView("gpu-operator", "gpuready:test", nodes or (node_facts(),), base_driver_pool=base)


def node_facts(name: str = "g1", **labels: str) -> NodeFacts:
    return NodeFacts(name, {**UBUNTU, **labels})


def planned(**spec: Any) -> Any:
    active = read(raw(**spec))
    return plan_of(active, active.policy, view())


def daemonsets(plan: Any) -> dict[str, Any]:
    return {obj["metadata"]["name"]: obj for obj in plan.objects if obj["kind"] == "DaemonSet"}


# --- which policy ---------------------------------------------------------------------------------------


def test_the_oldest_policy_is_in_force_and_ties_go_by_name():
    young, old = raw("a", "2026-02-01T00:00:00Z"), raw("b", "2026-01-01T00:00:00Z")
    assert active_of([young, old]).name == "b"
    assert [obj["metadata"]["name"] for obj in ignored_of([young, old])] == ["a"]
    assert active_of([raw("b"), raw("a")]).name == "a"


def test_the_next_policy_takes_over_when_the_first_is_being_deleted():
    old = raw("old", "2026-01-01T00:00:00Z")
    old["metadata"]["deletionTimestamp"] = NOW
    assert active_of([old, raw("young")]).name == "young"


def test_an_ignored_policy_is_told_whose_turn_it_is():
    status = ignored_status(raw("young"), "old", "gpu-operator", NOW)
    assert status["state"] == "ignored"
    assert "old" in status["conditions"][0]["message"]


def test_a_malformed_policy_freezes_and_names_path_value_and_what_is_allowed():
    active = read(raw(driver={"kernelModuleType": "closed"}))
    assert active.is_frozen
    status = status_of(active, None, Observed([], {}), "gpu-operator", NOW)
    message = status["conditions"][1]["message"]
    assert status["conditions"][1]["reason"] == "PolicyInvalid"
    for word in ("spec.driver.kernelModuleType", "closed", "auto", "open", "proprietary"):
        assert word in message


# --- objects --------------------------------------------------------------------------------------------


def test_a_policy_leads_to_agent_driver_and_plugin():
    assert set(daemonsets(planned())) == {
        "gpuready-node-agent",
        "nvidia-driver-daemonset",
        "nvidia-device-plugin-daemonset",
    }


def test_the_policy_owns_its_objects_but_not_the_node_agents():
    for obj in planned().objects:
        owners = obj["metadata"].get("ownerReferences", [])
        is_agent = obj["metadata"]["labels"][names.OPERAND_LABEL] == "node-agent"
        assert [ref["uid"] for ref in owners] == ([] if is_agent else ["uid-cluster-policy"])


def test_what_undoes_its_work_on_hosts_is_no_garbage_of_the_policy():
    plan = planned(toolkit={"enabled": True})
    made = [obj for obj in plan.objects if obj["metadata"]["labels"][names.OPERAND_LABEL] == "toolkit"]
    assert {obj["kind"] for obj in made} >= {"DaemonSet", "ServiceAccount"}
    assert [obj["metadata"].get("ownerReferences") for obj in made] == [None] * len(made)
    assert made == [obj for obj in made if obj not in leftovers(plan.objects, keep_agent=True)]
    assert len(leftovers(plan.objects, keep_agent=False)) == len(plan.objects)


@pytest.mark.parametrize(
    ("state", "reason", "stays"),
    [
        pytest.param("ok", "HandlersKnown", True, id="the node has not heard of it"),
        pytest.param("not-checked", "Leaving", True, id="it is being undone"),
        pytest.param("not-checked", "Disabled", False, id="nothing of it is left"),
    ],
)
def test_a_toolkit_that_is_switched_off_stays_until_every_node_has_back_what_it_had(
    state: str, reason: str, stays: bool
):
    rows = [(b"done", b"not-checked", b"Disabled"), (b"other", state.encode(), reason.encode())]
    link = b'{"link": "toolkit", "state": "%s", "reason": "%s"}'
    text = b'{"metadata": {"name": "%s"}, "status": {"chain": [' + link + b"]}}"
    active = read(raw(toolkit={"enabled": False}))
    seen = leaving(decode_gpunode(text % row) for row in rows)

    plan = plan_of(active, active.policy, replace(view(), leaving=seen))

    assert ("nvidia-container-toolkit-daemonset" in daemonsets(plan)) is stays
    assert operand_row_of(plan)["state"] == "disabled"


def operand_row_of(plan: Any, name: str = "toolkit") -> Any:
    (found,) = (each for each in plan.operands if each.operand.name == name)
    return operand_row(found, Observed([], {}))


def test_policies_that_wait_own_the_objects_too_so_that_they_outlive_the_first():
    active = read(raw())
    plan = plan_of(active, active.policy, view(), [raw("next")])
    for obj in (obj for each in plan.operands for obj in each.objects):
        owners = [(ref["name"], ref["controller"]) for ref in obj["metadata"]["ownerReferences"]]
        assert owners == [("cluster-policy", True), ("next", False)]


def test_the_tolerations_accept_any_value_of_the_gpu_taint():
    """Case C03, part a: a taint nvidia.com/gpu=true must not keep our programs away."""
    for name, obj in daemonsets(planned()).items():
        tolerations = obj["spec"]["template"]["spec"]["tolerations"]
        if name == "gpuready-node-agent":
            assert tolerations == [{"operator": "Exists"}], "what finds GPUs runs whatever the taints"
        else:
            assert tolerations == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_the_agent_runs_on_gpu_nodes_only_where_feature_discovery_is_there():
    active = read(raw())
    with_nfd = ClusterView("gpu-operator", "gpuready:test", nfd_present=True)
    selector = daemonsets(plan_of(active, active.policy, with_nfd))["gpuready-node-agent"]
    assert selector["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}


def test_each_operating_system_gets_its_own_driver_and_the_first_keeps_its_name():
    active = read(raw(driver={"version": "570.86.10"}))
    debian = NodeFacts("g0", {**UBUNTU, names.OS_ID_LABEL: "debian", names.OS_VERSION_LABEL: "12"})
    plan = plan_of(active, active.policy, view(node_facts(), debian, base="ubuntu22.04"))
    found = {
        name: obj["spec"]["template"]["spec"]["containers"][0]["image"].split("/")[-1]
        for name, obj in daemonsets(plan).items()
        if "driver" in name
    }
    assert found == {
        "nvidia-driver-daemonset": "driver:570.86.10-ubuntu22.04",
        "nvidia-driver-daemonset-debian12": "driver:570.86.10-debian12",
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("true", True, id="takes a driver"),
        pytest.param("paused-for-driver-upgrade", True, id="paused for a moment"),
        pytest.param("pre-installed", False, id="has its own"),
        pytest.param("false", False, id="opted out"),
        pytest.param("", False, id="nobody has looked yet"),
    ],
)
def test_only_nodes_that_take_a_driver_lead_to_a_driver_daemonset(value, expected):
    active = read(raw())
    node = NodeFacts("g1", {**UBUNTU, names.DEPLOY_DRIVER: value})
    found = daemonsets(plan_of(active, active.policy, view(node)))
    assert ("nvidia-driver-daemonset" in found) == expected


def test_user_env_replaces_ours_by_name():
    plan = planned(devicePlugin={"env": [{"name": "DEVICE_LIST_STRATEGY", "value": "envvar"}]})
    container = daemonsets(plan)["nvidia-device-plugin-daemonset"]["spec"]["template"]["spec"]["containers"][
        0
    ]
    values = {item["name"]: item.get("value") for item in container["env"]}
    assert values["DEVICE_LIST_STRATEGY"] == "envvar"


def test_where_the_daemons_meet_is_not_the_policys_to_change():
    env = [{"name": "GPUREADY_DESIRED_DIR", "value": "/nowhere"}, {"name": "NODE_NAME", "value": "x"}]
    plan = planned(
        devicePlugin={"env": env}, daemonsets={"labels": {"gpuready.dev/operand": "x", "team": "ml"}}
    )
    template = daemonsets(plan)["nvidia-device-plugin-daemonset"]["spec"]["template"]
    values = {item["name"]: item.get("value") for item in template["spec"]["containers"][0]["env"]}
    assert values["GPUREADY_DESIRED_DIR"] == names.DESIRED_DIR
    assert values["NODE_NAME"] is None, "still from the downward API"
    assert template["metadata"]["labels"]["gpuready.dev/operand"] == "device-plugin"
    assert template["metadata"]["labels"]["team"] == "ml"


def test_an_env_that_would_end_the_plugin_is_refused_before_it_replaces_what_runs():
    plan = planned(devicePlugin={"env": [{"name": "MIG_STRATEGY", "value": "banana"}]})
    refused = next(each for each in plan.operands if each.operand.name == "device-plugin").refusal
    assert refused.reason == "EnvInvalid"
    assert "banana" in refused.message
    assert "single" in refused.message, "and what is allowed"


NAMED = {"repository": "example.org/nvidia", "image": "k8s-device-plugin", "version": "v0.17.0"}
BANANA = {"env": [{"name": "MIG_STRATEGY", "value": "banana"}]}


def test_a_named_image_runs_with_the_originals_contract():
    plan = planned(devicePlugin=NAMED)
    pod = daemonsets(plan)["nvidia-device-plugin-daemonset"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "example.org/nvidia/k8s-device-plugin:v0.17.0"
    assert pod["runtimeClassName"] == "nvidia"
    assert pod["initContainers"][0]["name"] == "toolkit-validation"
    assert "nvidia-operator-validator" in daemonsets(plan), "which opens the gate that it waits for"


def test_a_policy_that_names_no_image_has_none_of_the_originals_pods():
    assert not {"nvidia-operator-validator", "nvidia-device-plugin-mps-control-daemon"} & set(
        daemonsets(planned())
    )


def test_what_has_no_program_and_no_image_is_listed_and_not_deployed():
    plan = planned(dcgm={"enabled": True, "version": "4.5.1"})
    assert plan.not_implemented == ("dcgm",)
    assert "nvidia-dcgm" not in daemonsets(plan)


def test_a_toolkit_without_an_image_is_ours_and_sees_the_whole_host():
    plan = planned(toolkit={"enabled": True, "env": [{"name": "RUNTIME_RESTART_MODE", "value": "systemd"}]})

    pod = daemonsets(plan)["nvidia-container-toolkit-daemonset"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["gpuready", "toolkit"]
    assert {"name": "RUNTIME_RESTART_MODE", "value": "systemd"} in pod["containers"][0]["env"]
    assert pod["hostPID"] is True
    assert pod["volumes"][0] == {"name": "host-root", "hostPath": {"path": "/", "type": "Directory"}}


def test_a_toolkit_that_would_not_start_with_its_env_is_refused():
    plan = planned(toolkit={"enabled": True, "env": [{"name": "RUNTIME", "value": "podman"}]})

    assert "nvidia-container-toolkit-daemonset" not in daemonsets(plan)
    assert "toolkit" in plan.refused


def test_fields_that_do_nothing_are_named_in_a_condition():
    spec = {"devicePlugin": {"args": ["--fail-on-init-error=false"]}, "psp": {"enabled": True}}
    result = status(deployed(), gpu_nodes=[gpu_node()], spec=spec)
    (condition,) = [row for row in result["conditions"] if row["type"] == "NoEffect"]
    assert condition["status"] == "True"
    assert "spec.devicePlugin.args: flags of NVIDIA's program" in condition["message"]
    assert "spec.psp: deprecated" in condition["message"]
    with_the_image = {"devicePlugin": {**NAMED, **spec["devicePlugin"]}}
    other = status(deployed(), gpu_nodes=[gpu_node()], spec=with_the_image)
    assert "NoEffect" not in {row["type"] for row in other["conditions"]}


def test_an_operand_that_cannot_be_built_stops_no_other():
    named = {"repository": "example.org", "image": "driver", "version": "570.86.10"}
    plan = planned(driver={**named, "repoConfig": {"configMapName": "repos"}})
    (refused,) = [each for each in plan.operands if each.refusal]
    assert refused.operand.name == "driver"
    assert "there is no ConfigMap gpu-operator/repos" in refused.refusal.message
    assert "nvidia-device-plugin-daemonset" in daemonsets(plan)
    row = next(row for row in status_of(read(raw()), plan, Observed([], {}), "n", NOW)["operands"][2:3])
    assert (row["name"], row["reason"]) == ("driver", "NotPossible")


def test_a_refused_operand_is_a_reason_of_its_own_and_worth_an_event():
    refused = gpu_node(plugin="broken", reason="EnvInvalid")
    result = status(deployed(), gpu_nodes=[refused], spec={"devicePlugin": BANANA})
    problem = new_problem({}, result)
    assert problem["reason"] == "OperandRefused"
    assert "MIG_STRATEGY=banana" in problem["message"]
    assert (result["nodes"]["ready"], result["nodes"]["brokenBy"]) == (0, {"device-plugin": 1})


def broken_operand(name: str, **parts: Any) -> tuple[Any, ...]:
    """The registry with one operand whose code is wrong."""
    return tuple(replace(each, **parts) if each.name == name else each for each in registry.OPERANDS)


@pytest.mark.parametrize("part", ["own", "enabled", "check"])
def test_a_mistake_of_ours_in_one_operand_is_told_and_the_others_go_on(part, monkeypatch):
    def wrong(*_: Any) -> Any:
        raise KeyError("gpus")

    monkeypatch.setattr(registry, "OPERANDS", broken_operand("device-plugin", **{part: wrong}))
    plan = planned()
    assert "nvidia-driver-daemonset" in daemonsets(plan)
    assert "device-plugin" in plan.refused, "what runs of it is not pruned"
    result = status_of(read(raw()), plan, Observed([deployed()], {"g1": gpu_node()}), "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["reason"]) == ("notReady", "InternalError")
    assert "internal error: KeyError: 'gpus'; next: report it" in row["message"]
    assert result["conditions"][1]["reason"] == "InternalError"
    assert new_problem({}, result), "worth an Event"


def test_a_mistake_of_ours_in_what_is_said_of_one_operand_is_told_in_its_row(monkeypatch):
    plan = planned()
    odd = {"nvidia-device-plugin-daemonset": {"spec": {}, "metadata": None}}
    seen = Observed([deployed()], {"g1": gpu_node()}, {**daemonsets(plan), **odd})
    result = status_of(read(raw()), plan, seen, "gpu-operator", NOW)
    rows = {row["name"]: row["reason"] for row in result["operands"]}
    assert rows["device-plugin"] == "InternalError"
    assert rows["driver"] != "InternalError"


@pytest.mark.parametrize(
    ("block", "field", "said"),
    [
        ({"repository": "nvcr.io/NVIDIA"}, "spec.toolkit.repository", "capital letters"),
        ({"image": "Toolkit"}, "spec.toolkit.image", "capital letters"),
        ({"version": "v1.0-"}, "", ""),
        ({"version": ".v1"}, "spec.toolkit.version", "[:TAG]"),
        ({"version": "a:b"}, "spec.toolkit.version", "[:TAG]"),
        ({"repository": "nvcr.io//nvidia"}, "spec.toolkit.repository", "PATH"),
        ({"repository": "https://nvcr.io/nvidia"}, "spec.toolkit.repository", "PATH"),
        ({"version": "sha256:abc"}, "spec.toolkit.version", "@DIGEST"),
        ({"version": "sha256:" + "a" * 64}, "", ""),
        ({"repository": "registry.local:5000/nvidia"}, "", ""),
    ],
)
def test_an_image_by_a_name_that_none_can_have_is_named_and_not_rolled_out(block, field, said):
    named = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "toolkit", "version": "v1", **block}
    plan = planned(toolkit=named)
    (toolkit,) = (each for each in plan.operands if each.operand.name == "toolkit")
    if not field:
        assert toolkit.refusal is None
        return
    assert toolkit.objects == ()
    assert toolkit.refusal.reason == "ImageInvalid"
    assert f"({field})" in toolkit.refusal.message
    assert said in toolkit.refusal.message
    assert toolkit.refusal.next_step == f"correct {field}"


def test_a_nonsense_mirror_is_named_too():
    plan = planned(gpuready={"registry": "mirror.example.com/GPU"})
    refused = {each.operand.name: each.refusal.message for each in plan.operands if each.refusal}
    assert "(spec.gpuready.registry): names of images have no capital letters" in refused["driver"]


def test_an_operand_that_is_refused_is_left_as_it_runs():
    owned = planned().objects
    plan = planned(devicePlugin=BANANA)
    assert plan.refused == {"device-plugin"}
    assert surplus(owned, plan.keys, plan.refused) == []


@pytest.mark.parametrize(
    ("counts", "state", "reason", "said"),
    [
        pytest.param({"ready": 2}, "ready", "Ready", "", id="all pods are ready"),
        pytest.param({"ready": 1}, "notReady", "PodsNotReady", "1 of 2 pods ready", id="one is not"),
        pytest.param({"ready": 2, "updated": 1}, "notReady", "RollingOut", "1 of 2 nodes", id="one is old"),
        pytest.param(
            {"ready": 2, "seen": 0}, "notReady", "RollingOut", "", id="the new text is not seen yet"
        ),
    ],
)
def test_an_original_is_as_ready_as_its_pods(counts, state, reason, said):
    active = read(raw(devicePlugin=NAMED))
    plan = plan_of(active, active.policy, view())
    live = {name: {**obj, "status": _counts(**counts)} for name, obj in daemonsets(plan).items()}
    for obj in live.values():
        obj["metadata"] = {**obj["metadata"], "generation": 1}
    result = status_of(active, plan, Observed([deployed()], {"g1": gpu_node()}, live), "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["reason"], row["flavour"]) == (state, reason, "original")
    assert (row["desired"], row["ready"]) == (2, counts["ready"])
    assert said in row["message"]


def _counts(ready: int, updated: int = 2, seen: int = 1) -> dict[str, int]:
    return {
        "observedGeneration": seen,
        "desiredNumberScheduled": 2,
        "updatedNumberScheduled": updated,
        "numberReady": ready,
    }


def test_own_images_run_whatever_the_policy_names():
    found = daemonsets(planned(devicePlugin=NAMED, gpuready={"images": "own"}))
    pod = found["nvidia-device-plugin-daemonset"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "gpuready:test"
    assert "nvidia-operator-validator" not in found


def test_a_disabled_operand_is_pruned_and_the_agent_never_is():
    owned = planned().objects
    keys = planned(devicePlugin={"enabled": False}).keys
    gone = {obj["metadata"]["name"] for obj in surplus(owned, keys)}
    assert gone == {"nvidia-device-plugin-daemonset", "nvidia-device-plugin"}


def test_everything_goes_in_reverse_order_and_the_agent_last():
    operands = [
        obj["metadata"]["labels"][names.OPERAND_LABEL]
        for obj in leftovers(planned().objects, keep_agent=False)
    ]
    assert list(dict.fromkeys(operands)) == [
        "device-plugin",
        "driver",
        "operator-metrics",
        "runtime-classes",
        "node-agent",
    ]
    kept = leftovers(planned().objects, keep_agent=True)
    assert all(obj["metadata"]["labels"][names.OPERAND_LABEL] != "node-agent" for obj in kept)


# --- status ---------------------------------------------------------------------------------------------


def deployed(name: str = "g1", **labels: str) -> NodeView:
    mine = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true", names.DEPLOY_DEVICE_PLUGIN: "true"}
    return NodeView(name, {**UBUNTU, **mine, "nvidia.com/gpu.product": "NVIDIA-L4", **labels})


def gpu_node(name: str = "g1", driver: str = "ok", plugin: str = "ok", reason: str = "") -> Any:
    rows = [("driver", driver), ("device-plugin", plugin)]
    chain = [f'{{"link":"{k}","state":"{v}","reason":"{reason}","message":"m {reason}"}}' for k, v in rows]
    body = f'{{"metadata":{{"name":"{name}"}},"spec":{{}},"status":{{"gpus":2,"chain":[{",".join(chain)}]}}}}'
    return decode_gpunode(body.encode())


def status(*nodes: NodeView, gpu_nodes: list[Any], **kwargs: Any) -> dict[str, Any]:
    active = read(raw(**kwargs.pop("spec", {})))
    plan = plan_of(active, active.policy, view())
    seen = Observed(
        nodes,
        {each.metadata.name: each for each in gpu_nodes},
        daemonsets(plan),
        agent_name="agent",
        **kwargs,
    )
    return status_of(active, plan, seen, "gpu-operator", NOW)


def test_ready_means_every_operand_on_every_node_it_belongs_to():
    result = status(deployed(), gpu_nodes=[gpu_node()])
    assert result["state"] == "ready"
    assert result["nodes"] == {"gpu": 1, "ready": 1, "brokenBy": {}, "undiscovered": 0}
    assert result["observedGeneration"] == 3
    rows = {row["name"]: (row["ready"], row["desired"]) for row in result["operands"]}
    assert rows["driver"] == rows["device-plugin"] == (1, 1)


def test_without_the_right_to_list_secrets_it_is_said_which_were_not_looked_for():
    """The policy is ready all the same: a missing Secret keeps pods waiting, which is told of those."""
    plugin = {"devicePlugin": {"imagePullSecrets": ["site"]}}
    ready = condition_of(status(deployed(), gpu_nodes=[gpu_node()], spec=plugin), "Ready")
    assert ready["status"] == "True"
    assert "whether these Secrets exist is not known" in ready["message"]
    assert ready["message"].endswith("the operator may not list any: site")


def condition_of(status: dict[str, Any], type_: str) -> dict[str, Any]:
    return next(row for row in status["conditions"] if row["type"] == type_)


def test_a_broken_driver_is_named_with_its_node_and_link():
    broken = gpu_node(driver="broken", reason="DriverLibraryMismatch", plugin="waiting")
    result = status(deployed(), gpu_nodes=[broken])
    assert result["state"] == "notReady"
    assert result["nodes"]["brokenBy"] == {"driver": 1}
    assert "g1" in result["conditions"][1]["message"]
    assert "DriverLibraryMismatch" in result["conditions"][1]["message"]


def test_a_degraded_link_counts_as_whole():
    assert status(deployed(), gpu_nodes=[gpu_node(driver="degraded")])["state"] == "ready"


@pytest.mark.parametrize(
    ("strategy", "generation", "updated", "ready", "expected"),
    [
        pytest.param("RollingUpdate", 1, 2, 2, "notReady", id="the new text is not seen yet"),
        pytest.param("RollingUpdate", 2, 1, 2, "notReady", id="one pod is still the old one"),
        pytest.param("RollingUpdate", 2, 2, 1, "notReady", id="one of the new pods is starting"),
        pytest.param("RollingUpdate", 2, 2, 2, "ready", id="all pods are new"),
        pytest.param("OnDelete", 2, 0, 1, "ready", id="the user replaces them"),
    ],
)
def test_an_operand_whose_pods_are_being_replaced_is_not_ready(
    strategy, generation, updated, ready, expected
):
    active = read(raw())
    plan = plan_of(active, active.policy, view())
    live = {name: dict(obj) for name, obj in daemonsets(plan).items()}
    plugin = live["nvidia-device-plugin-daemonset"]
    counts = {"desiredNumberScheduled": 2, "updatedNumberScheduled": updated, "numberReady": ready}
    plugin["metadata"] = {**plugin["metadata"], "generation": 2}
    plugin["spec"] = {**plugin["spec"], "updateStrategy": {"type": strategy}}
    plugin["status"] = {"observedGeneration": generation, **counts}
    result = status_of(active, plan, Observed([deployed()], {"g1": gpu_node()}, live), "gpu-operator", NOW)
    assert result["state"] == expected


def test_a_pod_alone_does_not_take_back_that_an_operand_is_ready():
    active = read(raw())
    plan = plan_of(active, active.policy, view())
    live = daemonsets(plan)
    counts = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberReady": 1}
    live["nvidia-device-plugin-daemonset"]["status"] = counts
    seen = Observed([deployed()], {"g1": gpu_node()}, live)
    before = {"operands": [{"name": "device-plugin", "enabled": True, "state": "ready"}]}
    assert status_of(active, plan, seen, "gpu-operator", NOW)["state"] == "notReady"
    active = replace(active, raw={**active.raw, "status": before})
    assert status_of(active, plan, seen, "gpu-operator", NOW)["state"] == "ready"


def test_of_an_operand_that_has_just_been_made_nobody_says_that_it_was_changed():
    active = read(raw())
    plan = plan_of(active, active.policy, view())
    live = daemonsets(plan)
    plugin = live["nvidia-device-plugin-daemonset"]
    live["nvidia-device-plugin-daemonset"] = {**plugin, "metadata": {**plugin["metadata"], "generation": 1}}
    result = status_of(active, plan, Observed([deployed()], {"g1": gpu_node()}, live), "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert row["message"] == "nvidia-device-plugin-daemonset has just been made, its pods are about to start"


@pytest.mark.parametrize("reason", ["DriverOutdated", "DriverPodFailing"])
def test_a_driver_that_is_not_the_one_asked_for_is_not_ready_though_its_node_is(reason):
    result = status(deployed(), gpu_nodes=[gpu_node(driver="degraded", reason=reason)])
    row = next(row for row in result["operands"] if row["name"] == "driver")
    assert (row["state"], row["reason"], row["ready"]) == ("notReady", reason, 0)
    assert f"g1: m {reason}" in row["message"]
    assert result["nodes"]["ready"] == 1


def test_an_automatic_upgrade_is_listed_as_not_implemented():
    result = status(
        deployed(), gpu_nodes=[gpu_node()], spec={"driver": {"upgradePolicy": {"autoUpgrade": True}}}
    )
    row = next(row for row in result["operands"] if row["name"] == "driver-upgrade")
    assert row["reason"] == "NotImplemented"
    assert "drain each node" in row["message"]
    assert "delete its driver's pod" in row["message"]
    assert "image" not in row["message"], "there is none that would upgrade drivers"
    assert "driver-upgrade" in result["conditions"][2]["message"]


def test_counts_and_messages_are_no_headline():
    result = status(deployed(), gpu_nodes=[gpu_node()])
    moved = {
        **result,
        "nodes": {"gpu": 2},
        "operands": [{**row, "message": "x"} for row in result["operands"]],
    }
    assert headline(moved) == headline(result)
    assert headline({**result, "state": "notReady"}) != headline(result)
    assert headline({}) != headline(result)


def test_a_ready_operand_tells_what_is_degraded_and_where():
    result = status(deployed(), gpu_nodes=[gpu_node(plugin="degraded", reason="ConfigKeyMissing")])
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["reason"]) == ("ready", "ConfigKeyMissing")
    assert "g1: m ConfigKeyMissing" in row["message"]
    assert "g1: m ConfigKeyMissing" in result["conditions"][0]["message"]


def test_a_node_that_nobody_reports_on_is_not_ready_and_it_is_said_why():
    why = "the node agent's pod agent-1 is not ready: ImagePullBackOff"
    never = NodeView("g1", deployed().labels, silence=why)
    result = status(never, gpu_nodes=[])
    assert result["state"] == "notReady"
    assert why in result["conditions"][1]["message"]

    fell_silent = NodeView("g1", deployed().labels, silence=why, silent=True)
    result = status(fell_silent, gpu_nodes=[gpu_node()])
    assert result["state"] == "notReady"
    assert result["nodes"]["brokenBy"] == {"reporting": 1}
    assert why in result["conditions"][1]["message"]


def test_a_short_silence_takes_nothing_back():
    node = NodeView("g1", deployed().labels, silence="the node agent's pod agent-1 is not ready")
    assert status(node, gpu_nodes=[gpu_node()])["state"] == "ready"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        pytest.param({}, True, id="first time"),
        pytest.param({"reason": "PolicyInvalid", "message": "b"}, True, id="another problem"),
        pytest.param({"reason": "PolicyInvalid", "message": "a"}, False, id="the same again"),
    ],
)
def test_a_problem_of_the_policy_is_said_once_in_an_event(before, said):
    def with_error(row: dict[str, str]) -> dict[str, Any]:
        return {"conditions": [{"type": "Error", **row}]}

    now = with_error({"reason": "PolicyInvalid", "message": "a"})
    assert (new_problem(with_error(before), now) is not None) == said
    assert new_problem(now, with_error({"reason": "OperandNotReady", "message": "g1"})) is None


def test_a_node_opted_out_of_an_operand_does_not_hold_it_up():
    opted_out = deployed(**{names.DEPLOY_DEVICE_PLUGIN: "false"})
    result = status(opted_out, gpu_nodes=[gpu_node(plugin="waiting")])
    assert result["state"] == "ready"


def test_a_cluster_without_gpus_is_ready_and_says_so():
    result = status(gpu_nodes=[])
    assert (result["state"], result["conditions"][0]["reason"]) == ("ready", "NoGPUNodes")


def test_a_policy_is_not_ready_before_every_node_was_looked_at():
    result = status(NodeView("new", {}, undiscovered=True), gpu_nodes=[])
    assert result["state"] == "notReady"
    assert result["conditions"][1]["reason"] == "Discovering"
    assert "new" in result["conditions"][1]["message"]
    assert result["nodes"]["undiscovered"] == 1


def test_a_node_that_joins_later_does_not_take_ready_back():
    active = read({**raw(), "status": {"state": "ready", "observedGeneration": 3}})
    plan = plan_of(active, active.policy, view())
    seen = Observed(
        [deployed(), NodeView("new", {}, undiscovered=True)], {"g1": gpu_node()}, daemonsets(plan)
    )
    assert status_of(active, plan, seen, "gpu-operator", NOW)["state"] == "ready"


def test_what_has_no_code_yet_is_listed_and_does_not_hold_up_the_rest():
    result = status(deployed(), gpu_nodes=[gpu_node()], spec={"dcgm": {"enabled": True}})
    assert result["state"] == "ready"
    row = next(row for row in result["operands"] if row["name"] == "dcgm")
    assert row["reason"] == "NotImplemented"
    assert "name an image to run the original's" in row["message"]
    assert result["conditions"][2]["type"] == "NotImplemented"
    assert "dcgm" in result["conditions"][2]["message"]
    assert "not installed by this version: dcgm" in result["conditions"][0]["message"]


def test_one_object_that_cannot_be_written_is_named():
    failures = {"DaemonSet/nvidia-device-plugin-daemonset": "quota exceeded"}
    result = status(deployed(), gpu_nodes=[gpu_node()], failures=failures)
    assert result["conditions"][1]["reason"] == "ReconcileFailed"
    assert "quota exceeded" in result["conditions"][1]["message"]


def test_conditions_keep_the_time_of_their_last_change():
    active = read(raw())
    first = status(deployed(), gpu_nodes=[gpu_node()])
    again = read({**raw(), "status": first})
    plan = plan_of(active, active.policy, view())
    seen = Observed([deployed()], {"g1": gpu_node()}, daemonsets(plan))
    later = status_of(again, plan, seen, "gpu-operator", "2026-11-30T00:00:00Z")
    assert later == first, "so an unchanged status is not written again"


@pytest.mark.parametrize("images", ["own", "asNamed"])
def test_the_status_says_whose_images_run(images):
    result = status(deployed(), gpu_nodes=[gpu_node()], spec={"gpuready": {"images": images}})
    flavours = {row["name"]: row["flavour"] for row in result["operands"] if row["desired"]}
    assert flavours == {"driver": "original", "device-plugin": "own"}


def test_no_text_of_a_status_is_longer_than_a_condition_may_be():
    plan = planned()
    refusal = Refusal("Some", "x" * 50_000, "do this")
    held_back = replace(plan, operands=tuple(replace(each, refusal=refusal) for each in plan.operands))

    status = status_of(read(raw()), held_back, Observed([], {}), "gpu-operator", NOW)

    texts = [row["message"] for row in (*status["operands"], *status["conditions"])]
    assert max(map(len, texts)) == 1024
    assert all(len(text) < 1024 or text.endswith("…") for text in texts)
