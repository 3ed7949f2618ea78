"""Merge patches and JSON patches."""

from ..transcript import Scenario
from .words import DEPLOYMENTS, MAPS, PODS, config_map, delete, deployment, patch, pod, post

A = f"{MAPS}/a"

SCENARIOS = [
    Scenario(
        "a merge patch adds, changes and removes",
        [
            post(MAPS, config_map("a", {"k": "1", "l": "2"})),
            patch("merge", A, {"data": {"k": None, "m": "3"}, "metadata": {"labels": {"x": "y"}}}),
            patch("merge", A, {"data": {"m": "3"}}),
            patch("merge", A, {}),
            patch("merge", A, {"data": None}),
            patch("merge", A, {"metadata": {"labels": {"x": None}}}),
            patch("merge", A, {"metadata": {"resourceVersion": "$RV0"}, "data": {"k": "9"}}),
            patch("merge", A, {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            patch("merge", A, {"metadata": {"name": "b"}}),
            patch("merge", A, {"data": {"k": 1}}),
            patch("merge", A, {"data": {"k": "5"}}, fieldManager="bob"),
            patch("merge", A, [1]),
            patch("merge", f"{MAPS}/none", {"data": {}}),
        ],
    ),
    Scenario(
        "a merge patch replaces lists whole",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            patch(
                "merge",
                f"{DEPLOYMENTS}/d",
                {"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "x"}]}}}},
            ),
            patch("merge", f"{DEPLOYMENTS}/d", {"spec": {"template": {"spec": {"containers": None}}}}),
            patch("merge", f"{DEPLOYMENTS}/d", {"spec": {"replicas": "x"}}),
            patch("merge", f"{DEPLOYMENTS}/d", {"spec": {"selector": {"matchLabels": {"app": "e"}}}}),
            patch("merge", f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}}),
            delete(f"{DEPLOYMENTS}/d", propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "a JSON patch tests and changes in order, all or nothing",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            patch(
                "jsonpatch",
                A,
                [
                    {"op": "test", "path": "/data/k", "value": "1"},
                    {"op": "add", "path": "/data/l", "value": "2"},
                ],
            ),
            patch(
                "jsonpatch",
                A,
                [{"op": "test", "path": "/data/k", "value": "2"}, {"op": "remove", "path": "/data/k"}],
            ),
            patch("jsonpatch", A, [{"op": "remove", "path": "/data/none"}]),
            patch("jsonpatch", A, [{"op": "replace", "path": "/data/none", "value": "1"}]),
            patch("jsonpatch", A, [{"op": "add", "path": "/metadata/labels/x", "value": "1"}]),
            patch(
                "jsonpatch", A, [{"op": "add", "path": "/metadata/labels", "value": {"a/b": "1", "c~d": "2"}}]
            ),
            patch(
                "jsonpatch", A, [{"op": "add", "path": "/metadata/labels", "value": {"example.com/b": "1"}}]
            ),
            patch(
                "jsonpatch", A, [{"op": "replace", "path": "/metadata/labels/example.com~1b", "value": "2"}]
            ),
            patch(
                "jsonpatch",
                A,
                [
                    {"op": "move", "from": "/data/k", "path": "/data/m"},
                    {"op": "copy", "from": "/data/m", "path": "/data/n"},
                ],
            ),
            patch("jsonpatch", A, [{"op": "fly", "path": "/data"}]),
            patch("jsonpatch", A, {"op": "remove", "path": "/data"}),
            patch("jsonpatch", A, []),
            patch("jsonpatch", A, [{"op": "replace", "path": "/metadata/resourceVersion", "value": "$RV0"}]),
        ],
    ),
    Scenario(
        "finalizers and owners are patched one by one",
        [
            post(MAPS, config_map("a", finalizers=["x.dev/a", "x.dev/b"])),
            patch("jsonpatch", A, [{"op": "add", "path": "/metadata/finalizers/-", "value": "x.dev/c"}]),
            patch("jsonpatch", A, [{"op": "add", "path": "/metadata/finalizers/0", "value": "x.dev/0"}]),
            patch("jsonpatch", A, [{"op": "remove", "path": "/metadata/finalizers/9"}]),
            patch("merge", A, {"metadata": {"finalizers": ["bad name"]}}),
            patch("merge", A, {"metadata": {"finalizers": ["noslash"]}}),
            patch("merge", A, {"metadata": {"ownerReferences": [{"name": "x"}]}}),
            patch("merge", A, {"metadata": {"finalizers": None}}),
        ],
    ),
    Scenario(
        "of a pod only a few fields may change",
        [
            post(PODS, pod("p")),
            patch("merge", f"{PODS}/p", {"spec": {"nodeName": "n"}}),
            patch("strategic", f"{PODS}/p", {"spec": {"containers": [{"name": "main", "image": "other"}]}}),
            patch("merge", f"{PODS}/p", {"spec": {"hostNetwork": True}}),
            patch("merge", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
            patch("merge", f"{PODS}/p/status", {"status": {"phase": "Running", "podIP": "127.0.0.9"}}),
            delete(f"{PODS}/p", gracePeriodSeconds="0"),
        ],
    ),
]
