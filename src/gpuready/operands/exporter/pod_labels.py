"""Labels of this node's pods, where the policy asks for them. The only part that talks to the API server.

No file of the node and no socket of the kubelet tells them. Its HTTP client costs 10 MB of memory, so that it
is imported only then; a watch of the pods' metadata of this node alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from gpuready.errors import GPUReadyError, UsageError
from gpuready.log import get_logger

log = get_logger("exporter.pod-labels")


class PodLabels:
    """`run` for ever; `labels` is always there and never waits."""

    def __init__(self, node_name: str) -> None:
        """raises  UsageError: without a node it would hold every pod of the cluster"""
        if not node_name:
            raise UsageError(
                "labels of pods are asked for and NODE_NAME is not set",
                next_step="set NODE_NAME from spec.nodeName",
            )
        self._node_name = node_name
        self._cache: Any = None

    async def run(self) -> None:
        from gpuready.kube.cache import WatchCache
        from gpuready.kube.client import KubeClient
        from gpuready.kube.resources import PODS
        from gpuready.kube.trimmed import decode_pod

        try:
            client = KubeClient.auto(user_agent="gpuready-exporter")
        except GPUReadyError as exc:
            log.error("labels of pods are not known", what=exc.what, why=exc.why, next_step=exc.next_step)
            await asyncio.Event().wait()
            return
        async with client:
            selector = f"spec.nodeName={self._node_name}"
            self._cache = WatchCache(client, PODS, field_selector=selector, decode=decode_pod)
            await self._cache.run()

    def labels(self) -> dict[tuple[str, str], Mapping[str, str]]:
        if self._cache is None:
            return {}
        pods = self._cache.values()
        return {(pod.metadata.namespace, pod.metadata.name): pod.metadata.labels for pod in pods}
