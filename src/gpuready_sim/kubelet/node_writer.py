"""Keeps one Node object and its Lease true: at once on a device change, else at the status interval."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuready_sim.client import LEASES, NODES, AlreadyExists, ApiStatus, NotFound, SimClient, Unreachable
from gpuready_sim.errors import SimulatorError
from gpuready_sim.kubelet.clock import micro_timestamp, timestamp
from gpuready_sim.kubelet.device_manager import DeviceManager
from gpuready_sim.kubelet.events import EventRecorder
from gpuready_sim.kubelet.identity import NodeIdentity, Timing
from gpuready_sim.kubelet.node_status import (
    MachineFacts,
    is_told_by,
    labels_of,
    new_node,
    node_status,
    read_machine,
    without_heartbeats,
)

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
RETRY_S = 0.5
NEVER_ACCEPTED = (400, 422)  # the same Node would be refused again


class RegistrationRefused(SimulatorError):
    """The API server does not accept this Node, now or later."""


class NodeWriter:
    """Registers the Node, then writes its status and renews its Lease."""

    def __init__(
        self,
        identity: NodeIdentity,
        root: Path,
        client: SimClient,
        events: EventRecorder,
        timing: Timing,
        *,
        devices: Callable[[], DeviceManager],
        port: Callable[[], int],
    ) -> None:
        self.status: dict[str, Any] = {}  # as last computed
        self.uid = ""
        self._identity = identity
        self._root = root
        self._client = client
        self._events = events
        self._timing = timing
        self._devices = devices
        self._port = port
        self._facts: MachineFacts | None = None
        self._ready_since = timestamp()
        self._changed = asyncio.Event()
        self._written: dict[str, Any] = {}
        self._written_at = 0.0

    def touch(self) -> None:
        """Devices changed: write now."""
        self._compute()
        self._changed.set()

    async def register(self) -> None:
        """Until the API server has the Node as this boot of the machine makes it.

        raises RegistrationRefused when it never will
        """
        self._facts = read_machine(self._root)
        self._ready_since = timestamp()
        self._written = {}
        while True:
            try:
                await self._register()
                return
            except (ApiStatus, Unreachable) as exc:
                if isinstance(exc, ApiStatus) and exc.code in NEVER_ACCEPTED:
                    raise self._refused(exc) from exc
                log.info("cannot register: node=%s error=%s", self._identity.name, exc)
                await asyncio.sleep(RETRY_S)

    def _refused(self, answer: ApiStatus) -> RegistrationRefused:
        return RegistrationRefused(
            f"node {self._identity.name} cannot be registered",
            why=f"the API server refuses it: {answer.message}",
            next_step="correct the node in cluster.yaml",
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_status())
            group.create_task(self._renew_lease())

    async def _register(self) -> None:
        name, status = self._identity.name, self._compute()
        found = await self._client.find(NODES, name)
        if found is None:
            try:
                found = await self._client.create(NODES, new_node(self._identity, status))
            except AlreadyExists:
                found = await self._client.get(NODES, name)
        labels = {k: v for k, v in labels_of(self._identity).items() if _label(found, k) != v}
        if labels:
            await self._client.merge_patch(NODES, name, {"metadata": {"labels": labels}})
        self.uid = found["metadata"]["uid"]
        old_boot = ((found.get("status") or {}).get("nodeInfo") or {}).get("bootID")
        await self._patch_status(status)
        self._events.node("Normal", "Starting", "Starting kubelet.")
        boot_id = status["nodeInfo"]["bootID"]
        if old_boot and old_boot != boot_id:
            self._events.node("Warning", "Rebooted", f"Node {name} has been rebooted, boot id: {boot_id}")

    async def _write_status(self) -> None:
        while True:
            self._changed.clear()
            status = self._compute()
            try:
                if await self._is_due(status):
                    await self._patch_status(status)
            except NotFound:
                log.info("node is gone; the kubelet registers it when it starts again")
            except (ApiStatus, Unreachable) as exc:
                log.info("status not written: node=%s error=%s", self._identity.name, exc)
                await asyncio.sleep(RETRY_S)
                continue
            try:
                async with asyncio.timeout(self._timing.status_interval_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _is_due(self, status: dict[str, Any]) -> bool:
        """Something changed here, or others (the node lifecycle controller) wrote over it, or it is time."""
        if time.monotonic() - self._written_at >= self._timing.report_interval_s:
            return True
        if without_heartbeats(status) != without_heartbeats(self._written):
            return True
        node = await self._client.get(NODES, self._identity.name)
        return not is_told_by(node.get("status") or {}, status)

    async def _patch_status(self, status: dict[str, Any]) -> None:
        await self._client.strategic_patch(
            NODES, self._identity.name, {"status": status}, subresource="status"
        )
        self._written, self._written_at = status, time.monotonic()

    def _compute(self) -> dict[str, Any]:
        assert self._facts is not None
        devices = self._devices()
        self.status = node_status(
            self._identity,
            self._facts,
            self._port(),
            devices.capacity(),
            devices.allocatable(),
            now=timestamp(),
            ready_since=self._ready_since,
        )
        return self.status

    async def _renew_lease(self) -> None:
        while True:
            pause_s = self._timing.lease_interval_s
            try:
                await self._renew()
            except (ApiStatus, Unreachable) as exc:
                log.info("lease not renewed: node=%s error=%s", self._identity.name, exc)
                pause_s = min(pause_s, RETRY_S)
            await asyncio.sleep(pause_s)

    async def _renew(self) -> None:
        name = self._identity.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": self._timing.lease_duration_s,
            "renewTime": micro_timestamp(),
        }
        try:
            await self._client.merge_patch(LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self.uid}
            meta = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            await self._client.create(LEASES, lease)


def _label(node: dict[str, Any], key: str) -> str | None:
    value = (node["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)
