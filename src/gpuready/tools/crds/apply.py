"""`gpuready crds --apply`: brings the CRDs of a cluster to this version, and waits until they are served.

A CRD that already knows every field of ours and more is newer: it is left alone, so that going back to an
older version never drops what a stored policy says.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.api.crd import all_crds
from gpuready.api.skew import fields
from gpuready.errors import GPUReadyError
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import NotFound
from gpuready.kube.resources import CRDS
from gpuready.tools.terminal import joined

ESTABLISHED_S = 30.0
_LOOK_AGAIN_S = 0.2


def run(
    *, kubeconfig: str | None = None, context: str | None = None, field_manager: str = names.FIELD_MANAGER
) -> int:
    """0 once all are served.

    field_manager   in whose name; helm's Jobs write in helm's, which else would find a conflict at the next
                    `helm install` over CRDs that stayed
    raises          GPUReadyError when one cannot be written or is not served in time
    """
    sys.stdout.write(joined(asyncio.run(_apply_all(kubeconfig, context, field_manager))) + "\n")
    return 0


async def _apply_all(kubeconfig: str | None, context: str | None, field_manager: str) -> list[str]:
    lines = []
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        for crd in all_crds():
            lines.append(await apply(client, crd, field_manager))
    return lines


async def apply(client: KubeClient, crd: Mapping[str, Any], field_manager: str) -> str:
    """What was done, as a line."""
    name = crd["metadata"]["name"]
    served = await _find(client, name)
    if served is not None and fields(served) > fields(crd):
        more = sorted(fields(served) - fields(crd))
        return f"kept     {name}  it is newer: it also knows {', '.join(more[:3])}{' …' if more[3:] else ''}"
    await client.apply(CRDS, crd, field_manager=field_manager)
    await _wait_established(client, name)
    return f"{'applied' if served else 'created'}  {name}"


async def _find(client: KubeClient, name: str) -> dict[str, Any] | None:
    try:
        return await client.get(CRDS, name)
    except NotFound:
        return None


async def _wait_established(client: KubeClient, name: str) -> None:
    deadline = time.monotonic() + ESTABLISHED_S
    while not _is_established(await client.get(CRDS, name)):
        if time.monotonic() > deadline:
            raise GPUReadyError(
                f"{name} is not served {ESTABLISHED_S:g} s after it was written",
                next_step=f"see its conditions: kubectl get crd {name} -o yaml",
            )
        await asyncio.sleep(_LOOK_AGAIN_S)


def _is_established(crd: Mapping[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(row["type"] == "Established" and row["status"] == "True" for row in conditions)
