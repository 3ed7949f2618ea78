"""`gpuready crds --check`: whether the CRDs of a cluster know every field of this version."""

from __future__ import annotations

import asyncio
import sys

from gpuready.api.crd import all_crds
from gpuready.api.skew import Skew, find_skew
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import NotFound
from gpuready.kube.resources import CRDS
from gpuready.tools.terminal import joined

_NEXT = "gpuready crds | kubectl apply --server-side --force-conflicts -f -"


def run(*, kubeconfig: str | None = None, context: str | None = None) -> int:
    """0 when nothing would be dropped, 1 when a CRD is older or missing.

    raises  GPUReadyError when it cannot look
    """
    found = asyncio.run(_look(kubeconfig, context))
    is_whole = all(skew and not skew.is_outdated for skew in found.values())
    lines = [line for name, skew in found.items() for line in _lines(name, skew)]
    sys.stdout.write(joined(lines if is_whole else [*lines, f"next  {_NEXT}"]) + "\n")
    return 0 if is_whole else 1


async def _look(kubeconfig: str | None, context: str | None) -> dict[str, Skew | None]:
    """By the CRD's name, None where the cluster has none."""
    found: dict[str, Skew | None] = {}
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        for crd in all_crds():
            name = crd["metadata"]["name"]
            try:
                found[name] = find_skew(await client.get(CRDS, name))
            except NotFound:
                found[name] = None
    return found


def _lines(name: str, skew: Skew | None) -> list[str]:
    if skew is None:
        return [f"FAIL  {name}  is not there"]
    if not skew.is_outdated:
        return [f"ok    {name}  schema {skew.served}"]
    return [
        f"FAIL  {name}  schema {skew.served} is older than this version's {skew.expected}",
        *(f"      the API server drops {path}" for path in skew.missing),
    ]
