"""Definitions with several versions, and the life of a definition."""

from __future__ import annotations

from ..transcript import Scenario
from .crd_words import (
    DEFINITION,
    GROUP,
    IN_FORCE,
    TABLE,
    TEXT,
    definition,
    gone,
    obj,
    served,
    thing,
    things,
    unseen,
    version,
    with_definition,
)
from .words import CRDS, Obj, apply, delete, get, patch, post, put

_OLD = obj(
    {
        "spec": obj({"a": TEXT, "old": {**TEXT, "default": "o"}, "only1": TEXT}),
        "status": obj({"x": TEXT}),
    }
)
_NEW = obj(
    {
        "spec": obj({"a": TEXT, "b": {"type": "integer", "default": 7}, "only2": TEXT}),
        "status": obj({"x": TEXT, "y": {"type": "integer", "default": 3}}),
    }
)
_SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
FOUR = definition(
    version(
        "v1",
        _OLD,
        storage=True,
        subresources={"status": {}, "scale": _SCALE},
        additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
    ),
    version(
        "v2beta1",
        _NEW,
        deprecated=True,
        additionalPrinterColumns=[
            {"name": "B", "type": "integer", "jsonPath": ".spec.b"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    ),
    version("v0", served=False),
    version("v3alpha1", _NEW, deprecated=True, deprecationWarning="do not use this"),
)
_ONE = definition(version("v1", storage=True))
_BETA = "v2beta1"


def _beta(spec: object) -> Obj:
    return thing("a", spec, _BETA)


def _at(name: str) -> str:
    return f"{CRDS}/{name}.{GROUP}"


SCENARIOS = [
    Scenario(
        "a definition is accepted and established, and every version is told",
        [
            post(CRDS, FOUR),
            served(),
            get(DEFINITION),
            *(get(f"/apis/{GROUP}{at}") for at in ("", "/v1", "/v2beta1", "/v3alpha1", "/v0", "/v9")),
            *(get(things(at=at)) for at in ("v0", "v9")),
            delete(DEFINITION),
            gone(DEFINITION),
        ],
    ),
    Scenario(
        "an object is read and written in another version than it is stored in",
        with_definition(
            FOUR,
            post(things(), thing("a", {"a": "1", "only1": "x", "more": 1})),
            *(get(things("a", at)) for at in ("v1", _BETA, "v3alpha1")),
            *(get(things(at=at), TABLE) for at in ("v1", _BETA, "v3alpha1")),
            get(things(at=_BETA)),
            put(
                things("a", _BETA),
                {
                    **_beta({"a": "2", "b": 8, "only2": "y"}),
                    "metadata": {"name": "a", "resourceVersion": "$RV2"},
                },
            ),
            get(things("a")),
            get(things("a", _BETA)),
            patch("merge", things("a"), {"spec": {"a": "3"}}),
            patch("merge", things("a", _BETA), {"spec": {"only2": "q"}}),
            patch("jsonpatch", things("a", _BETA), [{"op": "test", "path": "/spec/only1", "value": "x"}]),
            post(things(at=_BETA), {**_beta({"b": 1}), "metadata": {"name": "b"}}, fieldValidation="Strict"),
            post(things(at=_BETA), _beta({"only1": 1}), fieldValidation="Strict"),
            post(things(at=_BETA), _beta({"b": "x"})),
            post(things(), _beta({})),
        ),
    ),
    Scenario(
        "each version has its own subresources, and owners of fields that another version does not know",
        with_definition(
            FOUR,
            post(things(), thing("a", {"a": "1"})),
            *(get(things(f"a/{part}", _BETA)) for part in ("status", "scale")),
            put(things("a/status"), {**thing("a", {}), "status": {"x": "1"}}),
            patch("merge", things("a/status"), {"status": {"x": "2"}}),
            patch("merge", things("a", _BETA), {"status": {"x": "5"}}),
            apply(things("a", _BETA), _beta({"a": "4"}), "bob", force="true"),
            apply(things("a", _BETA), thing("a", {"a": "4"}), "bob", force="true"),
            apply(things("a"), thing("a", {"a": "4", "old": "n"}), "bob", force="true"),
            apply(things("a"), thing("a", {"a": "5"}), "carol"),
            apply(things("a", _BETA), _beta({"a": "5"}), "carol"),
            get(things("a")),
        ),
    ),
    Scenario(
        "a version is switched off, another is stored, and the old one leaves when nothing is stored in it",
        [
            unseen(post(CRDS, FOUR)),
            served(),
            post(things(at=_BETA), _beta({"a": "1"})),
            unseen(
                patch(
                    "jsonpatch",
                    DEFINITION,
                    [{"op": "replace", "path": "/spec/versions/1/served", "value": False}],
                )
            ),
            gone(things("a", _BETA)),
            IN_FORCE,
            *(get(f"/apis/{GROUP}{at}") for at in ("", "/v2beta1")),
            post(things(at=_BETA), _beta({})),
            get(things("a")),
            patch(
                "jsonpatch",
                DEFINITION,
                [
                    {"op": "replace", "path": f"/spec/versions/{number}/storage", "value": value}
                    for number, value in ((0, False), (3, True))
                ],
            ),
            IN_FORCE,
            get(things("a")),
            patch("merge", things("a"), {"spec": {"only1": "1"}}),
            get(things("a", "v3alpha1")),
            patch("jsonpatch", DEFINITION, [{"op": "remove", "path": "/spec/versions/0"}]),
            unseen(patch("merge", f"{DEFINITION}/status", {"status": {"storedVersions": ["v3alpha1"]}})),
            unseen(patch("jsonpatch", DEFINITION, [{"op": "remove", "path": "/spec/versions/0"}])),
            gone(things("a")),
            IN_FORCE,
            get(f"/apis/{GROUP}"),
            unseen(delete(DEFINITION)),
        ],
    ),
    Scenario(
        "what a definition may change, and what it says when it may not",
        with_definition(
            FOUR,
            *(
                patch("merge", DEFINITION, {"spec": spec})
                for spec in (
                    {"scope": "Cluster"},
                    {"group": "x.y"},
                    {"names": {"plural": "others"}},
                    {"names": {"kind": "Other"}},
                    {"versions": []},
                    {"versions": None},
                    {"conversion": {"strategy": "Webhook"}},
                    {"preserveUnknownFields": True},
                )
            ),
            unseen(patch("merge", DEFINITION, {"spec": {"names": {"singular": "th", "shortNames": ["t1"]}}})),
            IN_FORCE,
            get(DEFINITION),
            get(f"/apis/{GROUP}/v1"),
            unseen(patch("merge", DEFINITION, {"spec": {"names": {"singular": None, "shortNames": None}}})),
            IN_FORCE,
            get(DEFINITION),
            patch("merge", DEFINITION, {"metadata": {"labels": {"a": "b"}}}),
            patch("merge", DEFINITION, {"status": {"acceptedNames": {"kind": "Foo"}}}),
            get(f"{DEFINITION}/scale"),
            get(DEFINITION, TABLE),
            delete(DEFINITION, dryRun="All"),
        ),
    ),
    Scenario(
        "of two definitions only one has a name, until that one is gone",
        [
            unseen(post(CRDS, definition(version("v1", storage=True), names={"shortNames": ["thx"]}))),
            served(),
            unseen(post(CRDS, definition(version("v1", storage=True), plural="others"))),
            unseen(
                post(
                    CRDS,
                    definition(
                        version("v1", storage=True),
                        plural="thirds",
                        kind="Third",
                        names={"shortNames": ["thx"], "listKind": "ThingList"},
                    ),
                )
            ),
            IN_FORCE,
            get(_at("others")),
            get(_at("thirds")),
            get(f"/apis/{GROUP}/v1"),
            get(things(plural="others")),
            post(CRDS, _ONE),
            unseen(delete(DEFINITION)),
            gone(DEFINITION),
            served(things(plural="others")),
            get(_at("others")),
            unseen(delete(_at("others"))),
            unseen(delete(_at("thirds"))),
        ],
    ),
    Scenario(
        "a definition ends when its objects have",
        [
            unseen(post(CRDS, _ONE)),
            served(),
            unseen(post(things(), thing("a", {}))),
            unseen(post(things(), {**thing("b", {}), "metadata": {"name": "b", "finalizers": ["x.y/z"]}})),
            delete(DEFINITION),
            gone(things("a")),
            get(DEFINITION),
            get(things("b")),
            post(things(), thing("c", {})),
            apply(things("d"), thing("d", {})),
            patch("merge", things("b"), {"spec": {"q": 1}}),
            post(CRDS, _ONE),
            patch("merge", DEFINITION, {"metadata": {"finalizers": ["x.y/q"]}}),
            patch("merge", DEFINITION, {"metadata": {"labels": {"a": "b"}}}),
            unseen(patch("merge", things("b"), {"metadata": {"finalizers": None}})),
            gone(DEFINITION),
            gone(things("b")),
            get(f"/apis/{GROUP}"),
        ],
    ),
    Scenario(
        "a definition is applied, and made dry",
        [
            post(CRDS, _ONE, dryRun="All"),
            get(DEFINITION),
            apply(DEFINITION, _ONE, dryRun="All"),
            apply(DEFINITION, _ONE),
            served(),
            unseen(apply(DEFINITION, definition(version("v2", storage=True), version("v1")))),
            served(things(at="v2")),
            get(DEFINITION),
            apply(DEFINITION, definition(version("v2", storage=True))),
            unseen(delete(DEFINITION)),
        ],
    ),
]
