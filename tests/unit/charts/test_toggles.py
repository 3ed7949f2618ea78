"""What each switch of the chart changes in the rendered release, against the defaults.

golden/ holds the changes; `CHART_RECORD=1 pytest tests/unit/charts` writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from tests.unit.charts.chart import (
    CHART,
    HERE,
    Object,
    helm,
    helms,
    keys,
    needs_helm,
    only,
    refused,
    rendered,
)

pytestmark = needs_helm
VAP = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
NFD = "nfd.k8s-sigs.io/v1alpha1/NodeFeatureRule"

TOGGLES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "site": (
        {
            "gpuready": {
                "registry": "mirror.example.com/gpu",
                "imagePullSecrets": ["regcred"],
                "certConfig": {"name": "site-ca"},
            }
        },
        [],
    ),
    "two-replicas": (
        {
            "operator": {
                "replicas": 2,
                "podDisruptionBudget": {"enabled": True},
                "networkPolicy": {
                    "enabled": True,
                    "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
                },
            }
        },
        [],
    ),
    "no-right-on-secrets": ({"operator": {"checkSecrets": False}}, []),
    "gitops": ({"hooks": {"enabled": False}}, []),
    "crds-go-too": ({"operator": {"cleanupCRD": True}}, []),
    "policy-by-others": ({"clusterPolicy": {"deployCR": False}}, []),
    "admission-policy": ({}, [VAP]),
    "kernel-module-rules": ({"nfd": {"nodefeaturerules": True}}, [NFD]),
    "openshift": ({"platform": {"openshift": True}, "operator": {"use_ocp_driver_toolkit": True}}, []),
    "own-images-by-digest": (
        {"operator": {"repository": "registry.example.com/team", "version": "sha256:" + "0" * 64}},
        [],
    ),
}


@pytest.mark.parametrize("toggle", TOGGLES)
def test_a_switch_changes_this_and_nothing_else(toggle: str) -> None:
    values, apis = TOGGLES[toggle]
    text = yaml.safe_dump(changes(rendered(), rendered(values, apis=apis)), sort_keys=True)
    golden = HERE / "golden" / f"{toggle}.yaml"
    if os.environ.get("CHART_RECORD"):
        golden.write_text(text)
    assert text == golden.read_text(), "if this is meant: CHART_RECORD=1 pytest tests/unit/charts"


def test_the_chart_passes_lint() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


def test_every_helm_that_is_here_renders_the_same() -> None:
    texts = {helm("template", "x", str(CHART), by=each).stdout for each in helms()}
    objects = [[o for o in yaml.load_all(text, Loader=yaml.CSafeLoader) if o] for text in texts]
    assert all(_by_key(each) == _by_key(objects[0]) for each in objects)


def test_extra_objects_are_installed_with_templates_filled_in() -> None:
    extra = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "{{ .Release.Name }}-x"},
    }
    as_text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n"
    found = keys(rendered({"extraObjects": [extra, as_text]}))
    assert {"ConfigMap/gpuready-x", "ConfigMap/y"} <= found


def test_the_operator_is_nobody_special_on_its_node() -> None:
    pod = only(rendered(), "Deployment")["spec"]["template"]["spec"]
    security = pod["containers"][0]["securityContext"]
    assert security["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert "hostNetwork" not in pod
    assert {mount["name"] for mount in pod["containers"][0].get("volumeMounts", ())} == set()


# --- values that are refused, and what is said -----------------------------------------------------------

REFUSED = {
    "a misspelt block": (
        {"divicePlugin": {}},
        ["divicePlugin: this chart has no such value", "helm show values"],
    ),
    "a block in another spelling": ({"device-plugin": {}}, ["Next: spell it devicePlugin"]),
    "a misspelt field": ({"devicePlugin": {"enable": True}}, ["/devicePlugin", "enable"]),
    "a value that is not allowed": ({"mig": {"strategy": "mixd"}}, ["/mig/strategy", "single", "mixed"]),
    "a string where a switch is": ({"toolkit": {"enabled": "yes"}}, ["/toolkit/enabled", "boolean"]),
    "the original's operator": (
        {"operator": {"image": "gpu-operator"}},
        ["operator.image", "remove operator.repository"],
    ),
    "NRI without CDI": (
        {"cdi": {"enabled": False, "nriPluginEnabled": True}},
        ["cdi.nriPluginEnabled", "cdi.enabled=true"],
    ),
    "NRI without the toolkit": (
        {"cdi": {"nriPluginEnabled": True}, "toolkit": {"enabled": False}},
        ["cdi.nriPluginEnabled", "toolkit.enabled=true"],
    ),
    "a budget that blocks drains": (
        {"operator": {"podDisruptionBudget": {"enabled": True}}},
        ["block every drain", "operator.replicas=2"],
    ),
    "a GPUCluster": ({"gpuCluster": {"deployCR": True}}, ["gpuCluster.deployCR=false"]),
    "rules for an absent NFD": ({"nfd": {"nodefeaturerules": True}}, ["node-feature-discovery first"]),
    "drivers by NVIDIADriver objects": (
        {"driver": {"nvidiaDriverCRD": {"enabled": True}}},
        ["follows no NVIDIADriver", "driver.nvidiaDriverCRD.enabled=false"],
    ),
    "CRDs that nobody would delete": (
        {"operator": {"cleanupCRD": True}, "hooks": {"enabled": False}},
        ["operator.cleanupCRD", "kubectl delete crd"],
    ),
    "a block that is taken away": ({"driver": {"certConfig": None}}, ["driver", "certConfig"]),
    "a ConfigMap without a name": (
        {"devicePlugin": {"config": {"create": True, "data": {"any": "version: v1"}}}},
        ["devicePlugin.config.name", "devicePlugin.config.create=false"],
    ),
    "a ConfigMap with neither name nor contents": (
        {"devicePlugin": {"config": {"create": True}}},
        ["devicePlugin.config.name", "devicePlugin.config.create=false"],
    ),
    "a ConfigMap without contents": (
        {"migManager": {"config": {"create": True, "name": "mig"}}},
        ["migManager.config.data: ", "nothing to write", "migManager.config.create=false"],
    ),
    "a default that is none of the configurations": (
        {"devicePlugin": {"config": {"create": True, "name": "x", "default": "nope", "data": {"a": "v"}}}},
        ["devicePlugin.config.default: nope is none", "Next: name one of a"],
    ),
    "an upgrade budget in words": (
        {"driver": {"upgradePolicy": {"maxUnavailable": "lots"}}},
        ["driver.upgradePolicy.maxUnavailable: lots is neither", "1 or 25%"],
    ),
    "more than all nodes at once": (
        {"daemonsets": {"rollingUpdate": {"maxUnavailable": "250%"}}},
        ["daemonsets.rollingUpdate.maxUnavailable: 250% is neither", "1 or 25%"],
    ),
    "an operator's image that nobody could pull": (
        {"operator": {"repository": "https://registry.example.com/team"}},
        ["there can be no image https://registry.example.com/team/gpuready:", "without https://"],
    ),
    "a digest that is none": (
        {"operator": {"version": "sha256:abc"}},
        ["operator.version: there can be no image gpuready@sha256:abc", "sha256:DIGEST"],
    ),
    "a registry with a scheme": (
        {"gpuready": {"registry": "https://mirror.example.com"}, "operator": {"repository": "r.example.com"}},
        ["gpuready.registry: no image can come from https://mirror.example.com", "without https://"],
    ),
    "a log level that there is not": (
        {"operator": {"logging": {"level": "trace"}}},
        ["/operator/logging/level", "debug", "info", "warning", "error"],
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_refused_with_what_to_do(mistake: str) -> None:
    values, words = REFUSED[mistake]
    said = refused(values)
    assert all(word in said for word in words), said


IMAGES = {
    "registry.example.com:5000/a/b": ("", "registry.example.com:5000/a/b/gpuready:0.1.0"),
    "localhost:5000": ("v1.0_x", "localhost:5000/gpuready:v1.0_x"),
    "[2001:db8::1]:443/Team".lower(): ("", "[2001:db8::1]:443/team/gpuready:0.1.0"),
    "r.example.com/": (f"sha256:{'ab' * 32}", f"r.example.com/gpuready@sha256:{'ab' * 32}"),
}


@pytest.mark.parametrize("repository", IMAGES)
def test_an_image_that_can_be_is_taken(repository: str) -> None:
    version, image = IMAGES[repository]
    values = {
        "operator": {"repository": repository, "version": version},
        "gpuready": {"registry": repository},
    }
    [deployment] = [each for each in rendered(values) if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image


def test_a_pull_secret_without_a_name_is_none() -> None:
    values = {"operator": {"imagePullSecrets": [""]}, "gpuready": {"imagePullSecrets": ["", "a"]}}
    [deployment] = [each for each in rendered(values) if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "a"}]


# --- comparing -------------------------------------------------------------------------------------------


def changes(before: list[Object], after: list[Object]) -> dict[str, Any]:
    """New objects whole, gone ones by name, changed ones by the fields that differ (None: it is gone)."""
    old, new = _by_key(before), _by_key(after)
    changed = {key: _difference(old[key], new[key]) for key in old.keys() & new.keys()}
    return {
        "added": [new[key] for key in sorted(new.keys() - old.keys())],
        "removed": sorted(old.keys() - new.keys()),
        "changed": {key: difference for key, difference in sorted(changed.items()) if difference},
    }


def _by_key(objects: list[Object]) -> dict[str, Object]:
    return {f"{o['kind']}/{o['metadata']['name']}": o for o in objects}


def _difference(old: Object, new: Object) -> dict[str, Any]:
    was, is_now = dict(_leaves(old)), dict(_leaves(new))
    return {path: is_now.get(path) for path in sorted(was | is_now) if was.get(path) != is_now.get(path)}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for index, inner in enumerate(value):
            name = inner.get("name", index) if isinstance(inner, Mapping) else index
            yield from _leaves(inner, f"{path}[{name}]")
    else:
        yield path, value
