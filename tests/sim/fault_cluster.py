"""A cluster whose operator and node agents reach the API server through a proxy that can be told to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.sim import node_cluster
from tests.sim.faulty_proxy import UNDER_WAY, Done, FaultyProxy
from tests.sim.operator_cluster import (
    AGENT,
    DEADLINE_S,
    GPU_NODES,
    NAMESPACE,
    Object,
    Operator,
    labels,
    policy,
    ready,
)

from gpuready_sim.client import DAEMON_SETS, NODES
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import free_port

# Whoever does not learn that his write has arrived does it again, and must.
ANSWER_LOST = ("cut_after", "cut_in_answer", "half_json", "drips", UNDER_WAY)
KINDS: Sequence[tuple[str, str, str]] = (
    ("gpuready-operator", "apply", "clusterrolebindings"),
    ("gpuready-operator", "apply", "clusterroles"),
    ("gpuready-operator", "apply", "daemonsets"),
    ("gpuready-operator", "apply", "serviceaccounts"),
    ("gpuready-operator", "create", "gpunodes"),
    ("gpuready-operator", "patch", "clusterpolicies/status"),
    ("gpuready-operator", "patch", "nodes"),
    ("gpuready-operator", "list", "clusterpolicies"),
    ("gpuready-operator", "list", "nodes"),
    ("gpuready-operator", "list", "gpunodes"),
    ("gpuready-operator", "list", "pods"),
    ("gpuready-operator", "list", "configmaps"),
    ("gpuready-operator", "list", "daemonsets"),
    ("gpuready-operator", "watch", "clusterpolicies"),
    ("gpuready-operator", "watch", "nodes"),
    ("gpuready-operator", "watch", "gpunodes"),
    ("gpuready-operator", "watch", "pods"),
    ("gpuready-operator", "watch", "daemonsets"),
    ("gpuready-node-agent", "create", "events"),
    ("gpuready-node-agent", "list", "gpunodes"),
    ("gpuready-node-agent", "list", "nodes"),
    ("gpuready-node-agent", "patch", "gpunodes/status"),
    ("gpuready-node-agent", "patch", "nodes"),
    ("gpuready-node-agent", "patch", "nodes/status"),
    ("gpuready-node-agent", "watch", "gpunodes"),
    ("gpuready-node-agent", "watch", "nodes"),
)


class FaultCluster:
    """`nodes` have GPUs and a driver on their host."""

    def __init__(
        self, cluster: Cluster, proxy: FaultyProxy, operator: Operator, nodes: Sequence[str]
    ) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.operator = operator
        self.nodes = nodes

    async def converge(self, *, timeout_s: float = DEADLINE_S) -> list[Done]:
        """From a policy to a pod that has its GPU; the calls that this took."""
        start = len(self.proxy.calls)
        await self.cluster.apply(policy())
        await ready(self.cluster, timeout_s=timeout_s)
        for node in self.nodes:
            await node_cluster.whole(self.cluster, node, timeout_s=timeout_s)
        async with node_cluster.running_pod(self.cluster, node_cluster.pod("train", self.nodes[0])):
            return self.proxy.calls[start:]

    async def clean(self, *, timeout_s: float = DEADLINE_S) -> None:
        """Back to a cluster without anything of ours."""
        await removed(self.cluster, self.nodes, timeout_s=timeout_s)

    def needless_writes(self, calls: Sequence[Done]) -> list[str]:
        """Writes that changed nothing, without those whose answer, or whose watch, had been lost before."""
        lost = {(done.call.resource, done.call.name) for done in calls if done.fault in ANSWER_LOST}
        unseen = {
            done.call.resource for done in calls if done.fault == UNDER_WAY and done.call.verb == "watch"
        }
        return self.proxy.needless_writes(
            [
                done
                for done in calls
                if (done.call.resource, done.call.name) not in lost
                and done.call.resource.partition("/")[0] not in unseen
            ]
        )

    async def logs(self) -> str:
        """What operator and node agents have said."""
        agents = [await node_cluster.log_of(self.cluster, node, "node-agent") for node in self.nodes]
        return "\n".join([self.operator.log(), *agents])


async def removed(cluster: Cluster, nodes: Sequence[str], *, timeout_s: float = DEADLINE_S) -> None:
    """Take the policy away and wait until the last of ours is gone: the labels that the agents wrote."""
    await cluster.delete(policy())
    for node in nodes:
        await cluster.wait_gone(GPU_NODES, node, timeout_s=timeout_s)
    await cluster.wait_gone(DAEMON_SETS, AGENT, NAMESPACE, timeout_s=timeout_s)
    for node in nodes:
        await cluster.wait(NODES, node, until=_has_no_label_of_ours, timeout_s=timeout_s)


def _has_no_label_of_ours(node: Object) -> bool:
    return not any(key.startswith(("nvidia.com/", "feature.node.")) for key in labels(node))


@asynccontextmanager
async def fault_cluster(
    nodes: Sequence[str] = ("l4",), api: Api = Api.EMBEDDED
) -> AsyncIterator[FaultCluster]:
    port = free_port()
    rows = "\n".join(f"- {{name: {name}, gpus: {{L4: 2}}, driver: {{where: host}}}}" for name in nodes)
    spec = f"podApi: 127.0.0.1:{port}\nnodes:\n{rows}\n"
    async with Cluster.started(spec, operator=False, api=api) as cluster:
        certificate = server_certificate(cluster)
        key = certificate.with_suffix(".key")
        async with FaultyProxy.in_front_of(cluster.kubeconfig, certificate, key, port) as proxy:
            kubeconfig = proxy.kubeconfig_for(cluster.kubeconfig, cluster.place.directory / "proxied")
            async with Operator(cluster, kubeconfig) as operator:
                await operator.wait_ready()
                yield FaultCluster(cluster, proxy, operator, nodes)


def server_certificate(cluster: Cluster) -> Path:
    """Both kinds of server keep it below their data."""
    found = [
        path
        for name in ("server.crt", "apiserver.crt", "kube-apiserver.crt")
        for path in cluster.place.data.rglob(name)
    ]
    return found[0]


def message_of(found: Object, kind: str = "Error") -> str:
    rows = (found.get("status") or {}).get("conditions") or ()
    return str(next((row.get("message") for row in rows if row["type"] == kind), ""))
