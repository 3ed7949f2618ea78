"""The roles and bindings that every cluster has from its beginning. A table, nothing else.

Those that clients and charts lean on; a real server has more, for its own controllers.

Source: kubernetes, plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuready_sim.apiserver.failures import Obj
from gpuready_sim.apiserver.rbac import GROUP

AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_WORKLOADS = ["daemonsets", "deployments", "replicasets", "statefulsets"]


def roles() -> Iterator[Obj]:
    """ClusterRoles, those that others are put together from first."""
    for target, rules in _PARTS.items():
        yield _role(f"system:aggregate-to-{target}", rules, labels={AGGREGATED + target: "true"})
    for name, rules in _WHOLE.items():
        yield _role(name, rules)
    for name, above in (("admin", ""), ("edit", "admin"), ("view", "edit")):
        labels = {AGGREGATED + above: "true"} if above else {}
        yield _role(name, [], labels=labels, gathers=name)


def bindings() -> Iterator[Obj]:
    for name, groups in _BOUND.items():
        yield _head(name) | {
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
        }


def _role(name: str, rules: list[Obj], *, labels: Obj | None = None, gathers: str = "") -> Obj:
    role = _head(name, labels or {}) | {"rules": rules}
    if gathers:
        selector = {"matchLabels": {AGGREGATED + gathers: "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _head(name: str, labels: Obj | None = None) -> Obj:
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        }
    }


def _rule(groups: str, resources: list[str], verbs: list[str]) -> Obj:
    """`groups` are parted by blanks; "core" is the group without a name."""
    names = ["" if group == "core" else group for group in groups.split()]
    return {"apiGroups": names, "resources": resources, "verbs": verbs}


def _paths(*paths: str) -> Obj:
    return {"nonResourceURLs": list(paths), "verbs": ["get"]}


_CLAIMS = ["resourceclaims", "resourceclaimtemplates"]
_CORE_READ = [
    "bindings",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumeclaims/status",
    "pods",
    "pods/log",
    "pods/status",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "replicationcontrollers/status",
    "resourcequotas",
    "resourcequotas/status",
    "serviceaccounts",
    "services",
    "services/status",
]
_APPS_READ = [
    "controllerrevisions",
    *(name for one in _WORKLOADS for name in (one, f"{one}/status")),
    *(f"{one}/scale" for one in _WORKLOADS[1:]),
]
_PARTS: dict[str, list[Obj]] = {
    "view": [
        _rule("core", _CORE_READ, _READ),
        _rule("apps", _APPS_READ, _READ),
        _rule("batch", ["cronjobs", "cronjobs/status", "jobs", "jobs/status"], _READ),
        _rule("policy", ["poddisruptionbudgets", "poddisruptionbudgets/status"], _READ),
        _rule("networking.k8s.io", ["networkpolicies"], _READ),
        _rule("discovery.k8s.io", ["endpointslices"], _READ),
        _rule("resource.k8s.io", [*_CLAIMS, "resourceclaims/status"], _READ),
    ],
    "edit": [
        _rule(
            "core", ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"], _READ
        ),
        _rule("core", ["secrets"], _READ),
        _rule("core", ["serviceaccounts"], ["impersonate"]),
        _rule("core", ["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], _WRITE),
        _rule("core", ["pods/eviction"], ["create"]),
        _rule(
            "core",
            [
                "configmaps",
                "events",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
            _WRITE,
        ),
        _rule("core", ["serviceaccounts/token"], ["create"]),
        _rule("apps", [*_WORKLOADS, *(f"{one}/scale" for one in _WORKLOADS[1:])], _WRITE),
        _rule("apps", ["deployments/rollback"], _WRITE),
        _rule("batch", ["cronjobs", "jobs"], _WRITE),
        _rule("policy", ["poddisruptionbudgets"], _WRITE),
        _rule("networking.k8s.io", ["networkpolicies"], _WRITE),
        _rule("coordination.k8s.io", ["leases"], [*_WRITE, *_READ]),
        _rule("resource.k8s.io", _CLAIMS, _WRITE),
    ],
    "admin": [
        _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
        _rule(GROUP, ["rolebindings", "roles"], [*_WRITE, *_READ]),
    ],
}
_WHOLE: dict[str, list[Obj]] = {
    "cluster-admin": [_rule("*", ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}],
    "system:basic-user": [
        _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
        _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
    ],
    "system:discovery": [
        _paths(
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        )
    ],
    "system:public-info-viewer": [_paths("/healthz", "/livez", "/readyz", "/version", "/version/")],
    "system:monitoring": [
        _paths("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*"),
        _paths("/metrics", "/metrics/slis"),
    ],
    "system:auth-delegator": [
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ],
    "system:node": [
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("authorization.k8s.io", ["localsubjectaccessreviews", "subjectaccessreviews"], ["create"]),
        _rule("core", ["services"], _READ),
        _rule("core", ["nodes"], ["create", *_READ]),
        _rule("core", ["nodes/status"], ["patch", "update"]),
        _rule("core", ["nodes"], ["patch", "update"]),
        _rule("core", ["events"], ["create", "patch", "update"]),
        _rule("core", ["pods"], _READ),
        _rule("core", ["pods"], ["create", "delete"]),
        _rule("core", ["pods/status"], ["patch", "update"]),
        _rule("core", ["pods/eviction"], ["create"]),
        _rule("core", ["configmaps", "secrets"], _READ),
        _rule("core", ["persistentvolumeclaims", "persistentvolumes"], ["get"]),
        _rule("core", ["serviceaccounts/token"], ["create"]),
        _rule("core", ["serviceaccounts"], ["get"]),
        _rule("coordination.k8s.io", ["leases"], ["create", "delete", "get", "patch", "update"]),
        _rule("node.k8s.io", ["runtimeclasses"], _READ),
        _rule("resource.k8s.io", ["resourceclaims"], ["get"]),
        _rule("resource.k8s.io", ["resourceslices"], [*_WRITE, *_READ]),
    ],
}
_BOUND = {
    "cluster-admin": ["system:masters"],
    "system:basic-user": ["system:authenticated"],
    "system:discovery": ["system:authenticated"],
    "system:monitoring": ["system:monitoring"],
    "system:public-info-viewer": ["system:authenticated", "system:unauthenticated"],
}
