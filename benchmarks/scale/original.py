"""The original operator beside ours, where somebody has built it; nothing of it is part of this project.

    git clone …/gpu-operator && cd gpu-operator && git checkout v26.3.3
    CGO_ENABLED=0 go build -mod=vendor -o gpu-operator ./cmd/gpu-operator
    GPUREADY_BENCH_PEER=$PWD make bench-scale          (as root: a mount namespace of its own is needed)

It reads its manifests from /opt/gpu-operator, so it runs in a mount namespace in which that is its checkout's
`assets` and `manifests`. It acts as the cluster's administrator and without leader election. Its policy is
the sample of its checkout with the images of its chart's values and the driver switched off.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from tests.sim.operator_cluster import POLICIES, Object, labels, wait_http

from benchmarks.requests import asked, by_kind
from benchmarks.scale import changes
from benchmarks.scale.nodes import create_nodes
from benchmarks.scale.stage import (
    LABELS,
    READY,
    Cpu,
    Round,
    Stage,
    Value,
    bare_cluster,
    last_of,
    memory,
    patience_s,
)
from gpuready_sim.client import CRDS, NODES
from gpuready_sim.cluster.control_plane import OPERATOR_NAMESPACE
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import free_port

VARIABLE = "GPUREADY_BENCH_PEER"
PROGRAM = "gpu-operator"
BUILD = "CGO_ENABLED=0 go build -mod=vendor -o gpu-operator ./cmd/gpu-operator"
# $1 is the checkout; what is mounted goes with the namespace.
_IN_ITS_PLACE = """
mount -t tmpfs none /opt && mkdir /opt/gpu-operator && cp -r "$1"/assets/. /opt/gpu-operator &&
cp -r "$1"/manifests /opt/gpu-operator/manifests && program=$1/gpu-operator && shift && exec "$program" "$@"
"""
_IMAGE_PARTS = ("repository", "image", "version")
REPAIR_PATIENCE_S = 10.0
REST_S = 30.0


def is_here() -> bool:
    return bool(os.environ.get(VARIABLE))


_NEEDED = (PROGRAM, "assets", "manifests", "config/samples/v1_clusterpolicy.yaml", "deployments/gpu-operator")


def check() -> None:
    """
    raises  UnusablePeer when what the variable names cannot be run: better now than after a minute of waiting
    """
    checkout = os.environ.get(VARIABLE, "")
    if not checkout:
        return
    if not Path(checkout).is_dir():
        is_file = Path(checkout).is_file()
        what = "a file; it takes the checkout around the program" if is_file else "no directory"
        raise UnusablePeer(f"{VARIABLE} names {checkout}, which is {what}")
    missing = [name for name in _NEEDED if not (Path(checkout) / name).exists()]
    if missing:
        step = f": build it there, {BUILD}" if missing == [PROGRAM] else ""
        raise UnusablePeer(f"{VARIABLE} names {checkout}, which has no {', '.join(missing)}{step}")
    if not os.access(Path(checkout) / PROGRAM, os.X_OK):
        raise UnusablePeer(f"{VARIABLE} names {checkout}, whose {PROGRAM} is no program that may be run")


class UnusablePeer(Exception):
    """What stands where the original should be; its text says what is missing."""


async def measure(this: Round) -> list[Value]:
    checkout = Path(os.environ[VARIABLE])
    async with bare_cluster(f"original-{this.count}") as (cluster, servers):
        await _install_crds(cluster, checkout)
        await create_nodes(cluster.client, this.count, agents=False)
        async with _running(cluster, checkout) as pid:
            stage = Stage(cluster, this.count, PROGRAM, pid, servers)
            policy = _policy(checkout)
            values = await _to_ready(stage, policy)
            if this.last:
                values += await _afterwards(stage, policy["metadata"]["name"])
            return values + memory(stage)


async def _to_ready(stage: Stage, policy: Object) -> list[Value]:
    cpu = Cpu(stage)
    start, begin = datetime.now(UTC), time.perf_counter()
    await stage.cluster.apply(policy)
    await _is_ready(stage, policy["metadata"]["name"])
    ready_s = time.perf_counter() - begin
    cpu_values = cpu.values("ready")
    await changes.quiet(stage)
    lines = asked(stage.cluster, start, PROGRAM)
    return [
        Value(LABELS, [last_of(lines, "patch", "nodes", stage.count, start)], "s"),
        Value(READY, [ready_s], "s", note="DaemonSets without pods count as ready"),
        Value("requests to ready", [len(lines)], note=by_kind(lines, busiest=8)),
        *cpu_values,
    ]


async def _afterwards(stage: Stage, policy: str) -> list[Value]:
    async def labelled() -> None:
        name = changes.node_name(stage.count)
        await stage.cluster.wait(NODES, name, until=lambda node: labels(node).get(changes.LABEL) == "true")

    return [
        await changes.repairs(stage, patience_s=REPAIR_PATIENCE_S),
        await changes.new_node(stage, labelled, agents=False),
        await changes.env_edit(stage, policy, lambda: _is_ready(stage, policy)),
        *await changes.rest(stage, REST_S),
    ]


async def _is_ready(stage: Stage, name: str) -> None:
    def is_so(policy: Object) -> bool:
        return (policy.get("status") or {}).get("state") == "ready"

    await stage.cluster.wait(POLICIES, name, until=is_so, timeout_s=patience_s(stage.count))


# --- its checkout ---------------------------------------------------------------------------------------


@asynccontextmanager
async def _running(cluster: Cluster, checkout: Path) -> AsyncIterator[int]:
    """Its pid, once it answers."""
    health = free_port()
    options = [
        f"--kubeconfig={cluster.kubeconfig}",
        f"--metrics-bind-address=127.0.0.1:{free_port()}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
    ]
    env = {**os.environ, "OPERATOR_NAMESPACE": OPERATOR_NAMESPACE}
    with (cluster.place.logs / "the-original.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "sh", "-ec", _IN_ITS_PLACE, "sh", str(checkout), *options),
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        await wait_http(f"http://127.0.0.1:{health}/readyz", timeout_s=60)
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _install_crds(cluster: Cluster, checkout: Path) -> None:
    for file in sorted((checkout / "deployments/gpu-operator/crds").glob("*.yaml")):
        crd = yaml.safe_load(file.read_text())
        await cluster.client.apply(CRDS, crd)
        await cluster.wait(CRDS, crd["metadata"]["name"], until=_is_established)


def _is_established(crd: Object) -> bool:
    rows = (crd.get("status") or {}).get("conditions") or ()
    return any((row["type"], row["status"]) == ("Established", "True") for row in rows)


def _policy(checkout: Path) -> Object:
    policy: Object = yaml.safe_load((checkout / "config/samples/v1_clusterpolicy.yaml").read_text())
    values = yaml.safe_load((checkout / "deployments/gpu-operator/values.yaml").read_text())
    version = yaml.safe_load((checkout / "deployments/gpu-operator/Chart.yaml").read_text())["appVersion"]
    for name, block in policy["spec"].items():
        parts = values.get(name)
        if name != "operator" and isinstance(parts, dict) and "image" in parts:
            policy["spec"][name] = _with_image(block or {}, parts, version)
    policy["spec"]["driver"]["enabled"] = False
    return _without_nulls(policy)


def _without_nulls(obj: Object) -> Object:
    """The sample names empty blocks, which the schema refuses."""
    inner = {key: _without_nulls(value) if isinstance(value, dict) else value for key, value in obj.items()}
    return {key: value for key, value in inner.items() if value is not None}


def _with_image(block: dict[str, Any], parts: dict[str, Any], version: str) -> dict[str, Any]:
    """As the chart's template does it; parts without a version are of the chart's own."""
    image = {part: parts.get(part) for part in _IMAGE_PARTS}
    enabled = {"enabled": parts["enabled"]} if "enabled" in parts else {}
    return {**block, **enabled, **image, "version": image["version"] or version}
