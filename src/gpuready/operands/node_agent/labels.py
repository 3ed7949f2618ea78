"""Which labels of the Node are ours to write, change or take away.

Pure. A key is ours while it still holds the value that we wrote (remembered in one annotation); only then do
we change or remove it. A missing one comes back at once; any other value is somebody's wish and is honoured.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from gpuready import names


def written(annotations: Mapping[str, str]) -> dict[str, str]:
    """The key=value pairs that we put on the Node; a spoiled annotation counts as none."""
    try:
        row = json.loads(annotations.get(names.AGENT_LABELS_ANNOTATION, "{}"))
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in row.items()} if isinstance(row, dict) else {}


def ours(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """What we wrote and nobody has changed since."""
    return {key: value for key, value in written(annotations).items() if labels.get(key) == value}


def metadata_patch(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    wanted: Mapping[str, str],
    of_others: Collection[str] = (),
) -> dict[str, Any] | None:
    """What to merge into the Node's metadata so that it carries `wanted`; None when nothing differs.

    of_others  keys that another writer claims: never removed, and no longer counted as ours
    """
    mine = {key: value for key, value in ours(labels, annotations).items() if key not in of_others}
    keep = {key: value for key, value in wanted.items() if key not in labels or key in mine}
    changes: dict[str, str | None] = {key: None for key in mine if key not in keep}
    changes.update({key: value for key, value in keep.items() if labels.get(key) != value})
    remembered = _remembered(keep)
    patch: dict[str, Any] = {}
    if changes:
        patch["labels"] = changes
    if annotations.get(names.AGENT_LABELS_ANNOTATION) != remembered:
        patch["annotations"] = {names.AGENT_LABELS_ANNOTATION: remembered}
    return patch or None


def _remembered(keep: Mapping[str, str]) -> str | None:
    return json.dumps(dict(sorted(keep.items())), separators=(",", ":")) if keep else None
