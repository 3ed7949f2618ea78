"""Events as controllers write them: one object per (involved, reason, message), counted up on repeats."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpuready_sim.client import EVENTS, ApiStatus, NotFound, SimClient, Unreachable

log = logging.getLogger(__name__)
_REMEMBERED = 4096


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Events:
    """Fire and forget: an event that cannot be written is lost, as everywhere in Kubernetes."""

    def __init__(self, client: SimClient, component: str, host: str = "") -> None:
        self._client = client
        self._component = component
        self._source = {"component": component, "host": host} if host else {"component": component}
        self._known: dict[tuple[str, str, str], tuple[str, str, int]] = {}  # -> name, namespace, count
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, about: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """`about` is the object (with kind and apiVersion), `kind` Normal or Warning."""
        reference = _reference(about)
        task = asyncio.get_running_loop().create_task(self._write(reference, kind, reason, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, reference: dict[str, str], kind: str, reason: str, message: str) -> None:
        key = (reference["uid"] or reference["name"], reason, message)
        try:
            if key in self._known and await self._count_up(key):
                return
            await self._create(key, reference, kind, reason, message)
        except (ApiStatus, Unreachable) as exc:
            log.debug("event not written: %s", exc)

    async def _count_up(self, key: tuple[str, str, str]) -> bool:
        name, namespace, count = self._known[key]
        self._known[key] = (name, namespace, count + 1)
        try:
            patch = {"count": count + 1, "lastTimestamp": now_text()}
            await self._client.merge_patch(EVENTS, name, patch, namespace)
        except NotFound:
            del self._known[key]
            return False
        return True

    async def _create(
        self, key: tuple[str, str, str], reference: dict[str, str], kind: str, reason: str, message: str
    ) -> None:
        namespace = reference.get("namespace") or "default"
        name = f"{reference['name']}.{uuid.uuid4().hex[:16]}"
        if len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[key] = (name, namespace, 1)
        now = now_text()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference,
            "reason": reason,
            "message": message,
            "type": kind,
            "source": self._source,
            "reportingComponent": self._component,
            "reportingInstance": self._source.get("host", ""),
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._client.create(EVENTS, event, namespace)


def _reference(about: Mapping[str, Any]) -> dict[str, str]:
    meta = about["metadata"]
    reference = {
        "apiVersion": about.get("apiVersion", "v1"),
        "kind": about.get("kind", ""),
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    if meta.get("namespace"):
        reference["namespace"] = meta["namespace"]
    return reference
