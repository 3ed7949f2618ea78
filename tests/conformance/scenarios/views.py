"""Other forms of the same objects: tables, partial metadata, scale, reviews."""

from ..transcript import Ask, Scenario
from .words import (
    DAEMON_SETS,
    DEPLOYMENTS,
    MAPS,
    NODES,
    PODS,
    POLICIES,
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

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "$NS", "labels": {"node-role.kubernetes.io/worker": ""}},
    "spec": {"unschedulable": True},
}

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHZ = "/apis/authorization.k8s.io/v1"
_WANTED: list[tuple[str, dict[str, str]]] = [
    ("get", {"resource": "pods", "namespace": "$NS"}),
    ("delete", {"resource": "pods", "namespace": "$NS"}),
    ("get", {"resource": "pods", "subresource": "log", "namespace": "$NS"}),
    ("get", {"resource": "pods", "namespace": "default"}),
    ("get", {"resource": "pods"}),
    ("get", {"resource": "secrets", "namespace": "$NS"}),
    ("get", {"resource": "secrets", "namespace": "$NS", "name": "s"}),
    ("patch", {"resource": "jobs", "group": "batch", "subresource": "status", "namespace": "$NS"}),
]


def _may(user: str, verb: str, *, groups: object = None, path: str = "", **on: str) -> Ask:
    asked = (
        {"nonResourceAttributes": {"verb": verb, "path": path}}
        if path
        else {"resourceAttributes": {"verb": verb, **on}}
    )
    spec = {"user": user, **asked, **({"groups": groups} if groups else {})}
    return post(f"{AUTHZ}/subjectaccessreviews", {"spec": spec})


def _scale(replicas: int, **meta: str) -> dict[str, object]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d", **meta},
        "spec": {"replicas": replicas},
    }


SCENARIOS = [
    Scenario(
        "tables of config maps and pods",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            get(f"{MAPS}/a", TABLE),
            get(f"{MAPS}/a", TABLE, includeObject="None"),
            get(f"{MAPS}/a", TABLE, includeObject="Object"),
            post(PODS, pod("p")),
            get(PODS, TABLE),
            patch(
                "strategic",
                f"{PODS}/p/status",
                {
                    "status": {
                        "phase": "Running",
                        "podIP": "127.0.0.1",
                        "containerStatuses": [
                            {
                                "name": "main",
                                "image": "x",
                                "imageID": "",
                                "ready": False,
                                "restartCount": 3,
                                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                            }
                        ],
                    }
                },
            ),
            get(f"{PODS}/p", TABLE),
        ],
    ),
    Scenario(
        "tables of nodes, deployments, daemon sets and policies",
        [
            post(NODES, NODE),
            get(f"{NODES}/$NS", TABLE),
            delete(f"{NODES}/$NS"),
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            get(f"{DEPLOYMENTS}/d", TABLE),
            delete(f"{DEPLOYMENTS}/d", propagationPolicy="Background"),
            post(DAEMON_SETS, {**deployment("d"), "kind": "DaemonSet"}),
            get(f"{DAEMON_SETS}/d", TABLE),
            delete(f"{DAEMON_SETS}/d", propagationPolicy="Background"),
            post(POLICIES, policy()),
            get(f"{POLICIES}/$NS", TABLE),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "metadata alone",
        [
            post(MAPS, config_map("a", {"k": "1"}, labels={"x": "y"})),
            get(f"{MAPS}/a", PARTIAL),
            get(MAPS, PARTIAL_LIST, labelSelector="x"),
            get(f"{MAPS}/a", "application/xml"),
            get(f"{MAPS}/a", "application/json;as=Nothing;v=v1;g=meta.k8s.io"),
        ],
    ),
    Scenario(
        "a scale is read and written",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            get(f"{DEPLOYMENTS}/d/scale"),
            get(f"{DEPLOYMENTS}/d/scale", TABLE),
            put(f"{DEPLOYMENTS}/d/scale", _scale(2)),
            put(f"{DEPLOYMENTS}/d/scale", _scale(2)),
            patch("merge", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, fieldManager="scaler"),
            patch("strategic", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 4}}),
            patch(
                "jsonpatch",
                f"{DEPLOYMENTS}/d/scale",
                [{"op": "replace", "path": "/spec/replicas", "value": 5}],
            ),
            patch("merge", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 6}}, dryRun="All"),
            patch("merge", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}),
            patch("merge", f"{DEPLOYMENTS}/d/scale", {"spec": None}),
            put(f"{DEPLOYMENTS}/d/scale", _scale(1, resourceVersion="1")),
            put(f"{DEPLOYMENTS}/d/scale", _scale(1, name="other")),
            put(f"{DEPLOYMENTS}/d/scale", {**_scale(1), "kind": "Deployment"}),
            get(f"{DEPLOYMENTS}/none/scale"),
            delete(f"{DEPLOYMENTS}/d/scale"),
            get(f"{DEPLOYMENTS}/d"),
            delete(f"{DEPLOYMENTS}/d", propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "access reviews answer by the rules",
        [
            post(
                f"{RBAC}/namespaces/$NS/roles",
                {
                    "metadata": {"name": "r"},
                    "rules": [
                        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
                        {"apiGroups": ["*"], "resources": ["*/status"], "verbs": ["*"]},
                        {
                            "apiGroups": [""],
                            "resources": ["secrets"],
                            "resourceNames": ["s"],
                            "verbs": ["get"],
                        },
                    ],
                },
            ),
            post(
                f"{RBAC}/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "b"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                    "subjects": [
                        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "me"},
                        {"kind": "ServiceAccount", "name": "robot", "namespace": "$NS"},
                        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "us"},
                    ],
                },
            ),
            post(
                f"{RBAC}/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "broken"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
                    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "other"}],
                },
            ),
            *(_may(user, verb, **on) for user in ("me", "other") for verb, on in _WANTED),
            _may("system:serviceaccount:$NS:robot", "get", resource="pods", namespace="$NS"),
            _may("nobody", "get", groups=["us"], resource="pods", namespace="$NS"),
            _may("nobody", "get", groups=["system:authenticated"], path="/apis/x/y"),
            _may("nobody", "get", groups=["system:authenticated"], path="/metrics"),
            _may("nobody", "delete", groups=["system:masters"], resource="nodes"),
            post(f"{AUTHZ}/subjectaccessreviews", {"spec": {"user": "me"}}),
            post(f"{AUTHZ}/subjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get"}}}),
            post(f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {}}),
            post(f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {}}),
            post(
                f"{AUTHZ}/namespaces/$NS/localsubjectaccessreviews",
                {
                    "spec": {
                        "user": "me",
                        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "$NS"},
                    }
                },
            ),
            post(
                f"{AUTHZ}/namespaces/$NS/localsubjectaccessreviews",
                {"spec": {"user": "me", "resourceAttributes": {"verb": "get", "namespace": "other"}}},
            ),
            post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "nonsense"}}),
            post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}),
            post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
            get(f"{AUTHZ}/subjectaccessreviews"),
        ],
    ),
    Scenario(
        "access reviews answer for the administrator",
        [
            post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}},
                },
            ),
            post(
                "/api/v1/namespaces/$NS/serviceaccounts/none/token",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
            ),
            post(
                "/api/v1/namespaces/$NS/serviceaccounts/default/token",
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": 5},
                },
            ),
        ],
    ),
]
