"""Strategic merges where their directives meet: what is left of lists, and the words of what cannot be."""

from __future__ import annotations

from ..transcript import Ask, Scenario
from .words import DEPLOYMENTS, MAPS, SERVICES, Obj, config_map, delete, deployment, patch, post

D = f"{DEPLOYMENTS}/d"


def _named(*names: str) -> list[Obj]:
    return [{"name": name, "image": "i"} for name in names]


def _spec(**spec: object) -> Ask:
    return patch("strategic", D, {"spec": {"template": {"spec": spec}}}, dryRun="All")


def _order(*names: str) -> list[Obj]:
    return [{"name": name} for name in names]


GONE = {"$patch": "delete"}
CONTAINERS = "$setElementOrder/containers"
FINALIZERS = "$setElementOrder/finalizers"
LESS = "$deleteFromPrimitiveList/finalizers"
LIVE: Obj = {
    **deployment("d", *_named("a", "b", "c"), replicas=0),
    "metadata": {"name": "d", "finalizers": ["x.dev/a", "x.dev/b", "x.dev/c"]},
}


def _with_volumes() -> Obj:
    made = deployment("d", replicas=0)
    made["spec"]["template"]["spec"]["volumes"] = [
        {"name": "v", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "z"}},
    ]
    return made


def _finalizers(**meta: object) -> Ask:
    return patch("strategic", D, {"metadata": meta}, dryRun="All")


