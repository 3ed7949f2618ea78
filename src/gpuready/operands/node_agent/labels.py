"""Which labels of the Node are ours to write, change or take away.

Pure. A key is ours while it still holds the value that we wrote (remembered in one annotation); only then do
we change or remove it. A missing one comes back at once; any other value is somebody's wish and is honoured.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from gpuready import names


def find_written(annotations: Mapping[str, str]) -> dict[str, str] | None:
    """The key=value pairs that we put on the Node; None when the annotation is missing or spoiled."""
    try:
        row = json.loads(annotations[names.AGENT_LABELS_ANNOTATION])
    except (KeyError, ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    return {str(key): str(value) for key, value in row.items() if names.is_agent_label(str(key))}


def ours(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """What we wrote and nobody has changed since."""
    noted = find_written(annotations) or {}
    return {key: value for key, value in noted.items() if labels.get(key) == value}


def metadata_patch(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    wanted: Mapping[str, str],
    of_others: Collection[str] = (),
) -> dict[str, Any] | None:
    """What to merge into the Node's metadata so that it carries `wanted`; None when nothing differs.

    of_others  keys that another writer claims: never removed, and no longer counted as ours
    """
    mine = ours(labels, annotations)
    if find_written(annotations) is None:  # lost: what is as we would write it is taken for ours again
        mine = {key: value for key, value in wanted.items() if labels.get(key) == value}
    mine = {key: value for key, value in mine.items() if key not in of_others}
    keep = {key: value for key, value in wanted.items() if key not in labels or key in mine}
    changes: dict[str, str | None] = {key: None for key in mine if key not in keep}
    changes.update({key: value for key, value in keep.items() if labels.get(key) != value})
    remembered = _remembered(keep)
    if remembered is None and wanted and names.AGENT_LABELS_ANNOTATION in annotations:
        remembered = "{}"  # none would mean "lost", and have others' labels adopted
    patch: dict[str, Any] = {}
    if changes:
        patch["labels"] = changes
    if annotations.get(names.AGENT_LABELS_ANNOTATION) != remembered:
        patch["annotations"] = {names.AGENT_LABELS_ANNOTATION: remembered}
    return patch or None


def _remembered(keep: Mapping[str, str]) -> str | None:
    return json.dumps(dict(sorted(keep.items())), separators=(",", ":")) if keep else None
