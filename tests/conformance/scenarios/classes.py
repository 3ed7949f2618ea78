"""Classes, leases, nodes and revisions that cannot be."""

from __future__ import annotations

from ..transcript import Scenario
from .words import delete, patch, post

SCENARIOS = [
    Scenario(
        "classes, leases, nodes and revisions that cannot be",
        [
            post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "$NS"}}, dryRun="All"),
            post(
                "/apis/node.k8s.io/v1/runtimeclasses",
                {"metadata": {"name": "$NS"}, "handler": "Bad_"},
                dryRun="All",
            ),
            post(
                "/apis/node.k8s.io/v1/runtimeclasses",
                {"metadata": {"name": "$NS"}, "handler": "a.b"},
                dryRun="All",
            ),
            post(
                "/apis/node.k8s.io/v1/runtimeclasses",
                {"metadata": {"name": "$NS"}, "handler": "a", "overhead": {"podFixed": {"cpu": "x"}}},
                dryRun="All",
            ),
            post(
                "/apis/node.k8s.io/v1/runtimeclasses",
                {"metadata": {"name": "$NS"}, "handler": "a", "overhead": {"podFixed": {"cpu": "-1"}}},
                dryRun="All",
            ),
            post(
                "/apis/node.k8s.io/v1/runtimeclasses",
                {"metadata": {"name": "$NS"}, "handler": "a", "scheduling": {"nodeSelector": {"a b": "c"}}},
                dryRun="All",
            ),
            post(
                "/apis/node.k8s.io/v1/runtimeclasses",
                {
                    "metadata": {"name": "$NS"},
                    "handler": "a",
                    "scheduling": {"tolerations": [{"operator": "Odd"}]},
                },
                dryRun="All",
            ),
            post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "$NS"}, "handler": "a"}),
            patch("merge", "/apis/node.k8s.io/v1/runtimeclasses/$NS", {"handler": "b"}),
            delete("/apis/node.k8s.io/v1/runtimeclasses/$NS"),
            post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": "$NS"}, "value": 2000000000},
                dryRun="All",
            ),
            post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": "system-x"}, "value": 1},
                dryRun="All",
            ),
            post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": "$NS"}, "value": 1, "preemptionPolicy": "Odd"},
                dryRun="All",
            ),
            post(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": "$NS"}, "value": 5, "globalDefault": True},
                dryRun="All",
            ),
            post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "$NS"}, "value": 5}),
            patch("merge", "/apis/scheduling.k8s.io/v1/priorityclasses/$NS", {"value": 6}),
            patch("merge", "/apis/scheduling.k8s.io/v1/priorityclasses/$NS", {"preemptionPolicy": "Never"}),
            patch("merge", "/apis/scheduling.k8s.io/v1/priorityclasses/$NS", {"description": "d"}),
            delete("/apis/scheduling.k8s.io/v1/priorityclasses/$NS"),
            delete("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", dryRun="All"),
            patch(
                "merge",
                "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
                {"value": 6},
                dryRun="All",
            ),
            post(
                "/apis/coordination.k8s.io/v1/namespaces/$NS/leases",
                {"metadata": {"name": "x"}, "spec": {"leaseDurationSeconds": 0}},
                dryRun="All",
            ),
            post(
                "/apis/coordination.k8s.io/v1/namespaces/$NS/leases",
                {"metadata": {"name": "x"}, "spec": {"leaseDurationSeconds": -1, "leaseTransitions": -1}},
                dryRun="All",
            ),
            post(
                "/apis/coordination.k8s.io/v1/namespaces/$NS/leases",
                {"metadata": {"name": "x"}, "spec": {"acquireTime": "x"}},
                dryRun="All",
            ),
            post(
                "/apis/coordination.k8s.io/v1/namespaces/$NS/leases",
                {"metadata": {"name": "x"}, "spec": {"holderIdentity": ""}},
                dryRun="All",
            ),
            post("/api/v1/nodes", {"metadata": {"name": "Bad_"}}, dryRun="All"),
            post(
                "/api/v1/nodes",
                {"metadata": {"name": "$NS"}, "spec": {"taints": [{"key": "", "effect": ""}]}},
                dryRun="All",
            ),
            post(
                "/api/v1/nodes",
                {
                    "metadata": {"name": "$NS"},
                    "spec": {"taints": [{"key": "a", "value": "b c", "effect": "NoSchedule"}]},
                },
                dryRun="All",
            ),
            post(
                "/api/v1/nodes",
                {
                    "metadata": {"name": "$NS"},
                    "spec": {
                        "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]
                    },
                },
                dryRun="All",
            ),
            post(
                "/api/v1/nodes",
                {"metadata": {"name": "$NS"}, "status": {"capacity": {"cpu": "-1"}}},
                dryRun="All",
            ),
            post(
                "/api/v1/nodes",
                {"metadata": {"name": "$NS"}, "status": {"capacity": {"nvidia.com/gpu": "1.5"}}},
                dryRun="All",
            ),
            post(
                "/api/v1/nodes",
                {
                    "metadata": {"name": "$NS"},
                    "status": {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "4"}},
                },
                dryRun="All",
            ),
            post(
                "/api/v1/nodes", {"metadata": {"name": "$NS"}, "spec": {"unschedulable": True}}, dryRun="All"
            ),
            post(
                "/apis/apps/v1/namespaces/$NS/controllerrevisions", {"metadata": {"name": "x"}}, dryRun="All"
            ),
            post(
                "/apis/apps/v1/namespaces/$NS/controllerrevisions",
                {"metadata": {"name": "x"}, "revision": -1, "data": {"a": "b"}},
                dryRun="All",
            ),
            post(
                "/apis/apps/v1/namespaces/$NS/controllerrevisions",
                {"metadata": {"name": "x"}, "revision": 1},
                dryRun="All",
            ),
        ],
    ),
]
