"""Pods that run as the policy wants are not replaced for a name or a wording: recorded clusters."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from tests.unit.operands.original.normal_form import record_objects
from tests.unit.operands.original.recorded import NAMES, plan_of_record

from gpuready import names
from gpuready.controller.policy import spared_pods
from gpuready.controller.policy.spared_pods import is_default, sparing
from gpuready.kube.compare import Difference, differences
from gpuready.operands.driver.digest import config_beside, mark_of
from gpuready.operands.original import scripts
from gpuready_sim.apiserver.defaults import defaulted

DRIVER = "nvidia-driver-daemonset"
# What stands in a record in the place of a text: "<script sha256:FIRST12> what it does".
PLACEHOLDER = re.compile(r"<script sha256:([0-9a-f]{12})>")
# Where we know better than the original, in the one record that asks for it (docs/guides/install.md).
REPLACED = {"P11": {"nvidia-dcgm-exporter", "nvidia-device-plugin-daemonset", "nvidia-mig-manager"}}


@pytest.fixture(autouse=True)
def recorded_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has the beginning of a text's digest instead of the text."""

    def does_the_same(ours: str, text: str) -> bool:
        known = scripts._OF_THE_ORIGINAL.get(ours, ())
        found = PLACEHOLDER.match(text)
        return bool(found) and any(digest.startswith(found[1]) for digest in known)

    monkeypatch.setattr(spared_pods, "does_the_same", does_the_same)


def wanted(record: str) -> dict[str, dict[str, Any]]:
    objects = [obj for each in plan_of_record(record).operands for obj in each.objects]
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "DaemonSet"}


def running(record: str, name: str) -> dict[str, Any]:
    return defaulted(copy.deepcopy(record_objects(record)["DaemonSet", name]))


def replaces_pods(desired: Any, live: Any) -> list[str]:
    found = [str(each) for each in differences(sparing(desired, live), live)]
    return [each for each in found if each.startswith("spec.template")]


@pytest.mark.parametrize("record", NAMES)
def test_a_takeover_replaces_no_pod_of_the_original_that_runs_as_the_policy_wants(record):
    replaced = {
        name: found
        for name, desired in wanted(record).items()
        if name != DRIVER and (found := replaces_pods(desired, running(record, name)))
    }
    assert set(replaced) == REPLACED.get(record, set()), replaced


def lists_of(daemonset: dict[str, Any]) -> dict[str, list[Any]]:
    """Every list of a pod in the order in which it stands: another order is another template."""
    pod = daemonset["spec"]["template"]["spec"]
    found = {name: [each["name"] for each in pod.get(name) or ()] for name in ("volumes", "imagePullSecrets")}
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        for name, key in (("env", "name"), ("volumeMounts", "mountPath")):
            found[f"{container['name']} {name}"] = [each[key] for each in container.get(name) or ()]
    return found


@pytest.mark.parametrize("record", NAMES)
def test_variables_and_volumes_stay_in_the_originals_order(record):
    """The API server lists what is applied in the order of the apply, and so each takeover would roll out."""
    moved = {}
    for name, desired in wanted(record).items():
        live = running(record, name)
        if name not in {DRIVER, *REPLACED.get(record, ())} and lists_of(sparing(desired, live)) != lists_of(
            live
        ):
            moved[name] = lists_of(live)
    assert moved == {}


def test_the_drivers_pods_are_not_replaced_by_themselves():
    """Their template gets its operating system's selector; a pod takes it up when somebody deletes it."""
    driver = wanted("P01")[DRIVER]
    assert replaces_pods(driver, running("P01", DRIVER))
    assert driver["spec"]["updateStrategy"] == {"type": "OnDelete"}


def digests_in(daemonset: dict[str, Any]) -> set[str]:
    pod = daemonset["spec"]["template"]["spec"]
    env = [row for each in (*pod["initContainers"], *pod["containers"]) for row in each.get("env", ())]
    return {row["value"] for row in env if row["name"] == "DRIVER_CONFIG_DIGEST"}


