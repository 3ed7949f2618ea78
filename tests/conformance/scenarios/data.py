"""Secrets, ConfigMaps and service accounts that cannot be."""

from __future__ import annotations

from ..transcript import Scenario
from .words import get, patch, post

SCENARIOS = [
    Scenario(
        "secrets, maps and accounts that cannot be",
        [
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "type": "kubernetes.io/tls"},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "type": "kubernetes.io/dockerconfigjson"},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {
                    "metadata": {"name": "x"},
                    "type": "kubernetes.io/dockerconfigjson",
                    "data": {".dockerconfigjson": "e30="},
                },
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {
                    "metadata": {"name": "x"},
                    "type": "kubernetes.io/dockerconfigjson",
                    "data": {".dockerconfigjson": "eA=="},
                },
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "type": "kubernetes.io/dockercfg"},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "type": "kubernetes.io/basic-auth"},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "type": "kubernetes.io/ssh-auth"},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "type": "kubernetes.io/service-account-token"},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {
                    "metadata": {
                        "name": "x",
                        "annotations": {"kubernetes.io/service-account.name": "default"},
                    },
                    "type": "kubernetes.io/service-account-token",
                },
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {
                    "metadata": {"name": "x", "annotations": {"kubernetes.io/service-account.name": "none"}},
                    "type": "kubernetes.io/service-account-token",
                },
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "stringData": {"bad key": "x"}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "data": {"a": "!!"}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "type": "bootstrap.kubernetes.io/token"},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "data": {"a": "eA=="}, "stringData": {"a": "y"}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "data": {"..": "eA=="}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "x"}, "data": {"..x": "eA=="}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/configmaps",
                {"metadata": {"name": "x"}, "data": {"a": "1"}, "binaryData": {"a": "eA=="}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/configmaps",
                {"metadata": {"name": "x"}, "binaryData": {"a b": "eA=="}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/configmaps",
                {"metadata": {"name": "x"}, "data": {"..": "x"}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/configmaps",
                {"metadata": {"name": "x"}, "data": {".": "x"}},
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/configmaps",
                {
                    "metadata": {"name": "x"},
                    "data": {"a" * 254: "x"},
                },
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/configmaps",
                {"metadata": {"name": "x"}, "data": {"": "x"}},
                dryRun="All",
            ),
            post("/api/v1/namespaces/$NS/serviceaccounts", {"metadata": {"name": "Bad_"}}, dryRun="All"),
            post(
                "/api/v1/namespaces/$NS/serviceaccounts",
                {
                    "metadata": {"name": "x"},
                    "secrets": [{"name": "a"}],
                    "imagePullSecrets": [{"name": "b"}],
                    "automountServiceAccountToken": False,
                },
                dryRun="All",
            ),
            post(
                "/api/v1/namespaces/$NS/secrets",
                {"metadata": {"name": "a"}, "type": "Opaque", "stringData": {"k": "v"}},
            ),
            patch("merge", "/api/v1/namespaces/$NS/secrets/a", {"type": "other"}),
            patch("merge", "/api/v1/namespaces/$NS/secrets/a", {"stringData": {"l": "w"}}),
            patch("merge", "/api/v1/namespaces/$NS/secrets/a", {"data": {"k": None}}),
            get("/api/v1/namespaces/$NS/secrets/a"),
        ],
    ),
]
