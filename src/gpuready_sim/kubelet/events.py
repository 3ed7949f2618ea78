"""Events of one kubelet; repeats raise the count of the event that is there."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Any

from gpuready_sim.client import EVENTS, ApiStatus, NotFound, SimClient, Unreachable
from gpuready_sim.kubelet.clock import timestamp

log = logging.getLogger(__name__)
REMEMBERED = 1000

Key = tuple[str, str, str, str, str, str]


class EventRecorder:
    """Records in the background, in order; `run` must be running."""

    def __init__(self, client: SimClient, node: str) -> None:
        self._client = client
        self._node = node
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(1000)
        self._known: dict[Key, tuple[str, int]] = {}

    def pod(
        self,
        pod: Mapping[str, Any],
        kind: str,
        reason: str,
        message: str,
        *,
        container: str = "",
        init: bool = False,
    ) -> None:
        """An event about a pod, or about one container of it."""
        meta = pod["metadata"]
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta.get("resourceVersion", ""),
        }
        if container:
            involved["fieldPath"] = f"spec.{'initContainers' if init else 'containers'}{{{container}}}"
        self._put(involved, meta["namespace"], kind, reason, message)

    def node(self, kind: str, reason: str, message: str) -> None:
        involved = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._node}
        self._put(involved, "default", kind, reason, message)

    async def run(self) -> None:
        while True:
            event = await self._queue.get()
            try:
                await self._write(event)
            except (ApiStatus, Unreachable) as exc:
                log.info("event lost: %s %s: %s", event["reason"], event["message"], exc)

    def _put(self, involved: dict[str, str], namespace: str, kind: str, reason: str, message: str) -> None:
        now = timestamp()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": self._node},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            log.info("event lost, too many: %s", reason)

    async def _write(self, event: dict[str, Any]) -> None:
        involved, namespace = event["involvedObject"], event["metadata"]["namespace"]
        key = (
            namespace,
            involved["uid"],
            involved.get("fieldPath", ""),
            event["type"],
            event["reason"],
            event["message"],
        )
        if key in self._known:
            name, count = self._known[key]
            patch = {"count": count + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.merge_patch(EVENTS, name, patch, namespace)
                self._known[key] = (name, count + 1)
                return
            except NotFound:
                pass
        name = f"{involved['name']}.{secrets.token_hex(8)}"
        event["metadata"]["name"] = name
        await self._client.create(EVENTS, event)
        self._known[key] = (name, 1)
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
