"""One container of a pod through all its lives: create, start, probe, end, wait, again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from gpuready_sim.kubelet.backoff import RestartBackoff
from gpuready_sim.kubelet.clock import timestamp
from gpuready_sim.kubelet.identity import Timing
from gpuready_sim.kubelet.pod_status import Record, should_restart, waiting
from gpuready_sim.kubelet.probes import Outcome, Prober, Rules, watch
from gpuready_sim.runtime import images
from gpuready_sim.runtime.container import KILLED, Container
from gpuready_sim.runtime.errors import ContainerFailure, PullError, StartError
from gpuready_sim.runtime.logs import tail_text

log = logging.getLogger(__name__)

START_ERROR_CODE = 128
PRE_STOP_TIMEOUT_S = 30


class Say(Protocol):
    """Records an event about the container."""

    def __call__(self, kind: str, reason: str, message: str) -> None: ...


class ContainerLoop:
    """Keeps one container as its pod's restart policy wants it.

    make      builds the container for one start, restart count given; raises ContainerFailure
    touched   called whenever `record` changed
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        record: Record,
        *,
        policy: str,
        pod_name: str,
        grace_s: float,
        make: Callable[[int], Awaitable[Container]],
        prober: Prober,
        timing: Timing,
        say: Say,
        touched: Callable[[], None],
    ) -> None:
        self.record = record
        self.container: Container | None = None
        self.previous: Container | None = None
        self._spec = spec
        self._policy = policy
        self._pod_name = pod_name
        self._grace_s = grace_s
        self._make = make
        self._prober = prober
        self._timing = timing
        self._say = say
        self._touched = touched
        self._backoff = RestartBackoff(timing.backoff_base_s, timing.backoff_max_s, timing.backoff_reset_s)
        self._stopped = asyncio.Event()
        self.started = asyncio.Event()
        self._killer: asyncio.Task[int] | None = None

    async def run(self) -> int:
        """Until the container has ended for good; returns its exit code."""
        while True:
            code = await self._one_life()
            if self._stopped.is_set() or not should_restart(self._policy, code):
                return code
            await self._wait_before_restart()
            if self._stopped.is_set():
                return code

    async def stop(self, grace_s: float) -> None:
        """preStop, TERM, and KILL when the grace period is over."""
        self._stopped.set()
        container = self.container
        if container is None or not container.is_running:
            return
        self._say("Normal", "Killing", f"Stopping container {self.record.name}")
        began = time.monotonic()
        await self._pre_stop(container, grace_s)
        await container.stop(grace_s - (time.monotonic() - began))

    def kill(self) -> None:
        """SIGKILL now."""
        self._stopped.set()
        if self.container is not None:
            self.container.kill()

    # --- one life ---------------------------------------------------------------------------------------
    async def _one_life(self) -> int:
        container = await self._make_until_it_works()
        if container is None:
            return START_ERROR_CODE
        self.started.clear()
        self.record.state = {"running": {"startedAt": timestamp(container.started_at)}}
        self.record.started = "startupProbe" not in self._spec
        self.record.ready = self.record.started and "readinessProbe" not in self._spec
        if self.record.started:
            self.started.set()
        self._say("Normal", "Started", "Container started")
        self._touched()
        probes = asyncio.create_task(self._probe(container))
        probes.add_done_callback(_log_failure)
        try:
            code = await container.wait()
        finally:
            probes.cancel()
        self._ended(container, code)
        return code

    async def _make_until_it_works(self) -> Container | None:
        """A started container; None when its process could not start."""
        backoff = RestartBackoff(
            self._timing.backoff_base_s, self._timing.backoff_max_s, self._timing.backoff_reset_s
        )
        backoff.after_run(0)
        while not self._stopped.is_set():
            try:
                return await self._create_and_start()
            except StartError as exc:
                self._could_not_start(exc)
                return None
            except PullError as exc:
                await self._wait_for_the_image(exc, backoff.after_run(0))
            except ContainerFailure as exc:
                self.record.state = waiting(exc.reason, str(exc))
                self._say("Warning", "Failed", f"Error: {exc}")
                self._touched()
                await self._pause(backoff.after_run(0))
        return None

    async def _create_and_start(self) -> Container:
        if not isinstance(self.record.state.get("waiting"), dict):
            self.record.state = waiting("ContainerCreating")
        image = self.record.image
        images.pull(image)
        self._say("Normal", "Pulled", f'Container image "{image}" already present on machine')
        number = self.record.restarts + (self.container is not None)
        made = await self._make(number)
        # Counted when it is there: who reads the count finds the log of the one before.
        self.record.restarts = number
        old, self.previous, self.container = self.container, self.container, made
        if old is not None:
            await old.remove()
        self.record.container_id = made.id
        self._say("Normal", "Created", "Container created")
        await made.start()
        if self._stopped.is_set():
            made.kill()  # told to stop while it was being made
        return made

    async def _wait_for_the_image(self, exc: PullError, wait_s: float) -> None:
        """The two states between which such a container goes back and forth, in the kubelet's words.

        Source: kubernetes, pkg/kubelet/images/image_manager.go (EnsureImageExists).
        """
        image = self.record.image
        self._say("Normal", "Pulling", f'Pulling image "{image}"')
        self._say("Warning", "Failed", f'Failed to pull image "{image}": {exc}')
        self._not_pulled(exc.reason, str(exc))
        await self._pause(wait_s / 2)
        if self._stopped.is_set():
            return
        self._say("Normal", "BackOff", f'Back-off pulling image "{image}"')
        self._not_pulled("ImagePullBackOff", f'Back-off pulling image "{image}": {exc.reason}: {exc}')
        await self._pause(wait_s / 2)

    def _not_pulled(self, reason: str, message: str) -> None:
        self._say("Warning", "Failed", f"Error: {reason}")
        self.record.state = waiting(reason, message)
        self._touched()

    def _could_not_start(self, exc: StartError) -> None:
        now = timestamp()
        terminated = {
            "exitCode": START_ERROR_CODE,
            "reason": "StartError",
            "message": str(exc),
            "startedAt": "1970-01-01T00:00:00Z",
            "finishedAt": now,
            "containerID": f"containerd://{self.record.container_id}",
        }
        self._say("Warning", "Failed", f"Error: {exc}")
        self.record.ready = self.record.started = False
        if should_restart(self._policy, START_ERROR_CODE):
            self.record.last_state = {"terminated": terminated}
            self.record.state = waiting(exc.reason, str(exc))
        else:
            self.record.state = {"terminated": terminated}
        self._touched()

    def _ended(self, container: Container, code: int) -> None:
        message = ""
        if code and self._spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = tail_text(container.log.path)[-2048:]
        self.record.ready = self.record.started = False
        self.record.state = {
            "terminated": {
                "exitCode": code,
                "reason": "Completed" if code == 0 else "Error",
                **({"message": message} if message else {}),
                "startedAt": timestamp(container.started_at),
                "finishedAt": timestamp(container.finished_at),
                "containerID": f"containerd://{container.id}",
            }
        }
        self._touched()

    async def _wait_before_restart(self) -> None:
        ran_for_s = self.container.finished_at - self.container.started_at if self.container else 0.0
        wait_s = self._backoff.after_run(ran_for_s)
        if self.record.terminated:
            self.record.last_state = self.record.state
        if wait_s > 0:
            shown = f"{wait_s:g}s"
            text = f"back-off {shown} restarting failed container={self.record.name} pod={self._pod_name}"
            self.record.state = waiting("CrashLoopBackOff", text)
            self._say(
                "Warning",
                "BackOff",
                f"Back-off restarting failed container {self.record.name} in pod {self._pod_name}",
            )
            self._touched()
            await self._pause(wait_s)

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless it is to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            pass

    # --- probes -----------------------------------------------------------------------------------------
    async def _probe(self, container: Container) -> None:
        if "startupProbe" in self._spec:
            await self._watch("startupProbe", container, self._startup_verdict)
        async with asyncio.TaskGroup() as group:
            if "readinessProbe" in self._spec:
                group.create_task(self._watch("readinessProbe", container, self._readiness_verdict))
            if "livenessProbe" in self._spec:
                group.create_task(self._watch("livenessProbe", container, self._liveness_verdict))

    async def _watch(self, kind: str, container: Container, decide: Callable[[bool, str], bool]) -> None:
        probe = self._spec[kind]
        ports = {p["name"]: p["containerPort"] for p in self._spec.get("ports") or [] if "name" in p}
        word = kind.removesuffix("Probe").capitalize()

        async def ask() -> Outcome:
            return await self._prober.ask(probe, container, ports)

        def failed(text: str) -> None:
            self._say("Warning", "Unhealthy", f"{word} probe failed: {text}")

        await watch(Rules.of(probe, self._timing.probe_scale), ask, decide, failed)

    def _startup_verdict(self, ok: bool, text: str) -> bool:
        if not ok:
            self._restart_unhealthy("startup")
            return True
        self.record.started = True
        self.record.ready = "readinessProbe" not in self._spec
        self.started.set()
        self._touched()
        return True

    def _readiness_verdict(self, ok: bool, text: str) -> bool:
        if self.record.ready != ok:
            self.record.ready = ok
            self._touched()
        return False

    def _liveness_verdict(self, ok: bool, text: str) -> bool:
        if not ok:
            self._restart_unhealthy("liveness")
        return not ok

    def _restart_unhealthy(self, probe: str) -> None:
        container = self.container
        if container is None:
            return
        self._say(
            "Normal", "Killing", f"Container {self.record.name} failed {probe} probe, will be restarted"
        )
        grace_s = self._spec[f"{probe}Probe"].get("terminationGracePeriodSeconds") or self._grace_s
        self._killer = asyncio.create_task(self._end(container, grace_s))

    async def _end(self, container: Container, grace_s: float) -> int:
        await self._pre_stop(container, grace_s)
        return await container.stop(grace_s)

    async def _pre_stop(self, container: Container, grace_s: float) -> None:
        handler = ((self._spec.get("lifecycle") or {}).get("preStop") or {}).get("exec")
        if not handler:
            return
        try:
            code, output = await container.exec(handler["command"], min(grace_s, PRE_STOP_TIMEOUT_S))
        except TimeoutError:
            code, output = KILLED, "timed out"
        if code:
            text = f"PreStopHook failed: command {handler['command']} exited with {code}: {output.strip()}"
            self._say("Warning", "FailedPreStopHook", text)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("probing failed", exc_info=task.exception())
