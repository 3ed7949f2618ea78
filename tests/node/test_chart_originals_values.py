"""Every value of the original's chart, v23.9 to v26.7: taken, refused with a reason, or known to do nothing.

chart_originals_values.txt holds their names.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.charts.chart import CHART, Object, helm, helms, needs_helm, only, refused, rendered

pytestmark = needs_helm
PATHS = (Path(__file__).parent / "chart_originals_values.txt").read_text().split()
POLICY, DEPLOYMENT, NOTHING, REFUSED = "ClusterPolicy", "Deployment", "", "refused"

# Where a value goes, by the first pattern that fits; whatever fits none is the ClusterPolicy's.
FATES = {
    "operator.runtimeClass": POLICY,
    "operator.use_ocp_driver_toolkit": POLICY,
    "operator.metrics.*": POLICY,
    "operator.upgradeCRD": "Job",
    "operator.cleanupCRD": "Job",
    # Names of another program's settings.
    "operator.logging.timeEncoding": NOTHING,
    "operator.logging.develMode": NOTHING,
    "operator.initContainer.*": NOTHING,
    "operator.defaultRuntime": NOTHING,
    "operator.*": DEPLOYMENT,
    "psp.*": NOTHING,
    # gpuready finds GPUs by itself, and uses node-feature-discovery where it runs: docs/guides/install.md.
    "nfd.enabled": NOTHING,
    "node-feature-discovery.*": NOTHING,
    "nfd.nodefeaturerules": "NodeFeatureRule",
    # Another API for the same GPUs.
    "gpuCluster.deployCR": REFUSED,
    "draDriver.*": NOTHING,
    "platform.openshift": "SecurityContextConstraints",
    "clusterPolicy.deployCR": POLICY,
    # Drivers by NVIDIADriver objects, which nobody follows here.
    "driver.nvidiaDriverCRD.enabled": REFUSED,
    "driver.nvidiaDriverCRD.*": NOTHING,
    "*.config.create": "ConfigMap",
    "*.config.data": "ConfigMap",
    "extraObjects": "Secret",
}
# values path -> path in the policy's spec, where they differ
RENAMED = {
    "driver.upgradePolicy.gpuPodDeletion": "driver.upgradePolicy.podDeletion",
}


def fate_of(path: str) -> str:
    return next((fate for pattern, fate in FATES.items() if fnmatch.fnmatch(path, pattern)), POLICY)


def of_fate(*fates: str) -> list[str]:
    return [path for path in PATHS if fate_of(path) in fates]


def in_the_policy() -> list[str]:
    return [path for path in of_fate(POLICY) if not path.startswith("clusterPolicy.")]


# --- values that differ from every default ---------------------------------------------------------------


def sample(path: str) -> Any:
    """Something that the schema allows there and that nobody has by default."""
    node: Any = json.loads((CHART / "values.schema.json").read_text())
    for name in path.split("."):
        node = node.get("properties", {}).get(name) or node.get("additionalProperties") or {}
        node = node if isinstance(node, dict) else {}
    return _of_schema(path, node)


def _of_schema(path: str, node: Object) -> Any:
    name = path.rpartition(".")[2]
    if choices := [each for each in node.get("enum", ()) if each]:
        return choices[-1] if name != "serviceMonitor" else choices[0]
    types = node.get("type", [])
    if "boolean" in types:
        return not _default(path)
    if "integer" in types and "string" not in types:
        return 7
    if "array" in types:
        return [_of_schema(f"{path}.item", node.get("items", {}))]
    if "object" in types and node.get("properties"):
        keys = node.get("required") or list(node["properties"])[:1]
        return {key: _of_schema(f"{path}.{key}", node["properties"][key]) for key in keys}
    if "object" in types:
        return {"example.com/one": "7"}
    return {"interval": "7s", "scrapeTimeout": "7s", "maxUnavailable": "7%"}.get(name, "seven")


def _default(path: str) -> Any:
    value: Any = yaml_values()
    for name in path.split("."):
        value = value.get(name, {}) if isinstance(value, dict) else {}
    return value or False


def yaml_values() -> Object:
    loaded: Object = yaml.safe_load((CHART / "values.yaml").read_text())
    return loaded


def values_with(paths: list[str]) -> Object:
    values: Object = {}
    for path in paths:
        *parents, last = path.split(".")
        place = values
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = sample(path)
    return values


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def renamed(path: str) -> str:
    for before, after in RENAMED.items():
        path = path.replace(before, after)
    return path


# --- the tests --------------------------------------------------------------------------------------------


def test_values_of_the_policys_blocks_reach_the_policy() -> None:
    # With the NRI plugin there must be a toolkit and CDI: it has its own turn.
    paths = [path for path in in_the_policy() if path != "cdi.nriPluginEnabled"]
    values = values_with(paths)
    spec = only(rendered(values), "ClusterPolicy")["spec"]
    asked = {renamed(path): value for path, value in leaves(values)}
    found = dict(leaves(spec))
    assert {path: found.get(path) for path in asked} == asked


def test_the_nri_plugin_reaches_the_policy() -> None:
    spec = only(rendered({"cdi": {"nriPluginEnabled": True}}), "ClusterPolicy")["spec"]
    assert spec["cdi"]["nriPluginEnabled"] is True


@pytest.mark.parametrize("path", of_fate("Job", "NodeFeatureRule", "SecurityContextConstraints"))
def test_a_value_of_another_object_changes_that(path: str) -> None:
    kind = fate_of(path)
    before = text_of(rendered(apis=APIS), kind)
    assert text_of(rendered(values_with([path]), apis=APIS), kind) != before


APIS = ["nfd.k8s-sigs.io/v1alpha1/NodeFeatureRule"]


def test_config_maps_and_extra_objects_are_written() -> None:
    data = {"create": True, "name": "mine", "data": {"any": "text"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "{{ .Release.Name }}-extra"}}
    blocks = ("devicePlugin", "migManager")
    values = {block: {"config": {**data, "name": f"mine-{block}"}} for block in blocks} | {
        "dcgmExporter": {"config": {"create": True, "name": "mine-csv", "data": "FIELD, gauge, help"}},
        "extraObjects": [secret],
    }
    objects = rendered(values)
    assert {o["metadata"]["name"] for o in objects if o["kind"] == "ConfigMap"} == {
        *(f"mine-{block}" for block in blocks),
        "mine-csv",
    }
    assert only(objects, "Secret")["metadata"]["name"] == "gpuready-extra"


OPERATOR: Object = {
    "repository": "registry.example.com/seven",
    "image": "another",
    "version": "v7",
    "imagePullPolicy": "Always",
    "imagePullSecrets": ["pull-seven"],
    "priorityClassName": "class-seven",
    "tolerations": [{"key": "taint-seven", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"seven": 7}}},
    "annotations": {"openshift.io/scc": "scc-seven"},
    "nodeSelector": {"kubernetes.io/os": "os-seven"},
    "resources": {"limits": {"cpu": "7"}, "requests": {"memory": "77Mi"}},
    "logging": {"level": "debug"},
    "env": [{"name": "SEVEN", "value": "seven"}],
}


def test_values_of_the_operator_reach_its_deployment() -> None:
    assert {path.split(".")[1] for path in of_fate(DEPLOYMENT)} == set(OPERATOR)
    found = text_of(rendered({"operator": OPERATOR}), DEPLOYMENT)
    assert "registry.example.com/seven/another:v7" in found
    said = [str(value) for path, value in leaves(OPERATOR) if not isinstance(value, list)]
    said += ["pull-seven", "taint-seven", '"name": "SEVEN", "value": "seven"', '"seven": 7']
    assert [each for each in said if each not in found] == []


def test_values_that_do_nothing_here_are_accepted_and_named() -> None:
    values = values_with(of_fate(NOTHING))
    assert text_of(rendered(values, apis=APIS)) == text_of(rendered(apis=APIS))
    told = notes(values)
    for name in ("nfd.enabled", "node-feature-discovery", "draDriver", "psp", "operator.initContainer"):
        assert name in told
    for name in ("operator.defaultRuntime", "operator.logging.timeEncoding", "operator.logging.develMode"):
        assert name in told
    assert "without effect" not in notes({"nfd": {"enabled": False}})


def test_what_gpuready_does_not_do_is_refused_with_a_next_step() -> None:
    assert of_fate(REFUSED) == ["driver.nvidiaDriverCRD.enabled", "gpuCluster.deployCR"]
    told = refused({"gpuCluster": {"deployCR": True}})
    assert "gpuready has no GPUCluster" in told
    assert "Next: set gpuCluster.deployCR=false" in told
    told = refused({"driver": {"nvidiaDriverCRD": {"enabled": True}}})
    assert "gpuready follows no NVIDIADriver objects yet" in told
    assert "Next: set driver.nvidiaDriverCRD.enabled=false" in told


def notes(values: Object) -> str:
    """What helm says after an install; helm 3 wants a cluster for that."""
    if "v3" in str(helms()[0].path):
        pytest.skip("helm 4 is not here; next: make clients")
    install = ["install", "gpuready", str(CHART), "-n", "gpu-operator", "--dry-run=client", "-f", "-"]
    done = helm(*install, text=yaml.safe_dump(values))
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


def text_of(objects: list[Object], kind: str = "") -> str:
    return json.dumps([each for each in objects if kind in ("", each["kind"])], sort_keys=True)
