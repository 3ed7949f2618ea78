"""What the operator's tests share: policies, waits, the operator as a process, and its requests counted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from gpuready_sim.client import CRDS, NODES, PODS, Resource
from gpuready_sim.cluster.control_plane import install_crds
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import free_port
from gpuready_sim.cluster.processes import LAUNCH

POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)
GPU_NODES = Resource("gpuready.dev", "v1alpha1", "gpunodes", "GPUNode", namespaced=False)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
NAMESPACE = "gpu-operator"
POLICY = "cluster-policy"
PLUGIN = "nvidia-device-plugin-daemonset"
AGENT = "gpuready-node-agent"
OURS = ("gpuready-operator", "gpuready-node-agent")
DEPLOY = "nvidia.com/gpu.deploy."
CONFIG_LABEL = "nvidia.com/device-plugin.config"
DEADLINE_S = 60.0
QUIET_S = 1.2  # longer than the second for which a status may wait for its turn
SETTLED_S = 5.3  # longer than a status waits in which only counts and messages moved
Object = dict[str, Any]


def policy(name: str = POLICY, **spec: Any) -> Object:
    """The smallest policy that does the whole job, with nothing enabled that has no code yet."""
    off = {block: {"enabled": False} for block in ("toolkit", "dcgm", "dcgmExporter", "migManager")}
    wanted = {"driver": {"version": "570.86.10"}, **off, **spec}
    meta = {"name": name}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": meta, "spec": wanted}


async def edit(cluster: Cluster, spec: Mapping[str, Any], name: str = POLICY) -> Object:
    return await cluster.client.merge_patch(POLICIES, name, {"spec": spec})


async def ready(cluster: Cluster, name: str = POLICY, *, timeout_s: float = DEADLINE_S) -> Object:
    """The policy once its newest text is ready."""
    return await cluster.wait(POLICIES, name, until=_is_ready, timeout_s=timeout_s)


async def error(cluster: Cluster, reason: str, *words: str, name: str = POLICY) -> Object:
    """The policy once its Error condition gives this reason, with these words, about its newest text."""

    def says_so(obj: Object) -> bool:
        said = condition(obj, "Error")
        new = (obj.get("status") or {}).get("observedGeneration") == obj["metadata"]["generation"]
        return new and said.get("reason") == reason and all(word in said["message"] for word in words)

    return await cluster.wait(POLICIES, name, until=says_so, timeout_s=DEADLINE_S)


def _is_ready(obj: Object) -> bool:
    status = obj.get("status") or {}
    return status.get("state") == "ready" and status["observedGeneration"] == obj["metadata"]["generation"]


def condition(obj: Object, kind: str) -> Object:
    rows = (obj.get("status") or {}).get("conditions") or ()
    return next((row for row in rows if row["type"] == kind), {})


def operand(obj: Object, name: str) -> Object:
    return next((row for row in (obj.get("status") or {}).get("operands") or () if row["name"] == name), {})


def link(gpu_node: Object, name: str) -> Object:
    rows = (gpu_node.get("status") or {}).get("chain") or ()
    return next((row for row in rows if row["link"] == name), {})


def offers(count: int, resource: str = "nvidia.com/gpu") -> Callable[[Object], bool]:
    return lambda node: int(node["status"].get("allocatable", {}).get(resource, 0)) == count


def labels(obj: Object) -> dict[str, str]:
    return dict(obj["metadata"].get("labels") or {})


async def label(cluster: Cluster, node: str, key: str, value: str | None) -> Object:
    return await cluster.client.merge_patch(NODES, node, {"metadata": {"labels": {key: value}}})


async def operand_pods(cluster: Cluster, operand_name: str = "") -> dict[str, str]:
    """uid -> "pod on node" of our pods."""
    selector = "gpuready.dev/operand" + (f"={operand_name}" if operand_name else "")
    pods, _ = await cluster.client.list(PODS, NAMESPACE, label_selector=selector)
    return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}


def writes(cluster: Cluster, since: datetime, *clients: str) -> Counter[str]:
    """What our programs wrote, as "gpuready-operator patch nodes 200"; that one still leads is no news."""
    clients = clients or OURS
    return Counter(
        f"{line.fields['client']} {line.fields['verb']} {line.what} {line.fields['code']}"
        for line in cluster.requests(writes_only=True, since=since)
        if line.fields["client"] in clients and not line.is_lease
    )


async def quiet(cluster: Cluster, for_s: float = QUIET_S, *, timeout_s: float = DEADLINE_S) -> datetime:
    """Wait until none of our programs has written for so long; the moment when that was so."""
    deadline = time.monotonic() + timeout_s
    while True:
        now = datetime.now(UTC)
        found = writes(cluster, now - timedelta(seconds=for_s))
        if not found and await _is_told(cluster):
            return now
        assert time.monotonic() < deadline, f"still writing: {found}"
        await asyncio.sleep(0.1)


async def _is_told(cluster: Cluster) -> bool:
    """No policy calls a node held up that is whole: numbers alone wait longer for their turn."""
    gpu_nodes, _ = await cluster.client.list(GPU_NODES)
    held_up = sum(_is_held_up(each.get("status") or {}) for each in gpu_nodes)
    policies, _ = await cluster.client.list(POLICIES)
    told = [(each.get("status") or {}).get("nodes") or {} for each in policies]
    return all(each.get("gpu", 0) - each.get("ready", 0) <= held_up for each in told)


def _is_held_up(status: Mapping[str, Any]) -> bool:
    chain = status.get("chain") or []
    silent = not chain or status.get("reason") == "AgentSilent"
    return silent or any(link["state"] in ("broken", "waiting") for link in chain)


async def expect_no_writes(cluster: Cluster, since: datetime) -> None:
    """Nothing was written since then, and nothing is while whatever is under way has its time to show."""
    await asyncio.sleep(QUIET_S)
    found = writes(cluster, since)
    assert not found, found


def processes(cluster: Cluster, node: str, role: str) -> list[int]:
    """Pids of `gpuready ROLE` in the containers of a node."""
    mark = f"GPUREADY_ROOT={cluster.place.node(node)}/"
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _is_role(entry, mark, role)]


def _is_role(entry: Path, mark: str, role: str) -> bool:
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
        environ = (entry / "environ").read_bytes()
    except OSError:
        return False
    return role.encode() in words and str(LAUNCH).encode() not in words and mark.encode() in environ


async def wait_process(cluster: Cluster, node: str, role: str, *, timeout_s: float = 20) -> int:
    deadline = time.monotonic() + timeout_s
    while not (found := processes(cluster, node, role)):
        assert time.monotonic() < deadline, f"no {role} runs on {node}"
        await asyncio.sleep(0.05)
    return found[0]


class Operator:
    """The operator as a process of the test, for clusters without one of their own."""

    def __init__(
        self, cluster: Cluster, kubeconfig: Path | None = None, *, name: str = "of-the-test", **env: str
    ) -> None:
        self.name = name
        self._cluster = cluster
        self._kubeconfig = kubeconfig or cluster.kubeconfig
        self.metrics_port, self.health_port = free_port(), free_port()
        self._env = {
            "OPERATOR_NAMESPACE": NAMESPACE,
            "GPUREADY_IMAGE": "gpuready:test",
            "GPUREADY_BIND_ADDRESS": "127.0.0.1",
            "GPUREADY_METRICS_PORT": str(self.metrics_port),
            "GPUREADY_HEALTH_PORT": str(self.health_port),
            **env,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Operator:
        served, _ = await self._cluster.client.list(CRDS)
        if not served:
            await install_crds(self._cluster.client)
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.end()

    @property
    def log_path(self) -> Path:
        return self._cluster.place.logs / f"operator-{self.name}.log"

    def log(self) -> str:
        return self.log_path.read_text()

    async def start(self) -> None:
        argv = [str(LAUNCH), "--log", str(self.log_path), "--", sys.executable, "-m", "gpuready.cli"]
        argv += ["operator", "--kubeconfig", str(self._kubeconfig)]
        self._process = await asyncio.create_subprocess_exec(*argv, env={**os.environ, **self._env})

    async def ended(self) -> int:
        """Its exit status, once it has ended by itself."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), 20)

    async def kill(self) -> None:
        """As kill -9: nothing is finished, nothing is said."""
        await self._end_with(signal.SIGRTMIN)

    async def end(self) -> int:
        return await self._end_with(signal.SIGTERM)

    async def _end_with(self, number: int) -> int:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await asyncio.wait_for(self._process.wait(), 10)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the program itself, below the launcher."""
        assert self._process is not None
        children = [entry for entry in Path("/proc").glob("[0-9]*") if _parent_of(entry) == self._process.pid]
        return int(children[0].name)

    def stop(self) -> None:
        """As a machine that is paused: it goes on later and knows nothing of it."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    async def readiness(self) -> tuple[int, str]:
        return await http(f"http://127.0.0.1:{self.health_port}/readyz")

    async def wait_ready(self, *, timeout_s: float = 15) -> None:
        await wait_http(f"http://127.0.0.1:{self.health_port}/readyz", timeout_s=timeout_s)


def _parent_of(entry: Path) -> int:
    """0 for a process that has ended meanwhile."""
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


async def http(url: str) -> tuple[int, str]:
    """(status, body); status 0 when nobody listens."""
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()
    except aiohttp.ClientError:
        return 0, ""


async def wait_http(url: str, *, status: int = 200, timeout_s: float = 20) -> str:
    """The body, once the answer has this status (0: nobody listens)."""
    deadline = time.monotonic() + timeout_s
    while True:
        found, body = await http(url)
        if found == status:
            return body
        assert time.monotonic() < deadline, f"{url}: {found} {body}"
        await asyncio.sleep(0.05)
