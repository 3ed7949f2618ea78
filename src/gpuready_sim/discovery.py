"""Which kinds an API server serves, by asking it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuready_sim.client import ApiStatus, Object, Resource, SimClient


@dataclass(frozen=True)
class Served:
    """A resource and what can be done with it."""

    resource: Resource
    verbs: frozenset[str]


async def served_resources(client: SimClient) -> list[Served]:
    """Every resource of every group in its preferred version, subresources left out."""
    found = _parse("", "v1", await client.raw("GET", "/api/v1"))
    for group in (await client.raw("GET", "/apis")).get("groups") or []:
        version = group["preferredVersion"]["version"]
        try:
            listing = await client.raw("GET", f"/apis/{group['name']}/{version}")
        except ApiStatus:
            continue  # the group went away between the two requests
        found += _parse(group["name"], version, listing)
    return found


def _parse(group: str, version: str, listing: Object) -> list[Served]:
    return [
        Served(
            Resource(group, version, entry["name"], entry["kind"], entry["namespaced"]),
            frozenset(entry.get("verbs") or []),
        )
        for entry in listing.get("resources") or []
        if "/" not in entry["name"]
    ]


def find_resource(served: Iterable[Resource], api_version: str, kind: str) -> Resource | None:
    """By kind and group; the version need not be the preferred one."""
    group = api_version.rpartition("/")[0]
    return next((r for r in served if r.group == group and r.kind == kind), None)
