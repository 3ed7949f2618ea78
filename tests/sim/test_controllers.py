"""The controllers against the API server, with nodes that exist only as objects."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpuready_sim.client import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    Resource,
    SimClient,
)
from gpuready_sim.cluster.control_plane import EmbeddedControlPlane
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import Place
from gpuready_sim.cluster.processes import LAUNCH
from gpuready_sim.controllers.events import now_text
from gpuready_sim.controllers.run import Settings, run_controllers

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """API server and controllers; no kubelet, nodes may be silent for one second."""
    place = Place(tmp_path_factory.mktemp("clusters") / "objects-only")
    place.clean()
    server = EmbeddedControlPlane(place)
    await server.start()
    try:
        async with SimClient(server.access) as client:
            running = asyncio.create_task(run_controllers(client, Settings(node_grace_s=1)))
            async with Cluster.attached_to(place) as handle:
                yield handle
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    finally:
        await server.stop()


async def add_node(cluster: Cluster, name: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"only": name}}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now_text()}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    await cluster.client.create(NODES, node)
    await cluster.client.merge_patch(NODES, name, {"status": status}, subresource="status")


async def add_config_map(cluster: Cluster, name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "default"}
    if owners:
        meta["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": True,
            }
            for owner in owners
        ]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    return await cluster.client.create(CONFIG_MAPS, body)


def daemons(name: str, node_name: str) -> dict[str, Any]:
    """A DaemonSet for one node, whatever its state."""
    pod = {
        "nodeSelector": {"only": node_name},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "i"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def owners_of(obj: dict[str, Any]) -> list[str]:
    return [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or []]


async def delete(cluster: Cluster, resource: Resource, name: str, **how: str) -> None:
    await cluster.client.delete(resource, name, "default", **how)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_dependents_go_with_their_owner(cluster, propagation):
    owner = await add_config_map(cluster, "owner")
    child = await add_config_map(cluster, "child", owner)
    await add_config_map(cluster, "grandchild", child)

    await delete(cluster, CONFIG_MAPS, "owner", propagation=propagation)

    for name in ("grandchild", "child", "owner"):
        await cluster.wait_gone(CONFIG_MAPS, name, "default", timeout_s=10)


async def test_orphans_stay_without_their_owner(cluster):
    owner = await add_config_map(cluster, "owner")
    await add_config_map(cluster, "child", owner)

    await delete(cluster, CONFIG_MAPS, "owner", propagation="Orphan")

    await cluster.wait_gone(CONFIG_MAPS, "owner", "default", timeout_s=10)
    child = await cluster.client.get(CONFIG_MAPS, "child", "default")
    assert not child["metadata"].get("ownerReferences")
    await delete(cluster, CONFIG_MAPS, "child")


async def test_an_object_with_two_owners_lives_until_both_are_gone(cluster):
    one, two = await add_config_map(cluster, "one"), await add_config_map(cluster, "two")
    await add_config_map(cluster, "child", one, two)

    await delete(cluster, CONFIG_MAPS, "one")
    await cluster.wait(
        CONFIG_MAPS, "child", "default", lambda c: len(c["metadata"]["ownerReferences"]) == 1, timeout_s=10
    )
    await delete(cluster, CONFIG_MAPS, "two")
    await cluster.wait_gone(CONFIG_MAPS, "child", "default", timeout_s=10)


async def test_an_object_whose_owner_never_was_goes(cluster):
    await add_config_map(cluster, "child", {"metadata": {"name": "nobody", "uid": "0-0-0"}})

    await cluster.wait_gone(CONFIG_MAPS, "child", "default", timeout_s=10)


async def test_a_silent_node_turns_unknown_and_its_pods_unready_and_a_renewed_lease_keeps_another(cluster):
    await add_node(cluster, "silent")
    await add_node(cluster, "alive")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "alive", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "alive"},
    }
    await cluster.client.create(LEASES, lease)

    async def renew() -> None:
        for count in range(100):
            patch = {"spec": {"leaseTransitions": count}}
            await cluster.client.merge_patch(LEASES, "alive", patch, "kube-node-lease")
            await asyncio.sleep(0.2)

    renewing = asyncio.create_task(renew())
    silent = await cluster.wait(
        NODES,
        "silent",
        None,
        lambda n: any(t["key"].endswith("unreachable") for t in n["spec"].get("taints") or []),
        timeout_s=10,
    )
    renewing.cancel()

    ready = next(c for c in silent["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert ready["message"] == "Kubelet stopped posting node status."
    assert not (await cluster.node("alive"))["spec"].get("taints")
    for name in ("silent", "alive"):
        await cluster.client.delete(NODES, name)


async def test_a_server_that_hangs_longer_than_the_grace_makes_no_node_silent(cluster, api_server_pid):
    await add_node(cluster, "patient")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "patient", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "patient"},
    }
    await cluster.client.create(LEASES, lease)
    renewals: asyncio.Queue[int] = asyncio.Queue()

    async def renew() -> None:
        for count in range(1000):
            patch = {"spec": {"leaseTransitions": count}}
            await cluster.client.merge_patch(LEASES, "patient", patch, "kube-node-lease")
            renewals.put_nowait(count)
            await asyncio.sleep(0.2)

    async def renewed(times: int) -> None:
        for _ in range(times):
            await asyncio.wait_for(renewals.get(), 10)

    renewing = asyncio.create_task(renew())
    await renewed(2)
    _, version = await cluster.client.list(NODES)
    os.kill(api_server_pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(3.5)  # three times the grace: the time itself is what is tested
    finally:
        os.kill(api_server_pid, signal.SIGCONT)
    await renewed(8)
    renewing.cancel()

    seen = [await cluster.node("patient")]
    async for kind, node in cluster.client.watch(NODES, version, timeout_s=1):
        if kind != "BOOKMARK" and node["metadata"]["name"] == "patient":
            seen.append(node)
    assert {c["status"] for n in seen for c in n["status"]["conditions"] if c["type"] == "Ready"} == {"True"}
    await cluster.client.delete(NODES, "patient")


@pytest_asyncio.fixture(loop_scope="module")
async def api_server_pid(cluster) -> int:
    """The server itself, not the launcher above it."""
    mark = f"--data\0{cluster.place.data}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if mark in words and not words.startswith(str(LAUNCH).encode()):
            found.append(int(path.parent.name))
    (pid,) = found
    return pid


async def test_pods_of_a_deleted_node_are_collected(cluster):
    await add_node(cluster, "short-lived")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "left"},
        "spec": {"nodeName": "short-lived", "containers": [{"name": "c", "image": "i"}]},
    }
    await cluster.apply(pod)

    await cluster.client.delete(NODES, "short-lived")

    await cluster.wait_gone(PODS, "left", "default", timeout_s=10)


async def test_pods_left_by_a_deletion_that_orphans_are_adopted_unchanged(cluster):
    await add_node(cluster, "n0")
    await cluster.apply(daemons("left", "n0"))
    (before,) = await cluster.wait_pods("default", "app=left", lambda pods: len(pods) == 1, timeout_s=10)

    await delete(cluster, DAEMON_SETS, "left", propagation="Orphan")
    await cluster.wait_gone(DAEMON_SETS, "left", "default", timeout_s=10)
    (again,) = await cluster.apply(daemons("left", "n0"))

    name, uid = before["metadata"]["name"], again["metadata"]["uid"]
    await cluster.wait(PODS, name, "default", lambda p: uid in owners_of(p), timeout_s=10)
    revision = f"left-{before['metadata']['labels']['controller-revision-hash']}"
    await cluster.wait(CONTROLLER_REVISIONS, revision, "default", lambda r: uid in owners_of(r), timeout_s=10)
    assert len(await cluster.pods("default", "app=left")) == 1
    await cluster.client.delete(NODES, "n0")


async def test_a_failed_daemon_pod_is_replaced_and_told_of(cluster):
    await add_node(cluster, "n1")
    await cluster.apply(daemons("d", "n1"))
    (first,) = await cluster.wait_pods("default", "app=d", lambda pods: len(pods) == 1, timeout_s=10)

    name = first["metadata"]["name"]
    failed = {"status": {"phase": "Failed"}}
    await cluster.client.merge_patch(PODS, name, failed, "default", subresource="status")

    (second,) = await cluster.wait_pods(
        "default",
        "app=d",
        lambda pods: (
            [p["metadata"]["name"] for p in pods] not in ([], [name]) and "nodeName" in pods[0]["spec"]
        ),
        timeout_s=10,
    )
    assert second["spec"]["nodeName"] == "n1"
    assert "FailedDaemonPod" in [event["reason"] for event in await cluster.events("d")]


NOWHERE = {"only": "nowhere"}  # no kubelet is needed to end a pod that no node has


def deployment(image: str = "i:1", replicas: int = 2) -> dict[str, Any]:
    pod = {"nodeSelector": NOWHERE, "containers": [{"name": "c", "image": image}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


async def set_ready(cluster: Cluster, pods: list[dict[str, Any]]) -> None:
    """As a kubelet would."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now_text()}
    for pod in pods:
        status = {"status": {"phase": "Running", "conditions": [ready]}}
        await cluster.client.merge_patch(
            PODS, pod["metadata"]["name"], status, "default", subresource="status"
        )


