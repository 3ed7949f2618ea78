"""A running cluster in Python, for tests and scenarios.

    async with Cluster.started(spec_text, operator=False) as cluster:
        await cluster.apply(pod)
        await cluster.wait(PODS, "web", "default", is_running)
        await cluster.fault("xid", target="gpu-0/3", code=79)

The cluster runs in a child process, exactly as `gpuready-sim up` runs it, and ends with this process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import yaml

from gpuready_sim import control, request_log
from gpuready_sim.client import (
    EVENTS,
    NODES,
    PODS,
    Gone,
    Object,
    Resource,
    SimClient,
    Unreachable,
)
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.host_programs import host_program
from gpuready_sim.cluster.lifecycle import take_down
from gpuready_sim.cluster.places import Place
from gpuready_sim.cluster.processes import LAUNCH, ProcessError, ensure_native
from gpuready_sim.cluster.spec import DEFAULT_CLUSTER
from gpuready_sim.discovery import find_resource, served_resources

START_S = 90.0
DEADLINE_S = 30.0
FIELD_MANAGER = "gpuready-sim"

Predicate = Callable[[Object], bool]


class NotInTime(AssertionError):
    """Something that was waited for did not happen."""


class Cluster:
    """Ask and change a running cluster."""

    def __init__(self, place: Place, client: SimClient) -> None:
        self.place = place
        self.client = client
        self.supervisor_pid: int | None = None
        self._resources: list[Resource] = []

    @classmethod
    @asynccontextmanager
    async def started(
        cls,
        spec: str | Path = DEFAULT_CLUSTER,
        *,
        name: str = "",
        operator: bool = True,
        api: Api = Api.EMBEDDED,
    ) -> AsyncIterator[Self]:
        """Start a cluster from the text or the file of a cluster.yaml; it is gone when the block ends."""
        place = Place.of(name or f"t-{uuid.uuid4().hex[:8]}")
        process = await _start(place, spec, operator, api)
        try:
            async with cls.attached(place.name) as cluster:
                cluster.supervisor_pid = process.pid
                yield cluster
        finally:
            await _stop(process)
            await asyncio.to_thread(take_down, place)

    @classmethod
    @asynccontextmanager
    async def attached(cls, name: str) -> AsyncIterator[Self]:
        """A cluster that runs already."""
        async with cls.attached_to(Place.of(name)) as cluster:
            yield cluster

    @classmethod
    @asynccontextmanager
    async def attached_to(cls, place: Place) -> AsyncIterator[Self]:
        async with SimClient.from_kubeconfig(place.kubeconfig, user_agent="gpuready-sim") as client:
            yield cls(place, client)

    @property
    def kubeconfig(self) -> Path:
        return self.place.kubeconfig

    # --- objects ----------------------------------------------------------------------------------------
    async def apply(self, *objects: Object | str | Path) -> list[Object]:
        """Server-side apply of objects, YAML texts or YAML files; namespace `default` where none is given."""
        return [
            await self.client.apply(await self._placed(obj), obj, field_manager=FIELD_MANAGER)
            for source in objects
            for obj in _documents(source)
        ]

    async def delete(self, *objects: Object | str | Path, propagation: str = "") -> None:
        """Ask for the deletion of objects given as for `apply`; what is not there is passed over."""
        for source in objects:
            for obj in _documents(source):
                resource, meta = await self._placed(obj), obj["metadata"]
                await self.client.delete(
                    resource, meta["name"], meta.get("namespace"), propagation=propagation
                )

    async def _placed(self, obj: Object) -> Resource:
        resource = await self.resource(obj["apiVersion"], obj["kind"])
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        return resource

    async def resource(self, api_version: str, kind: str) -> Resource:
        """As the API server serves it now."""
        found = find_resource(self._resources, api_version, kind)
        if found is None:
            self._resources = [one.resource for one in await served_resources(self.client)]
            found = find_resource(self._resources, api_version, kind)
        if found is None:
            raise LookupError(f"the API server serves no {kind} in {api_version}")
        return found

    async def node(self, name: str) -> Object:
        return await self.client.get(NODES, name)

    async def allocatable(self, node: str, resource: str = "nvidia.com/gpu") -> int:
        status = (await self.node(node)).get("status") or {}
        return int(status.get("allocatable", {}).get(resource, 0))

    async def capacity(self, node: str, resource: str = "nvidia.com/gpu") -> int:
        status = (await self.node(node)).get("status") or {}
        return int(status.get("capacity", {}).get(resource, 0))

    async def pods(self, namespace: str, label_selector: str = "") -> list[Object]:
        return (await self.client.list(PODS, namespace, label_selector=label_selector))[0]

    async def logs(self, pod: str, namespace: str = "default", container: str = "") -> str:
        path = PODS.path(namespace, pod, "log")
        params = {"container": container} if container else None
        return (await self.client.raw_bytes("GET", path, params=params)).decode()

    async def events(self, about: str, namespace: str = "default") -> list[Object]:
        """The events about an object of this name, in the order of their last occurrence."""
        found, _ = await self.client.list(EVENTS, namespace, field_selector=f"involvedObject.name={about}")
        return sorted(found, key=lambda e: str(e.get("lastTimestamp") or ""))

    # --- waiting ----------------------------------------------------------------------------------------
    async def wait(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        until: Predicate = lambda obj: True,
        *,
        timeout_s: float = DEADLINE_S,
    ) -> Object:
        """The object once it satisfies `until`; raises NotInTime with what it looked like last."""
        found: Object = await self._wait(
            resource, name, namespace, lambda obj: obj is not None and until(obj), timeout_s
        )
        return found

    async def wait_gone(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout_s: float = DEADLINE_S
    ) -> None:
        await self._wait(resource, name, namespace, lambda obj: obj is None, timeout_s)

    async def _wait(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        until: Callable[[Object | None], bool],
        timeout_s: float,
    ) -> Any:
        last: list[Object | None] = [None]

        async def watch() -> Object | None:
            while True:
                try:
                    async for obj in self._versions(resource, name, namespace):
                        last[0] = obj
                        if until(obj):
                            return obj
                except (Gone, Unreachable):
                    await asyncio.sleep(0.1)

        try:
            return await asyncio.wait_for(watch(), timeout_s)
        except TimeoutError as exc:
            shown = yaml.safe_dump(_without_managed_fields(last[0])) if last[0] else "it is not there"
            raise NotInTime(
                f"{resource.plural} {name}: not as awaited after {timeout_s:g} s\n{shown}"
            ) from exc

    async def _versions(
        self, resource: Resource, name: str, namespace: str | None
    ) -> AsyncIterator[Object | None]:
        """The object now, then each change of it; None when it is not there."""
        selector = f"metadata.name={name}"
        items, version = await self.client.list(resource, namespace, field_selector=selector)
        yield items[0] if items else None
        async for kind, obj in self.client.watch(resource, version, namespace, field_selector=selector):
            if kind != "BOOKMARK":
                yield None if kind == "DELETED" else obj

    async def wait_pods(
        self,
        namespace: str,
        label_selector: str,
        until: Callable[[list[Object]], bool],
        *,
        timeout_s: float = DEADLINE_S,
    ) -> list[Object]:
        """All pods of a selector once they satisfy `until` together."""
        pods: list[Object] = []

        async def watch() -> list[Object]:
            nonlocal pods
            while True:
                pods, version = await self.client.list(PODS, namespace, label_selector=label_selector)
                if until(pods):
                    return pods
                try:
                    async for kind, _ in self.client.watch(
                        PODS, version, namespace, label_selector=label_selector
                    ):
                        if kind != "BOOKMARK":
                            break
                except (Gone, Unreachable):
                    await asyncio.sleep(0.1)

        try:
            return await asyncio.wait_for(watch(), timeout_s)
        except TimeoutError as exc:
            seen = [(p["metadata"]["name"], p.get("status", {}).get("phase")) for p in pods]
            raise NotInTime(f"pods {label_selector}: not as awaited after {timeout_s:g} s: {seen}") from exc

    # --- the world outside Kubernetes -------------------------------------------------------------------
    async def fault(self, kind: str, *, timeout_s: float = 60, **args: object) -> Mapping[str, Any]:
        """As `gpuready-sim fault KIND`: xid(target, code) lost(target) reset(target) inforom(target)
        hang(node, seconds) driver-update(node, version) driver-reload(node, wait_s=10) kubelet-restart(node)
        power-off(node) api-stop(seconds) throttle(target, reasons) error(target, kind, number)
        flag(target, flag, on) call(target, function, code or seconds) cuda(target, trouble, on)."""
        return await self._ask(f"fault {kind}", timeout_s, args)

    async def gpu(self, kind: str, **args: object) -> Mapping[str, Any]:
        """As `gpuready-sim gpu KIND`: load(target, words) mig(target, profiles)."""
        return await self._ask(f"gpu {kind}", 60, args)

    async def reboot(self, node: str) -> str:
        """The new boot id."""
        answer = await self._ask("reboot", 60, {"node": node})
        return str(answer["bootId"])

    async def status(self) -> Mapping[str, Any]:
        return await self._ask("status", 30, {})

    async def exec(
        self, node: str, *command: str, timeout_s: float = DEADLINE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the node's host."""
        program = host_program(command, await self._ask("environment", 30, {"node": node}))
        process = await asyncio.create_subprocess_exec(
            program.program,
            *program.argv[1:],
            env=program.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_s)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        out, err = program.shown(out), program.shown(err)
        return subprocess.CompletedProcess(command, process.returncode or 0, out.decode(), err.decode())

    def requests(
        self, *, writes_only: bool = False, since: datetime | None = None
    ) -> Iterable[request_log.RequestLine]:
        wanted = request_log.Filter(writes_only=writes_only, since=since)
        return request_log.read(self.place.requests, wanted)

    def node_root(self, node: str) -> Path:
        """ "/" of a node, as a directory here."""
        return self.place.node(node) / "root"

    async def _ask(self, command: str, timeout_s: float, args: Mapping[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = await asyncio.to_thread(
            control.ask, self.place, command, args, timeout_s=timeout_s
        )
        return answer


async def _start(place: Place, spec: str | Path, operator: bool, api: Api) -> asyncio.subprocess.Process:
    """`gpuready-sim up` under the launcher, so that it cannot outlive us."""
    await asyncio.to_thread(ensure_native)
    argv = [str(LAUNCH), "--", sys.executable, "-m", "gpuready_sim.cli", "up"]
    argv += ["--name", place.name, "--file", str(spec) if isinstance(spec, Path) else "-"]
    argv += ["--api", api, *([] if operator else ["--no-operator"])]
    process = await asyncio.create_subprocess_exec(
        *argv, env={**os.environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    if isinstance(spec, str):
        process.stdin.write(spec.encode())
    process.stdin.close()
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
    except TimeoutError:
        line = b""
    if not line.startswith(b"kubeconfig: "):
        await _stop(process)
        why = (await process.stderr.read()).decode(errors="replace")
        raise ProcessError(f"cluster {place.name} did not start", why=why.strip())
    return process


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), DEADLINE_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def _documents(source: Object | str | Path) -> list[Object]:
    if isinstance(source, Mapping):
        return [dict(source)]
    text = source.read_text() if isinstance(source, Path) else source
    return [obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]


def _without_managed_fields(obj: Object) -> Object:
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}
