"""The CustomResourceDefinitions, built from the models; `gpuready crds` prints them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.api.gpunode import GPUNode
from gpuready.api.openapi import Schema, schema_of

FOLDER = Path(__file__).parent / "crds"


def all_crds() -> list[dict[str, Any]]:
    return [cluster_policy_crd(), gpu_node_crd()]


def all_crds_yaml() -> str:
    from gpuready.yaml_text import dump_yaml_documents

    return dump_yaml_documents(all_crds())


def files() -> dict[str, str]:
    """The committed YAML by file name: src/gpuready/api/crds/."""
    from gpuready.yaml_text import dump_yaml

    return {f"{crd['metadata']['name']}.yaml": dump_yaml(crd) for crd in all_crds()}


def write_files(folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)


def cluster_policy_crd() -> dict[str, Any]:
    columns = [_column("Status", ".status.state"), _column("Age", ".metadata.creationTimestamp", kind="date")]
    return _crd(ClusterPolicy, names.CLUSTER_POLICY_API, names.CLUSTER_POLICIES, columns=columns)


def gpu_node_crd() -> dict[str, Any]:
    columns = [
        _column("Driver", ".status.columns.driver"),
        _column("Runtime", ".status.columns.runtime"),
        _column("Plugin", ".status.columns.plugin"),
        _column("CUDA", ".status.columns.cuda"),
        _column("GPUs", ".status.gpus", kind="integer"),
        _column("Healthy", ".status.healthy", kind="integer"),
        _column("Reason", ".status.reason"),
        _column("Age", ".metadata.creationTimestamp", kind="date"),
    ]
    return _crd(GPUNode, names.GPU_NODE_API, names.GPU_NODES, columns=columns)


def _crd(
    model: type[msgspec.Struct], api_version: str, plural: str, *, columns: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    group, _, version = api_version.partition("/")
    kind = model.__name__
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": list(columns),
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": root_schema(model)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [served],
        },
    }


def root_schema(model: type[msgspec.Struct]) -> Schema:
    """The schema of a whole object; the API server itself knows apiVersion, kind and metadata."""
    schema = schema_of(model)
    properties = schema["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    description = (model.__doc__ or "").strip().splitlines()[0]
    return {"description": description, **schema}


def _column(name: str, path: str, *, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path}


def main(arguments: Sequence[str]) -> int:
    """Write the files; with --check, 1 when one is out of date."""
    if "--check" not in arguments:
        write_files()
        return 0
    old = [name for name, text in files().items() if (FOLDER / name).read_text() != text]
    for name in old:
        sys.stderr.write(f"{FOLDER / name} is out of date; next: make crds\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
