"""What the server says when it refuses."""

from ..transcript import Ask, Scenario
from .words import (
    DAEMON_SETS,
    DEPLOYMENTS,
    MAPS,
    NODES,
    PODS,
    POLICIES,
    SECRETS,
    SERVICES,
    apply,
    config_map,
    delete,
    deployment,
    get,
    patch,
    pod,
    policy,
    post,
    put,
)


def _of_another_kind(path: str, collection: str, api_version: str, kind: str) -> list[Ask]:
    name = path.rpartition("/")[2]
    head = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
    return [
        post(collection, {**head, "metadata": {"name": "other"}}),
        put(path, head),
        patch("merge", path, {"apiVersion": api_version, "kind": kind}),
        apply(path, head),
    ]


_MISTYPED: list[tuple[str, object]] = [
    ("labels", "x"),
    ("labels", {"a": 5}),
    ("annotations", ["x"]),
    ("finalizers", "x"),
    ("finalizers", [1]),
    ("ownerReferences", "x"),
    ("ownerReferences", ["x"]),
    ("generation", "x"),
    ("creationTimestamp", 5),
]


SCENARIOS = [
    Scenario(
        "bodies that cannot be read",
        [
            post(MAPS, config_map("a")),
            post(MAPS, "{broken"),
            post(MAPS, ""),
            patch("merge", f"{MAPS}/a", "{broken"),
            delete(f"{MAPS}/a", "{broken"),
            apply(f"{MAPS}/a", "a: [broken"),
        ],
    ),
    Scenario(
        "patches that cannot be read",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            *(
                Ask("PATCH", f"{MAPS}/a", body, type=kind)
                for kind in ("merge", "strategic", "jsonpatch")
                for body in ("{broken", '"text"', "[1]", "[]", "{}", "null", "")
            ),
            patch("merge", f"{MAPS}/a", {"data": {"k": 5}}),
            patch("strategic", f"{MAPS}/a", {"data": {"k": 5}}),
            patch("jsonpatch", f"{MAPS}/a", [{"op": "add", "path": "/data/k", "value": 5}]),
            patch("strategic", f"{MAPS}/a", {"data": ["k"]}),
            patch("strategic", f"{MAPS}/a", {"data": "k"}),
            patch("strategic", f"{MAPS}/a", {"immutable": "yes"}),
            patch("strategic", f"{MAPS}/a", {"metadata": {"generation": "1"}}),
            patch("strategic", f"{MAPS}/a", {"metadata": {"finalizers": "x"}}),
            patch("strategic", f"{MAPS}/a", {"data": {"k": True, "l": {"m": 1.5}}}),
            post(POLICIES, policy()),
            *(
                Ask("PATCH", f"{POLICIES}/$NS", body, type=kind)
                for kind in ("merge", "jsonpatch", "strategic", "application/json")
                for body in ("{broken", '"text"', "{}")
            ),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "metadata of the wrong types",
        [
            post(MAPS, config_map("a")),
            post(POLICIES, policy()),
            *(
                ask
                for field, value in _MISTYPED
                for ask in (
                    post(MAPS, {"metadata": {"name": "b", field: value}}),
                    post(POLICIES, {**policy(), "metadata": {"name": "$NS-b", field: value}}),
                    patch("merge", f"{MAPS}/a", {"metadata": {field: value}}),
                    patch("merge", f"{POLICIES}/$NS", {"metadata": {field: value}}),
                )
            ),
            *(post(MAPS, {"metadata": value}) for value in ("x", ["x"], 5)),
            *(
                patch("jsonpatch", path, [{"op": "add", "path": "/kind", "value": value}])
                for path in (f"{MAPS}/a", f"{POLICIES}/$NS")
                for value in ({}, 5, ["x"])
            ),
            patch("jsonpatch", f"{POLICIES}/$NS", [{"op": "remove", "path": "/kind"}]),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "objects of another kind or version",
        [
            post(MAPS, config_map("a")),
            *(
                ask
                for head in (
                    ("v1", "Secret"),
                    ("v2", "ConfigMap"),
                    ("nonsense", "Nonsense"),
                    ("apps/v1", "ConfigMap"),
                )
                for ask in _of_another_kind(f"{MAPS}/a", MAPS, *head)
            ),
            post(POLICIES, policy()),
            *(
                ask
                for head in (
                    ("nvidia.com/v1", "Secret"),
                    ("nvidia.com/v2", "ClusterPolicy"),
                    ("v1", "ConfigMap"),
                )
                for ask in _of_another_kind(f"{POLICIES}/$NS", POLICIES, *head)
            ),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "nothing is there",
        [
            get("/api/v1/namespaces/$NS/nonsense"),
            get("/apis/nonsense.dev/v1/things"),
            get("/nonsense"),
            get(f"{MAPS}/none"),
            get("/api/v1/namespaces/$NS/configmaps/a/status"),
            post("/api/v1/namespaces/$NS-none/configmaps", config_map("a")),
            delete("/api/v1/nodes/$NS-none"),
            get("/apis/nvidia.com/v1/clusterpolicies/none"),
            post(MAPS, config_map("a")),
            post(MAPS, config_map("a")),
            Ask("POST", f"{MAPS}/a", config_map("a")),
            Ask("PUT", MAPS, config_map("a")),
            Ask("PATCH", f"{MAPS}/a", {}, type="application/json"),
        ],
    ),
    Scenario(
        "names and bodies that cannot be",
        [
            post(MAPS, config_map("Bad_Name")),
            post(MAPS, config_map("a" * 254)),
            post(MAPS, {"apiVersion": "v1", "kind": "ConfigMap"}),
            post(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "Bad-"}}),
            post(MAPS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            post(MAPS, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            post(MAPS, {"metadata": {"name": "a"}, "data": {"k": 5}}),
            post(MAPS, {"metadata": {"name": "b"}, "data": ["x"]}),
            post(MAPS, config_map("c", {"bad key": "x"})),
            post(MAPS, config_map("d", labels={"ok": "bad value!"})),
            post(MAPS, config_map("e", annotations={"Bad Key": "x"})),
            post(MAPS, config_map("f", labels={"x": 5})),
            post(MAPS, {**config_map("g"), "unknown": 1}, fieldValidation="Strict"),
            post(MAPS, {**config_map("h"), "unknown": 1}, fieldValidation="Warn"),
            post(MAPS, config_map("i"), fieldValidation="Perhaps"),
            Ask(
                "POST",
                MAPS,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n",
                type="application/yaml",
            ),
            Ask("POST", MAPS, "x", type="text/plain"),
        ],
    ),
    Scenario(
        "pods that cannot be",
        [
            post(
                PODS,
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}},
            ),
            post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
            post(PODS, pod("p", {"name": "Main", "image": "x"})),
            post(PODS, pod("p", {"name": "a", "image": "x"}, {"name": "a", "image": "x"})),
            post(PODS, pod("p", {"name": "a"})),
            post(
                PODS,
                pod("p", {"name": "a", "image": "x", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}),
            ),
            post(
                PODS, pod("p", {"name": "a", "image": "x", "resources": {"requests": {"nvidia.com/gpu": 1}}})
            ),
            post(
                PODS,
                pod("p", {"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "500m"}}}),
            ),
            post(
                PODS,
                pod(
                    "p",
                    {
                        "name": "a",
                        "image": "x",
                        "resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 2}},
                    },
                ),
            ),
            post(PODS, pod("p", {"name": "a", "image": "x", "resources": {"limits": {"cpu": "lots"}}})),
            post(PODS, pod("p", {"name": "a", "image": "x", "imagePullPolicy": "Sometimes"})),
            post(PODS, pod("p", restartPolicy="Perhaps")),
            post(PODS, pod("p", serviceAccountName="none")),
            post(PODS, pod("p", priorityClassName="none")),
            post(PODS, pod("p", tolerations=[{"operator": "Exists", "value": "x"}])),
            post(PODS, pod("p", volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}])),
            post(
                PODS,
                pod(
                    "p",
                    {
                        "name": "a",
                        "image": "x",
                        "env": [
                            {"name": "1 2", "value": "x"},
                            {
                                "name": "B",
                                "value": "x",
                                "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}},
                            },
                        ],
                    },
                ),
            ),
            post(PODS, pod("p", {"name": "a", "image": "x", "ports": [{"containerPort": 99999}]})),
            post(PODS, pod("p", nodeSelector={"bad key!": "x"})),
            post(PODS, pod("p", containers=[None])),
        ],
    ),
    Scenario(
        "workloads and others that cannot be",
        [
            post(
                DEPLOYMENTS,
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {}},
            ),
            post(
                DEPLOYMENTS,
                {
                    **deployment("d"),
                    "spec": {**deployment("d")["spec"], "selector": {"matchLabels": {"app": "other"}}},
                },
            ),
            post(DEPLOYMENTS, deployment("d", replicas=-1)),
            post(DEPLOYMENTS, deployment("d", strategy={"type": "Slowly"})),
            post(DAEMON_SETS, {**deployment("d", replicas=3), "kind": "DaemonSet"}, fieldValidation="Strict"),
            post(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}),
            post(
                SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "s"},
                    "type": "kubernetes.io/tls",
                    "data": {},
                },
            ),
            post(
                NODES,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "$NS"},
                    "spec": {"taints": [{"key": "a", "effect": "Never"}]},
                },
            ),
            post(
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Bad.Name"}},
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": "$NS"},
                    "rules": [{"verbs": []}],
                },
            ),
        ],
    ),
]
