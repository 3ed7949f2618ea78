"""What the operator keeps of nodes and of its own pods, of which there are thousands."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

from benchmarks.scale.nodes import PRESENT, agent_pod, gpu_node

from gpuready.controller.kept import decode_own_node, decode_own_pod
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.kube.trimmed import Node


def node(number: int, **status: Any) -> Node:
    obj = gpu_node(number)
    obj["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(1000 + number)}
    obj["status"] |= status
    return decode_own_node(json.dumps(obj).encode())


def test_of_a_node_stays_what_a_decision_asks_for() -> None:
    found = node(7, nodeInfo={"kernelVersion": "5.15.0-116-generic", "bootID": "b"})

    assert (found.metadata.name, found.metadata.uid, found.metadata.resource_version) == (
        "gpu-00007",
        "uid-7",
        "1007",
    )
    assert found.metadata.labels[PRESENT] == "true"
    assert not [key for key in found.metadata.labels if "cpu-" in key or "hostname" in key]
    assert found.status.node_info.kernel_version == "5.15.0-116-generic"
    assert [(each.type, each.status) for each in found.status.conditions] == [("Ready", "True")]
    assert (found.ready, found.status.capacity, found.status.addresses) == (True, {}, [])


def test_nodes_of_one_kind_share_all_but_what_tells_them_apart() -> None:
    one, other = node(1), node(2)

    assert one.metadata.labels is other.metadata.labels
    assert one.metadata.annotations is other.metadata.annotations
    assert one.status is other.status
    assert one.spec is other.spec
    assert one.metadata.name != other.metadata.name


def test_a_node_that_is_not_ready_is_told_from_the_others() -> None:
    whole = node(1)
    broken = node(2, conditions=[{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}])

    assert (whole.ready, broken.ready) == (True, False)
    assert whole.metadata.labels is broken.metadata.labels


def pod(number: int, **status: Any) -> bytes:
    obj = agent_pod(number)
    obj["metadata"] |= {"uid": f"pod-{number}", "resourceVersion": str(number)}
    obj["status"] |= status
    return json.dumps(obj).encode()


def test_a_pod_that_was_evicted_says_so() -> None:
    found = decode_own_pod(pod(1, phase="Failed", reason="Evicted"))

    assert (found.phase, found.reason, found.node_name) == ("Failed", "Evicted", "gpu-00001")


def test_pods_of_one_kind_share_what_their_containers_say() -> None:
    one, other = decode_own_pod(pod(1)), decode_own_pod(pod(2))

    assert one.containers is other.containers
    assert (one.ready, one.containers[0].name, one.containers[0].state) == (True, "node-agent", "running")


def test_a_node_with_its_pod_and_its_gpunode_costs_less_than_two_kilobytes() -> None:
    """5,000 of them were 25 MB when each had its own labels, conditions and verdicts."""
    count = 300
    texts = [
        (json.dumps(gpu_node(number)).encode(), pod(number), _gpunode_text(number)) for number in range(count)
    ]
    kept = [_kept(*texts[0])]
    gc.collect()
    tracemalloc.start()
    try:
        kept += [_kept(*each) for each in texts]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(kept) == count + 1
    assert size / count < 2_000


def _gpunode_text(number: int) -> bytes:
    owner = {"apiVersion": "v1", "kind": "Node", "name": f"gpu-{number:05}", "uid": f"{number:036}"}
    meta = {"name": f"gpu-{number:05}", "uid": f"{number:036}", "ownerReferences": [owner]}
    chain = [{"link": "driver", "state": "ok", "reason": "Whole", "message": "570.86.10"}]
    spec = {"devicePlugin": {"enabled": True}}
    return json.dumps({"metadata": meta, "spec": spec, "status": {"chain": chain, "gpus": 8}}).encode()


def _kept(node: bytes, pod: bytes, gpunode: bytes) -> tuple[object, ...]:
    return decode_own_node(node), decode_own_pod(pod), decode_gpunode(gpunode)
