"""Short words for definitions with several versions, and for the things that they define."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..transcript import Ask
from .words import CRDS, Obj, delete, get, post

GROUP = "$NS.example.com"
DEFINITION = f"{CRDS}/things.{GROUP}"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# So long a change of a definition may take until it is in force: an answer that waits, and says nothing.
IN_FORCE = get(CRDS, watch="true", timeoutSeconds="2", fieldSelector="metadata.name=nothing")


def obj(properties: Obj, **more: Any) -> Obj:
    return {"type": "object", "properties": properties, **more}


def ruled(part: Obj, *rules: str, **more: Any) -> Obj:
    return {**part, "x-kubernetes-validations": [{"rule": rule, **more} for rule in rules]}


def list_of(items: Obj, **more: Any) -> Obj:
    return {"type": "array", "items": items, **more}


def map_of(values: Obj, **more: Any) -> Obj:
    return {"type": "object", "additionalProperties": values, **more}


def version(
    name: str, schema: object = OPEN, *, served: bool = True, storage: bool = False, **more: Any
) -> Obj:
    found = {"name": name, "served": served, "storage": storage, **more}
    return {**found, "schema": {"openAPIV3Schema": schema}}


def definition(*versions: Obj, plural: str = "things", kind: str = "Thing", **spec: Any) -> Obj:
    """`spec`: parts of the specification, and `names` beyond plural and kind, and `meta`."""
    meta, names = spec.pop("meta", {}), spec.pop("names", {})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", **meta},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": list(versions),
            **spec,
        },
    }


def things(name: str = "", at: str = "v1", plural: str = "things") -> str:
    path = f"/apis/{GROUP}/{at}/namespaces/$NS/{plural}"
    return f"{path}/{name}" if name else path


def thing(name: str, spec: object, at: str = "v1", **more: Any) -> Obj:
    return {"apiVersion": f"{GROUP}/{at}", "kind": "Thing", "metadata": {"name": name}, "spec": spec, **more}


def served(path: str = things()) -> Ask:
    return replace(get(path), until=200, only_status=True)


def gone(path: str) -> Ask:
    return replace(get(path), until=404, only_status=True)


def unseen(ask: Ask) -> Ask:
    """Of what is answered elsewhere only that it is answered so."""
    return replace(ask, only_status=True)


def with_definition(made: Obj, *asks: Ask) -> list[Ask]:
    return [unseen(post(CRDS, made)), served(), *asks, unseen(delete(DEFINITION))]


def tried(*specs: object) -> list[Ask]:
    return [post(things(), thing(f"t{number}", spec)) for number, spec in enumerate(specs)]


def refused(part: object, **more: Any) -> Ask:
    """A definition whose field `spec.a` is `part`; dry, for it may be taken."""
    return dry(definition(version("v1", obj({"spec": obj({"a": part})}), storage=True, **more)))


def dry(made: Obj) -> Ask:
    return post(CRDS, made, dryRun="All")
