"""What the CRD that a cluster serves does not know of ours: an older one drops fields without a word.

Pure. Compared are the paths of fields, since only they are pruned: a missing description harms nobody, and a
value that an older schema refuses is refused aloud.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuready.api.crd import all_crds
from gpuready.api.openapi import Schema

_KNOWN_TO_EVERY_SERVER = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True)
class Skew:
    """How one served CRD compares with the one this program was built for.

    served, expected   hashes over the paths of all fields
    missing            paths that the API server prunes, the topmost of each branch: "spec.mig.strategy"
    """

    crd: str
    served: str
    expected: str
    missing: tuple[str, ...] = ()

    @property
    def is_outdated(self) -> bool:
        return bool(self.missing)


def find_skew(served: Mapping[str, Any]) -> Skew | None:
    """`served` is a CustomResourceDefinition; None for one that is not ours."""
    name = served["metadata"]["name"]
    built_in = _built_in().get(name)
    if built_in is None:
        return None
    version, ours = built_in
    theirs = _schema_of(served, version)
    return Skew(
        crd=name,
        served=_hash(_paths(theirs)),
        expected=_hash(_paths(ours)),
        missing=tuple(_missing(ours, theirs)),
    )


def fields(crd: Mapping[str, Any]) -> frozenset[str]:
    """Paths of all fields of all served versions; what an API server keeps of an object."""
    versions = [row["name"] for row in crd["spec"].get("versions") or ()]
    return frozenset(path for name in versions for path in _paths(_schema_of(crd, name)))


@cache
def _built_in() -> Mapping[str, tuple[str, Schema]]:
    """(version, schema) by the CRD's name."""
    found = {}
    for crd in all_crds():
        version = crd["spec"]["versions"][0]["name"]
        found[crd["metadata"]["name"]] = version, _schema_of(crd, version)
    return found


def _schema_of(crd: Mapping[str, Any], version: str) -> Schema:
    """Empty for a version that is not served: then every field is missing."""
    for row in crd["spec"].get("versions") or ():
        if row["name"] == version and row.get("served"):
            schema = dict((row.get("schema") or {}).get("openAPIV3Schema") or {})
            fields = schema.get("properties") or {}
            kept = {name: inner for name, inner in fields.items() if name not in _KNOWN_TO_EVERY_SERVER}
            return {**schema, "properties": kept}
    return {}


def _missing(ours: Schema, theirs: Schema, path: str = "") -> Iterator[str]:
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, inner in (ours.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        known = (theirs.get("properties") or {}).get(name) or theirs.get("additionalProperties")
        if known is None:
            yield here
        elif isinstance(known, dict):
            yield from _missing(inner, known, here)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        inner, known = ours.get(key), theirs.get(key)
        if isinstance(inner, dict) and isinstance(known, dict):
            yield from _missing(inner, known, f"{path}{mark}")


def _paths(schema: Schema, path: str = "") -> Iterator[str]:
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from _paths(inner, here)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), dict):
            yield from _paths(schema[key], f"{path}{mark}")


def _hash(paths: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:12]
