"""Server-side apply: who owns what, who may take it, and what goes when it is no longer said."""

from ..transcript import Scenario
from .words import (
    DAEMON_SETS,
    DEPLOYMENTS,
    GPU_NODES,
    MAPS,
    NODES,
    POLICIES,
    SERVICES,
    apply,
    config_map,
    delete,
    deployment,
    get,
    gpu_node,
    patch,
    policy,
    post,
    put,
)

A, D = f"{MAPS}/a", f"{DEPLOYMENTS}/d"
SMALL = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}


def _containers(*containers: object) -> dict[str, object]:
    return {**SMALL, "spec": {"template": {"spec": {"containers": list(containers)}}}}


SCENARIOS = [
    Scenario(
        "apply creates, changes, and removes what is no longer said",
        [
            apply(A, config_map("a", {"k": "1", "l": "2"}, labels={"x": "y"})),
            apply(A, config_map("a", {"k": "1", "l": "2"}, labels={"x": "y"})),
            apply(A, config_map("a", {"k": "3"})),
            apply(A, config_map("a")),
        ],
    ),
    Scenario(
        "two managers share an object and fight over a field",
        [
            apply(A, config_map("a", {"k": "1"})),
            apply(A, config_map("a", {"l": "2"}), "bob"),
            apply(A, config_map("a", {"k": "9", "l": "2"}), "bob"),
            apply(A, config_map("a", {"k": "1", "l": "2"}), "bob"),
            apply(A, config_map("a", {"k": "8"}), "bob", force="true"),
            apply(A, config_map("a", {}), "bob"),
            apply(A, config_map("a", {"m": "1"})),
        ],
    ),
    Scenario(
        "an update takes ownership and apply sees it as a conflict",
        [
            apply(A, config_map("a", {"k": "1", "l": "1"})),
            patch("merge", A, {"data": {"k": "2"}}, fieldManager="bob"),
            apply(A, config_map("a", {"k": "1", "l": "1"})),
            apply(A, config_map("a", {"k": "2", "l": "1"})),
            put(A, config_map("a", {"k": "2", "l": "3"}), fieldManager="carol"),
            apply(A, config_map("a", {"k": "5", "l": "5"}), force="true"),
            delete(A),
        ],
    ),
    Scenario(
        "apply to what was created without apply",
        [
            post(MAPS, config_map("a", {"k": "1"}), fieldManager="bob"),
            apply(A, config_map("a", {"k": "1"})),
            apply(A, config_map("a", {"k": "2"})),
            apply(A, config_map("a", {}), force="true"),
        ],
    ),
    Scenario(
        "lists with keys are owned element by element",
        [
            apply(
                D,
                deployment(
                    "d", {"name": "a", "image": "x", "env": [{"name": "K", "value": "1"}]}, replicas=0
                ),
            ),
            apply(D, _containers({"name": "a", "env": [{"name": "L", "value": "2"}]}), "bob"),
            apply(D, _containers({"name": "side", "image": "y", "ports": [{"containerPort": 80}]}), "carol"),
            apply(D, _containers({"name": "a", "image": "z"}), "bob"),
            apply(D, deployment("d", {"name": "a", "image": "x"}, replicas=0)),
            apply(D, _containers(), "carol"),
            apply(
                D,
                _containers({"name": "a", "env": [{"name": "L", "value": "1"}, {"name": "L", "value": "2"}]}),
                "bob",
            ),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "apply of another subresource has its own entry",
        [
            apply(D, deployment("d", replicas=0)),
            apply(f"{D}/status", {**SMALL, "status": {"replicas": 1}}, "statusbot"),
            apply(D, deployment("d", replicas=0), "statusbot", force="true"),
            apply(
                f"{D}/scale",
                {
                    "apiVersion": "autoscaling/v1",
                    "kind": "Scale",
                    "metadata": {"name": "d"},
                    "spec": {"replicas": 2},
                },
                "scaler",
            ),
            apply(
                f"{D}/scale",
                {
                    "apiVersion": "autoscaling/v1",
                    "kind": "Scale",
                    "metadata": {"name": "d"},
                    "spec": {"replicas": 2},
                },
                "scaler",
                force="true",
            ),
            get(f"{D}/scale"),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "labels of a node belong to who applied them and conditions merge by type",
        [
            post(
                NODES,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "$NS", "labels": {"a": "b"}},
                    "spec": {"unschedulable": True},
                },
                fieldManager="kubelet",
            ),
            apply(
                f"{NODES}/$NS",
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "$NS", "labels": {"nvidia.com/gpu.present": "true"}},
                },
            ),
            apply(
                f"{NODES}/$NS",
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$NS", "labels": {"a": "c"}}},
            ),
            apply(
                f"{NODES}/$NS/status",
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "$NS"},
                    "status": {"conditions": [{"type": "GPUReady", "status": "True"}]},
                },
            ),
            apply(
                f"{NODES}/$NS/status",
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$NS"}, "status": {}},
            ),
            apply(f"{NODES}/$NS", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$NS"}}),
            delete(f"{NODES}/$NS"),
        ],
    ),
    Scenario(
        "a service's ports are keyed by port and protocol",
        [
            apply(
                f"{SERVICES}/s",
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "s"},
                    "spec": {"clusterIP": "None", "ports": [{"port": 80, "name": "a"}]},
                },
            ),
            apply(
                f"{SERVICES}/s",
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "s"},
                    "spec": {"ports": [{"port": 81, "name": "b", "protocol": "TCP"}]},
                },
                "bob",
            ),
            apply(
                f"{SERVICES}/s",
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "s"},
                    "spec": {"clusterIP": "None", "ports": []},
                },
            ),
        ],
    ),
    Scenario(
        "custom resources are owned too, status apart from spec",
        [
            apply(
                f"{POLICIES}/$NS", policy({"devicePlugin": {"enabled": True}, "driver": {"enabled": False}})
            ),
            apply(f"{POLICIES}/$NS", policy({"devicePlugin": {"enabled": False}}), "bob"),
            apply(
                f"{POLICIES}/$NS/status",
                {**policy(), "status": {"state": "ready", "namespace": "x"}},
                "operator",
            ),
            apply(f"{POLICIES}/$NS", policy({"driver": {"enabled": False}})),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "the chain of a GPU node is owned by the agent",
        [
            apply(f"{GPU_NODES}/$NS", gpu_node({"driver": {"enabled": True}}), "operator"),
            apply(f"{GPU_NODES}/$NS/status", {**gpu_node(), "status": {"gpus": 8, "healthy": 8}}, "agent"),
            apply(f"{GPU_NODES}/$NS/status", {**gpu_node(), "status": {"gpus": 8, "healthy": 7}}, "agent"),
            apply(f"{GPU_NODES}/$NS", gpu_node({}), "operator"),
            delete(f"{GPU_NODES}/$NS"),
        ],
    ),
    Scenario(
        "what apply refuses",
        [
            apply(A, config_map("a", {"k": "1"}), ""),
            apply(A, config_map("b", {"k": "1"})),
            apply(A, {"kind": "ConfigMap", "metadata": {"name": "a"}}),
            apply(A, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            apply(A, {**config_map("a"), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}),
            apply(
                A,
                {**config_map("a"), "metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"}},
            ),
            apply(A, {**config_map("a"), "metadata": {"name": "a", "resourceVersion": "1"}}),
            apply(A, {**config_map("a"), "unknown": {"x": 1}}),
            apply(A, config_map("a", {"k": 1})),
            apply(A, config_map("a", {"k": "1"}), force="maybe"),
            patch("merge", A, {"data": {}}, force="true"),
            apply(
                f"{DAEMON_SETS}/x",
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}, "spec": {}},
            ),
        ],
    ),
    Scenario(
        "who came before the first apply owns no status",
        [
            post(f"{GPU_NODES}", gpu_node({"driver": {"enabled": True}})),
            patch("merge", f"{GPU_NODES}/$NS/status", {"status": {"gpus": 8, "chain": []}}),
            patch("merge", f"{GPU_NODES}/$NS", {"metadata": {"managedFields": [{}]}}),
            apply(f"{GPU_NODES}/$NS", gpu_node({"driver": {"enabled": False}}), force="true"),
            patch("merge", f"{GPU_NODES}/$NS", {"metadata": {"managedFields": [{}]}}),
            apply(f"{GPU_NODES}/$NS/status", {**gpu_node(), "status": {"gpus": 7}}, force="true"),
            delete(f"{GPU_NODES}/$NS"),
        ],
    ),
    Scenario(
        "what is applied to the status of nothing is not found, whatever it says",
        [
            apply(f"{GPU_NODES}/$NS/status", {**gpu_node(), "status": {"unknown": 1}}),
            apply(f"{GPU_NODES}/$NS/status", {**gpu_node(), "kind": "Other"}),
            apply(
                f"{GPU_NODES}/$NS/status", {**gpu_node(), "metadata": {"managedFields": [{"manager": "x"}]}}
            ),
            apply(f"{D}/status", {**SMALL, "status": {"replicas": "many"}}),
            apply(f"{D}/status", {**SMALL, "apiVersion": "v1"}),
        ],
    ),
    Scenario(
        "managed fields can be cleared and the next apply starts anew",
        [
            apply(A, config_map("a", {"k": "1"})),
            patch("merge", A, {"metadata": {"managedFields": [{}]}}),
            apply(A, config_map("a", {"k": "2"}), "bob"),
            patch("merge", A, {"data": {"z": "1"}}, fieldManager="carol"),
        ],
    ),
]
