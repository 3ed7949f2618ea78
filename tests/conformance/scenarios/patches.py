"""Merge patches and JSON patches."""

from ..transcript import Scenario
from .words import (
    DEPLOYMENTS,
    GPU_NODES,
    MAPS,
    PODS,
    POLICIES,
    Obj,
    apply,
    config_map,
    delete,
    deployment,
    gpu_node,
    patch,
    pod,
    policy,
    post,
)

A = f"{MAPS}/a"


def _status_of_pod(**status: object) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status}


def _bears(key: str, seconds: int) -> Obj:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


SCENARIOS = [
    Scenario(
        "a null in a map is an empty value, and one copied from nowhere too",
        [
            post(MAPS, config_map("a", {"k": None, "l": "1"}, labels={"x": None}, annotations={"y": None})),
            patch("jsonpatch", A, [{"op": "copy", "from": "/data/none", "path": "/data/m"}]),
            patch("jsonpatch", A, [{"op": "copy", "from": "/none/none", "path": "/data/m"}]),
            patch("jsonpatch", A, [{"op": "replace", "path": "/data/l/x", "value": "1"}]),
            patch("jsonpatch", A, [{"op": "add", "path": "/data", "value": {"n": None}}]),
            apply(A, config_map("a", {"o": None}, labels={"z": None})),
            apply(A, config_map("a", {"p": "1"})),
            post(POLICIES, {**policy(), "metadata": {"name": "$NS", "labels": {"x": None}}}),
            patch(
                "jsonpatch", f"{POLICIES}/$NS", [{"op": "copy", "from": "/spec/none", "path": "/spec/driver"}]
            ),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "a status that is applied with nulls is emptied and owned",
        [
            post(PODS, pod("p")),
            apply(f"{PODS}/p/status", _status_of_pod(phase="Running", podIP="10.0.0.1"), "alice"),
            apply(f"{PODS}/p/status", _status_of_pod(phase=None, podIP=None), "alice"),
            apply(f"{PODS}/p/status", _status_of_pod(phase="Failed"), "bob"),
            patch("strategic", f"{PODS}/p/status", {"status": {"phase": None}}),
            post(GPU_NODES, gpu_node()),
            apply(f"{GPU_NODES}/$NS/status", {**gpu_node(), "status": {"gpus": None}}),
            patch("merge", f"{GPU_NODES}/$NS", {"spec": {"uninstall": True}, "status": {"gpus": "many"}}),
            delete(f"{GPU_NODES}/$NS"),
        ],
    ),
    Scenario(
        "of a toleration only the seconds may change",
        [
            post(PODS, pod("p", tolerations=[_bears("a", 10), _bears("a", 20)])),
            patch("merge", f"{PODS}/p", {"spec": {"tolerations": [_bears("a", 30)]}}),
            patch("merge", f"{PODS}/p", {"spec": {"tolerations": [_bears("b", 30)]}}),
            patch("merge", f"{PODS}/p", {"spec": {"tolerations": [_bears("a", 5), _bears("b", 5)]}}),
        ],
    ),
    Scenario(
        "a merge patch adds, changes and removes",
        [
            post(MAPS, config_map("a", {"k": "1", "l": "2"})),
            patch("merge", A, {"data": {"k": None, "m": "3"}, "metadata": {"labels": {"x": "y"}}}),
            patch("merge", A, {"data": {"m": "3"}}),
            patch("merge", A, {}),
            patch("merge", A, {"data": None}),
            patch("merge", A, {"metadata": {"labels": {"x": None}}}),
            patch("merge", A, {"metadata": {"resourceVersion": "$RV0"}, "data": {"k": "9"}}),
            patch("merge", A, {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            patch("merge", A, {"metadata": {"name": "b"}}),
            patch("merge", A, {"data": {"k": 1}}),
            patch("merge", A, {"data": {"k": "5"}}, fieldManager="bob"),
            patch("merge", A, [1]),
            patch("merge", f"{MAPS}/none", {"data": {}}),
        ],
    ),
    Scenario(
        "a merge patch replaces lists whole",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            patch(
                "merge",
                f"{DEPLOYMENTS}/d",
                {"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "x"}]}}}},
            ),
            patch("merge", f"{DEPLOYMENTS}/d", {"spec": {"template": {"spec": {"containers": None}}}}),
            patch("merge", f"{DEPLOYMENTS}/d", {"spec": {"replicas": "x"}}),
            patch("merge", f"{DEPLOYMENTS}/d", {"spec": {"selector": {"matchLabels": {"app": "e"}}}}),
            patch("merge", f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}}),
            delete(f"{DEPLOYMENTS}/d", propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "a JSON patch tests and changes in order, all or nothing",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            patch(
                "jsonpatch",
                A,
                [
                    {"op": "test", "path": "/data/k", "value": "1"},
                    {"op": "add", "path": "/data/l", "value": "2"},
                ],
            ),
            patch(
                "jsonpatch",
                A,
                [{"op": "test", "path": "/data/k", "value": "2"}, {"op": "remove", "path": "/data/k"}],
            ),
            patch("jsonpatch", A, [{"op": "remove", "path": "/data/none"}]),
            patch("jsonpatch", A, [{"op": "replace", "path": "/data/none", "value": "1"}]),
            patch("jsonpatch", A, [{"op": "add", "path": "/metadata/labels/x", "value": "1"}]),
            patch(
                "jsonpatch", A, [{"op": "add", "path": "/metadata/labels", "value": {"a/b": "1", "c~d": "2"}}]
            ),
            patch(
                "jsonpatch", A, [{"op": "add", "path": "/metadata/labels", "value": {"example.com/b": "1"}}]
            ),
            patch(
                "jsonpatch", A, [{"op": "replace", "path": "/metadata/labels/example.com~1b", "value": "2"}]
            ),
            patch(
                "jsonpatch",
                A,
                [
                    {"op": "move", "from": "/data/k", "path": "/data/m"},
                    {"op": "copy", "from": "/data/m", "path": "/data/n"},
                ],
            ),
            patch("jsonpatch", A, [{"op": "fly", "path": "/data"}]),
            patch("jsonpatch", A, {"op": "remove", "path": "/data"}),
            patch("jsonpatch", A, []),
            patch("jsonpatch", A, [{"op": "replace", "path": "/metadata/resourceVersion", "value": "$RV0"}]),
        ],
    ),
    Scenario(
        "finalizers and owners are patched one by one",
        [
            post(MAPS, config_map("a", finalizers=["x.dev/a", "x.dev/b"])),
            patch("jsonpatch", A, [{"op": "add", "path": "/metadata/finalizers/-", "value": "x.dev/c"}]),
            patch("jsonpatch", A, [{"op": "add", "path": "/metadata/finalizers/0", "value": "x.dev/0"}]),
            patch("jsonpatch", A, [{"op": "remove", "path": "/metadata/finalizers/9"}]),
            patch("merge", A, {"metadata": {"finalizers": ["bad name"]}}),
            patch("merge", A, {"metadata": {"finalizers": ["noslash"]}}),
            patch("merge", A, {"metadata": {"ownerReferences": [{"name": "x"}]}}),
            patch("merge", A, {"metadata": {"finalizers": None}}),
        ],
    ),
    Scenario(
        "of a pod only a few fields may change",
        [
            post(PODS, pod("p")),
            patch("merge", f"{PODS}/p", {"spec": {"nodeName": "n"}}),
            patch("strategic", f"{PODS}/p", {"spec": {"containers": [{"name": "main", "image": "other"}]}}),
            patch("merge", f"{PODS}/p", {"spec": {"hostNetwork": True}}),
            patch("merge", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
            patch("merge", f"{PODS}/p/status", {"status": {"phase": "Running", "podIP": "127.0.0.9"}}),
            delete(f"{PODS}/p", gracePeriodSeconds="0"),
        ],
    ),
]