def images_of(pods: list[dict[str, Any]]) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods)


async def test_a_deployment_keeps_its_pods_replaces_them_and_takes_them_along(cluster):
    await cluster.apply(deployment())
    pods = await cluster.wait_pods("default", "app=web", lambda found: len(found) == 2)
    await set_ready(cluster, pods)
    await cluster.wait(
        DEPLOYMENTS, "web", "default", lambda d: (d.get("status") or {}).get("availableReplicas") == 2
    )

    await cluster.client.delete(PODS, pods[0]["metadata"]["name"], "default", grace_s=0)
    lost = pods[0]["metadata"]["uid"]
    pods = await cluster.wait_pods(
        "default",
        "app=web",
        lambda found: len(found) == 2 and lost not in {pod["metadata"]["uid"] for pod in found},
    )
    await set_ready(cluster, pods)

    await cluster.apply(deployment("i:2"))
    surge = await cluster.wait_pods("default", "app=web", lambda found: "i:2" in images_of(found))
    assert images_of(surge).count("i:1") == 2, "no old pod goes before a new one is ready"

    await delete(cluster, DEPLOYMENTS, "web", propagation="Background")
    await cluster.wait_pods("default", "app=web", lambda found: not found)
    await cluster.wait_gone(DEPLOYMENTS, "web", "default")


async def test_a_job_is_complete_when_its_pod_has_succeeded(cluster):
    pod = {"restartPolicy": "Never", "nodeSelector": NOWHERE, "containers": [{"name": "c", "image": "i"}]}
    await cluster.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "once", "namespace": "default"},
            "spec": {"template": {"spec": pod}},
        }
    )
    for phase in ("Failed", "Succeeded"):
        pods = await cluster.wait_pods(
            "default",
            "job-name=once",
            lambda found: any((p.get("status") or {}).get("phase") == "Pending" for p in found),
        )
        fresh = next(p for p in pods if p["status"]["phase"] == "Pending")
        status = {"status": {"phase": phase}}
        await cluster.client.merge_patch(
            PODS, fresh["metadata"]["name"], status, "default", subresource="status"
        )
    done = await cluster.wait(
        JOBS,
        "once",
        "default",
        lambda job: any(c["type"] == "Complete" for c in (job.get("status") or {}).get("conditions") or ()),
    )
    assert (done["status"]["succeeded"], done["status"]["failed"]) == (1, 1)
    await delete(cluster, JOBS, "once", propagation="Background")
    await cluster.wait_pods("default", "job-name=once", lambda found: not found)
