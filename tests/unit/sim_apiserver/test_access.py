"""Who may ask, and what a client learns about the server: tokens, reviews, discovery, OpenAPI."""

from __future__ import annotations

from typing import Any

from .harness import CONFIG_MAPS, CRDS, NODES, PODS, WIDGETS, Api, Clock, node, pod, widget_definition

TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def token(api: Api, **spec: Any) -> str:
    return str((await api.made(TOKEN, {"spec": {"expirationSeconds": 600, **spec}}))["status"]["token"])


async def test_unknown_callers_are_turned_away(api: Api) -> None:
    wrong = await api.get(NODES, token="wrong")

    assert (wrong.code, wrong.json["reason"], wrong.message) == (401, "Unauthorized", "Unauthorized")
    assert (await api.get("/readyz", token="wrong")).code == 401


async def test_an_account_is_known_by_its_token_until_it_expires(api: Api, clock: Clock) -> None:
    signed = await token(api)

    who = await api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=signed)
    assert who.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert "system:serviceaccounts:default" in who.json["status"]["userInfo"]["groups"]

    clock.advance(seconds=601)
    assert (await api.get(NODES, token=signed)).code == 401


async def test_a_token_of_a_pod_names_its_node_and_dies_with_it(api: Api) -> None:
    await api.made(NODES, node())
    made = await api.made(PODS, pod())
    await api.create(f"{PODS}/p1/binding", {"target": {"kind": "Node", "name": "n1"}})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p1", "uid": made["metadata"]["uid"]}

    signed = await token(api, boundObjectRef=reference)
    review = await api.made(REVIEW, {"spec": {"token": signed}})
    extra = review["status"]["user"]["extra"]
    assert review["status"]["authenticated"] is True
    assert extra["authentication.kubernetes.io/node-name"] == ["n1"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p1"]

    await api.delete(f"{PODS}/p1", {"gracePeriodSeconds": 0})
    assert (await api.get(NODES, token=signed)).code == 401
    review = await api.made(REVIEW, {"spec": {"token": signed}})
    assert review["status"]["authenticated"] is False


async def test_a_token_for_others_is_not_for_us(api: Api) -> None:
    signed = await token(api, audiences=["vault"])

    assert (await api.get(NODES, token=signed)).code == 401
    review = await api.made(REVIEW, {"spec": {"token": signed, "audiences": ["vault"]}})
    assert review["status"]["audiences"] == ["vault"]


async def test_a_token_lives_ten_minutes_at_least(api: Api) -> None:
    refused = await api.create(TOKEN, {"spec": {"expirationSeconds": 10}})

    assert refused.code == 422
    assert "may not specify a duration less than 10 minutes" in refused.message


async def test_everything_is_allowed(api: Api) -> None:
    review = await api.made(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}},
    )

    assert review["status"]["allowed"] is True


async def test_discovery_in_both_forms_shows_new_definitions(api: Api) -> None:
    await api.made(CRDS, widget_definition())

    groups = {group["name"]: group for group in (await api.get("/apis")).json["groups"]}
    assert groups["example.dev"]["preferredVersion"]["groupVersion"] == "example.dev/v1"

    listed = (await api.get("/apis/example.dev/v1")).json["resources"]
    assert [(r["name"], r["kind"]) for r in listed] == [("widgets", "Widget"), ("widgets/status", "Widget")]
    assert listed[0]["shortNames"] == ["wd"]

    answer = await api.get("/apis", accept=AGGREGATED)
    assert dict(answer.headers)["content-type"] == AGGREGATED
    items = {item["metadata"]["name"]: item for item in answer.json["items"]}
    resource = items["example.dev"]["versions"][0]["resources"][0]
    assert (resource["resource"], resource["scope"]) == ("widgets", "Cluster")
    assert resource["subresources"][0]["subresource"] == "status"

    core = (await api.get("/api", accept=AGGREGATED)).json["items"][0]["versions"][0]["resources"]
    assert {r["resource"] for r in core} >= {"pods", "nodes", "events", "serviceaccounts"}


async def test_openapi_follows_a_definition(api: Api) -> None:
    await api.made(CRDS, widget_definition())
    first = (await api.get("/openapi/v3")).json["paths"]["apis/example.dev/v1"]["serverRelativeURL"]
    document = (await api.get(first)).json
    assert f"{WIDGETS}/{{name}}" in document["paths"]

    changed = {"spec": {"names": {"categories": ["all"]}}}
    await api.patch(f"{CRDS}/widgets.example.dev", changed)
    assert (await api.get("/openapi/v3")).json["paths"]["apis/example.dev/v1"]["serverRelativeURL"] != first

    binary = await api.get("/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert binary.code == 406


async def test_the_version_is_told_to_everybody(api: Api) -> None:
    version = (await api.get("/version")).json

    assert version["gitVersion"].startswith("v1.36.")
    assert (version["major"], version["minor"]) == ("1", "36")


def _text(number: int, value: bytes) -> bytes:
    """A length-delimited field of a protobuf message."""
    return bytes([number << 3 | 2, len(value)]) + value


async def test_binary_bodies_of_typed_clients_are_read(api: Api) -> None:
    kind = _text(1, b"v1") + _text(2, b"ConfigMap")
    metadata = _text(1, b"c1") + _text(11, _text(1, b"app") + _text(2, b"x"))
    obj = _text(1, metadata) + _text(2, _text(1, b"key") + _text(2, b"value"))
    body = b"k8s\x00" + _text(1, kind) + _text(2, obj)

    answer = await api.create(CONFIG_MAPS, body, kind="application/vnd.kubernetes.protobuf")

    assert answer.code == 201, answer.json
    assert answer.json["metadata"]["labels"] == {"app": "x"}
    assert answer.json["data"] == {"key": "value"}

    broken = await api.create(CONFIG_MAPS, body[:-3], kind="application/vnd.kubernetes.protobuf")
    assert (broken.code, broken.json["reason"]) == (400, "BadRequest")