SCENARIOS = [
    Scenario(
        "elements that are deleted and added keep an order, the places of the deleted ones included",
        [
            post(DEPLOYMENTS, LIVE),
            _spec(containers=[{"name": "a", **GONE}]),
            _spec(containers=[{"name": "b", **GONE}, *_named("n")]),
            _spec(containers=[*_named("n"), {"name": "a", **GONE}, {"name": "c", **GONE}]),
            _spec(containers=_named("n", "c", "m", "a")),
            _spec(containers=[{"name": "c"}, {"name": "b"}, {"name": "a"}]),
            _spec(**{CONTAINERS: _order("c", "b", "a")}),
            _spec(**{CONTAINERS: _order("c", "a")}),
            _spec(**{CONTAINERS: _order("n", "b"), "containers": [{"name": "a", **GONE}, *_named("n")]}),
            _spec(**{CONTAINERS: _order("b", "n", "c"), "containers": [*_named("n"), {"name": "a", **GONE}]}),
            _spec(**{CONTAINERS: _order("n", "m"), "containers": [{"$patch": "replace"}, *_named("n", "m")]}),
            _spec(**{CONTAINERS: _order("m", "n"), "containers": [{"$patch": "replace"}, *_named("m", "n")]}),
            _spec(containers=[*_named("n"), {"$patch": "replace"}, {"name": "a", **GONE}]),
            _finalizers(finalizers=["x.dev/n", "x.dev/b", "x.dev/m", "x.dev/a"]),
            _finalizers(finalizers=["x.dev/b", "x.dev/b"]),
            _finalizers(**{FINALIZERS: ["x.dev/c", "x.dev/a"]}),
            _finalizers(**{FINALIZERS: ["x.dev/n", "x.dev/a"], "finalizers": ["x.dev/n"]}),
            _finalizers(**{LESS: ["x.dev/b", "x.dev/none"]}),
            _finalizers(**{LESS: ["x.dev/a", "x.dev/b", "x.dev/c"]}),
            _finalizers(**{LESS: ["x.dev/a"], FINALIZERS: ["x.dev/c", "x.dev/b"]}),
            patch("merge", D, {"metadata": {"finalizers": None}}),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "an order that does not fit the patch, and directives that are none",
        [
            post(DEPLOYMENTS, LIVE),
            _spec(**{CONTAINERS: _order("b", "a"), "containers": [{"name": "a"}, {"name": "b"}]}),
            _spec(**{CONTAINERS: _order("b"), "containers": [{"name": "a"}]}),
            _spec(**{CONTAINERS: ["b", "a"]}),
            _spec(**{CONTAINERS: ["b", "a"], "containers": [{"name": "a"}]}),
            _spec(**{CONTAINERS: [{"image": "x"}], "containers": [{"name": "a"}]}),
            _spec(**{CONTAINERS: "x"}),
            _spec(**{CONTAINERS: None}),
            _spec(**{CONTAINERS: [], "containers": [{"name": "a", "image": "j"}]}),
            _spec(**{CONTAINERS: _order("a"), "containers": "x"}),
            _spec(**{CONTAINERS: _order("a"), "containers": None}),
            _spec(**{"$setElementOrder/nodeSelector": ["a"]}),
            _spec(**{"$setElementOrder/nothing": ["a"]}),
            _spec(**{"$setElementOrder": ["a"]}),
            _finalizers(**{FINALIZERS: ["x.dev/b", "x.dev/a"], "finalizers": ["x.dev/a", "x.dev/b"]}),
            *(_spec(containers=[{"name": "a", "$patch": word}]) for word in ("fly", "merge", "", 5, None)),
            *(_spec(**{"$patch": word}) for word in ("fly", "merge", "", 5, None, "delete", "replace")),
            *(_spec(securityContext={"$patch": word, "runAsUser": 5}) for word in ("delete", "replace", "x")),
            *(_spec(nodeSelector={"$patch": word, "a": "b"}) for word in ("delete", "replace", "x")),
            _spec(containers=[GONE]),
            _spec(containers=[{"$patch": "replace"}]),
            _spec(containers=["a"]),
            _spec(containers=[{"name": "a"}, "b"]),
            _spec(containers=[["a"]]),
            _spec(containers={"name": "a"}),
            _spec(containers=[]),
            _spec(containers=[{"name": 5, "image": "x"}]),
            _finalizers(finalizers=[5]),
            _finalizers(finalizers=[{"a": "b"}]),
            _finalizers(**{LESS: "x"}),
            _finalizers(**{LESS: [5]}),
            _finalizers(**{LESS: None}),
            _finalizers(**{"$deleteFromPrimitiveList/nothing": ["x"]}),
            _finalizers(**{"$deleteFromPrimitiveList": ["x"]}),
            _spec(**{"$nonsense": 1}),
            patch("merge", D, {"metadata": {"finalizers": None}}),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "keys to retain are those of the patch, and no others stay",
        [
            post(DEPLOYMENTS, _with_volumes()),
            _spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]),
            _spec(volumes=[{"name": "v", "$retainKeys": ["hostPath"], "hostPath": {"path": "/x"}}]),
            _spec(volumes=[{"name": "v", "$retainKeys": ["name"], "emptyDir": None}]),
            _spec(volumes=[{"name": "v", "$retainKeys": ["name", "emptyDir"]}]),
            _spec(volumes=[{"name": "n", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]),
            _spec(
                volumes=[{"name": "c", "emptyDir": None, "configMap": {"items": [{"key": "k", "path": "p"}]}}]
            ),
            _spec(volumes=[{"name": "c", "$patch": "replace", "emptyDir": {"medium": "Memory"}}]),
            _spec(nodeSelector={"$retainKeys": ["a"], "a": "b"}),
            _spec(nodeSelector={"$retainKeys": ["a"], "b": "c"}),
            _spec(**{"$retainKeys": "x"}),
            _spec(**{"$retainKeys": None}),
            _spec(**{"$retainKeys": ["containers"], "containers": [{"name": "q", "image": "r"}]}),
            _spec(**{"$retainKeys": ["containers", "volumes"], "$setElementOrder/volumes": _order("c", "v")}),
            patch("strategic", D, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            patch("strategic", D, {"spec": {"strategy": {"$retainKeys": ["type", "x"], "type": "Recreate"}}}),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "what a merge makes of ports that differ in their protocol only, of free maps and of unknown fields",
        [
            post(
                SERVICES,
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "s"},
                    "spec": {"clusterIP": "None", "ports": [{"name": "t", "port": 53}]},
                },
            ),
            *(
                patch("strategic", f"{SERVICES}/s", {"spec": {"ports": ports}}, dryRun="All")
                for ports in (
                    [{"port": 53, "name": "u"}],
                    [{"port": "53", "name": "u"}],
                    [{"port": 54, "name": "u"}, {"port": 53, **GONE}],
                )
            ),
            post(MAPS, config_map("a", {"k": "1"})),
            *(
                patch("strategic", f"{MAPS}/a", body, **how)
                for how in ({"fieldValidation": "Strict"}, {"fieldValidation": "Ignore"})
                for body in (
                    {"nonsense": {"a": None}, "data": {"l": "2"}},
                    {"data": {"$patch": "replace", "m": None}},
                    {"metadata": {"labels": {"$patch": "replace", "a": "b"}}},
                    {"metadata": {"annotations": {"a": {"$patch": "delete"}}}},
                    {"binaryData": {"$patch": "delete"}},
                    {"kind": "Secret", "apiVersion": "v2", "data": {"n": "3"}},
                    {"kind": 5},
                )
            ),
        ],
    ),
]
