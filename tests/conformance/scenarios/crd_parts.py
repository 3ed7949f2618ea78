"""Columns, selectable fields, status and scale of custom resources, and those of the whole cluster."""

from __future__ import annotations

from dataclasses import replace

from ..transcript import Scenario
from .crd_words import (
    GROUP,
    NUMBER,
    TABLE,
    TEXT,
    definition,
    list_of,
    map_of,
    obj,
    ruled,
    served,
    thing,
    things,
    unseen,
    version,
    with_definition,
)
from .words import CRDS, Obj, apply, delete, get, patch, post, put

_SPEC = obj(
    {
        "replicas": NUMBER,
        "s": TEXT,
        "i": NUMBER,
        "n": {"type": "number"},
        "b": {"type": "boolean"},
        "d": {**TEXT, "format": "date-time"},
        "l": list_of(TEXT),
        "o": obj({"x": TEXT}),
        "lo": list_of(obj({"name": TEXT, "v": NUMBER})),
        "m": map_of(TEXT),
    }
)
_STATUS = obj(
    {
        "replicas": NUMBER,
        "sel": TEXT,
        "x": ruled(NUMBER, "self > 0"),
        "w": {**TEXT, "maxLength": 2},
        "conditions": list_of(obj({"type": TEXT, "status": TEXT})),
    }
)
COLUMNS = [
    ("string", ".spec.s"),
    ("integer", ".spec.i"),
    ("number", ".spec.n"),
    ("boolean", ".spec.b"),
    ("date", ".spec.d"),
    ("string", ".spec.l"),
    ("string", ".spec.l[0]"),
    ("string", ".spec.l[*]"),
    ("string", ".spec.o"),
    ("integer", ".spec.lo[*].v"),
    ("string", '.spec.lo[?(@.name=="b")].v'),
    ("integer", ".spec.lo[?(@.v>1)].v"),
    ("string", ".spec.m.a\\.b"),
    ("string", ".spec.m['a.b']"),
    ("integer", ".spec.s"),
    ("string", ".spec.i"),
    ("boolean", ".spec.i"),
    ("date", ".spec.s"),
    ("integer", ".spec.n"),
    ("string", ".metadata.name"),
    ("string", ".spec..v"),
    ("string", ".spec.l[0:2]"),
    ("string", ".spec.l[-1]"),
    ("string", "."),
    ("string", ".spec.l["),
    ("string", ".spec.s"),
]
_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.sel",
}
WHOLE = definition(
    version(
        "v1",
        obj({"spec": _SPEC, "status": _STATUS}),
        storage=True,
        subresources={"status": {}, "scale": _SCALE},
        additionalPrinterColumns=[
            {"name": f"C{number}", "type": kind, "jsonPath": path}
            for number, (kind, path) in enumerate(COLUMNS)
        ],
        selectableFields=[{"jsonPath": f".spec.{name}"} for name in ("s", "i", "b")],
    )
)
_FULL = {
    "s": "x",
    "i": 5,
    "n": 1.5,
    "b": True,
    "d": "2020-01-01T00:00:00Z",
    "l": ["p", "q", "r"],
    "o": {"x": "y"},
    "lo": [{"name": "a", "v": 1}, {"name": "b", "v": 2}],
    "m": {"a.b": "1", "c": "2"},
}
_EVERYWHERE = f"/apis/{GROUP}/v1/things"


def _scale(replicas: object, **meta: object) -> Obj:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a", **meta},
        "spec": {"replicas": replicas},
    }


