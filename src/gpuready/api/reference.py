"""docs/reference/clusterpolicy.md: every field of a ClusterPolicy, from the models."""

from __future__ import annotations

from collections.abc import Iterator

from gpuready.api.clusterpolicy import ClusterPolicySpec
from gpuready.api.openapi import Schema, schema_of

_HEAD = """# ClusterPolicy, field by field

Made from the models by `python -m gpuready.api.reference`; do not edit. The default is what the API server
writes into a stored policy; where there is none, the description says what an absent field means.

| field of spec | type | default | allowed | meaning |
|---|---|---|---|---|
"""


def page() -> str:
    rows = (_row(path, schema) for path, schema in _fields(schema_of(ClusterPolicySpec)))
    return _HEAD + "".join(rows)


def _fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, inner
        yield from _fields(inner, where)
        yield from _fields(inner.get("items", {}), f"{where}[]")


def _row(path: str, schema: Schema) -> str:
    default = f"`{schema['default']}`" if "default" in schema else ""
    cells = (f"`{path}`", _type_of(schema), default, _allowed(schema), schema.get("description", ""))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _type_of(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {_type_of(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type_of(schema['additionalProperties'])}"
    return str(schema["type"])


def _allowed(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" if each else "empty" for each in schema["enum"])
    if "pattern" in schema:
        return f"`{schema['pattern']}`"
    return f"≥ {schema['minimum']}" if "minimum" in schema else ""


if __name__ == "__main__":
    from pathlib import Path

    target = Path("docs/reference/clusterpolicy.md")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page())
