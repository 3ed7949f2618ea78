"""One pod on the node, from admission to its last word to the API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from gpuready_sim.client import PODS, ApiStatus, NotFound, Unreachable
from gpuready_sim.kubelet import log_directories, pod_status
from gpuready_sim.kubelet.admission import Rejection
from gpuready_sim.kubelet.clock import timestamp
from gpuready_sim.kubelet.container_loop import ContainerLoop
from gpuready_sim.kubelet.container_maker import ContainerMaker
from gpuready_sim.kubelet.pod_status import TERMINAL, Record, restart_policy, waiting
from gpuready_sim.kubelet.records import containers_of, lost_by_reboot, never_ran, record_of
from gpuready_sim.kubelet.services import NodeServices
from gpuready_sim.runtime.container import Container
from gpuready_sim.runtime.volumes import MountFailure, PodVolumes

log = logging.getLogger(__name__)

Pod = dict[str, Any]
FORCED_GRACE_S = 2.0
RETRY_S = 0.5


class PodWorker:
    """Runs one pod; `pod` is the object as last seen."""

    def __init__(self, pod: Pod, node: NodeServices) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.over = False  # nothing of it runs and nothing will
        self._is_off = False  # its node is
        self._node = node
        self._start_time = (pod.get("status") or {}).get("startTime") or timestamp()
        self._records = [record_of(spec, pod, init) for spec, init in containers_of(pod)]
        self._loops: dict[str, ContainerLoop] = {}
        self._rejection: Rejection | None = None
        self._volumes = PodVolumes(
            node.runtime.node_dir / "pods" / self.uid / "volumes", node.runtime.node_root, node.objects
        )
        self._touched = asyncio.Event()
        self._refresh = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._runs: list[asyncio.Task[int]] = []
        self._life: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._stored = pod  # the newest that the API server showed or answered
        self._sent: Pod = {}  # the status last written, and the whole status that this made
        self._answer: Pod = {}
        self._admitted = False

    # --- what happens to it -----------------------------------------------------------------------------
    def start(self) -> None:
        """Begin its life, unless it is over already; its status is kept true from here on."""
        self._begin()
        self.update(self.pod)

    def _begin(self) -> None:
        if self._phase_seen() in TERMINAL:
            self.over = True
        else:
            self._life = self._spawn(self._live())
        self._spawn(self._report())

    def update(self, pod: Pod) -> None:
        """A newer object: labels may have changed, or it is to be deleted."""
        if _downward(pod) != _downward(self.pod):
            self._refresh.set()
        self.pod = pod
        self._note(pod)
        if self._is_off:
            self._power_on()
        self._touched.set()
        if pod["metadata"].get("deletionTimestamp") and self._ending is None:
            grace_s = pod["metadata"].get("deletionGracePeriodSeconds")
            self._ending = self._spawn(self._delete(30 if grace_s is None else grace_s))

    def objects_changed(self) -> None:
        """A ConfigMap or Secret that it refers to is not what it was."""
        self._refresh.set()

    async def vanish(self) -> None:
        """The object is gone from the API server: nothing of the pod may stay."""
        await self._end_containers(FORCED_GRACE_S)
        await self._clean_up()

    async def power_off(self) -> None:
        """All processes gone at once; nobody is told. The next update starts it again."""
        self._is_off = True
        for loop in self._loops.values():
            loop.kill()
        await self._cancel_tasks()
        for loop in self._loops.values():
            if loop.container is not None:
                if loop.container.is_running:
                    await loop.container.wait()
                await loop.container.remove()

    def _power_on(self) -> None:
        """The node has booted: what ran before starts again, after a new admission."""
        self._is_off = False
        for record in self._records:
            if record.running or record.terminated:
                lost_by_reboot(record)
        self._loops, self._runs, self._ending, self._admitted = {}, [], None, False
        self._begin()

    def waiting_reason(self, container: str) -> str | None:
        """Why a container has not started; None when it has, or does not exist."""
        record = next((r for r in self._records if r.name == container), None)
        return record.waiting["reason"] if record and record.waiting else None

    def is_running(self, container: str) -> bool:
        loop = self._loops.get(container)
        return loop is not None and loop.container is not None and loop.container.is_running

    def find_container(self, name: str, *, previous: bool = False) -> Container | None:
        loop = self._loops.get(name)
        if loop is None:
            return None
        return loop.previous if previous else loop.container

    # --- life -------------------------------------------------------------------------------------------
    async def _live(self) -> None:
        rejection = await self._node.admit(self.pod)
        if rejection is not None:
            self._rejection = rejection
            self._event("Warning", rejection.reason, rejection.message)
            self.over = True
            self._touched.set()
            return
        self._admitted = True
        self._touched.set()
        await self._set_up_volumes()
        self._spawn(self._keep_volumes_fresh())
        if await self._run_init_containers():
            await self._run_main_containers()
        self._finish()

    async def _set_up_volumes(self) -> None:
        pause_s = self._node.timing.mount_retry_s
        while True:
            try:
                await self._volumes.set_up(self._pod_with_addresses())
                return
            except (MountFailure, TimeoutError) as exc:
                self._event("Warning", "FailedMount", str(exc))
            except (ApiStatus, Unreachable) as exc:
                self._event("Warning", "FailedMount", f"MountVolume.SetUp failed: {exc}")
            self._refresh.clear()
            await _wait(self._refresh, pause_s)
            pause_s = min(pause_s * 2, self._node.timing.mount_retry_max_s)

    async def _keep_volumes_fresh(self) -> None:
        while True:
            self._refresh.clear()
            await _wait(self._refresh, self._volumes.next_refresh_s())
            try:
                await self._volumes.set_up(self._pod_with_addresses())
            except (MountFailure, ApiStatus, Unreachable, TimeoutError) as exc:
                log.info("volumes not refreshed: pod=%s error=%s", self.pod["metadata"]["name"], exc)
                await asyncio.sleep(RETRY_S)

    async def _run_init_containers(self) -> bool:
        """One after the other; False when one failed for good."""
        policy = restart_policy(self.pod)
        for spec, init in containers_of(self.pod):
            if not init:
                continue
            record = self._record(spec["name"])
            sidecar = record.sidecar
            loop = self._new_loop(spec, record, "Always" if sidecar else _init_policy(policy))
            run = self._run(loop)
            if sidecar:
                await loop.started.wait()
                continue
            await asyncio.wait([run])
            if run.result() != 0:
                return False
        return True

    async def _run_main_containers(self) -> None:
        loops = [
            self._new_loop(spec, self._record(spec["name"]), restart_policy(self.pod))
            for spec, init in containers_of(self.pod)
            if not init
        ]
        for record in self._records:
            if not record.init and record.waiting and record.waiting["reason"] == "PodInitializing":
                record.state = waiting("ContainerCreating")
        await asyncio.wait([self._run(loop) for loop in loops])

    def _run(self, loop: ContainerLoop) -> asyncio.Task[int]:
        """In a task of its own, so that it ends with its container, not with whoever waits for it."""
        task = self._spawn(loop.run())
        self._runs.append(task)
        return task

    def _new_loop(self, spec: Pod, record: Record, policy: str) -> ContainerLoop:
        meta = self.pod["metadata"]

        def say(kind: str, reason: str, message: str) -> None:
            self._event(kind, reason, message, container=record.name, init=record.init)

        maker = ContainerMaker(self._node, self._volumes, self._pod_with_addresses, spec)
        loop = ContainerLoop(
            spec,
            record,
            policy=policy,
            pod_name=f"{meta['name']}_{meta['namespace']}({self.uid})",
            grace_s=self.pod["spec"].get("terminationGracePeriodSeconds", 30),
            make=maker.make,
            prober=self._node.prober,
            timing=self._node.timing,
            say=say,
            touched=self._touched.set,
        )
        self._loops[record.name] = loop
        return loop

    def _finish(self) -> None:
        """All containers have ended for good; sidecars end with them."""
        for record in self._records:
            if record.sidecar and record.name in self._loops:
                self._spawn(self._loops[record.name].stop(FORCED_GRACE_S))
        self.over = True
        self._touched.set()

    # --- death ------------------------------------------------------------------------------------------
    async def _delete(self, grace_s: float) -> None:
        await self._end_containers(grace_s)
        meta = self.pod["metadata"]
        while True:
            try:
                if self._admitted:
                    await self._send(self._status())
                await self._node.client.delete(PODS, meta["name"], meta["namespace"], grace_s=0, uid=self.uid)
                return
            except (ApiStatus, Unreachable) as exc:
                if isinstance(exc, NotFound) or getattr(exc, "code", 0) == 409:
                    return
                await asyncio.sleep(RETRY_S)

    async def _end_containers(self, grace_s: float) -> None:
        """Main containers first, sidecars after them; nothing starts again."""
        if self._life is not None:
            self._life.cancel()
        loops = list(self._loops.values())
        main = [loop.stop(grace_s) for loop in loops if not loop.record.sidecar]
        await asyncio.gather(*main)
        await asyncio.gather(*(loop.stop(FORCED_GRACE_S) for loop in loops if loop.record.sidecar))
        await asyncio.gather(*self._runs, return_exceptions=True)
        for record in self._records:
            if record.waiting and self._admitted:
                record.state = record.last_state or never_ran()
        self.over = True

    async def _clean_up(self) -> None:
        await self._cancel_tasks()
        for loop in self._loops.values():
            if loop.container is not None:
                await loop.container.remove()
        await self._volumes.tear_down()
        log_directories.remove(self._node.runtime.node_root, self.pod)

    async def _cancel_tasks(self) -> None:
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- status -----------------------------------------------------------------------------------------
    async def _report(self) -> None:
        while True:
            await self._touched.wait()
            self._touched.clear()
            status = self._status()
            if not status or self._is_told(status):
                continue
            try:
                await self._send(status)
            except NotFound:
                return
            except (ApiStatus, Unreachable) as exc:
                log.info("status not written: pod=%s error=%s", self.pod["metadata"]["name"], exc)
                await asyncio.sleep(RETRY_S)
                self._touched.set()

    def _is_told(self, status: Pod) -> bool:
        """Written already, and nobody (the node lifecycle controller) wrote over it since."""
        return status == self._sent and self._stored.get("status") == self._answer

    async def _send(self, status: Pod) -> None:
        meta = self.pod["metadata"]
        patch = {"metadata": {"uid": self.uid}, "status": pod_status.replacing(status)}
        answer = await self._node.client.strategic_patch(
            PODS, meta["name"], patch, meta["namespace"], subresource="status"
        )
        self._sent, self._answer = status, answer.get("status") or {}
        self._note(answer)

    def _note(self, pod: Pod) -> None:
        """Keep the newest: the watch may still tell of what was before our own write."""
        if _version(pod) >= _version(self._stored):
            self._stored = pod

    def _status(self) -> Pod:
        if self._rejection is not None:
            return pod_status.rejected(self._rejection.reason, self._rejection.message, self._start_time)
        if not self._admitted:
            return {}
        for record in self._records:
            record.devices = self._devices_of(record.name)
        return pod_status.build(
            self.pod,
            self._records,
            address=self._node.address,
            start_time=self._start_time,
            now=timestamp(),
            previous=(self._stored.get("status") or {}).get("conditions") or [],
        )

    def _devices_of(self, container: str) -> list[Pod]:
        manager = self._node.devices()
        words = {True: "Healthy", False: "Unhealthy", None: "Unknown"}
        return [
            {
                "name": resource,
                "resources": [
                    {"resourceID": i, "health": words[manager.is_healthy(resource, i)]} for i in sorted(ids)
                ],
            }
            for resource, ids in manager.held_by(self.uid, container).items()
        ]

    def devices_changed(self) -> None:
        """Health of devices may have changed: it shows in allocatedResourcesStatus."""
        if not self.over:
            self._touched.set()

    # --- small things -----------------------------------------------------------------------------------
    def _pod_with_addresses(self) -> Pod:
        address = self._node.address
        return {**self.pod, "status": {**(self.pod.get("status") or {}), "hostIP": address, "podIP": address}}

    def _phase_seen(self) -> str:
        return str((self.pod.get("status") or {}).get("phase") or "Pending")

    def _record(self, name: str) -> Record:
        return next(record for record in self._records if record.name == name)

    def _event(
        self, kind: str, reason: str, message: str, *, container: str = "", init: bool = False
    ) -> None:
        self._node.events.pod(self.pod, kind, reason, message, container=container, init=init)

    def _spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("pod worker failed: pod=%s", self.pod["metadata"]["name"], exc_info=task.exception())


def _downward(pod: Mapping[str, Any]) -> tuple[Any, Any]:
    """What a running pod's downward API volumes can show of a change."""
    return pod["metadata"].get("labels"), pod["metadata"].get("annotations")


def _version(pod: Mapping[str, Any]) -> int:
    return int(pod["metadata"].get("resourceVersion") or 0)


def _init_policy(policy: str) -> str:
    return "Never" if policy == "Never" else "OnFailure"


async def _wait(event: asyncio.Event, timeout_s: float | None) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
