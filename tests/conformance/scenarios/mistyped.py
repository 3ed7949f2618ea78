"""Values of the wrong types: what the decoders of bodies, of merged maps and of applied YAML say of them."""

from __future__ import annotations

import json
from typing import Any

from ..transcript import Ask, Scenario
from .words import (
    CRDS,
    DEPLOYMENTS,
    GPU_NODES,
    LEASES,
    MAPS,
    PODS,
    POLICIES,
    SECRETS,
    Obj,
    config_map,
    delete,
    deployment,
    get,
    gpu_node,
    patch,
    pod,
    policy,
    post,
)

D = f"{DEPLOYMENTS}/d"
KINDS: tuple[Any, ...] = ("x", 5, True, [], {}, [5], {"cpu": 5}, [None], [[]], {"cpu": {}})
# Numbers as they are written, which JSON libraries do not keep.
WRITTEN = ("1.0", "1.5", "1e3", "1E3", "-0", "-0.0", "1e-3", "1e400", "2147483648")
LARGE = ("9223372036854775807", "9223372036854775808", "12345678901234567890123")


def _written(value: object, number: str) -> str:
    """JSON in which "@" stands for a number as it is written."""
    return json.dumps(value).replace('"@"', number)


def _lease(**spec: object) -> Obj:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": spec,
    }


def _secret(**more: object) -> Obj:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **more}


def _template(**spec: object) -> Obj:
    return {"spec": {"template": {"spec": spec}}}


def _container(**more: object) -> Obj:
    return _template(containers=[{"name": "main", **more}])


PLACES: tuple[Obj, ...] = (
    _container(image="@"),
    _container(env=[{"name": "A", "value": "@"}]),
    _container(ports=[{"containerPort": "@"}]),
    _container(resources={"limits": {"cpu": "@"}}),
    _container(resources={"limits": "@"}),
    _container(securityContext={"privileged": "@", "capabilities": {"add": ["@"]}}),
    _container(livenessProbe={"httpGet": {"port": "@"}}),
    _template(volumes=[{"name": "v", "configMap": {"name": "@"}}]),
    _template(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "@"}}]),
    _template(tolerations=[{"key": "k", "operator": "@"}]),
    _template(terminationGracePeriodSeconds="@"),
    {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "@"}}}},
    {"spec": {"replicas": "@"}},
    {"metadata": {"labels": {"a": "@"}}},
    {"metadata": {"creationTimestamp": "@"}},
    {"metadata": {"ownerReferences": [{"uid": "@"}]}},
)


def _filled(place: Obj, value: object) -> Obj:
    made: Obj = json.loads(json.dumps(place).replace('"@"', json.dumps(value)))
    return made


def _patches(kind: str, values: tuple[Any, ...], places: tuple[Obj, ...] = PLACES) -> list[Ask]:
    return [
        patch(kind, D, _filled(place, value), dryRun="All")
        for i, place in enumerate(places)
        for value in values[i % 2 :: 2]
    ]


def _numbers(kind: str, numbers: tuple[str, ...]) -> list[Ask]:
    places = (PLACES[i] for i in (0, 3, 4, 6, 10, 11, 12))
    made = ((_written(place, number), number) for place in places for number in numbers)
    return [Ask("PATCH", D, body, type=kind, params={"dryRun": "All"}) for body, _ in made]


def _bytes(data: object) -> list[Ask]:
    return [
        post(SECRETS, _secret(data=data), dryRun="All"),
        patch("strategic", f"{SECRETS}/s", {"data": data}),
    ]


def _limited(**limits: object) -> Obj:
    return pod("p", {"name": "a", "image": "i", "resources": {"limits": limits}})


_AMOUNTS = (
    "",
    "x",
    "1x",
    "1e",
    "1ee3",
    "0.1.2",
    "1 ",
    "-1",
    "+1",
    ".5",
    "5.",
    "1.500",
    "007",
    "1e3",
    True,
    {},
)