@pytest.mark.parametrize("record", [each for each in NAMES if each not in ("P02", "P03")])
def test_a_driver_that_is_installed_the_same_way_keeps_the_digest_that_the_node_knows(record):
    """Else a pod that comes back after a takeover installs it anew, and evicts who uses it."""
    desired, live = wanted(record)[DRIVER], running(record, DRIVER)
    assert digests_in(live) == {"<digest>"}
    spared = sparing(desired, live)
    assert digests_in(spared) == {"<digest>"}

    ours = copy.deepcopy({**live, "spec": copy.deepcopy(spared["spec"])})
    assert digests_in(sparing(desired, ours)) == {"<digest>"}, "and at every later look"


@pytest.mark.parametrize("record", [each for each in NAMES if each not in ("P02", "P03")])
def test_a_driver_pod_of_the_original_shows_that_it_installs_what_ours_does(record, monkeypatch):
    monkeypatch.setattr(scripts, "does_the_same", spared_pods.does_the_same)
    pod, ours = (
        running(record, DRIVER)["spec"]["template"]["spec"],
        wanted(record)[DRIVER]["spec"]["template"],
    )
    pod["volumes"].append({"name": "kube-api-access-x7x2k", "projected": {"sources": []}})  # by the server
    mark = mark_of({"metadata": {"labels": {"app": DRIVER}}, "spec": pod})
    assert mark == config_beside(mark, ours) != ""

    pod["containers"][0]["env"].append({"name": "PROXY", "value": "http://proxy.example.com"})
    assert mark_of({"metadata": {}, "spec": pod}) != config_beside(mark, ours)


def test_a_digest_that_somebody_wrote_by_hand_is_put_right():
    """As every other hand edit: with a forged one the next driver pod would install anew what is loaded."""
    ours = copy.deepcopy(wanted("P01")[DRIVER])
    ours["metadata"]["managedFields"] = [
        {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": {}},
        {
            "manager": "kubectl-edit",
            "operation": "Update",
            "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:containers": {FIRST: EDITED}}}}},
        },
    ]
    forged = copy.deepcopy(ours)
    env = forged["spec"]["template"]["spec"]["containers"][0]["env"]
    next(row for row in env if row["name"] == "DRIVER_CONFIG_DIGEST")["value"] = "forged"

    found = differences(sparing(ours, forged), forged)

    assert [(each.live, each.manager) for each in found] == [("forged", "kubectl-edit")]


FIRST = 'k:{"name":"nvidia-driver-ctr"}'
EDITED = {"f:env": {'k:{"name":"DRIVER_CONFIG_DIGEST"}': {"f:value": {}}}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda container: container.update(image="other:1"), id="another driver"),
        pytest.param(lambda container: container["env"].append({"name": "A", "value": "1"}), id="other env"),
        pytest.param(lambda container: container.update(args=["init", "--x"]), id="other args"),
        pytest.param(
            lambda container: container.update(envFrom=[{"secretRef": {"name": "s"}}]), id="a secret"
        ),
    ],
)
def test_a_driver_that_is_installed_otherwise_gets_a_digest_of_its_own(change):
    desired, live = copy.deepcopy(wanted("P01")[DRIVER]), running("P01", DRIVER)
    change(desired["spec"]["template"]["spec"]["containers"][0])
    assert digests_in(sparing(desired, live)) == digests_in(desired)


def test_files_of_another_configmap_are_another_way_to_install_a_driver():
    desired, live = copy.deepcopy(wanted("P01")[DRIVER]), running("P01", DRIVER)
    desired["spec"]["template"]["spec"]["volumes"].append({"name": "repos", "configMap": {"name": "repos"}})
    assert digests_in(sparing(desired, live)) == digests_in(desired)


