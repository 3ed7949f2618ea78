"""Roles and bindings that cannot be."""

from __future__ import annotations

from ..transcript import Scenario
from .words import get, patch, post

SCENARIOS = [
    Scenario(
        "roles and bindings that cannot be",
        [
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/roles",
                {"metadata": {"name": "x"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/roles",
                {
                    "metadata": {"name": "x"},
                    "rules": [
                        {
                            "verbs": ["get"],
                            "apiGroups": [""],
                            "resources": ["pods"],
                            "nonResourceURLs": ["/x"],
                        }
                    ],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {
                    "metadata": {"name": "$NS"},
                    "rules": [
                        {
                            "verbs": ["get"],
                            "apiGroups": [""],
                            "resources": ["pods"],
                            "nonResourceURLs": ["/x"],
                        }
                    ],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {
                    "metadata": {"name": "$NS"},
                    "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"], "resourceNames": ["a"]}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {"metadata": {"name": "$NS"}, "rules": [{}]},
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {"metadata": {"name": "$NS"}, "aggregationRule": {}},
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "a/b"}}, dryRun="All"
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "a%b"}}, dryRun="All"
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": ".."}}, dryRun="All"
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {"metadata": {"name": "x"}, "roleRef": {}, "subjects": []},
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {"metadata": {"name": "x"}, "roleRef": {"kind": "Role", "name": "a"}, "subjects": []},
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
                    "subjects": [],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {"apiGroup": "x", "kind": "Role", "name": "a"},
                    "subjects": [],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Odd", "name": ""},
                    "subjects": [],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "view",
                    },
                    "subjects": [{}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "view",
                    },
                    "subjects": [{"kind": "ServiceAccount", "name": "a"}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "view",
                    },
                    "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "b", "apiGroup": "x"}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "view",
                    },
                    "subjects": [{"kind": "ServiceAccount", "name": "Bad_", "namespace": "b"}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "view",
                    },
                    "subjects": [{"kind": "User", "name": "a", "namespace": "b"}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "view",
                    },
                    "subjects": [{"kind": "Odd", "name": "a"}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "x"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "a/b",
                    },
                    "subjects": [{"kind": "Group", "name": "", "apiGroup": "x"}],
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                {
                    "metadata": {"name": "$NS"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                {
                    "metadata": {"name": "$NS"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "none",
                    },
                },
                dryRun="All",
            ),
            post(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
                {
                    "metadata": {"name": "b"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "view",
                    },
                    "subjects": [{"kind": "User", "name": "u"}],
                },
            ),
            patch(
                "merge",
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings/b",
                {"roleRef": {"name": "edit"}},
            ),
            patch(
                "strategic",
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings/b",
                {"subjects": [{"kind": "Group", "name": "g"}]},
            ),
            get(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings/b",
                "application/json;as=Table;v=v1;g=meta.k8s.io",
            ),
        ],
    ),
]
