from __future__ import annotations

from typing import Any

import pytest

from gpuready.kube.compare import differences, digest, dropped


def daemonset(**container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "ns", "labels": {"app": "d"}},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "a:1", **container}]}}},
    }


@pytest.mark.parametrize(
    ("want", "have"),
    [
        pytest.param({}, {"imagePullPolicy": "IfNotPresent"}, id="the server adds a default"),
        pytest.param(
            {"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}, id="empty values are left out"
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"env": [{"name": "B", "value": "2"}, {"name": "X", "value": "y"}, {"name": "A", "value": "1"}]},
            id="another order, and an entry of somebody else",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}},
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
            id="quantities in canonical form",
        ),
        pytest.param(
            {"ports": [{"containerPort": 80}]},
            {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
            id="a port's default protocol",
        ),
        pytest.param({"args": []}, {}, id="an empty list is no list"),
        pytest.param({"securityContext": {"privileged": False}}, {}, id="false is absent"),
        pytest.param(
            {"securityContext": None}, {"securityContext": {"privileged": True}}, id="null asks nothing"
        ),
    ],
)
def test_what_means_the_same_is_no_difference(want: dict[str, Any], have: dict[str, Any]) -> None:
    assert differences(daemonset(**want), daemonset(**have)) == []


@pytest.mark.parametrize(
    ("want", "have", "path"),
    [
        pytest.param({}, {"image": "b:1"}, "containers[name=main].image", id="a value"),
        pytest.param({"args": ["a"]}, {"args": ["a", "b"]}, "containers[name=main].args", id="a longer list"),
        pytest.param({"args": ["a", "b"]}, {"args": ["b", "a"]}, "containers[name=main].args", id="an order"),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}]},
            {"env": []},
            "containers[name=main].env[name=A]",
            id="a missing entry",
        ),
        pytest.param(
            {"securityContext": {"privileged": True}},
            {},
            "containers[name=main].securityContext.privileged",
            id="a missing map",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1"}}},
            {"resources": {"limits": {"cpu": "2"}}},
            "containers[name=main].resources.limits.cpu",
            id="a quantity",
        ),
        pytest.param({"tty": False}, {"tty": True}, "containers[name=main].tty", id="true instead of false"),
    ],
)
def test_a_changed_field_is_named_by_its_path(want: dict[str, Any], have: dict[str, Any], path: str) -> None:
    found = differences(daemonset(**want), daemonset(**have))

    assert [each.path for each in found] == [f"spec.template.spec.{path}"]


def pod(**spec: Any) -> dict[str, Any]:
    found = daemonset()
    found["spec"]["template"]["spec"] |= spec
    return found


EVERY = {"operator": "Exists"}
TOKEN = {"serviceAccountToken": {"path": "token"}}
NAME = {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}}


@pytest.mark.parametrize(
    ("want", "have", "path"),
    [
        pytest.param(
            {"tolerations": [EVERY]}, {"tolerations": [{**EVERY, "key": "a"}]}, "tolerations", id="narrower"
        ),
        pytest.param(
            {"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "c": "d"}}, "nodeSelector", id="a map"
        ),
        pytest.param(
            {"volumes": [{"name": "v", "projected": {"sources": [TOKEN]}}]},
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {
                            "sources": [{"serviceAccountToken": {"path": "token", "audience": "x"}}]
                        },
                    }
                ]
            },
            "volumes[name=v].projected.sources",
            id="deep inside",
        ),
    ],
)
def test_what_is_added_to_what_counts_as_a_whole_is_a_difference(
    want: dict[str, Any], have: dict[str, Any], path: str
) -> None:
    assert [each.path for each in differences(pod(**want), pod(**have))] == [f"spec.template.spec.{path}"]


def test_what_the_server_fills_in_there_is_none() -> None:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    name = {
        "downwardAPI": {
            "items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}]
        }
    }
    want, have = (
        pod(volumes=[{"name": "v", "projected": {"sources": sources}}])
        for sources in ([TOKEN, NAME], [token, name])
    )
    assert differences(want, have) == []


def test_the_manager_of_a_hand_edit_is_found_in_managed_fields() -> None:
    live = daemonset(image="hand:1", args=["x"])
    live["metadata"]["managedFields"] = [
        {"manager": "gpuready", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields({"f:name": {}})},
        {
            "manager": "kubectl-edit",
            "time": "2026-01-02T00:00:00Z",
            "fieldsV1": fields({"f:image": {}, "f:args": {}}),
        },
    ]

    found = differences(daemonset(args=["y"]), live)

    assert [(each.path.rpartition(".")[2], each.manager) for each in found] == [
        ("image", "kubectl-edit"),
        ("args", "kubectl-edit"),
    ]
    assert str(found[0]).endswith('.image: "hand:1" instead of "a:1" (set by kubectl-edit)')


def fields(of_container: dict[str, Any]) -> dict[str, Any]:
    containers = {'k:{"name":"main"}': {".": {}, **of_container}}
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": containers}}}}


def owned(manager: str, of_container: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Apply", "fieldsV1": {**fields(of_container), **more}}


def test_a_field_that_is_no_longer_wanted_is_named_with_what_it_was() -> None:
    live = daemonset(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], tty=True, stdin=True)
    live["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    env = {
        'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}},
        'k:{"name":"B"}': {".": {}, "f:name": {}},
    }
    ours = owned("gpuready", {"f:name": {}, "f:image": {}, "f:env": env, "f:tty": {}, "f:args": {}})
    ours["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:tolerations"] = {}
    live["metadata"]["managedFields"] = [ours]

    found = dropped(daemonset(env=[{"name": "A", "value": "9"}]), live, "gpuready")

    spec = "spec.template.spec"
    assert [(each.path, each.live) for each in found] == [
        (f"{spec}.containers[name=main].env[name=B]", {"name": "B", "value": "2"}),
        (f"{spec}.containers[name=main].tty", True),
        (f"{spec}.tolerations", [{"operator": "Exists"}]),
    ]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([owned("kubectl", {"f:tty": {}})], id="somebody else claims it too"),
        pytest.param([{**owned("gpuready", {}), "subresource": "status"}], id="written through the status"),
    ],
)
def test_a_field_that_stays_is_not_named(others: list[dict[str, Any]]) -> None:
    live = daemonset(tty=True, stdin=True)
    ours = [] if others[0].get("subresource") else [owned("gpuready", {"f:tty": {}})]
    live["metadata"]["managedFields"] = [*ours, *others]

    assert dropped(daemonset(), live, "gpuready") == []


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": {"c": 1, "d": 2}}) == digest({"b": {"d": 2, "c": 1}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
