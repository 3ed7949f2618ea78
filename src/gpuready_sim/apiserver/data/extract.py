"""Reduce kubernetes-validate's JSON schemas to the two data files beside this script.

Run at development time (`python src/gpuready_sim/apiserver/data/extract.py`); the output is committed. Keeps
the API groups that the simulator serves and whatever their types refer to, undoes what kubernetes-validate
added (null as a second type, enums on apiVersion and kind), and splits descriptions off: only `explain`
and the OpenAPI documents need them. The output is deterministic, so running it again changes nothing.
"""

from __future__ import annotations

import gzip
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

KUBERNETES = "v1.37.0-local"
ROOT_PREFIXES = (
    "io.k8s.api.core.v1.",
    "io.k8s.api.apps.v1.",
    "io.k8s.api.batch.v1.",
    "io.k8s.api.rbac.v1.",
    "io.k8s.api.coordination.v1.",
    "io.k8s.api.events.v1.",
    "io.k8s.api.node.v1.",
    "io.k8s.api.scheduling.v1.",
    "io.k8s.api.policy.v1.",
    "io.k8s.api.networking.v1.",
    "io.k8s.api.admissionregistration.v1.",
    "io.k8s.api.discovery.v1.",
    "io.k8s.api.storage.v1.",
    "io.k8s.api.resource.v1.",
    "io.k8s.api.authentication.v1.",
    "io.k8s.api.authorization.v1.",
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
    "io.k8s.apimachinery.pkg.apis.meta.v1.",
    "io.k8s.apimachinery.pkg.version.Info",
)
REF = re.compile(r"^#/\$defs/")
HERE = Path(__file__).parent

Node = dict[str, Any]


def main() -> None:
    definitions = _load()
    kept = _reachable(definitions, [name for name in definitions if name.startswith(ROOT_PREFIXES)])
    schemas: dict[str, Node] = {}
    descriptions: dict[str, dict[str, str]] = {}
    for name in sorted(kept):
        texts: dict[str, str] = {}
        schemas[name] = _reduced(definitions[name], "", texts)
        descriptions[name] = texts
    _write(HERE / "schemas.json.gz", schemas)
    _write(HERE / "descriptions.json.gz", descriptions)


def _load() -> dict[str, Node]:
    spec = find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        raise SystemExit("kubernetes-validate is not installed")
    path = Path(spec.origin).parent / "kubernetes-json-schema" / KUBERNETES / "_definitions.json"
    definitions: dict[str, Node] = json.loads(path.read_bytes())["$defs"]
    return definitions


def _reachable(definitions: dict[str, Node], todo: list[str]) -> set[str]:
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(_refs(definitions[name]))
    return seen


def _refs(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [REF.sub("", node["$ref"])] if isinstance(node.get("$ref"), str) else []
        return own + [ref for child in node.values() for ref in _refs(child)]
    if isinstance(node, list):
        return [ref for child in node for ref in _refs(child)]
    return []


def _reduced(node: Node, path: str, texts: dict[str, str]) -> Node:
    """The node in plain OpenAPI form; its descriptions go to `texts` by dotted property path."""
    out: Node = {}
    for key, value in node.items():
        if key == "description":
            texts[path] = value
        elif key == "properties":
            out[key] = {name: _reduced(child, f"{path}.{name}", texts) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = _reduced(value, f"{path}.", texts)
        elif key == "$ref":
            out[key] = REF.sub("", value)
        elif key == "type":
            out[key] = _single(value)
        elif key == "oneOf":
            out[key] = [_reduced(child, f"{path}|", {}) for child in value]
        elif key == "enum" and (path in (".apiVersion", ".kind") or value == [None]):
            continue
        else:
            out[key] = value
    return out


def _single(kind: str | list[str]) -> str:
    return kind if isinstance(kind, str) else next(one for one in kind if one != "null")


def _write(path: Path, content: object) -> None:
    text = json.dumps(content, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main()
