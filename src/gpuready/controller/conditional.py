"""Replace one field of an object as a whole, unless somebody has changed the object meanwhile."""

from __future__ import annotations

from typing import Any


def replacing(resource_version: str, path: str, value: Any) -> list[dict[str, Any]]:
    """The JSON patch. A stale `resource_version` is answered with Conflict, as by a PUT.

    An operation "test" would do too, but its failure is answered with Invalid, like a mistake of ours.
    """
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
        {"op": "add", "path": path, "value": value},
    ]
