"""From a policy to the objects that it asks for."""

from __future__ import annotations

import pytest
from tests.unit.controller.policies import UBUNTU, daemonsets, node_facts, planned, raw, view

from gpuready import names
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import plan_of
from gpuready.controller.policy.view import pool_served_by
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.operands.driver.manifest import POOL_LABEL


def test_a_policy_leads_to_agent_driver_and_plugin():
    assert set(daemonsets(planned())) == {
        "gpuready-node-agent",
        "nvidia-driver-daemonset",
        "nvidia-device-plugin-daemonset",
    }


def with_image(image):
    return {"spec": {"template": {"spec": {"containers": [{"name": "nvidia-driver-ctr", "image": image}]}}}}


def test_the_policy_owns_its_objects_but_not_the_node_agents():
    for obj in planned().objects:
        owners = obj["metadata"].get("ownerReferences", [])
        is_agent = obj["metadata"]["labels"][names.OPERAND_LABEL] == "node-agent"
        assert [ref["uid"] for ref in owners] == ([] if is_agent else ["uid-cluster-policy"])


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


@pytest.mark.parametrize(
    ("driver", "pool"),
    [
        pytest.param({}, "", id="there is none"),
        pytest.param({"metadata": {"labels": {POOL_LABEL: "rhel9.4"}}}, "rhel9.4", id="ours says it"),
        pytest.param(with_image("nvcr.io/nvidia/driver:580.126.20-ubuntu22.04"), "ubuntu22.04", id="its tag"),
        pytest.param(with_image("nvcr.io/nvidia/driver@sha256:" + 64 * "a"), "", id="a digest says nothing"),
    ],
)
def test_which_system_a_driver_serves_that_we_take_over(driver, pool):
    """Another one under its name would take the driver's pods from every node of this one."""
    rhel = NodeFacts("g0", {**UBUNTU, names.OS_ID_LABEL: "rhel", names.OS_VERSION_LABEL: "9.4"})
    assert pool_served_by(driver, [rhel, node_facts()]) == pool


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
