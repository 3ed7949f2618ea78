"""What a replacement or a patch may say of who an object is; scales, through each kind of patch."""

from __future__ import annotations

from ..transcript import Ask, Scenario
from .words import (
    CRDS,
    DEPLOYMENTS,
    LEASES,
    MAPS,
    NODES,
    POLICIES,
    Obj,
    apply,
    config_map,
    delete,
    deployment,
    patch,
    policy,
    post,
    put,
)

STRANGER = "00000000-0000-0000-0000-000000000000"
D = f"{DEPLOYMENTS}/d"
SCALE = f"{D}/scale"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/roles"


def _kind(version: str, kind: str, name: str = "a", **more: object) -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


LEASE = _kind("coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "x"})
ROLE = _kind(
    "rbac.authorization.k8s.io/v1",
    "Role",
    rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
)
NODE = _kind("v1", "Node", "$NS")


def _meta(base: Obj, **meta: object) -> Obj:
    return {**base, "metadata": {**base["metadata"], **meta}}


def _odd(path: str, base: Obj) -> list[Ask]:
    """Replacements by what is not that object, whether it is there or not."""
    return [
        *(put(path, {**base, "metadata": meta}) for meta in ({}, None, {"generateName": "g"})),
        *(put(path, _meta(base, name=name)) for name in ("other", "", 5)),
        *(put(path, _meta(base, namespace=name)) for name in ("other", 5)),
        put(path, _meta(base, name="other", namespace="other")),
        put(path, {**_meta(base, name="other"), "nonsense": 1}, fieldValidation="Strict"),
        put(path, {**base, "apiVersion": "v9"}),
        put(path, {**base, "kind": "Nope"}),
        put(path, {**_meta(base, namespace="other"), "apiVersion": "v9"}),
        *(put(path, text) for text in ("", "null", "[]", "{}", '"x"')),
    ]


def _told(path: str, base: Obj) -> list[Ask]:
    """Replacements that name a version or a uid."""
    return [
        put(path, _meta(base, uid=STRANGER)),
        *(put(path, _meta(base, resourceVersion=version)) for version in ("5", "x", f"{2**64}", "0", "")),
        put(path, _meta(base, uid=STRANGER, resourceVersion="5")),
    ]


OWNED = (
    {"generateName": "x-"},
    {"deletionTimestamp": "2020-01-01T00:00:00Z"},
    {"deletionGracePeriodSeconds": 5},
    {"creationTimestamp": "2020-01-01T00:00:00Z"},
    {"generation": 7},
    {"selfLink": "/x"},
    {"uid": STRANGER},
    {"name": ""},
    {"name": None},
    {"namespace": "other"},
    {"resourceVersion": "5"},
    {"resourceVersion": "0"},
    {"resourceVersion": None},
    {"managedFields": []},
    {"labels": {"a": "b"}},
    {"managedFields": [{"manager": "x"}]},
)


def _scale(replicas: object = 1, **meta: object) -> Obj:
    return _kind("autoscaling/v1", "Scale", "d", spec={"replicas": replicas}) | {
        "metadata": {"name": "d", **meta}
    }


AMOUNTS: tuple[object, ...] = (2, -1, "x", None, 1.5, [], {}, True, 2147483648, 0)
EXAMPLE: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "none.example.com"},
    "spec": {},
}

SCENARIOS = [
    Scenario(
        "a replacement of what is not there is read before it is not found",
        [
            *_odd(f"{MAPS}/a", config_map("a", {"k": "1"})),
            *_told(f"{MAPS}/a", config_map("a", {"k": "1"})),
            *_odd(f"{DEPLOYMENTS}/d", deployment("d")),
            *_odd(f"{POLICIES}/$NS", policy()),
            put(f"{CRDS}/none.example.com", EXAMPLE),
            put(f"{NODES}/$NS", _meta(NODE, namespace="other")),
            put(POLICIES, policy()),
            put(MAPS, config_map("a")),
        ],
    ),
    Scenario(
        "some kinds are created by a replacement of what is not there",
        [
            *_told(f"{LEASES}/a", LEASE)[:1],
            put(f"{LEASES}/a", _meta(LEASE, resourceVersion="x")),
            put(f"{LEASES}/a", LEASE, dryRun="All"),
            put(f"{LEASES}/a", _meta(LEASE, resourceVersion="5")),
            *_told(f"{LEASES}/a", LEASE),
            put(f"{ROLES}/a", ROLE),
            put(f"{LEASES}/Bad_Name", _kind("coordination.k8s.io/v1", "Lease", "Bad_Name")),
        ],
    ),
    Scenario(
        "a replacement says who an object is, or leaves it to the path",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            *_odd(f"{MAPS}/a", config_map("a", {"k": "1"})),
            *_told(f"{MAPS}/a", config_map("a", {"k": "1"})),
            *(put(f"{MAPS}/a", _meta(config_map("a", {"k": "1"}), **meta)) for meta in OWNED),
            post(NODES, NODE),
            *_told(f"{NODES}/$NS", NODE),
            delete(f"{NODES}/$NS"),
            post(POLICIES, policy()),
            *_odd(f"{POLICIES}/$NS", policy()),
            *_told(f"{POLICIES}/$NS", policy()),
            post(f"{POLICIES}/$NS", policy()),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "a patch may not make another object of it",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            *(
                patch(kind, f"{MAPS}/a", {"metadata": meta})
                for kind in ("merge", "strategic")
                for meta in OWNED
            ),
            post(POLICIES, policy()),
            *(patch("merge", f"{POLICIES}/$NS", {"metadata": meta}) for meta in OWNED),
            patch("merge", f"{POLICIES}/$NS", {"metadata": None}),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "a scale is read as its own kind",
        [
            post(DEPLOYMENTS, deployment("d", replicas=5)),
            *(
                patch(kind, SCALE, {"spec": {"replicas": amount}}, dryRun="All")
                for kind in ("merge", "strategic")
                for amount in AMOUNTS
            ),
            *(put(SCALE, _scale(amount), dryRun="All") for amount in AMOUNTS),
            put(SCALE, _scale(name="e")),
            put(SCALE, _scale(namespace="other")),
            put(SCALE, {**_scale(), "kind": "Deployment"}),
            put(SCALE, {**_scale(), "apiVersion": "v9"}),
            put(SCALE, {**_scale(), "nonsense": 1}, fieldValidation="Strict"),
            put(SCALE, {**_scale(), "metadata": {}}),
            put(SCALE, "null"),
            put(SCALE, ""),
            put(f"{DEPLOYMENTS}/none/scale", _scale()),
            put(f"{DEPLOYMENTS}/none/scale", _scale(name="none")),
            patch("merge", SCALE, {"metadata": {"name": "x"}}),
            patch("merge", SCALE, {"nonsense": 1}, fieldValidation="Strict"),
            patch("merge", SCALE, {"nonsense": 1}, dryRun="All"),
            patch("merge", SCALE, {"kind": "Other"}),
            patch("merge", SCALE, {"metadata": None}),
            patch("merge", SCALE, {"spec": {"replicas": 3}}, dryRun="x"),
            patch("merge", SCALE, {"spec": {"replicas": 3}}, fieldValidation="x"),
            patch("merge", SCALE, {"spec": {"replicas": 3}}, force="true"),
            *(
                Ask("PATCH", SCALE, text, type=kind)
                for kind in ("merge", "strategic")
                for text in ("[", "", "[1]")
            ),
            apply(SCALE, "x: y"),
            delete(D, propagationPolicy="Background"),
        ],
    ),
]
