"""Whether an operator is there that could clean up, and what to do where none is. It only looks."""

from __future__ import annotations

from typing import Any

from gpuready import names
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import Forbidden, NotFound
from gpuready.kube.lease import Record
from gpuready.kube.resources import LEASES, PODS, Resource

NOBODY = (
    "no pod of gpuready's operator is in this cluster and nobody holds its Lease: unless it runs beside the "
    "cluster, nobody will clean up"
)
_SELECTOR = f"app={names.OPERATOR_APP},app.kubernetes.io/name=gpuready"  # of the chart's Deployment


def recipe(namespace: str) -> list[str]:
    """What brings an operator back that finds no policy and cleans up: docs/guides/install.md, Uninstall."""
    where = f"-n {namespace or names.OPERATOR_NAMESPACE}"
    return [
        "next  install the operator without a policy, with the values that it had; it cleans up:",
        f"        helm install gpuready charts/gpuready {where} --set clusterPolicy.deployCR=false --wait",
        "        gpuready uninstall",
        f"        helm uninstall gpuready {where}",
    ]


async def may_run(client: KubeClient) -> bool:
    """False where neither a pod nor a Lease speaks for one. Without the right to look, one may."""
    pods = await _found(client, PODS, labels=_SELECTOR)
    if pods is None or any(not _has_ended(pod) for pod in pods):
        return True
    leases = await _found(client, LEASES, fields=f"metadata.name={names.LEADER_LEASE}")
    return leases is None or any(Record(lease).holder for lease in leases)


async def _found(
    client: KubeClient, kind: Resource, labels: str = "", fields: str = ""
) -> list[dict[str, Any]] | None:
    try:
        return (await client.list(kind, label_selector=labels, field_selector=fields))[0]
    except NotFound:
        return []
    except Forbidden:
        return None


def _has_ended(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
