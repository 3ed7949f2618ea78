"""Reduce Kubernetes' Go types to the table of what its JSON decoder calls them in refusals.

Run at development time with three checkouts, of kubernetes/api, kubernetes/apimachinery and
kubernetes/apiextensions-apiserver
(`python src/gpuready_sim/apiserver/data/extract_go_types.py API APIMACHINERY APIEXTENSIONS`); the output is
committed. A published schema says that a toleration's effect is a string; the decoder says v1.TaintEffect,
and it names the embedded struct through which it reached a field. The output is deterministic.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^(?:type )?\t?(\w+) (map\[|\[\]|string|int32|int64)(\S*)$", re.MULTILINE)
_TAG = re.compile(r"^\s+(?:(\w+)\s+)?([^\s`]+)\s+`([^`]*)`", re.MULTILINE)
_IMPORT = re.compile(r'^\t(?:(\w+) )?"([\w./-]+)"$', re.MULTILINE)
_PLAIN = {
    "bool",
    "byte",
    "float64",
    "int",
    "int32",
    "int64",
    "string",
    "uint8",
    "uint32",
    "any",
    "interface{}",
}


def main(api: Path, machinery: Path, extensions: Path) -> None:
    folders = {
        f"io.k8s.api.{at.parent.parent.name}.v1": at.parent for at in sorted(api.glob("*/v1/types.go"))
    }
    folders["io.k8s.apimachinery.pkg.apis.meta.v1"] = machinery / "pkg/apis/meta/v1"
    crds = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
    folders[crds] = extensions / "pkg/apis/apiextensions/v1"
    sources = {package: _Source(folder) for package, folder in folders.items()}
    table = {}
    for package, source in sources.items():
        for name in source.structs:
            if fields := dict(_fields(name, source, sources, ())):
                table[f"{package}.{name}"] = fields
    text = json.dumps(table, separators=(",", ":"), sort_keys=True)
    output = Path(__file__).parent / "go_types.json.gz"
    output.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


class _Source:
    """The structs, named types and imports of a folder."""

    def __init__(self, folder: Path) -> None:
        files = [path for path in sorted(folder.glob("*.go")) if not _is_beside(path.name)]
        text = "\n".join(path.read_text() for path in files)
        self.structs = dict(_STRUCT.findall(text))
        self.named = {name: start + rest for name, start, rest in _NAMED.findall(text)}
        self.imports = {
            alias or path.rpartition("/")[2]: path.rpartition("/")[2] for alias, path in _IMPORT.findall(text)
        }


def _is_beside(name: str) -> bool:
    return "generated" in name or name.endswith("_test.go")


def _fields(
    struct: str, source: _Source, sources: dict[str, _Source], through: tuple[str, ...]
) -> Iterator[tuple[str, list[object]]]:
    """(JSON name, [embedded structs on the way, whether a zero is left out, its type, its elements' ...])"""
    for go_name, go_type, tag in _TAG.findall(source.structs[struct]):
        shown = re.search(r'json:"([^"]*)"', tag)
        name = (shown[1] if shown else "").split(",")[0]
        if name == "-":
            continue
        if not go_name and not name:
            embedded = go_type.lstrip("*").rpartition(".")[2]
            if embedded in source.structs and "." not in go_type:
                yield from _fields(embedded, source, sources, (*through, embedded))
            continue
        omitted = ",omitempty" in (shown[1] if shown else "") and not go_type.startswith("*")
        yield name or go_name, [list(through), omitted, *_chain(go_type, source)]


def _chain(go_type: str, source: _Source) -> list[str]:
    """A type and what it is made of: []v1.Capability, v1.Capability"""
    kind = go_type.lstrip("*")
    chain = [_shown(kind, source)]
    bare = source.named.get(kind, kind)
    inner = re.match(r"(?:\[\]|map\[\w+\])(.+)", bare)
    return chain + _chain(inner[1], source) if inner and bare != "[]byte" else chain


def _shown(kind: str, source: _Source) -> str:
    found = re.match(r"(\[\]|map\[\w+\])(.+)", kind)
    if found:
        key = re.sub(r"\[(\w+)\]", lambda of: f"[{_shown(of[1], source)}]", found[1])
        return key + _shown(found[2], source)
    if kind.startswith("*"):
        return "*" + _shown(kind[1:], source)
    if kind == "byte":
        return "uint8"
    if kind in _PLAIN:
        return "interface {}" if kind in ("any", "interface{}") else kind
    package, _, name = kind.rpartition(".")
    return f"{source.imports.get(package, package) if package else 'v1'}.{name}"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
