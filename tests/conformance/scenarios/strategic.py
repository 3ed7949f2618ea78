"""Strategic merge patches, at their corners."""

from ..transcript import Scenario
from .words import (
    DEPLOYMENTS,
    GPU_NODES,
    MAPS,
    NODES,
    PODS,
    config_map,
    delete,
    deployment,
    gpu_node,
    patch,
    pod,
    post,
)

D = f"{DEPLOYMENTS}/d"
TWO = (
    {
        "name": "a",
        "image": "x",
        "env": [{"name": "K", "value": "1"}, {"name": "L", "value": "2"}],
        "args": ["1", "2"],
    },
    {"name": "b", "image": "y", "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "m"}]},
)


def _template(spec: object) -> dict[str, object]:
    return {"spec": {"template": {"spec": spec}}}


SCENARIOS = [
    Scenario(
        "containers and variables merge by name",
        [
            post(DEPLOYMENTS, deployment("d", *TWO, replicas=0)),
            patch(
                "strategic",
                D,
                _template(
                    {
                        "containers": [
                            {"name": "a", "env": [{"name": "L", "value": "9"}, {"name": "M", "value": "3"}]}
                        ]
                    }
                ),
            ),
            patch("strategic", D, _template({"containers": [{"name": "c", "image": "z"}]})),
            patch("strategic", D, _template({"containers": [{"name": "a", "args": ["3"]}]})),
            patch("strategic", D, _template({"containers": [{"image": "nameless"}]})),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "the delete directive removes an element and the replace directive all others",
        [
            post(DEPLOYMENTS, deployment("d", *TWO, replicas=0)),
            patch(
                "strategic",
                D,
                _template({"containers": [{"name": "a", "env": [{"name": "K", "$patch": "delete"}]}]}),
            ),
            patch("strategic", D, _template({"containers": [{"name": "b", "$patch": "delete"}]})),
            patch(
                "strategic",
                D,
                _template({"containers": [{"$patch": "replace"}, {"name": "only", "image": "q"}]}),
            ),
            patch("strategic", D, {"metadata": {"labels": {"a": "1", "b": "2"}}}),
            patch("strategic", D, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
            patch("strategic", D, {"metadata": {"labels": {"$patch": "delete"}}}),
            patch("strategic", D, {"metadata": {"labels": {"$patch": "fly"}}}),
            patch("strategic", D, _template({"containers": [{"name": "none", "$patch": "delete"}]})),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "element order and primitive lists have directives of their own",
        [
            post(DEPLOYMENTS, deployment("d", *TWO, replicas=0)),
            patch(
                "strategic",
                D,
                _template(
                    {
                        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                        "containers": [{"name": "a", "image": "n"}],
                    }
                ),
            ),
            patch("strategic", D, {"metadata": {"finalizers": ["x.dev/a", "x.dev/b"]}}),
            patch("strategic", D, {"metadata": {"finalizers": ["x.dev/c", "x.dev/a"]}}),
            patch(
                "strategic", D, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.dev/a", "x.dev/b"]}}
            ),
            patch("strategic", D, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.dev/c"]}}),
            patch("strategic", D, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            patch("strategic", D, {"spec": {"strategy": {"type": "RollingUpdate"}}}),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "null removes keys and whole lists",
        [
            post(DEPLOYMENTS, deployment("d", *TWO, replicas=0)),
            patch("strategic", D, _template({"containers": [{"name": "a", "env": None}]})),
            patch("strategic", D, {"spec": {"replicas": None}}),
            patch("strategic", D, _template({"containers": None})),
            patch("strategic", D, {"metadata": {"labels": None, "annotations": {"a": "b"}}}),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "conditions and addresses of a node merge by type",
        [
            post(
                NODES,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "$NS"},
                    "spec": {"unschedulable": True},
                },
            ),
            patch(
                "strategic",
                f"{NODES}/$NS/status",
                {
                    "status": {
                        "conditions": [
                            {"type": "Ready", "status": "True"},
                            {"type": "GPUReady", "status": "False", "reason": "X"},
                        ]
                    }
                },
            ),
            patch(
                "strategic",
                f"{NODES}/$NS/status",
                {
                    "status": {
                        "conditions": [{"type": "GPUReady", "status": "True"}],
                        "capacity": {"nvidia.com/gpu": "8"},
                    }
                },
            ),
            patch(
                "strategic",
                f"{NODES}/$NS/status",
                {"status": {"conditions": [{"type": "GPUReady", "$patch": "delete"}]}},
            ),
            patch(
                "strategic",
                f"{NODES}/$NS/status",
                {"status": {"capacity": {"nvidia.com/gpu": None, "nvidia.com/x": 3}}},
            ),
            patch("strategic", f"{NODES}/$NS", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            patch("strategic", f"{NODES}/$NS", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
            delete(f"{NODES}/$NS"),
        ],
    ),
    Scenario(
        "lists of one container merge by their own keys",
        [
            post(
                PODS,
                pod(
                    "p",
                    {"name": "main", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                    volumes=[{"name": "v", "emptyDir": {}}],
                ),
            ),
            patch("strategic", f"{PODS}/p", {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
            patch("strategic", f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 100}}),
            patch(
                "strategic",
                f"{PODS}/p/status",
                {
                    "status": {
                        "conditions": [{"type": "Ready", "status": "True"}],
                        "containerStatuses": [
                            {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
                        ],
                    }
                },
            ),
            patch(
                "strategic",
                f"{PODS}/p/status",
                {
                    "status": {
                        "conditions": [{"type": "Ready", "status": "False"}],
                        "podIPs": [{"ip": "127.0.0.1"}],
                    }
                },
            ),
        ],
    ),
    Scenario(
        "custom resources take no strategic merge patch",
        [
            post(GPU_NODES, gpu_node()),
            patch("strategic", f"{GPU_NODES}/$NS", {"metadata": {"labels": {"a": "b"}}}),
            delete(f"{GPU_NODES}/$NS"),
        ],
    ),
    Scenario(
        "plain maps merge",
        [
            post(MAPS, config_map("a", {"k": "1", "l": "2"})),
            patch("strategic", f"{MAPS}/a", {"data": {"k": None, "m": "3"}}),
            patch("strategic", f"{MAPS}/a", {"data": {"$retainKeys": ["m"], "m": "4"}}),
            patch("strategic", f"{MAPS}/a", {"data": {"$patch": "replace", "only": "1"}}),
        ],
    ),
]
