"""Watches the CRDs that the cluster serves, and says which of them is older than this program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuready.api.skew import Skew, find_skew
from gpuready.api.validation import PolicyProblem
from gpuready.kube import resources
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient

PATIENCE_S = 5.0
# An operator that may not read CRDs works without this look; its first decisions wait no longer than this.
_MOST_NAMED = 8
WATCHED = (resources.CLUSTER_POLICIES, resources.GPU_NODES)


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class _Served:
    """What is kept of a CRD: ten thousand lines of schema are only compared."""

    metadata: _Meta
    skew: Skew | None


class ServedSchemas:
    def __init__(self, client: KubeClient) -> None:
        self._caches = [
            WatchCache(
                client,
                resources.CRDS,
                field_selector=f"metadata.name={kind.plural}.{kind.group}",
                decode=_decode,
            )
            for kind in WATCHED
        ]

    def on_change(self, listener: Callable[[], None]) -> None:
        for cache in self._caches:
            cache.add_handler(lambda old, new: listener())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for cache in self._caches:
                group.create_task(cache.run(), name="watch customresourcedefinitions")

    async def wait_known(self, patience_s: float = PATIENCE_S) -> None:
        """Until they were read, or until it is clear that they cannot be."""
        try:
            async with asyncio.timeout(patience_s):
                for cache in self._caches:
                    await cache.wait_answered()
        except TimeoutError:
            return

    @property
    def problems(self) -> tuple[PolicyProblem, ...]:
        """One for each CRD that would drop fields of what we and users write."""
        served = [row.skew for cache in self._caches for row in cache.values()]
        return tuple(problem_of(skew) for skew in served if skew and skew.is_outdated)


def problem_of(skew: Skew) -> PolicyProblem:
    named = ", ".join(skew.missing[:_MOST_NAMED])
    if more := len(skew.missing) - _MOST_NAMED:
        named += f" and {more} more" if more > 0 else ""
    message = (
        f"the CRD {skew.crd} is older than this operator (its schema is {skew.served}, {skew.expected} is "
        f"expected): the API server drops {named}; next: gpuready crds | kubectl apply --server-side "
        f"--force-conflicts -f -, then apply the policy again"
    )
    return PolicyProblem(skew.crd, skew.served, skew.expected, message)


def _decode(raw: bytes) -> _Served:
    crd: dict[str, Any] = msgspec.json.decode(raw)
    meta = crd["metadata"]
    return _Served(_Meta(meta["name"], meta.get("resourceVersion", "")), find_skew(crd))
