"""How lists and watches are asked for: versions, pages, streams, and the forms of their answers."""

from __future__ import annotations

from ..transcript import Ask, Scenario
from .words import GPU_NODES, MAPS, PODS, config_map, delete, get, gpu_node, post

A = f"{MAPS}/a"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_OLD_TABLE = TABLE.replace("v=v1;", "v=v1beta1;")
_TOKENS = {
    "no base64": "a=",
    "cut": "x",
    "no JSON": "ab",
    "no version": "e30",
    "another version": "eyJ2IjoieCJ9",
    "no resourceVersion": "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "no start": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
    "a way up": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYi8uLi9hIn0",
    "of any version": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYiJ9",
}


def _list(**params: str) -> Ask:
    return get(MAPS, PARTIAL_LIST, labelSelector="p", **params)


def _watch(path: str = MAPS, accept: str = "application/json", **params: str) -> Ask:
    """For a second; of none where nothing else is said, so that the answer is empty."""
    chosen = {"labelSelector": "none"} if path == MAPS else {}
    return get(path, accept, **{"watch": "true", "timeoutSeconds": "1", **chosen, **params})


def _three() -> list[Ask]:
    return [post(MAPS, config_map(name, labels={"p": "1"})) for name in "abc"]


SCENARIOS = [
    Scenario(
        "a list of any version ignores its limit, and all contradictions of a list are told",
        [
            *_three(),
            _list(resourceVersion="0", limit="1"),
            _list(resourceVersion="0", resourceVersionMatch="NotOlderThan", limit="1"),
            _list(resourceVersion="$RV1", limit="1"),
            _list(resourceVersion="$RV1", resourceVersionMatch="NotOlderThan", limit="1"),
            _list(limit="3"),
            *(
                _list(resourceVersionMatch=match, **version)
                for match in ("exact", "Exact")
                for version in ({}, {"resourceVersion": "x"}, {"continue": "x"}, {"resourceVersion": "0"})
            ),
            _list(resourceVersionMatch="NotOlderThan", sendInitialEvents="true"),
            _list(timeoutSeconds="x"),
            _list(**{"continue": "x"}, resourceVersion="5"),
            get(A, resourceVersion="x"),
            get(f"{MAPS}/none", resourceVersion="x"),
        ],
    ),
    Scenario(
        "where a list goes on is read from its token, or why it cannot be",
        [*_three(), *(_list(**{"continue": token}) for token in _TOKENS.values())],
    ),
    Scenario(
        "lists over all namespaces are sorted as in etcd",
        [
            post("/api/v1/namespaces", {"metadata": {"name": "$NS-b"}}),
            *(
                post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("a", labels={"of": "$NS"}))
                for namespace in ("$NS", "$NS-b")
            ),
            get("/api/v1/configmaps", PARTIAL_LIST, labelSelector="of=$NS"),
            delete("/api/v1/namespaces/$NS-b"),
        ],
    ),
    Scenario(
        "how a watch may be asked for",
        [
            post(MAPS, config_map("a", labels={"p": "1"})),
            *(_watch(watch=word) for word in ("1", "f", "maybe", "")),
            get(MAPS, PARTIAL_LIST, labelSelector="p", watch="False"),
            _watch(resourceVersion="x"),
            _watch(resourceVersionMatch="Exact"),
            _watch(resourceVersionMatch="Exact", sendInitialEvents="true"),
            _watch(**{"continue": "x"}),
            _watch(**{"continue": "x"}, resourceVersion="$RV0"),
            _watch(A),
            _watch(f"{MAPS}/none"),
            _watch(f"{PODS}/none/status"),
            *(
                get(path, timeoutSeconds="1")
                for path in (
                    "/api/v1/watch/namespaces/$NS/configmaps?labelSelector=p",
                    "/api/v1/watch/namespaces/$NS/configmaps/a",
                    "/api/v1/watch/nodes?labelSelector=none",
                )
            ),
        ],
    ),
    Scenario(
        "a bookmark ends what a watch begins with",
        [
            *(
                _watch(accept=accept, allowWatchBookmarks="true")
                for accept in ("application/json", TABLE, PARTIAL)
            ),
            _watch(GPU_NODES, labelSelector="none", allowWatchBookmarks="true"),
            _watch(
                allowWatchBookmarks="true", resourceVersionMatch="NotOlderThan", sendInitialEvents="false"
            ),
            post(MAPS, config_map("a")),
            _watch(allowWatchBookmarks="true", resourceVersion="$RV5", timeoutSeconds="2"),
        ],
    ),
    Scenario(
        "what a client accepts",
        [
            post(MAPS, config_map("a", labels={"p": "1", "number": "1", "word": "yes"})),
            post(GPU_NODES, gpu_node()),
            *(
                get(path, accept)
                for path in (A, f"{GPU_NODES}/$NS", f"{MAPS}?labelSelector=p")
                for accept in (
                    *("application/*", "APPLICATION/JSON", "x", "application/json;q=0"),
                    *("text/html,application/json;q=0.5", "application/json;stream=odd"),
                    *("application/json;as=Odd;v=v1;g=meta.k8s.io", "application/json;as=Table"),
                    *(_OLD_TABLE, _OLD_TABLE.replace("Table", "PartialObjectMetadata")),
                )
            ),
            *(get(path, PARTIAL) for path in (MAPS, GPU_NODES)),
            *(get(path, PARTIAL_LIST) for path in (A, f"{GPU_NODES}/$NS")),
            get(A, TABLE, includeObject="Nonsense"),
            get(A, includeObject="Nonsense"),
            *(
                _watch(accept=accept)
                for accept in ("application/yaml", "text/html", "application/json;stream=odd")
            ),
            get(f"{MAPS}/none", "application/yaml"),
            Ask("DELETE", MAPS, accept=PARTIAL, params={"labelSelector": "p"}),
            delete(f"{GPU_NODES}/$NS"),
        ],
    ),
]