@pytest.mark.parametrize("asked", [{}, {"helm.sh/chart": "gpuready-2", "app.kubernetes.io/managed-by": "us"}])
def test_helms_marks_are_not_worth_a_pod(asked):
    name = "gpu-feature-discovery"
    desired = copy.deepcopy(wanted("P01")[name])
    live = copy.deepcopy(desired)
    before = dict.fromkeys(spared_pods.CHART_LABELS, "of the chart before")
    live["spec"]["template"]["metadata"]["labels"].update(before)
    labels = desired["spec"]["template"]["metadata"]["labels"]
    for each in spared_pods.CHART_LABELS:
        labels.pop(each, None)
    labels.update(asked)

    assert replaces_pods(desired, live) == []


def test_a_users_own_label_reaches_the_pods():
    """Also by a name that charts use, where no chart has put its version there."""
    name = "gpu-feature-discovery"
    desired = copy.deepcopy(wanted("P01")[name])
    labels = desired["spec"]["template"]["metadata"]["labels"]
    for each in spared_pods.CHART_LABELS:
        labels.pop(each, None)
    live = copy.deepcopy(desired)
    labels["app.kubernetes.io/managed-by"] = "team-x"

    assert replaces_pods(desired, live)


def test_with_the_first_change_that_replaces_pods_anyway_all_becomes_ours():
    name = "gpu-feature-discovery"
    desired = copy.deepcopy(wanted("P01")[name])
    desired["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "NEW", "value": "1"})

    spared = sparing(desired, running("P01", name))

    assert spared is desired
    assert spared["spec"]["template"]["metadata"]["labels"][names.OPERAND_LABEL]


def test_args_of_the_policy_are_no_wording_of_the_originals():
    """A user's own text in the place of a script reaches the pods."""
    name = "nvidia-operator-validator"
    desired = copy.deepcopy(wanted("P01")[name])
    desired["spec"]["template"]["spec"]["containers"][0]["args"] = ["sleep 5"]
    assert replaces_pods(desired, running("P01", name))

    live = running("P01", name)
    live["spec"]["template"]["spec"]["containers"][0]["args"] = ["sleep 5"]
    assert replaces_pods(wanted("P01")[name], live)


def test_what_pods_have_read_before_the_takeover_is_noted_beside_them_until_it_changes():
    """Without the note an edit of the ConfigMap would never reach them, on them it would restart them."""
    name = "nvidia-mig-manager"
    desired, live = wanted("P04")[name], running("P04", name)
    first = sparing(desired, live)
    note = first["metadata"]["annotations"]["gpuready.dev/config-digest"]
    assert note == desired["spec"]["template"]["metadata"]["annotations"]["gpuready.dev/config-digest"]
    live["metadata"]["annotations"] = dict(first["metadata"]["annotations"])

    assert sparing(desired, live) == first, "nothing to write at the next look"

    edited = copy.deepcopy(desired)
    edited["spec"]["template"]["metadata"]["annotations"]["gpuready.dev/config-digest"] = "another"
    assert sparing(edited, live) is edited


@pytest.mark.parametrize(
    ("field", "live", "is_nothing"),
    [
        ("hostNetwork", False, True),
        ("restartPolicy", "Always", True),
        ("emptyDir", {}, True),
        ("automountServiceAccountToken", False, False),
        ("securityContext.runAsUser", 0, False),
        ("terminationGracePeriodSeconds", 0, False),
        ("hostNetwork", True, False),
    ],
)
def test_what_is_no_longer_said_counts_unless_the_server_says_it_or_absence_means_it(field, live, is_nothing):
    assert is_default(Difference(f"spec.template.spec.{field}", live, None)) == is_nothing


def test_texts_of_the_originals_releases_are_known_by_their_digest():
    assert not scripts.does_the_same(scripts.WAIT_FOR_TOOLKIT, scripts.WAIT_FOR_TOOLKIT)
    assert not scripts.does_the_same("another text", "a text")
    for ours, digests in scripts._OF_THE_ORIGINAL.items():
        assert all(re.fullmatch("[0-9a-f]{64}", each) for each in digests), ours
