"""Deletion: grace, finalizers, preconditions, options, namespaces."""

from ..transcript import Ask, Scenario
from .words import MAPS, PODS, Obj, config_map, delete, get, patch, pod, post, put

A = f"{MAPS}/a"
BUDGETS = "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets"


def _budget(name: str) -> Obj:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": spec,
    }


def _allows(name: str, allowed: int, *, healthy: int, desired: int) -> Ask:
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": healthy,
    }
    return patch("merge", f"{BUDGETS}/{name}/status", {"status": status})


def _ready(name: str) -> Ask:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return patch("strategic", f"{PODS}/{name}/status", {"status": status})


def _evict(name: str, uid: str = "", **params: str) -> Ask:
    options = {"gracePeriodSeconds": 0, **({"preconditions": {"uid": uid}} if uid else {})}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": options,
    }
    return post(f"{PODS}/{name}/eviction", body, **params)


SCENARIOS = [
    Scenario(
        "a finalizer keeps an object until it is removed",
        [
            post(MAPS, config_map("a", finalizers=["x.dev/keep"])),
            delete(A),
            delete(A),
            get(A),
            patch("merge", A, {"metadata": {"finalizers": ["x.dev/keep", "x.dev/more"]}}),
            patch("merge", A, {"data": {"still": "writable"}}),
            put(A, config_map("a", {"k": "1"}, finalizers=["x.dev/keep"])),
            post(MAPS, config_map("a")),
            patch("merge", A, {"metadata": {"finalizers": None}}),
            get(A),
        ],
    ),
    Scenario(
        "preconditions guard a deletion",
        [
            post(MAPS, config_map("a")),
            delete(A, {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            delete(A, {"preconditions": {"resourceVersion": "1"}}),
            delete(A, {"preconditions": {"uid": "$UID0", "resourceVersion": "$RV0"}}),
        ],
    ),
    Scenario(
        "a pod that was never scheduled goes at once",
        [post(PODS, pod("p")), delete(f"{PODS}/p"), get(f"{PODS}/p")],
    ),
    Scenario(
        "a pod on a node has time to end and the kubelet removes it",
        [
            post(PODS, pod("p", nodeName="nowhere", terminationGracePeriodSeconds=20)),
            delete(f"{PODS}/p"),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 5}),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 60}),
            get(f"{PODS}/p"),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0, "preconditions": {"uid": "$UID0"}}),
            get(f"{PODS}/p"),
        ],
    ),
    Scenario(
        "a deletion that has begun is made shorter only by who says so",
        [
            post(PODS, pod("p", nodeName="nowhere")),
            delete(f"{PODS}/p", dryRun="All"),
            delete(f"{PODS}/p"),
            _ready("p"),
            patch("strategic", f"{PODS}/p/status", {"status": {"phase": "Failed"}}),
            delete(f"{PODS}/p"),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0, "dryRun": ["All"]}),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 3}),
            delete(f"{PODS}/p", {"gracePeriodSeconds": 0}),
            get(f"{PODS}/p"),
        ],
    ),
    Scenario(
        "what deletion options may not say",
        [
            post(MAPS, config_map("a")),
            delete(A, {"propagationPolicy": "Sideways"}),
            delete(A, {"orphanDependents": True, "propagationPolicy": "Orphan"}),
            delete(A, {"gracePeriodSeconds": -1}),
            delete(A, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": "soon"}),
            delete(A, propagationPolicy="Foreground"),
            get(A),
        ],
    ),
    Scenario(
        "a collection is deleted by selector",
        [
            post(MAPS, config_map("a", labels={"x": "1"})),
            post(MAPS, config_map("b", labels={"x": "2"})),
            post(MAPS, config_map("c", labels={"x": "1"}, finalizers=["x.dev/keep"])),
            delete(MAPS, labelSelector="x=1"),
            get(MAPS, labelSelector="x"),
            patch("merge", f"{MAPS}/c", {"metadata": {"finalizers": None}}),
        ],
    ),
    Scenario(
        "an eviction asks the disruption budget",
        [
            post(PODS, pod("p", nodeName="nowhere", meta={"labels": {"app": "p"}})),
            post(BUDGETS, _budget("b")),
            _evict("p"),
            post(PODS, pod("q", nodeName="nowhere", meta={"labels": {"app": "p"}})),
            _ready("q"),
            _evict("q"),
            _allows("b", 0, healthy=1, desired=1),
            _evict("q"),
            _allows("b", 1, healthy=2, desired=1),
            _evict("q", dryRun="All"),
            _evict("q"),
            get(f"{BUDGETS}/b"),
            post(PODS, pod("r", nodeName="nowhere", meta={"labels": {"app": "p"}})),
            _ready("r"),
            _evict("r"),
            post(BUDGETS, _budget("c")),
            _evict("r"),
            delete(f"{BUDGETS}/b"),
            delete(f"{BUDGETS}/c"),
            _evict("r", uid="00000000-0000-0000-0000-000000000000"),
            _evict("r"),
        ],
    ),
    Scenario(
        "a pod is bound once and evicted on request",
        [
            post(PODS, pod("p")),
            post(
                f"{PODS}/p/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "p"},
                    "target": {"kind": "Node", "name": "n1"},
                },
            ),
            post(
                f"{PODS}/p/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "p"},
                    "target": {"kind": "Node", "name": "n2"},
                },
            ),
            get(f"{PODS}/p"),
            post(
                f"{PODS}/p/eviction",
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": "p"},
                    "deleteOptions": {"gracePeriodSeconds": 0},
                },
            ),
            get(f"{PODS}/p"),
            post(
                f"{PODS}/none/eviction",
                {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none"}},
            ),
        ],
    ),
]
