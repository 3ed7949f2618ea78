"""What the original operator made on a real API server, ours makes there too: under its own RBAC rules.

One operator is led from record to record (see tests/unit/operands/original), so that what is no longer wanted
is seen to go. Nodes have no kubelet: DaemonSets are compared, no pod runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from tests.unit.operands.original.normal_form import by_key, differences, normal, record_objects
from tests.unit.operands.original.recorded import NAMES, documents, policy_of
from tests.unit.operands.original.test_records import is_justified

from gpuready_sim.client import Conflict, Resource
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

NAMESPACE = "gpu-operator"
# The last one brings Prometheus' ServiceMonitor, and the API server knows it from then on.
ORDER = ("P01", "P02", "P03", "P04", "P08", "P08b", "P11", "P06")
assert set(ORDER) == set(NAMES)
RBAC = "rbac.authorization.k8s.io"
KINDS = {
    "ServiceAccount": Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    "Role": Resource(RBAC, "v1", "roles", "Role"),
    "RoleBinding": Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
    "ClusterRole": Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    "ConfigMap": Resource("", "v1", "configmaps", "ConfigMap"),
    "Service": Resource("", "v1", "services", "Service"),
    "DaemonSet": Resource("apps", "v1", "daemonsets", "DaemonSet"),
    "RuntimeClass": Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    "ServiceMonitor": Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"),
}
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)
GPU_NODES = Resource("gpuready.dev", "v1alpha1", "gpunodes", "GPUNode", namespaced=False)
DEADLINE_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    try:
        assets.require()
    except assets.MissingAssets as exc:
        pytest.skip(str(exc))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        async with Cluster.started("nodes: [{name: cpu}]", api=Api.KUBERNETES) as running:
            yield running


@pytest.mark.parametrize("record", ORDER)
async def test_the_operator_leaves_the_originals_objects_on_a_real_api_server(
    cluster: Cluster, record: str
) -> None:
    await cluster.apply(*documents(record, "inputs"))
    await _replace_nodes(cluster, record)
    policy = policy_of(record)
    policy["metadata"] = {"name": policy["metadata"]["name"]}
    await _replace(cluster, policy)

    found = await _until_as_recorded(cluster, record)

    recorded = record_objects(record)
    assert set(found) == set(recorded)
    wrong = {
        (key, path): pair
        for key in recorded
        for path, pair in differences(normal(found[key]), normal(recorded[key])).items()
        if not is_justified(record, key, path)
    }
    assert wrong == {}
    if policy["spec"].get("psa", {}).get("enabled"):
        labels = (await cluster.client.get(NAMESPACES, NAMESPACE))["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


async def _replace_nodes(cluster: Cluster, record: str) -> None:
    wanted = {node["metadata"]["name"]: node for node in documents(record, "nodes")}
    there, _ = await cluster.client.list(NODES)
    for name in (node["metadata"]["name"] for node in there):
        if name != "cpu":
            await cluster.client.delete(NODES, name)
    for node in wanted.values():
        created = {key: node[key] for key in ("apiVersion", "kind", "metadata", "spec")}
        await cluster.client.create(NODES, created)
        await cluster.client.merge_patch(
            NODES, node["metadata"]["name"], {"status": node["status"]}, subresource="status"
        )


async def _replace(cluster: Cluster, policy: dict[str, Any]) -> None:
    """The whole text, as `kubectl replace`: nothing of the record before is left in it."""
    there, _ = await cluster.client.list(POLICIES)
    if not there:
        await cluster.client.create(POLICIES, policy)
        return
    while True:  # the operator writes to its status meanwhile
        now = await cluster.client.get(POLICIES, policy["metadata"]["name"])
        policy["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
        with suppress(Conflict):
            await cluster.client.replace(POLICIES, policy)
            return


async def _until_as_recorded(cluster: Cluster, record: str) -> dict[Any, dict[str, Any]]:
    """What stands there once it is what was recorded, or when the time is over."""
    recorded = record_objects(record)
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        await _report_drivers(cluster)
        found = await _objects(cluster)
        done = set(found) == set(recorded) and not any(
            not is_justified(record, key, path)
            for key in recorded
            for path in differences(normal(found[key]), normal(recorded[key]))
        )
        if done or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(0.5)


async def _report_drivers(cluster: Cluster) -> None:
    """In the place of node agents: no driver is on the host, so a container's may come."""
    nodes, _ = await cluster.client.list(GPU_NODES)
    for node in nodes:
        if not (node.get("status") or {}).get("driver"):
            status = {"status": {"driver": {"owner": "none"}}}
            await cluster.client.merge_patch(
                GPU_NODES, node["metadata"]["name"], status, subresource="status"
            )


async def _objects(cluster: Cluster) -> dict[Any, dict[str, Any]]:
    """Everything that a policy owns, as the API server has stored it, without what it adds by itself."""
    found = []
    for kind, resource in KINDS.items():
        if kind == "ServiceMonitor" and not await _is_served(cluster, resource):
            continue
        items, _ = await cluster.client.list(resource, NAMESPACE if resource.namespaced else None)
        for item in items:
            if any(owner["kind"] == "ClusterPolicy" for owner in item["metadata"].get("ownerReferences", ())):
                found.append(_stored({"apiVersion": resource.api_version, "kind": kind, **item}))
    return by_key(found)


async def _is_served(cluster: Cluster, resource: Resource) -> bool:
    try:
        await cluster.resource(resource.api_version, resource.kind)
    except LookupError:
        return False
    return True


def _stored(obj: dict[str, Any]) -> dict[str, Any]:
    """Rule 1 of the recording."""
    for name in ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"):
        obj["metadata"].pop(name, None)
    obj.pop("status", None)
    obj["metadata"].get("annotations", {}).pop("deprecated.daemonset.template.generation", None)
    for metadata in (obj["metadata"], obj.get("spec", {}).get("template", {}).get("metadata", {})):
        metadata.pop("creationTimestamp", None)
    if obj["kind"] == "Service":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            obj["spec"].pop(name, None)
        for port in obj["spec"]["ports"]:
            port.pop("nodePort", None)
    return obj
