"""Deletion: grace, finalizers, preconditions, options, namespaces."""

from ..transcript import Scenario
from .words import MAPS, PODS, config_map, delete, get, patch, pod, post, put

A = f"{MAPS}/a"

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
