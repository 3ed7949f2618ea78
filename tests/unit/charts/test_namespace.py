"""A release in another namespace than gpu-operator: nothing of it names that one."""

from __future__ import annotations

import yaml
from tests.unit.charts.chart import Object, needs_helm, rendered

from gpuready.controller.rbac import operator_objects

pytestmark = needs_helm
VAP = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
EVERYTHING = {
    "operator": {
        "replicas": 2,
        "podDisruptionBudget": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "cleanupCRD": True,
    },
    "platform": {"openshift": True},
    "devicePlugin": {"config": {"create": True, "name": "sharing", "data": {"any": "version: v1"}}},
}


def test_the_operator_may_do_there_what_gpuready_rbac_prints_for_it() -> None:
    made = rendered(namespace="my-gpus")
    for wanted in operator_objects("my-gpus"):
        [found] = [each for each in made if _key(each) == _key(wanted)]
        del found["metadata"]["labels"]
        assert found == wanted


def test_a_release_in_another_namespace_differs_in_that_name_alone() -> None:
    here, there = (
        yaml.safe_dump_all(rendered(EVERYTHING, apis=[VAP], namespace=name), sort_keys=True)
        for name in ("a-namespace-of-gpus", "another-namespace")
    )
    assert "another-namespace" in there
    assert here.replace("a-namespace-of-gpus", "another-namespace") == there
    kept = [line for line in there.splitlines() if "gpu-operator" in line]
    assert {line.split(":")[0].strip() for line in kept} <= {"app", "app.kubernetes.io/component"}, kept


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace", "")


def test_names_that_look_like_numbers_stay_text() -> None:
    """A namespace, a Secret and a ConfigMap may be called so; a number is refused by the API server."""
    values = {
        "operator": {**EVERYTHING["operator"], "priorityClassName": "1"},
        "gpuready": {"imagePullSecrets": ["2"], "certConfig": {"name": "3"}},
        "devicePlugin": {"config": {"create": True, "name": "4", "data": {"any": "version: v1"}}},
    }
    made = rendered(values, apis=[VAP], namespace="20240701")
    assert {each["metadata"]["namespace"] for each in made if "namespace" in each["metadata"]} == {"20240701"}
    assert {row["namespace"] for each in made for row in each.get("subjects", ())} == {"20240701"}
    rules = [rule for each in made for rule in each.get("rules", ()) if rule["resources"] == ["namespaces"]]
    assert [rule["resourceNames"] for rule in rules] == [["20240701"]]
    for pod in (each["spec"]["template"]["spec"] for each in made if each["kind"] in ("Deployment", "Job")):
        assert pod["priorityClassName"] == "1"
        assert pod["imagePullSecrets"] == [{"name": "2"}]
        assert pod["volumes"][0]["configMap"] == {"name": "3"}
    [config] = [each for each in made if each["kind"] == "ConfigMap"]
    [policy] = [each for each in made if each["kind"] == "ClusterPolicy"]
    assert config["metadata"]["name"] == policy["spec"]["devicePlugin"]["config"]["name"] == "4"
