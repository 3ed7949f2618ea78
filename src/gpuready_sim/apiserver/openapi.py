"""OpenAPI v3 documents as the API server serves them: enough for explain, apply and helm.

Source: kubernetes, api/openapi-spec/v3/*; kubectl's explain template and its fieldValidation check read
`paths` and the extension x-kubernetes-group-version-kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuready_sim.apiserver.builtins import BuiltinResource
from gpuready_sim.apiserver.schema import Node

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
REF = "#/components/schemas/"
GVK = "x-kubernetes-group-version-kind"
TEXTS = Mapping[str, Mapping[str, str]]


def document(
    group: str,
    version: str,
    resources: Sequence[BuiltinResource],
    definitions: Mapping[str, Node],
    descriptions: TEXTS,
) -> dict[str, Any]:
    """The document of a built-in group and version."""
    names = {
        gvk["kind"]: name
        for name, node in definitions.items()
        for gvk in node.get(GVK, ())
        if (gvk["group"], gvk["version"]) == (group, version)
    }
    paths: dict[str, Any] = {}
    for one in resources:
        gvk = {"group": group, "version": version, "kind": one.kind}
        paths |= _paths(
            gvk, one.plural, one.namespaced, "status" in one.subresources, one.storage, names[one.kind]
        )
    roots = [names[one.kind] for one in resources]
    roots += [names[f"{one.kind}List"] for one in resources if f"{one.kind}List" in names]
    return _document(
        paths, _components([*roots, META + "DeleteOptions", META + "Status"], definitions, descriptions)
    )


def document_of_crd(
    crd: Mapping[str, Any], version: str, definitions: Mapping[str, Node], descriptions: TEXTS
) -> dict[str, Any]:
    """The document of one custom kind in one version."""
    spec = crd["spec"]
    group, kind, plural = spec["group"], spec["names"]["kind"], spec["names"]["plural"]
    served = next(one for one in spec["versions"] if one["name"] == version)
    gvk = {"group": group, "version": version, "kind": kind}
    name = ".".join([*reversed(group.split(".")), version, kind])
    schema = _custom(served, gvk, descriptions.get("io.k8s.api.core.v1.ConfigMap", {}))
    items = {"type": "array", "items": {"$ref": REF + name}, "description": f"List of {plural}."}
    components = _components(
        [META + "ObjectMeta", META + "ListMeta", META + "DeleteOptions", META + "Status"],
        definitions,
        descriptions,
    )
    components[name] = schema
    components[name + "List"] = {
        "type": "object",
        "description": f"{kind}List is a list of {kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{REF}{META}ListMeta"}]},
            "items": items,
        },
        GVK: [gvk | {"kind": spec["names"].get("listKind", f"{kind}List")}],
    }
    status = "status" in (served.get("subresources") or {})
    return _document(_paths(gvk, plural, spec["scope"] == "Namespaced", status, True, name), components)


V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


V2_ANSWERED = V2_PROTOBUF.replace("@", ".")  # as which it is answered: with @ it is no media type


def empty_v2_as_protobuf(version: str) -> bytes:
    """A document of version 2 that describes nothing, in the form that kubectl and helm ask for.

    Source: gnostic, openapiv2/OpenAPIv2.proto: Document.swagger 1, .info 2, .paths 8; Info.title 1,
    .version 2.
    """
    info = _message(1, b"Kubernetes") + _message(2, version.encode())
    return _message(1, b"2.0") + _message(2, info) + _message(8, b"")


def _message(number: int, content: bytes) -> bytes:
    """A length-delimited field of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def merged(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Documents of several custom kinds of one group and version as one."""
    paths: dict[str, Any] = {}
    components: dict[str, Any] = {}
    for one in documents:
        paths |= one["paths"]
        components |= one["components"]["schemas"]
    return _document(paths, components)


def _document(paths: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(components.items()))},
    }


def _custom(served: Mapping[str, Any], gvk: dict[str, str], texts: Mapping[str, str]) -> Node:
    """
    texts  what is said of the fields that every kind has
    """
    schema: Node = dict((served.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"})
    properties = dict(schema.get("properties") or {})
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": texts.get(f".{name}", "")}
    properties["metadata"] = {
        "description": texts.get(".metadata", ""),
        "allOf": [{"$ref": f"{REF}{META}ObjectMeta"}],
    }
    return schema | {"properties": properties, GVK: [gvk]}


# --- components ---


def _components(roots: Iterable[str], definitions: Mapping[str, Node], descriptions: TEXTS) -> dict[str, Any]:
    out: dict[str, Any] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in out and name in definitions:
            found: list[str] = []
            out[name] = _component(definitions[name], descriptions.get(name, {}), "", found)
            todo += found
    return out


def _component(node: Node, texts: Mapping[str, str], path: str, refs: list[str]) -> Node:
    """The node as OpenAPI v3 writes it; the definitions that it refers to go to `refs`."""
    out: Node = {"description": texts[path]} if path in texts else {}
    for key, value in node.items():
        if key == "$ref":
            refs.append(value)
            if path.endswith("."):
                out["$ref"] = REF + value
            else:
                out["allOf"] = [{"$ref": REF + value}]
        elif key == "properties":
            out[key] = {
                name: _component(child, texts, f"{path}.{name}", refs) for name, child in value.items()
            }
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = _component(value, texts, f"{path}.", refs)
        else:
            out[key] = value
    return out


# --- paths ---


def _paths(
    gvk: dict[str, str], plural: str, namespaced: bool, status: bool, stored: bool, schema: str
) -> dict[str, Any]:
    prefix = f"/apis/{gvk['group']}/{gvk['version']}" if gvk["group"] else f"/api/{gvk['version']}"
    base = f"{prefix}/namespaces/{{namespace}}/{plural}" if namespaced else f"{prefix}/{plural}"
    if not stored:
        return {base: {"post": _operation("post", gvk, schema)}}
    paths: dict[str, Any] = {
        base: {verb: _operation(verb, gvk, schema) for verb in ("get", "post", "delete")},
        f"{base}/{{name}}": {
            verb: _operation(verb, gvk, schema) for verb in ("get", "put", "patch", "delete")
        },
    }
    if namespaced:
        paths[f"{prefix}/{plural}"] = {"get": _operation("get", gvk, schema)}
    if status:
        paths[f"{base}/{{name}}/status"] = {
            verb: _operation(verb, gvk, schema) for verb in ("get", "put", "patch")
        }
    return paths


def _operation(verb: str, gvk: dict[str, str], schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": REF + schema}}}
    operation: dict[str, Any] = {
        "x-kubernetes-action": verb,
        GVK: gvk,
        "responses": {"200": {"description": "OK", "content": content}},
    }
    if verb in ("post", "put", "patch"):
        names = ["dryRun", "fieldManager", "fieldValidation"] + (["force"] if verb == "patch" else [])
        operation["parameters"] = [_parameter(name) for name in names]
        if verb != "patch":
            operation["requestBody"] = {"content": content, "required": True}
    return operation


def _parameter(name: str) -> dict[str, Any]:
    kind = "boolean" if name == "force" else "string"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
