"""Corners of the API that clients seldom reach, and servers must know: found by asking both, side by side."""

from __future__ import annotations

from typing import Any

from ..transcript import Ask, Scenario
from .words import (
    MAPS,
    PODS,
    config_map,
    delete,
    get,
    patch,
    pod,
    post,
)

A = f"{MAPS}/a"
BUDGETS = "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets"
EVENTS = "/api/v1/namespaces/$NS/events"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_NOT_THE_CA = "metadata.name!=kube-root-ca.crt"


def _operations(*operations: object, **params: str) -> Ask:
    return patch("jsonpatch", A, list(operations), **params)


def _at(op: str, path: object, *value: object, **more: object) -> dict[str, object]:
    return {"op": op, "path": path, **more, **({"value": value[0]} if value else {})}


def _whole(data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def _finalizer(index: str) -> str:
    return f"/metadata/finalizers/{index}"


def _budget(name: str = "b", **spec: object) -> Ask:
    return post(BUDGETS, {"metadata": {"name": name}, "spec": spec})


def _labelled(selector: str) -> Ask:
    return get(MAPS, PARTIAL_LIST, labelSelector=selector, fieldSelector=_NOT_THE_CA)


SCENARIOS = [
    Scenario(
        "what stands before the first slash of a JSON pointer is passed over",
        [
            post(MAPS, config_map("a", {"k": "1"}, annotations={"a/b": "1"})),
            _operations(_at("add", "/metadata/annotations/x.y~1z", "1")),
            _operations(_at("add", "/metadata/annotations/x~01y", "1")),
            _operations(_at("add", "/metadata/annotations/x~2y", "1")),
            _operations(_at("remove", "/metadata/annotations/a~1b")),
            _operations(_at("add", "data/k", "1")),
            _operations(_at("add", "nonsense/data/l", "1")),
            _operations(_at("add", "k", "1")),
            _operations(_at("add", "/", "1")),
            _operations(_at("add", "/data/", "1")),
        ],
    ),
    Scenario(
        "a JSON patch of the whole document, and operations that lack a part",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            _operations(_at("add", "", _whole({"new": "1"}))),
            _operations(_at("replace", "", _whole({"newer": "1"}))),
            _operations(_at("remove", "")),
            _operations(_at("test", "", None)),
            _operations(_at("add", "/data/q")),
            _operations({"op": "add", "value": "1"}),
            _operations({"path": "/data/q", "value": "1"}),
            _operations(_at("move", "/data/q")),
            _operations(_at("copy", "/data/q")),
            _operations(_at("move", "/data/k", **{"from": "/data"})),
            _operations(_at("move", "/data/newer", **{"from": "/data/newer"})),
            _operations(_at("ADD", "/data/k", "1")),
            _operations(_at("add", 5, "1")),
            _operations({"op": 5, "path": "/data/k", "value": "1"}),
            _operations(_at("copy", "/data/k", **{"from": 5})),
            _operations(None),
            _operations("x"),
        ],
    ),
    Scenario(
        "a test for null passes only where one key is missing",
        [
            post(MAPS, config_map("a", {"k": "1"}, finalizers=["x.dev/a"])),
            _operations(_at("test", "/data/none", None)),
            _operations(_at("test", "/data/none")),
            _operations(_at("test", "/none/none", None)),
            _operations(_at("test", _finalizer("9"), None)),
            _operations(_at("test", _finalizer("-"), "x.dev/a")),
            _operations(_at("test", "/data", {"k": "1"})),
            _operations(_at("test", "/data", {"k": 1})),
        ],
    ),
    Scenario(
        "the index of a list is a number as Go reads it",
        [
            post(MAPS, config_map("a", finalizers=["x.dev/a", "x.dev/b"])),
            _operations(_at("add", _finalizer("2"), "x.dev/c")),
            _operations(_at("add", _finalizer("4"), "x.dev/d")),
            _operations(_at("add", _finalizer("-1"), "x.dev/d")),
            _operations(_at("replace", _finalizer("-1"), "x.dev/e")),
            _operations(_at("remove", _finalizer("-1"))),
            _operations(_at("remove", _finalizer("-9"))),
            _operations(_at("remove", _finalizer("-"))),
            _operations(_at("add", _finalizer("01"), "x.dev/o")),
            _operations(_at("add", _finalizer("+1"), "x.dev/p")),
            _operations(_at("add", _finalizer("1.0"), "x.dev/q")),
            _operations(_at("copy", _finalizer("-"), **{"from": _finalizer("0")})),
            _operations(_at("move", _finalizer("1"), **{"from": _finalizer("0")})),
            _operations(_at("add", _finalizer("0/x"), "1")),
            _operations(_at("add", "/metadata/finalizers", None)),
        ],
    ),
    Scenario(
        "what a patch may make of an object's identity",
        [
            post(MAPS, config_map("a", {"k": "1"}, labels={"a": "b"})),
            *(
                patch("merge", A, {"metadata": meta})
                for meta in (
                    None,
                    {"name": None},
                    {"namespace": None},
                    {"namespace": "other"},
                    {"uid": None},
                    {"resourceVersion": None},
                    {"resourceVersion": ""},
                    {"resourceVersion": "0", "labels": {"zero": "1"}},
                    {"resourceVersion": "abc"},
                    {"creationTimestamp": None},
                    {"deletionTimestamp": "2020-01-01T00:00:00Z"},
                    {"deletionGracePeriodSeconds": 5},
                    {"generation": 5},
                )
            ),
            patch("merge", A, {"apiVersion": None}),
            patch("merge", A, {"kind": None}),
        ],
    ),
    Scenario(
        "what the query of a write may say",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            patch("merge", A, {"data": {"x": "1"}}, dryRun=""),
            patch("merge", A, {"data": {"x": "1"}}, dryRun="Some"),
            patch("merge", A, {"data": {"x": "1"}}, fieldManager="a" * 129),
            patch("merge", A, {"data": {"x": "1"}}, fieldManager="tab\t"),
            post(MAPS, config_map("b"), fieldManager="tab\t"),
            patch("merge", A, {"data": {"x": "1"}}, force="true"),
            patch("merge", A, {"data": {"x": "1"}}, fieldValidation="Nope"),
        ],
    ),
    Scenario(
        "a field that is said twice is refused where that is asked for",
        [
            Ask("POST", MAPS, '{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}'),
            Ask(
                "POST",
                MAPS,
                '{"metadata":{"name":"b","name":"c"},"data":{"k":"1","k":"2"}}',
                params={"fieldValidation": "Strict"},
            ),
            Ask("PATCH", A, '{"data":{"x":"5","x":"6"}}', type="merge"),
            Ask(
                "PATCH",
                A,
                '{"data":{"x":"5","x":"6"}}',
                type="merge",
                params={"fieldValidation": "Strict"},
            ),
        ],
    ),
    Scenario(
        "options of a deletion are read from the body, and from the query where there is none",
        [
            post(MAPS, config_map("a")),
            delete(A, {"dryRun": ["Some"]}),
            delete(A, dryRun="Some"),
            delete(A, dryRun=""),
            delete(A, gracePeriodSeconds="x"),
            delete(A, {"preconditions": "x"}),
            delete(A, {"kind": "Other", "apiVersion": "v1"}),
            delete(A, {"kind": "Pod", "apiVersion": "v1"}),
            delete(A, {"kind": "DeleteOptions", "apiVersion": "apps/v1", "dryRun": ["All"]}),
            delete(A, {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}),
            delete(A, dryRun="All"),
            delete(A, {"unknown": 1}, dryRun="All"),
            get(A),
        ],
    ),
    Scenario(
        "label selectors at their corners",
        [
            post(MAPS, config_map("a", labels={"x": "1", "n": "5", "e": ""})),
            post(MAPS, config_map("b", labels={"x": "2", "n": "10", "a.b/c": "v"})),
            post(MAPS, config_map("c")),
            *(
                _labelled(selector)
                for selector in (
                    *("x in (1, 2 )", "x notin (1,2)", "n>5", "n<10", "n>4,n<6", "a.b/c in (v,w),x"),
                    *("x in ()", "x in (1,)", "x in (,1)", "x in 1", "x notin", "in in (in)", "notin"),
                    *("e=", "e!=", "x=1,,", "x=1,", ",x=1", " ", "x  in  (1)", "x===1", "!x=1", "!!x", "!"),
                    *("x=1 2", "a/b/c=1", "/c=1", "a.b/=1", "x=" + "a" * 64, "k" * 64 + "=1", "x=1,x=2"),
                    *("x>a", "x<", "x>1.5", "x>-1", "=", "(x)", "x=1)"),
                )
            ),
            get(MAPS, PARTIAL_LIST, fieldSelector="metadata.name=a=b"),
            get(MAPS, PARTIAL_LIST, fieldSelector="metadata.name=a\\,b"),
            get(PODS, PARTIAL_LIST, fieldSelector="spec.hostNetwork=true"),
            get(PODS, PARTIAL_LIST, fieldSelector="status.podIPs=x"),
            get("/apis/apps/v1/namespaces/$NS/replicasets", fieldSelector="status.replicas=0"),
        ],
    ),
    Scenario(
        "a disruption budget that cannot be",
        [
            _budget(minAvailable=1, maxUnavailable=1),
            _budget(minAvailable=-1),
            _budget(minAvailable="x%"),
            _budget(maxUnavailable="101%"),
            _budget(minAvailable=1, selector={"matchLabels": {"bad key": "x"}}),
            _budget(minAvailable=1, selector={"matchExpressions": [{"key": "a", "operator": "Odd"}]}),
            _budget(minAvailable=1, selector={}, unhealthyPodEvictionPolicy="Odd"),
            _budget(maxUnavailable="0%", selector={}),
        ],
    ),
    Scenario(
        "an eviction and a binding are about the pod of their path",
        [
            post(PODS, pod("p")),
            post(f"{PODS}/p/eviction", {"metadata": {"name": "other"}}),
            post(f"{PODS}/p/eviction", {"metadata": {"name": "p", "namespace": "x"}}),
            post(f"{PODS}/p/eviction", {}),
            post(f"{PODS}/p/eviction", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
            post(f"{PODS}/p/binding", {"metadata": {"name": "other"}, "target": {"name": "n"}}),
            post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n"}}),
            get(f"{PODS}/p"),
        ],
    ),
    Scenario(
        "an event belongs to its writer as far as it says something, and owns nothing",
        [
            post(
                EVENTS,
                {
                    "metadata": {"name": "e"},
                    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$NS"},
                    "reason": "R",
                    "message": "m",
                    "type": "Normal",
                },
            ),
            patch("strategic", f"{EVENTS}/e", {"count": 2}),
            get(f"{EVENTS}/e"),
            *(
                post(
                    MAPS,
                    config_map(
                        "a", ownerReferences=[{"apiVersion": version, "kind": kind, "name": "e", "uid": "u"}]
                    ),
                )
                for version, kind in (("v1", "Event"), ("a/b/c", "X"))
            ),
        ],
    ),
]
