"""Kubernetes Events: said once, counted when said again, never a reason for the caller to fail."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import AlreadyExists, NotFound
from gpuready.kube.resources import EVENTS
from gpuready.log import get_logger

NORMAL = "Normal"
WARNING = "Warning"

# As client-go's EventSourceObjectSpamFilter: 25 at once about one object, then one every five minutes.
BURST = 25
REFILL_S = 300.0
REMEMBERED = 1024
MESSAGE_LIMIT = 1024
PATIENCE_S = 10.0

log = get_logger("kube.events")


class EventRecorder:
    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        instance: str = "",
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._now = now
        self._said: OrderedDict[str, _Said] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._lock = asyncio.Lock()

    async def event(self, obj: Mapping[str, Any], type_: str, reason: str, message: str) -> None:
        """Record an Event about `obj` (apiVersion, kind, metadata.name/.namespace/.uid are enough).

        A repeat of the same words raises `count` and `lastTimestamp`. Whatever goes wrong is logged only.
        """
        ref = reference_to(obj)
        message = message[:MESSAGE_LIMIT]
        if not self._may_speak(f"{ref['kind']}/{ref.get('namespace')}/{ref['name']}"):
            log.debug("event dropped", reason=reason, object=ref["name"], why="too many about this object")
            return
        try:
            async with asyncio.timeout(PATIENCE_S), self._lock:
                await self._record(ref, type_, reason, message)
        except (GPUReadyError, TimeoutError) as exc:
            log.warning("event not recorded", reason=reason, object=ref["name"], error=str(exc))

    async def _record(self, ref: dict[str, Any], type_: str, reason: str, message: str) -> None:
        key = _key(ref, type_, reason, message)
        said = self._said.get(key)
        if said is not None and await self._repeat(said):
            self._said.move_to_end(key)
            return
        body = self._body(ref, type_, reason, message)
        try:
            await self._client.create(EVENTS, body)
        except AlreadyExists:
            return
        self._said[key] = _Said(body["metadata"]["name"], body["metadata"]["namespace"])
        while len(self._said) > REMEMBERED:
            self._said.popitem(last=False)

    async def _repeat(self, said: _Said) -> bool:
        """Count the event up; False when the server has forgotten it (it keeps events for an hour)."""
        patch = {"count": said.count + 1, "lastTimestamp": self._time_text()}
        try:
            await self._client.merge_patch(EVENTS, said.name, patch, said.namespace)
        except NotFound:
            return False
        said.count += 1
        return True

    def _body(self, ref: dict[str, Any], type_: str, reason: str, message: str) -> dict[str, Any]:
        now = self._time_text()
        namespace = ref.get("namespace") or "default"
        name = f"{ref['name'][:200]}.{time.time_ns():x}"
        source = {"component": self._component} | ({"host": self._instance} if self._instance else {})
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": ref,
            "type": type_,
            "reason": reason,
            "message": message,
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def _may_speak(self, about: str) -> bool:
        budget = self._budgets.setdefault(about, _Budget(at=self._clock()))
        self._budgets.move_to_end(about)
        while len(self._budgets) > REMEMBERED:
            self._budgets.popitem(last=False)
        return budget.take(self._clock())

    def _time_text(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class _Said:
    name: str
    namespace: str
    count: int = 1


@dataclass
class _Budget:
    at: float
    left: float = field(default=float(BURST))

    def take(self, now: float) -> bool:
        self.left = min(BURST, self.left + (now - self.at) / REFILL_S)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


def reference_to(obj: Mapping[str, Any]) -> dict[str, Any]:
    """`involvedObject` of an Event about `obj`; takes a whole object or an ObjectReference."""
    meta = obj.get("metadata") or obj
    ref = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "name": meta.get("name"),
        "namespace": meta.get("namespace"),
        "uid": meta.get("uid"),
        "fieldPath": obj.get("fieldPath"),
    }
    return {key: value for key, value in ref.items() if value}


def _key(ref: Mapping[str, Any], type_: str, reason: str, message: str) -> str:
    parts = (ref.get("kind"), ref.get("namespace"), ref["name"], ref.get("uid"), type_, reason, message)
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
