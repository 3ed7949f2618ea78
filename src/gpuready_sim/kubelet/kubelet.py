"""The simulated kubelet of one node: wiring of its parts, and its life: start, restart, power off and on."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpuready_sim.client import PODS, SimClient
from gpuready_sim.informer import Informer
from gpuready_sim.kubelet import admission
from gpuready_sim.kubelet.admission import Rejection
from gpuready_sim.kubelet.allocation import Refused
from gpuready_sim.kubelet.device_manager import DeviceManager
from gpuready_sim.kubelet.events import EventRecorder
from gpuready_sim.kubelet.http_server import KubeletServer
from gpuready_sim.kubelet.identity import NodeIdentity, Timing
from gpuready_sim.kubelet.node_writer import NodeWriter
from gpuready_sim.kubelet.objects import Key, NodeObjects, references_of
from gpuready_sim.kubelet.pod_resources import PodResourcesServer
from gpuready_sim.kubelet.pod_worker import PodWorker
from gpuready_sim.kubelet.probes import Prober
from gpuready_sim.kubelet.services import NodeServices
from gpuready_sim.lean_http import aiohttp
from gpuready_sim.runtime.container import Container, Runtime

log = logging.getLogger(__name__)

Pod = dict[str, Any]
STOP_GRACE_S = 2.0


class Kubelet:
    """One node. The package's docstring says how it is used."""

    def __init__(
        self,
        identity: NodeIdentity,
        *,
        node_dir: Path,
        client: SimClient,
        timing: Timing | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.identity = identity
        self.timing = timing or Timing()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._client = client
        self._tls = tls
        self._runtime = Runtime(node_dir)
        self._kubelet_dir = self._runtime.node_root / "var/lib/kubelet"
        self._events = EventRecorder(client, identity.name)
        self._objects = NodeObjects(client, self._object_changed)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._endings: set[asyncio.Task[None]] = set()
        self._admission = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        self._services: NodeServices | None = None
        self._watch: asyncio.Task[None] | None = None
        self._make_process()

    # --- life -------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Serve the sockets, register the Node, run the pods; returns once the Node is registered."""
        self._session = aiohttp.ClientSession()
        self._services = self._new_services(self._session)
        await self._start_process()
        self._watch_pods()

    async def restart(self) -> None:
        """The kubelet's process ends and starts again; containers run on."""
        await self._stop_process()
        self._make_process()
        await self._start_process()

    async def power_off(self) -> None:
        """The machine goes dark: processes killed, sockets silent, nothing is written any more."""
        await self._unwatch_pods()
        await asyncio.gather(*(worker.power_off() for worker in self._workers.values()))
        await self._stop_process()

    async def power_on(self) -> None:
        """The machine boots, with whatever its root says now; its pods start once they are seen again."""
        self._make_process()
        await self._start_process()
        self._watch_pods()

    async def stop(self) -> None:
        """End of the simulation: every container gone, connections closed."""
        await self._unwatch_pods()
        await asyncio.gather(*(worker.power_off() for worker in self._workers.values()))
        await asyncio.gather(*self._endings, return_exceptions=True)
        await self._stop_process()
        self._objects.close()
        if self._session is not None:
            await self._session.close()

    @property
    def devices(self) -> DeviceManager:
        return self._devices

    def find_container(
        self, namespace: str, pod: str, container: str, previous: bool = False
    ) -> Container | None:
        """The container of that name, or the one before it; None when there is none (yet)."""
        worker = self._find_worker(namespace, pod)
        return worker.find_container(container, previous=previous) if worker else None

    # --- the kubelet's process ---------------------------------------------------------------------------
    def _make_process(self) -> None:
        """What a kubelet process holds in memory."""
        self._devices = DeviceManager(
            self._kubelet_dir / "device-plugins",
            timing=self.timing,
            active_pods=lambda: {uid for uid, worker in self._workers.items() if not worker.over},
            is_running=self._is_running,
            on_change=self._devices_changed,
        )
        self._pod_resources = PodResourcesServer(
            self._kubelet_dir / "pod-resources", self._devices, self._active_pods
        )
        self._server = KubeletServer(
            self.identity.address, self.identity.port, self._container_for_logs, self._tls
        )
        self._node = NodeWriter(
            self.identity,
            self._runtime.node_root,
            self._client,
            self._events,
            self.timing,
            devices=lambda: self._devices,
            port=lambda: self._server.port,
        )

    async def _start_process(self) -> None:
        await self._devices.start()
        await self._pod_resources.start()
        await self._server.start()
        await self._node.register()
        self._tasks = [self._guarded(self._events.run()), self._guarded(self._node.run())]

    async def _stop_process(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop()
        await self._pod_resources.stop()
        await self._devices.stop()

    def _container_for_logs(self, namespace: str, pod: str, name: str, previous: bool) -> Container | str:
        """The container, or the kubelet's reason why it has no log."""
        found = self.find_container(namespace, pod, name, previous)
        if found is not None:
            return found
        worker = self._find_worker(namespace, pod)
        if worker is None:
            return f'pod "{pod}" not found'
        if previous:
            return f'previous terminated container "{name}" in pod "{pod}" not found'
        reason = worker.waiting_reason(name)
        if reason is None:
            return f'container "{name}" in pod "{pod}" is not available'
        return f'container "{name}" in pod "{pod}" is waiting to start: {reason}'

    def _find_worker(self, namespace: str, pod: str) -> PodWorker | None:
        for worker in self._workers.values():
            meta = worker.pod["metadata"]
            if (meta["namespace"], meta["name"]) == (namespace, pod):
                return worker
        return None

    # --- pods -------------------------------------------------------------------------------------------
    def _watch_pods(self) -> None:
        pods = Informer(self._client, PODS, field_selector=f"spec.nodeName={self.identity.name}")
        pods.add_handler(self._pod_changed)
        self._watch = self._guarded(self._follow(pods))

    async def _follow(self, pods: Informer) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run())
            group.create_task(self._forget_missing(pods))

    async def _forget_missing(self, pods: Informer) -> None:
        """Pods that were deleted while nobody watched."""
        await pods.wait_synced()
        present = {pod["metadata"]["uid"] for pod in pods.objects.values()}
        for uid in self._workers.keys() - present:
            self._forget(uid)

    async def _unwatch_pods(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._forget(old["metadata"]["uid"])
        if new is None:
            return
        uid = new["metadata"]["uid"]
        if uid in self._workers:
            self._workers[uid].update(new)
            return
        assert self._services is not None
        self._workers[uid] = PodWorker(new, self._services)
        self._workers[uid].start()

    def _forget(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        if worker is None:
            return
        task = asyncio.create_task(worker.vanish())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        self._objects.keep({key for w in self._workers.values() for key in references_of(w.pod)})

    def _object_changed(self, key: Key) -> None:
        for worker in self._workers.values():
            if key in references_of(worker.pod):
                worker.objects_changed()

    def _devices_changed(self) -> None:
        self._node.touch()
        for worker in self._workers.values():
            worker.devices_changed()

    def _active_pods(self) -> list[Pod]:
        return [worker.pod for worker in self._workers.values() if not worker.over]

    def _is_running(self, uid: str, container: str) -> bool:
        worker = self._workers.get(uid)
        return worker is not None and worker.is_running(container)

    # --- admission --------------------------------------------------------------------------------------
    async def _admit(self, pod: Pod) -> Rejection | None:
        async with self._admission:
            try:
                await self._devices.admit(pod)
            except Refused as exc:
                return admission.of_allocation(str(exc))
            uid = pod["metadata"]["uid"]
            others = [
                worker.pod for worker in self._workers.values() if worker.uid != uid and not worker.over
            ]
            return admission.judge(pod, others, self._node.status["allocatable"], self._devices.in_use())

    def _new_services(self, session: aiohttp.ClientSession) -> NodeServices:
        return NodeServices(
            name=self.identity.name,
            address=self.identity.address,
            runtime=self._runtime,
            client=self._client,
            objects=self._objects,
            events=self._events,
            prober=Prober(session, self.identity.address),
            timing=self.timing,
            service_env=_service_env(self.identity.pod_api or self._client.access.server),
            devices=lambda: self._devices,
            admit=self._admit,
        )

    def _guarded(self, coroutine: Any) -> asyncio.Task[None]:
        """A task whose failure is everybody's: nothing of a kubelet dies silently."""
        task: asyncio.Task[None] = asyncio.create_task(coroutine)
        task.add_done_callback(self._note_failure)
        return task

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None and not self.failed.done():
            log.error("kubelet failed: node=%s", self.identity.name, exc_info=failure)
            self.failed.set_result(failure)


def _service_env(server: str) -> Mapping[str, str]:
    """Where containers find the API server."""
    url = urlsplit(server if "//" in server else f"//{server}")
    host, port = url.hostname or "127.0.0.1", str(url.port or 443)
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": f"tcp://{host}:{port}",
    }
