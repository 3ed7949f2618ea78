"""A driver that works on while the one that the policy asks for does not come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuready import names
from gpuready.api.policy import parse_policy
from gpuready.controller.kept import decode_found_driver, decode_own_pod
from gpuready.controller.nodes.driver_pod import asked_version, config_for, driver_trouble
from gpuready.controller.nodes.summary import DriverSummary
from gpuready.kube.trimmed import Condition, ContainerStatus, Metadata, Pod

NAME = "nvidia-driver-daemonset-x7x2k"
OLD = DriverSummary(owner="container", version="570.86.10")
NEW = "570.124.06"


def driver_pod(
    reason: str = "",
    *,
    ready: bool = False,
    restarts: int = 0,
    config: str = "",
    last: str = "",
    phase: str = "Running",
    name: str = NAME,
    created: str = "2026-01-01T00:00:00Z",
) -> Pod:
    labels = {names.DRIVER_CONFIG_LABEL: config} if config else {}
    container = ContainerStatus(
        state="waiting" if reason else "running",
        reason=reason,
        restart_count=restarts,
        last_reason=last,
        image="example.org/driver:1",
    )
    return Pod(
        Metadata(name=name, namespace="gpu-operator", labels=labels, creation_timestamp=created),
        node_name="a100",
        phase=phase,
        conditions=[Condition(type="Ready", status="True" if ready else "False")],
        containers=[container],
    )


def trouble(*pods: Pod, running: DriverSummary = OLD, version: str = "570.86.10", **more: Any) -> Any:
    given = {"config": "", "before": None, **more}
    return driver_trouble("a100", pods, running, version=version, **given)


def test_a_new_version_in_the_policy_that_no_pod_has_brought_yet() -> None:
    said = trouble(driver_pod(ready=True), version=NEW)

    assert said["reason"] == "DriverOutdated"
    assert said["message"] == f"a100 runs 570.86.10, the policy asks for {NEW}"
    assert said["nextStep"].startswith("when the GPUs of a100 are free: ")
    assert "gpu.deploy.device-plugin=paused-for-driver-upgrade" in said["nextStep"]
    assert f"delete the pod {NAME}" in said["nextStep"]
    assert "does not roll drivers by itself" in said["nextStep"]


@pytest.mark.parametrize(
    ("pods", "given"),
    [
        pytest.param([driver_pod(ready=True)], {}, id="the version asked for runs"),
        pytest.param([driver_pod(ready=True)], {"version": ""}, id="no particular version is asked for"),
        pytest.param([], {"running": DriverSummary("host", "550.1.2")}, id="the host has its own"),
        pytest.param([driver_pod()], {"running": DriverSummary()}, id="the first one is being installed"),
        pytest.param([driver_pod(restarts=1)], {"running": DriverSummary()}, id="it starts after a reboot"),
        pytest.param([driver_pod(ready=True, config="b")], {"config": "b"}, id="the pod is of this policy"),
    ],
)
def test_what_is_in_order_or_on_its_way_is_no_trouble(pods: list[Pod], given: dict[str, Any]) -> None:
    assert trouble(*pods, **given) is None


def test_the_same_version_installed_in_another_way_is_outdated_too() -> None:
    said = trouble(driver_pod(ready=True, config="a"), config="b")

    assert said["reason"] == "DriverOutdated"
    assert "an earlier policy" in said["message"]


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(
            driver_pod("CrashLoopBackOff", restarts=3, last="Error"), "CrashLoopBackOff", id="it crashes"
        ),
        pytest.param(
            driver_pod("ImagePullBackOff"), "example.org/driver:1 cannot be pulled", id="no such image"
        ),
        pytest.param(driver_pod(phase="Failed"), "Failed", id="it has failed for good"),
    ],
)
def test_a_pod_that_fails_beside_the_old_driver(pod: Pod, words: str) -> None:
    said = trouble(pod, version=NEW)

    assert said["reason"] == "DriverPodFailing"
    assert NAME in said["message"]
    assert words in said["message"]
    assert "570.86.10 stays loaded" in said["message"]
    assert NAME in said["nextStep"]


def test_a_failing_pod_of_an_older_text_of_the_policy_is_to_be_deleted_first() -> None:
    older = driver_pod("CrashLoopBackOff", restarts=3, config="a")

    said = trouble(older, config="b", version=NEW)

    assert said["reason"] == "DriverPodFailing"
    assert said["message"].endswith("this pod is of an older text of the policy")
    assert said["nextStep"].startswith("delete it")
    assert f"kubectl delete pod -n gpu-operator {NAME}" in said["nextStep"]
    assert "paused" not in said["nextStep"]
    being_tried = driver_pod(restarts=4, config="a")
    assert trouble(being_tried, config="b", version=NEW, before=said) == said


def test_the_text_stays_while_the_container_is_only_being_tried_anew() -> None:
    first = trouble(driver_pod("CrashLoopBackOff", restarts=2, last="Error"))
    again = trouble(driver_pod(restarts=3, last="Error"), before=first)

    assert again == first
    assert trouble(driver_pod(ready=True, restarts=3), before=again) is None
    other = driver_pod(name="nvidia-driver-daemonset-other", created="2026-01-02T00:00:00Z")
    assert trouble(driver_pod(restarts=3), other, before=first) is None


@pytest.mark.parametrize(
    ("driver", "version"),
    [
        ({"version": NEW}, NEW),
        ({"version": "570"}, ""),
        ({"version": "sha256:" + "0" * 64}, ""),
        ({"enabled": False, "version": NEW}, ""),
        ({"repository": "r.example.org:5000/nvidia", "image": "driver", "version": NEW}, NEW),
    ],
)
def test_the_version_that_a_policy_asks_for(driver: dict[str, Any], version: str) -> None:
    assert asked_version(parse_policy({"metadata": {"name": "p"}, "spec": {"driver": driver}})) == version


def test_a_precompiled_drivers_pods_are_compared_with_the_daemonset_of_their_kernel():
    """All kernels share the label `app`, as in the original; who owns the pod says which one it is."""
    sets = {
        f"nvidia-driver-daemonset-{kernel}": {
            "spec": {"template": {"metadata": {"labels": {names.DRIVER_CONFIG_LABEL: f"config-of-{kernel}"}}}}
        }
        for kernel in ("5.15.0", "6.8.0")
    }
    owner = {"kind": "DaemonSet", "name": "nvidia-driver-daemonset-6.8.0", "uid": "u", "controller": True}
    meta = {"name": "p", "labels": {"app": "nvidia-driver-daemonset"}, "ownerReferences": [owner]}
    pod = decode_own_pod(json.dumps({"metadata": meta}).encode())
    assert config_for([pod], sets.get) == "config-of-6.8.0"
    assert config_for([], sets.get) == ""


def originals_pod(**container: Any) -> dict[str, Any]:
    """As the API server shows a pod of the original: without a label of ours."""
    shown = {
        "name": "nvidia-driver-ctr",
        "image": "example.org/driver:570.86.10-ubuntu22.04",
        "args": ["init"],
    }
    return {
        "metadata": {
            "name": NAME,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver"},
            "ownerReferences": [{"kind": "DaemonSet", "name": "driver", "uid": "u", "controller": True}],
        },
        "spec": {"nodeName": "a100", "containers": [{**shown, **container}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def driver_set(**container: Any) -> dict[str, Any]:
    spec = originals_pod(**container)["spec"]
    labels = {names.DRIVER_CONFIG_LABEL: "of this policy"}
    return {"spec": {"template": {"metadata": {"labels": labels}, "spec": spec}}}


@pytest.mark.parametrize(
    ("had", "wants", "is_told"),
    [
        pytest.param({}, {}, False, id="nothing has changed"),
        pytest.param(
            {"env": [{"name": "DRIVER_CONFIG_DIGEST", "value": "the original's"}]},
            {"env": [{"name": "DRIVER_CONFIG_DIGEST", "value": "ours"}]},
            False,
            id="only the digest is another",
        ),
        pytest.param({}, {"env": [{"name": "A", "value": "1"}]}, True, id="driver.env"),
        pytest.param(
            {"env": [{"name": "KERNEL_MODULE_TYPE", "value": "auto"}]},
            {"env": [{"name": "KERNEL_MODULE_TYPE", "value": "proprietary"}]},
            True,
            id="driver.kernelModuleType",
        ),
        pytest.param(
            {"env": [{"name": "OPEN_KERNEL_MODULES_ENABLED", "value": "true"}]},
            {
                "env": [
                    {"name": "KERNEL_MODULE_TYPE", "value": "open"},
                    {"name": "OPEN_KERNEL_MODULES_ENABLED", "value": "true"},
                ]
            },
            False,
            id="open modules as an older release asks for them",
        ),
        pytest.param({}, {"args": ["init", "--other"]}, True, id="driver.args"),
        pytest.param({}, {"image": "example.org/driver:570.86.10-rhel9"}, True, id="another image"),
        pytest.param({}, {"image": "mirror.example/driver:570.86.10-ubuntu22.04"}, False, id="a mirror"),
    ],
)
def test_a_pod_that_was_taken_over_is_judged_by_what_it_shows(had: Any, wants: Any, is_told: bool) -> None:
    pod = decode_found_driver(json.dumps(originals_pod(**had)).encode())
    sets = {"driver": driver_set(**wants)}

    said = trouble(pod, config=config_for([pod], sets.get))

    assert bool(said) is is_told
    if said:
        assert said["message"] == (
            "a100 runs 570.86.10 as an earlier policy had it installed, not as this one"
        )