SCENARIOS = [
    Scenario(
        "odd columns of a custom resource, and selectors by its fields",
        with_definition(
            WHOLE,
            post(things(), thing("a", _FULL)),
            post(things(), thing("b", {})),
            post(things(), thing("c", {"s": "", "i": 0, "n": 2, "b": False, "l": [], "lo": [], "m": {}})),
            get(things(), TABLE),
            get(things("a"), TABLE, includeObject="None"),
            *(
                get(
                    things(),
                    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                    fieldSelector=by,
                )
                for by in (
                    "spec.s=x",
                    "spec.i=5",
                    "spec.b=true,spec.i!=0",
                    "spec.n=1.5",
                    "spec.s=",
                    "spec.i=",
                )
            ),
        ),
    ),
    Scenario(
        "the scale and the status of a custom resource",
        with_definition(
            WHOLE,
            post(things(), {**thing("a", {"replicas": 2, "s": "x"}), "status": {"replicas": 9}}),
            get(things("a/scale")),
            put(things("a/scale"), _scale(3, namespace="$NS")),
            *(patch("merge", things("a/scale"), {"spec": {"replicas": value}}) for value in (4, -1, "x")),
            patch(
                "merge",
                things("a/status"),
                {"status": {"replicas": 7, "sel": "a=b"}, "metadata": {"labels": {"q": "r"}}},
            ),
            get(things("a/scale")),
            patch("merge", things("a"), {"status": {"replicas": 8}}),
            *(
                patch("merge", things("a/status"), {"status": status})
                for status in ({"x": 0}, {"x": 1, "w": "abc"}, {"x": "a"})
            ),
            put(things("a/status"), {**thing("a", {"s": "changed"}), "status": {"replicas": 1}}),
            *(get(things(path)) for path in ("b/status", "a/nope")),
            *(
                replace(get(things(f"a/{part}")), method=method)
                for part in ("status", "scale")
                for method in ("POST", "DELETE")
            ),
            apply(things("a"), thing("a", {"replicas": 9}), "bob"),
            apply(
                things("a/status"),
                {**thing("a", {"s": "no"}), "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
                "ctl",
            ),
            post(things(), thing("y", {})),
            get(things("y/scale")),
            patch("merge", things("y/scale"), {"spec": {"replicas": 1}}),
            post(things(), thing("w", {"replicas": -1})),
        ),
    ),
    Scenario(
        "finalizers of a custom resource, and its deletion",
        with_definition(
            WHOLE,
            post(
                things(), {**thing("v", {}), "metadata": {"name": "v", "finalizers": ["abc", "a.b", "x.y/z"]}}
            ),
            *(
                patch("merge", things("v"), {"metadata": {"finalizers": names}})
                for names in (["abc"], ["abc", "new"])
            ),
            delete(things("v")),
            patch("merge", things("v"), {"metadata": {"finalizers": ["abc", "more"]}}),
            patch("merge", things("v"), {"metadata": {"finalizers": []}}),
            unseen(post(things(), thing("a", {}))),
            delete(things("a"), propagationPolicy="Foreground"),
            get(things()),
        ),
    ),
    Scenario(
        "a custom resource of the whole cluster, and objects that cannot be",
        [
            unseen(
                post(
                    CRDS,
                    definition(version("v1", obj({"spec": obj({"a": TEXT})}), storage=True), scope="Cluster"),
                )
            ),
            served(_EVERYWHERE),
            post(_EVERYWHERE, thing("a", {"a": "x"})),
            post(things(), thing("a", {})),
            get(things()),
            get(_EVERYWHERE, TABLE),
            *(
                post(_EVERYWHERE, {**thing("", {}), "metadata": meta})
                for meta in (
                    {"name": "b", "namespace": "$NS"},
                    {"name": "A_b"},
                    {"name": "a" * 254},
                    {"name": "r", "resourceVersion": "5"},
                    {"name": "l", "labels": {"a b": "c"}},
                )
            ),
            post(_EVERYWHERE, {**thing("k", {}), "kind": "Other"}),
            post(_EVERYWHERE, {"kind": "Thing", "metadata": {"name": "q"}}),
            put(_EVERYWHERE, {}),
            patch("merge", _EVERYWHERE, {}),
            post(f"{_EVERYWHERE}/x", {}),
            delete(f"{_EVERYWHERE}/none"),
            unseen(delete(f"{CRDS}/things.{GROUP}")),
        ],
    ),
]
