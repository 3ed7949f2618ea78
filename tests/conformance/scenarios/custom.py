"""Our own CRDs: what is pruned, defaulted, refused, and with which words."""

from ..transcript import Scenario
from .words import CRDS, GPU_NODES, POLICIES, apply, delete, get, gpu_node, patch, policy, post, put

P, N = f"{POLICIES}/$NS", f"{GPU_NODES}/$NS"

SCENARIOS = [
    Scenario(
        "an empty policy gets its defaults",
        [post(POLICIES, policy()), get(P), put(P, policy()), delete(P)],
    ),
    Scenario(
        "unknown fields of a policy are pruned or refused as asked",
        [
            post(POLICIES, policy({"nonsense": 1, "driver": {"nonsense": 2}}), fieldValidation="Ignore"),
            patch("merge", P, {"spec": {"driver": {"bogus": 1}}}, fieldValidation="Strict"),
            patch("merge", P, {"spec": {"driver": {"bogus": 1}}}, fieldValidation="Warn"),
            delete(P),
            post(POLICIES, policy({"nonsense": 1}), fieldValidation="Strict"),
        ],
    ),
    Scenario(
        "what is applied must be in the schema",
        [
            apply(P, policy({"nonsense": 1})),
            apply(P, policy({"driver": {"enabled": True, "nonsense": {"a": 1}}}), force="true"),
            apply(P, policy({"driver": {"enabled": "yes"}})),
            apply(P, policy({"driver": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}})),
            delete(P),
        ],
    ),
    Scenario(
        "a policy with wrong types is refused field by field",
        [
            post(POLICIES, policy({"driver": {"enabled": "yes"}})),
            post(POLICIES, policy({"driver": []})),
            post(POLICIES, policy([])),
            post(POLICIES, policy({"driver": {"enabled": None}})),
            post(POLICIES, policy({"devicePlugin": {"env": [{"value": "x"}]}})),
            post(POLICIES, policy({"daemonsets": {"updateStrategy": "Never"}})),
            post(POLICIES, policy({"mig": {"strategy": "double"}})),
            post(
                POLICIES,
                {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "$NS"}},
            ),
            delete(P),
            post(POLICIES, policy(name="Bad Name")),
        ],
    ),
    Scenario(
        "status is written through its subresource only",
        [
            post(POLICIES, {**policy(), "status": {"state": "ready"}}),
            patch(
                "merge", f"{P}/status", {"status": {"state": "ready"}, "spec": {"driver": {"enabled": False}}}
            ),
            patch("merge", f"{P}/status", {"status": {"state": "perhaps"}}),
            patch("merge", P, {"status": {"state": "notReady"}}),
            put(f"{P}/status", {**policy(), "status": {"state": "notReady", "namespace": "n"}}),
            patch("merge", P, {"spec": {"devicePlugin": {"enabled": False}}}),
            get(f"{P}/status"),
            delete(P),
        ],
    ),
    Scenario(
        "a GPU node tells its chain",
        [
            post(GPU_NODES, gpu_node({"driver": {"enabled": True}})),
            patch(
                "merge",
                f"{N}/status",
                {
                    "status": {
                        "gpus": 8,
                        "chain": [{"link": "driver", "state": "ok", "reason": "R", "message": "m"}],
                    }
                },
            ),
            patch("merge", f"{N}/status", {"status": {"gpus": "eight"}}),
            patch("merge", f"{N}/status", {"status": {"chain": [{"link": "driver"}]}}),
            patch("merge", f"{N}/status", {"status": {"unknown": 1}}),
            patch("jsonpatch", f"{N}/status", [{"op": "add", "path": "/status/healthy", "value": 7}]),
            get(N),
            get(N, "application/json;as=Table;v=v1;g=meta.k8s.io"),
            delete(N),
        ],
    ),
    Scenario(
        "a definition that cannot be served is refused",
        [
            post(
                CRDS,
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": "things.example.com"},
                    "spec": {
                        "group": "example.com",
                        "scope": "Namespaced",
                        "names": {"plural": "things", "kind": "Thing"},
                        "versions": [],
                    },
                },
            ),
            post(
                CRDS,
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": "wrong.example.com"},
                    "spec": {
                        "group": "example.com",
                        "scope": "Namespaced",
                        "names": {"plural": "things", "kind": "Thing"},
                        "versions": [
                            {
                                "name": "v1",
                                "served": True,
                                "storage": True,
                                "schema": {"openAPIV3Schema": {"type": "object"}},
                            }
                        ],
                    },
                },
            ),
            post(
                CRDS,
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": "things.example.com"},
                    "spec": {
                        "group": "example.com",
                        "scope": "Namespaced",
                        "names": {"plural": "things", "kind": "Thing"},
                        "versions": [
                            {
                                "name": "v1",
                                "served": True,
                                "storage": True,
                                "schema": {
                                    "openAPIV3Schema": {
                                        "type": "object",
                                        "properties": {
                                            "spec": {
                                                "type": "object",
                                                "properties": {"a": {"type": "strange"}},
                                            }
                                        },
                                    }
                                },
                            }
                        ],
                    },
                },
            ),
        ],
    ),
]
