"""The files of the chart that are made from the product, so that they cannot disagree with it.

    python charts/generate.py            # write them
    python charts/generate.py --check    # 1 when one is out of date

crds/               what `gpuready crds` prints, a file each
files/rbac.yaml     what `gpuready rbac` prints, with a word where the release's namespace goes
files/blocks.yaml   the blocks of a ClusterPolicy's spec
values.schema.json  the ClusterPolicy's schema, and the values that are the chart's own
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuready import log
from gpuready.api import crd
from gpuready.api.clusterpolicy import ClusterPolicySpec
from gpuready.api.openapi import Schema, schema_of
from gpuready.controller.rbac import operator_objects
from gpuready.yaml_text import dump_yaml, dump_yaml_documents

CHART = Path(__file__).parent / "gpuready"
RELEASE_NAMESPACE = "RELEASE-NAMESPACE"
# No namespace can have this name, so templates/operator-rbac.yaml replaces it wherever it stands: in
# metadata, in subjects and in the resourceNames of a rule.


def files() -> dict[str, str]:
    """Text by path below the chart."""
    texts = {f"crds/{name}": text for name, text in crd.files().items()}
    texts["files/rbac.yaml"] = dump_yaml_documents(operator_objects(RELEASE_NAMESPACE))
    texts["files/blocks.yaml"] = dump_yaml(blocks())
    texts["values.schema.json"] = json.dumps(values_schema(), indent=1) + "\n"
    return texts


def blocks() -> list[str]:
    """The blocks of the policy that values hand on as they stand."""
    return [name for name in schema_of(ClusterPolicySpec)["properties"] if name not in _NOT_HANDED_ON]


# The chart builds the first two itself; the last is deprecated and ignored.
_NOT_HANDED_ON = ("operator", "driver", "psp")


def values_schema() -> Schema:
    """Unknown names inside a block are refused; of those at the top the chart itself says what to do."""
    spec = schema_of(ClusterPolicySpec)["properties"]
    blocks = {name: _strict(schema) for name, schema in spec.items() if name not in ("operator", "psp")}
    _widen(blocks)
    properties = {**blocks, "operator": _operator(), **_OTHERS}
    for name, needed in _NEEDED.items():
        properties[name]["required"] = needed
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the gpuready chart",
        "type": "object",
        "properties": properties,
        "required": [*blocks, "operator", "hooks", "admissionPolicy", "clusterPolicy", "nfd", "platform"],
    }


# What the templates look into. It is in values.yaml, so it is missing only where somebody says null.
_NEEDED = {
    "driver": ["nvidiaDriverCRD", "certConfig", "repoConfig", "licensingConfig", "virtualTopology"],
    "gpuready": ["certConfig"],
    "migManager": ["config"],
    "operator": ["logging", "podDisruptionBudget", "networkPolicy", "image", "replicas"],
}


def _strict(schema: Mapping[str, Any]) -> Schema:
    """A CRD's schema as JSON Schema; null and "" mean absent, the chart leaves them out."""
    if schema.get("x-kubernetes-int-or-string"):
        return {**_kept(schema), "type": ["integer", "string", "null"]}
    strict = {**_kept(schema), "type": [schema["type"], "null"]}
    if "enum" in schema:
        strict["enum"] = list(dict.fromkeys([*schema["enum"], "", None]))
    if "pattern" in schema:
        strict["pattern"] = f"^$|{schema['pattern']}"
    if "items" in schema:
        strict["items"] = _strict(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        strict["additionalProperties"] = _strict(schema["additionalProperties"])
    if "properties" in schema:
        strict["properties"] = {name: _strict(inner) for name, inner in schema["properties"].items()}
        strict["additionalProperties"] = False
        if required := schema.get("required"):
            strict["required"] = required
    return strict


def _kept(schema: Mapping[str, Any]) -> Schema:
    return {key: schema[key] for key in ("description", "minimum", "maximum") if key in schema}


def _object(description: str = "", **properties: Schema) -> Schema:
    made: Schema = {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
    return {"description": description, **made} if description else made


def _text(description: str = "", *choices: str) -> Schema:
    schema: Schema = {"description": description, "type": ["string", "null"]}
    return {**schema, "enum": [*choices, None]} if choices else schema


def _flag(description: str) -> Schema:
    return {"description": description, "type": ["boolean", "null"]}


def _free(kind: str, description: str) -> Schema:
    return {"description": description, "type": [kind, "null"]}


def _widen(blocks: dict[str, Schema]) -> None:
    """What values may say beyond the policy's fields."""
    create = _flag("Let the chart write the ConfigMap `name`.")
    for block in ("devicePlugin", "migManager"):
        texts = {"type": "string"}
        data = {**_free("object", "Its contents."), "additionalProperties": texts}
        _inside(blocks, block, "config").update(create=create, data=data)
    metrics = {"description": "Its metrics, as CSV.", "type": ["string", "object", "null"]}
    _inside(blocks, "dcgmExporter", "config").update(create=create, data=metrics)
    # The chart's words for fields that have another name, or another shape, in the policy.
    driver = _inside(blocks, "driver")
    driver["nvidiaDriverCRD"] = _object(
        "Drivers by NVIDIADriver objects, which gpuready does not follow yet.",
        enabled=_flag("Must be false."),
        deployDefaultCR=_flag("Without effect."),
        driverType=_text("Without effect.", "gpu", "vgpu", "vgpu-host-manager"),
        nodeSelector=_free("object", "Without effect."),
    )
    upgrade = _inside(blocks, "driver", "upgradePolicy")
    upgrade["gpuPodDeletion"] = upgrade.pop("podDeletion")
    rolling = _inside(blocks, "daemonsets", "rollingUpdate")
    rolling["maxUnavailable"]["type"] = ["integer", "string", "null"]


def _inside(blocks: dict[str, Schema], *path: str) -> dict[str, Schema]:
    found: dict[str, Schema] = blocks
    for name in path:
        found = found[name]["properties"]
    return found


def _operator() -> Schema:
    monitor = schema_of(ClusterPolicySpec)["properties"]["operator"]["properties"]["metrics"]
    return _object(
        "The operator itself.",
        repository=_text("Registry and path of gpuready's image; empty means gpuready.registry."),
        image=_text("Name of gpuready's image."),
        version=_text("Tag, or a digest that begins with sha256:; empty means the chart's appVersion."),
        imagePullPolicy=_text("", "Always", "IfNotPresent", "Never"),
        imagePullSecrets={"type": ["array", "null"], "items": {"type": "string"}},
        replicas={"description": "One works, the others stand by.", "type": "integer", "minimum": 1},
        runtimeClass=_text("Name and handler of the RuntimeClass for GPU pods."),
        defaultRuntime=_text("Ignored: the runtime is detected."),
        initContainer=_free("object", "Ignored, as in the original."),
        use_ocp_driver_toolkit=_flag("On OpenShift, build the driver with its driver toolkit."),
        env={"type": ["array", "null"], "items": {"type": "object", "required": ["name"]}},
        annotations=_free("object", "Annotations of its pods."),
        priorityClassName=_text(),
        nodeSelector=_free("object", "Where it runs."),
        tolerations=_free("array", "Taints that it tolerates."),
        affinity=_free("object", "Where it prefers to run."),
        resources=_object(limits=_free("object", ""), requests=_free("object", "")),
        logging=_object(
            level=_text("From which level on it writes.", *log.LEVELS),
            timeEncoding=_text("Ignored: times are ISO 8601."),
            develMode=_flag("Ignored."),
        ),
        upgradeCRD=_flag("Bring the CRDs to this version before an install or upgrade."),
        cleanupCRD=_flag("Delete the CRDs, and every object of theirs, at the uninstall."),
        metrics=_strict(monitor),
        checkSecrets=_flag("List the namespace's Secrets by name, to say that one is missing."),
        podDisruptionBudget=_object(enabled=_flag("Keep one replica through drains.")),
        networkPolicy=_object(
            enabled=_flag("Let in probes and metricsFrom only."),
            apiServerPorts={"type": "array", "items": {"type": "integer"}},
            metricsFrom=_free("array", "NetworkPolicyPeers that may read the metrics."),
        ),
    )


_OTHERS: dict[str, Schema] = {
    "hooks": _object(
        "Jobs before an install, upgrade and uninstall.",
        enabled=_flag("Use them; false for GitOps."),
        cleanupTimeoutSeconds={"type": "integer", "minimum": 1},
    ),
    "admissionPolicy": _object(
        enabled={"description": "true, false, or auto: where it is served.", "enum": [True, False, "auto"]}
    ),
    "clusterPolicy": _object(deployCR=_flag("Write the ClusterPolicy.")),
    "gpuCluster": _object(deployCR=_flag("Must be false: gpuready has no GPUCluster.")),
    "draDriver": _free("object", "Ignored: DRA is asked for in the ClusterPolicy."),
    "nfd": _object(
        enabled=_flag("Without effect: this chart brings no node-feature-discovery."),
        nodefeaturerules=_flag("Label nodes whose kernel has GPU side modules; needs NFD's CRDs."),
    ),
    "node-feature-discovery": _free("object", "Ignored: values of the original's sub-chart."),
    "platform": _object(openshift=_flag("Also create SecurityContextConstraints.")),
    "extraObjects": {"type": ["array", "null"], "items": {"type": ["object", "string"]}},
    "psp": _free("object", "Ignored: Kubernetes has no pod security policies any more."),
    "global": _free("object", "Ignored."),
}


def outdated() -> Iterator[str]:
    for name, text in files().items():
        path = CHART / name
        if not path.exists() or path.read_text() != text:
            yield name


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        old = list(outdated())
        for name in old:
            sys.stderr.write(f"charts/gpuready/{name} is out of date; next: make chart\n")
        return 1 if old else 0
    for name, text in files().items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
