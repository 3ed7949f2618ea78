from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec

from gpuready.kube import trimmed
from gpuready.kube.trimmed import decode_configmap, decode_daemonset, decode_node, decode_pod


def encoded(**obj: Any) -> bytes:
    return msgspec.json.encode(obj)


def test_a_node_keeps_what_we_use_and_drops_the_rest() -> None:
    node = decode_node(
        encoded(
            metadata={
                "name": "n1",
                "uid": "u",
                "resourceVersion": "7",
                "labels": {"a": "b"},
                "annotations": {"gpuready.dev/agent-labels": "{}", "other.io/huge": "x" * 10_000},
                "managedFields": [{"manager": "kubelet"}],
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            spec={"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True, "podCIDR": "x"},
            status={
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "capacity": {"nvidia.com/gpu": "8"},
                "nodeInfo": {"bootID": "b", "containerRuntimeVersion": "containerd://1.7.24"},
            },
        )
    )

    assert node.metadata.annotations == {"gpuready.dev/agent-labels": "{}"}
    assert (node.spec.unschedulable, node.spec.taints[0].key, node.ready) == (True, "k", True)
    assert node.status.capacity == {"nvidia.com/gpu": "8"}
    assert (node.status.node_info.boot_id, node.metadata.deleting) == ("b", False)


def test_equal_labels_of_two_nodes_are_one_text_in_memory() -> None:
    one, two = (
        decode_node(encoded(metadata={"name": name, "labels": {"nvidia.com/gpu.product": "A100-SXM4-40GB"}}))
        for name in "ab"
    )

    value = one.metadata.labels["nvidia.com/gpu.product"]
    assert value is two.metadata.labels["nvidia.com/gpu.product"]


def test_the_pool_of_texts_does_not_grow_without_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(trimmed, "_POOL_LIMIT", 10)
    for number in range(100):
        trimmed.shared(f"text {number}")

    assert len(trimmed._pool) <= 10


def test_a_pods_gpus_are_counted_as_the_scheduler_does() -> None:
    def wants(count: int, **more: Any) -> dict[str, Any]:
        return {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(count), "cpu": "1"}}, **more}

    pod = decode_pod(
        encoded(
            metadata={"name": "p", "namespace": "ns"},
            spec={
                "nodeName": "n1",
                "containers": [wants(1), wants(2)],
                "initContainers": [wants(4), wants(1, restartPolicy="Always")],
            },
            status={
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "c",
                        "ready": False,
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}},
                        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
                    }
                ],
            },
        )
    )

    assert pod.limits == {"nvidia.com/gpu": 4}
    status = pod.containers[0]
    assert (status.state, status.reason, status.last_reason) == ("waiting", "CrashLoopBackOff", "Error")
    assert (pod.node_name, pod.phase, pod.ready, pod.finished) == ("n1", "Running", False, False)


def test_a_daemonset_keeps_its_numbers_and_its_owner() -> None:
    owner = {"kind": "ClusterPolicy", "name": "p", "uid": "u", "controller": True}
    daemonset = decode_daemonset(
        encoded(
            metadata={"name": "d", "namespace": "ns", "generation": 3, "ownerReferences": [owner]},
            status={"observedGeneration": 3, "desiredNumberScheduled": 2, "numberReady": 1},
        )
    )

    assert daemonset.metadata.controller_uid() == "u"
    assert (daemonset.status.desired_number_scheduled, daemonset.status.number_ready) == (2, 1)


def test_a_configmap_keeps_its_data() -> None:
    assert decode_configmap(encoded(metadata={"name": "c"}, data={"a": "b"})).data == {"a": "b"}


def test_of_what_a_node_was_labelled_with_before_little_is_kept() -> None:
    """One whose labels change all the time has a new map each time, and nobody has the old ones any more."""
    labels = {f"label-{n}": "value" for n in range(40)}
    tracemalloc.start()
    try:
        for number in range(2_000):
            trimmed.shared_map({**labels, "changes": str(number)})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**20