SCENARIOS = [
    Scenario(
        "a value of the wrong type is refused by the words of the decoder",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            *_patches("merge", KINDS),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "a value of the wrong type in a strategic merge is refused by the words of the converter",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            *_patches("strategic", KINDS[:8]),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "a number is judged as it is written",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            *_numbers("merge", (*WRITTEN, *LARGE)),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "a number in a strategic merge is judged by what it is worth",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            *_numbers("strategic", (*WRITTEN[:-1], *LARGE[:1])),
            delete(D, propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "of several wrong values the first is told, and a type that reads itself before all others",
        [
            post(PODS, {**pod("p", hostNetwork="x"), "metadata": {"name": 5}}),
            post(PODS, pod("p", {"name": 5, "image": 6}, hostNetwork="x")),
            post(PODS, pod("p", {"name": 5, "image": "x", "resources": {"limits": {"cpu": "x"}}})),
            post(PODS, _limited(cpu="1x", memory=True)),
            post(LEASES, _lease(leaseDurationSeconds="x", renewTime="x")),
            post(PODS, pod("p", volumes=[None, {"name": "v", "configMap": {"items": [{"key": 5}]}}])),
        ],
    ),
    Scenario(
        "a time is read as Go reads it",
        [
            *(
                post(LEASES, _lease(renewTime=text))
                for text in (
                    "",
                    "x",
                    "2026",
                    "2026-01-01",
                    "2026-13-01T00:00:00.000000Z",
                    "2026-02-30T00:00:00.000000Z",
                    "2026-01-01T25:00:00.000000Z",
                    "2026-01-01T00:00:00Z",
                    "2026-01-01T00:00:00.000000",
                    "2026-01-01T00:00:00.000000Zx",
                    5,
                    [],
                    True,
                )
            ),
            *(
                post(MAPS, config_map("a", creationTimestamp=text), dryRun="All")
                for text in ("x", "2026-01-01", "2026-00-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00", 5, {})
            ),
        ],
    ),
    Scenario(
        "bytes are read as base64, or one by one",
        [
            post(SECRETS, _secret(data={"b": "AAE="})),
            *(
                ask
                for value in ("!", "AAE", "AA=A", 5, True, {}, ["x"], [256], [-1], [1.5])
                for ask in _bytes({"b": value})
            ),
            *_bytes("x"),
            *_bytes([1]),
            post(SECRETS, _secret(data={"b": [0, 1, None]}), dryRun="All"),
        ],
    ),
    Scenario(
        "a quantity says what is wrong with it",
        [*(post(PODS, _limited(cpu=amount), dryRun="All") for amount in _AMOUNTS)],
    ),
    Scenario(
        "numbers of a custom resource are worth what a float is worth",
        [
            post(GPU_NODES, gpu_node()),
            *(
                Ask(
                    "PATCH",
                    f"{GPU_NODES}/$NS/status",
                    _written({"status": {"gpus": "@"}}, number),
                    type="merge",
                    params={"fieldValidation": how, "dryRun": "All"},
                )
                for number in (*WRITTEN, *LARGE)
                for how in ("Strict", "Ignore")
            ),
            Ask("POST", POLICIES, _written(policy({"driver": {"enabled": "@"}}), "1.0")),
            Ask("POST", POLICIES, _written(policy({"driver": "@"}), "1e400")),
            *(post(POLICIES, {**policy(), "metadata": value}) for value in (5, "x", [], False)),
            get(f"{GPU_NODES}/$NS"),
            delete(f"{GPU_NODES}/$NS"),
        ],
    ),
    Scenario(
        "what has no kind that can be read",
        [
            *(
                post(path, {**body, key: value})
                for path, body in ((MAPS, config_map("a")), (GPU_NODES, gpu_node()), (CRDS, gpu_node()))
                for key in ("kind", "apiVersion")
                for value in (5, {}, [], True, None, "")
            ),
            *(post(MAPS, body) for body in ("null", "[]", "5", '"x"', "true", "")),
        ],
    ),
]
