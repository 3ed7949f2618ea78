"""Laying an applied configuration over the live object, type by type.

The applied value wins wherever it says something; maps and associative lists are joined, everything else is
taken whole. Source: structured-merge-diff v6, typed/merge.go.
"""

from __future__ import annotations

from typing import Any

from gpuready_sim.apiserver.fields import element_key
from gpuready_sim.apiserver.schema import GRANULAR, MAP, SET, Schema


def merged(live: Any, applied: Any, schema: Schema) -> Any:
    """The live value with the applied one laid over it."""
    if live is applied or live is None:
        return applied
    if schema.relation == GRANULAR and isinstance(live, dict):
        if isinstance(applied, dict) and (live or applied):
            return _merged_map(live, applied, schema)
        return live if applied is None and live else applied
    if schema.relation in (MAP, SET) and isinstance(live, list):
        if isinstance(applied, list) and (live or applied):
            return _merged_list(live, applied, schema)
        return live if applied is None and live else applied
    return applied


def _merged_map(live: dict[str, Any], applied: dict[str, Any], schema: Schema) -> dict[str, Any]:
    out = dict(live)
    for name, value in applied.items():
        out[name] = merged(live[name], value, schema.child(name)) if name in live else value
    return out


def _merged_list(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Elements in the applied list's order, the live list's own where they stood among the shared ones."""
    element = schema.element()
    live_keys = [element_key(item, schema) for item in live]
    applied_keys = [element_key(item, schema) for item in applied]
    live_items, applied_items = (
        dict(zip(live_keys, live, strict=True)),
        dict(zip(applied_keys, applied, strict=True)),
    )

    def take(key: str) -> Any:
        return (
            merged(live_items[key], applied_items[key], element) if key in live_items else applied_items[key]
        )

    shared = [key for key in applied_keys if key in live_items]
    out: list[Any] = []
    left = right = wanted = 0
    while left < len(live_keys) or right < len(applied_keys):
        if left < len(live_keys) and right < len(applied_keys):
            key = live_keys[left]
            if key == applied_keys[right]:
                out.append(take(key))
                left, right, wanted = left + 1, right + 1, wanted + 1
                continue
            if key in applied_items and wanted < len(shared) and shared[wanted] != key:
                left += 1
                continue
        if left < len(live_keys):
            key = live_keys[left]
            if key not in applied_items:
                out.append(live[left])
                left += 1
                continue
            if right >= len(applied_keys):
                left += 1
                continue
        key = applied_keys[right]
        out.append(take(key))
        right += 1
        if wanted < len(shared) and shared[wanted] == key:
            wanted += 1
    return out
