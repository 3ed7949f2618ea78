"""What a server tells of itself, and what it says where there is nothing."""

from __future__ import annotations

from dataclasses import replace

from ..transcript import Ask, Scenario
from .words import POLICIES, get

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_GROUPS = {
    "apps",
    "apiextensions.k8s.io",
    "nvidia.com",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
}


def _told(path: str, accept: str = "application/json") -> Ask:
    return replace(get(path, accept), only_served=True)


def _asked(method: str, path: str, body: object = None, type: str = "json") -> Ask:
    return Ask(method, path, body, type=type)


SCENARIOS = [
    Scenario(
        "groups, versions and resources are told",
        [
            *(_told(path) for path in ("/api", "/api/", "/api/v1", "/apis")),
            *(_told(f"/apis/{group}") for group in sorted(_GROUPS)),
            *(_told(f"/apis/{group}/v1") for group in sorted(_GROUPS)),
            _told("/apis/gpuready.dev"),
            _told("/apis/gpuready.dev/v1alpha1"),
        ],
    ),
    Scenario(
        "everything is told at once to who asks for it",
        [
            *(_told(path, _AGGREGATED.format("v2")) for path in ("/api", "/apis")),
            *(get(path, _AGGREGATED.format("v2beta1")) for path in ("/api", "/apis")),
        ],
    ),
    Scenario(
        "how a server is, and one check of it",
        [
            *(get(f"/{kind}") for kind in ("healthz", "livez", "readyz")),
            *(
                get(f"/{kind}/{one}")
                for kind in ("healthz", "livez", "readyz")
                for one in ("ping", "etcd", "none")
            ),
            get("/readyz?exclude=etcd"),
            *(get(path) for path in ("/healthz/", "/healthzz")),
        ],
    ),
    Scenario(
        "there is nothing at a path, or not in this way",
        [
            *(
                get(path)
                for path in (
                    "/nope",
                    "/apis/none",
                    "/apis/none/v1",
                    "/apis/none/v1/things",
                    "/apis/apps/v9",
                    "/apis/apps/v9/deployments",
                    "/apis/apps/v1/nope",
                    "/apis/apps/v1/namespaces/$NS/nope",
                    "/apis/apps/v1/namespaces/$NS/deployments/x/y/z",
                    "/apis/nvidia.com/v9/clusterpolicies",
                    "/apis/nvidia.com/v1/namespaces/$NS/clusterpolicies",
                    "/api/v2",
                    "/api/v1/nope",
                    "/metrics/nope",
                    "/logs",
                    "/swagger.json",
                    "/openapi",
                    "/openapi/v3/",
                    "/openapi/v3/apis/none/v1",
                    "/apis/authentication.k8s.io/v1/tokenreviews",
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
                    f"{POLICIES}/a/b/c",
                )
            ),
            *(_asked("POST", path, {}) for path in ("/api", "/apis/apps/v1", "/nope")),
            _asked("PUT", "/version", {}),
            *(_asked("OPTIONS", path) for path in ("/api", "/api/v1/namespaces")),
            *(
                _asked("HEAD", path)
                for path in ("/api", "/version", "/nope", "/api/v1/namespaces", "/api/v1/namespaces/$NS")
            ),
            _asked("TRACE", "/api/v1/namespaces"),
            _asked("POST", "/api/v1/namespaces/$NS", {}),
            _asked("PUT", "/api/v1/namespaces", {}),
            _asked("POST", "/api/v1/namespaces/$NS/configmaps/x", {}),
            _asked("DELETE", "/api/v1/configmaps"),
            _asked("PUT", POLICIES, {}),
            _asked("PATCH", POLICIES, {}, "merge"),
            _asked("POST", f"{POLICIES}/x/status", {}),
            _asked("DELETE", f"{POLICIES}/x/status"),
            _asked("POST", "/apis/authentication.k8s.io/v1/tokenreviews/x", {}),
        ],
    ),
    Scenario(
        "what is told in a form that is not offered, and in YAML",
        [
            *(get(path, "application/xml") for path in ("/api", "/apis", "/version", "/openapi/v2")),
            get("/openapi/v3/apis/apps/v1", "application/xml"),
            get("/api", "application/yaml"),
            get("/apis/policy", "application/yaml"),
        ],
    ),
]
