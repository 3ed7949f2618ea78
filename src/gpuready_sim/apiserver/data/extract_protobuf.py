"""Reduce Kubernetes' Go types and .proto files to the table that reads binary request bodies.

Run at development time with two checkouts, of kubernetes/api and kubernetes/apimachinery
(`python src/gpuready_sim/apiserver/data/extract_protobuf.py API APIMACHINERY`); the output is committed.
The .proto files give field numbers and types; the Go sources say what JSON makes of a field: inlined,
left out when zero. The output is deterministic.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

_GROUPS = (
    "admissionregistration",
    "apps",
    "authentication",
    "authorization",
    "autoscaling",
    "batch",
    "coordination",
    "core",
    "discovery",
    "events",
    "networking",
    "node",
    "policy",
    "rbac",
    "resource",
    "scheduling",
    "storage",
)
_MACHINERY = ("pkg/api/resource", "pkg/apis/meta/v1", "pkg/runtime", "pkg/util/intstr")
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r"^\s+(?:(\w+)\s+)?([^\s`]+)\s+`([^`]*)`", re.MULTILINE)

# [JSON name, type, flags]; flags: r repeated, m map, i inlined, z kept when zero
Field = tuple[str, str, str]


def main(api: Path, machinery: Path) -> None:
    table: dict[str, dict[str, Field]] = {}
    for folder in [api / group / "v1" for group in _GROUPS] + [machinery / part for part in _MACHINERY]:
        table |= _messages(folder)
    text = json.dumps(table, separators=(",", ":"), sort_keys=True)
    output = Path(__file__).parent / "protobuf.json.gz"
    output.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def _messages(folder: Path) -> dict[str, dict[str, Field]]:
    proto = (folder / "generated.proto").read_text()
    found = re.search(r"^package ([\w.]+);", proto, re.MULTILINE)
    assert found is not None
    package = found[1]
    go = "\n".join(path.read_text() for path in sorted(folder.glob("*.go")) if "generated" not in path.name)
    structs = {name: _tags(body) for name, body in _STRUCT.findall(go)}
    return {
        f"{package}.{name}": {
            number: _field(field, package, structs.get(name, {})) for *field, number in _FIELD.findall(body)
        }
        for name, body in _MESSAGE.findall(proto)
    }


def _tags(body: str) -> dict[str, tuple[str, str]]:
    """Go type and JSON tag of each field, by its name in the .proto file; embedded structs are inlined."""
    tags = {}
    for go_name, go_type, tag in _TAG.findall(body):
        name = re.search(r'protobuf:"[^"]*name=(\w+)', tag)
        shown = re.search(r'json:"([^"]*)"', tag)
        if name and shown and shown[1] != "-":
            tags[name[1]] = (go_type, shown[1] or ("" if go_name else ",inline"))
    return tags


def _field(field: list[str], package: str, tags: dict[str, tuple[str, str]]) -> Field:
    label, plain, of_map, name = field
    go_type, tag = tags.get(name, ("", name))
    shown, *options = tag.split(",")
    flags = "m" if of_map else "r" if label == "repeated" else ""
    if "inline" in options:
        flags += "i"
    if go_type.startswith("*") or "omitempty" not in options:
        flags += "z"
    return shown or name, _full(of_map or plain, package), flags


def _full(name: str, package: str) -> str:
    if name.startswith("."):
        return name[1:]
    return f"{package}.{name}" if name[0].isupper() else name


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
