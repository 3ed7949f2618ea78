"""The life of a namespace: what it waits for, who may end it, and what may be done in one that ends."""

from __future__ import annotations

from typing import Any

from ..transcript import Scenario
from .words import apply, config_map, delete, deployment, get, patch, pod, post, put

NAMESPACES = "/api/v1/namespaces"
B = f"{NAMESPACES}/$NS-b"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def _named(name: str = "$NS-b", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def _finalizers(*names: str) -> dict[str, Any]:
    return {"spec": {"finalizers": list(names)}}


SCENARIOS = [
    Scenario(
        "a namespace waits for its content, and only its own path changes what it waits for",
        [
            post(NAMESPACES, _named()),
            get(NAMESPACES + "/$NS"),
            patch("merge", B, {"metadata": {"labels": {"kubernetes.io/metadata.name": "x", "a": "b"}}}),
            patch("merge", B, {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}}),
            patch("merge", B, _finalizers()),
            patch("merge", f"{B}/status", {"status": {"phase": "Terminating"}}),
            patch("merge", f"{B}/status", {"status": {"phase": "Odd"}}),
            put(f"{B}/finalize", _named(**_finalizers("bad"))),
            put(f"{B}/finalize", _named("other")),
            put(f"{B}/finalize", _named(**_finalizers("x.dev/a", "kubernetes"))),
            get(f"{B}/finalize"),
            put(f"{NAMESPACES}/$NS-none/finalize", _named("$NS-none")),
            post(NAMESPACES, _named("a" * 64), dryRun="All"),
            post(NAMESPACES, _named("a.b"), dryRun="All"),
            post(NAMESPACES, _named("$NS-c", **_finalizers("odd")), dryRun="All"),
            post(NAMESPACES, _named("$NS-c", **_finalizers("x.dev/a")), dryRun="All"),
            post(NAMESPACES, _named("$NS-c", status={"phase": "Odd"}), dryRun="All"),
            apply(B, {"apiVersion": "v1", "kind": "Namespace", **_named()}),
            delete(B, dryRun="All"),
            delete(B, {"preconditions": {"uid": "x"}}),
            post(f"{B}/configmaps", config_map("keep", finalizers=["x.dev/keep"])),
            delete(B),
            post(f"{B}/configmaps", config_map("late")),
            post(f"{B}/configmaps", config_map("late"), dryRun="All"),
            apply(f"{B}/configmaps/late", config_map("late")),
        ],
    ),
    Scenario(
        "what every cluster keeps is not deleted, and namespaces not all at once",
        [
            *(
                delete(f"{NAMESPACES}/{name}", dryRun="All")
                for name in ("default", "kube-system", "kube-public")
            ),
            delete(NAMESPACES),
            delete(f"{NAMESPACES}/$NS-none"),
            delete(f"{CLASSES}/system-node-critical", dryRun="All"),
            *(
                post(f"{NAMESPACES}/$NS-none/{path}", body, **params)
                for path, body in (("pods", pod("p")), ("configmaps", config_map("c")))
                for params in ({}, {"dryRun": "All"})
            ),
            post("/apis/apps/v1/namespaces/$NS-none/deployments", deployment("d")),
            apply(f"{NAMESPACES}/$NS-none/configmaps/c", config_map("c")),
            get(f"{NAMESPACES}/$NS-none/configmaps/c"),
            delete(f"{NAMESPACES}/$NS-none/configmaps"),
        ],
    ),
]
