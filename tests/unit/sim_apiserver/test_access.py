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
    await api.create(
        f"{PODS}/p1/binding", {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    )
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
    assert "authenticated" not in review["status"]


async def test_a_token_for_others_is_not_for_us(api: Api) -> None:
    signed = await token(api, audiences=["vault"])

    assert (await api.get(NODES, token=signed)).code == 401
    review = await api.made(REVIEW, {"spec": {"token": signed, "audiences": ["vault"]}})
    assert review["status"]["audiences"] == ["vault"]


async def test_a_token_lives_ten_minutes_at_least(api: Api) -> None:
    refused = await api.create(TOKEN, {"spec": {"expirationSeconds": 10}})

    assert refused.code == 422
    assert "may not specify a duration less than 10 minutes" in refused.message


RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def bind(api: Api, verbs: list[str], *, cluster: bool = False, **rule: Any) -> str:
    """A token of the default account with one rule more; the names of role and binding are "r"."""
    place, kind = (RBAC, "ClusterRole") if cluster else (f"{RBAC}/namespaces/default", "Role")
    plural = kind.lower()
    rules = [{"verbs": verbs, **rule}]
    await api.made(f"{place}/{plural}s", {"metadata": {"name": "r"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "r"}
    binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
    await api.made(f"{place}/{plural}bindings", binding)
    return await token(api)


async def test_the_administrator_may_do_everything(api: Api) -> None:
    review = await api.made(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}},
    )

    assert review["status"] == {"allowed": True}


async def test_an_account_may_do_what_its_rules_say_and_nothing_else(api: Api) -> None:
    await api.made(NODES, node())
    signed = await bind(api, ["get", "list"], cluster=True, apiGroups=[""], resources=["nodes"])

    assert (await api.get(f"{NODES}/n1", token=signed)).code == 200
    refused = await api.delete(f"{NODES}/n1", token=signed)
    assert (refused.code, refused.json["reason"]) == (403, "Forbidden")
    assert refused.message == (
        'nodes "n1" is forbidden: User "system:serviceaccount:default:default" cannot delete resource '
        '"nodes" in API group "" at the cluster scope'
    )
    for path in (f"{NODES}?watch=true", f"{NODES}/n1/status", PODS, "/apis/none.dev/v1/nothings"):
        assert (await api.get(path, token=signed)).code == 403


async def test_a_rule_ends_with_its_binding(api: Api) -> None:
    signed = await bind(api, ["list"], apiGroups=[""], resources=["pods"])
    assert (await api.get(PODS, token=signed)).code == 200
    assert (await api.get("/api/v1/pods", token=signed)).code == 403  # a Role holds in its namespace

    await api.delete(f"{RBAC}/namespaces/default/rolebindings/r")

    assert (await api.get(PODS, token=signed)).code == 403


async def test_one_object_may_be_watched_by_its_name(api: Api) -> None:
    signed = await bind(api, ["list"], apiGroups=[""], resources=["configmaps"], resourceNames=["c1"])

    assert (await api.get(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc1", token=signed)).code == 200
    assert (await api.get(CONFIG_MAPS, token=signed)).code == 403


async def test_nobody_in_particular_sees_version_and_health_only(api: Api) -> None:
    for path, code in (("/version", 200), ("/readyz", 200), ("/apis", 403), (NODES, 403)):
        answer = await api.get(path, token="")
        assert (path, answer.code) == (path, code)


async def test_nobody_gives_away_what_he_has_not(api: Api) -> None:
    signed = await bind(api, ["create"], apiGroups=["rbac.authorization.k8s.io"], resources=["roles"])
    role = {
        "metadata": {"name": "more"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}],
    }

    refused = await api.create(f"{RBAC}/namespaces/default/roles", role, token=signed)

    assert refused.code == 403
    assert refused.message.endswith('not currently held:\n{APIGroups:[""], Resources:["*"], Verbs:["get"]}')


async def test_rules_of_views_follow_the_labels_of_others(api: Api) -> None:
    role = {
        "metadata": {"name": "gpu-view", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["gpuready.dev"], "resources": ["gpunodes"]}],
    }

    await api.made(f"{RBAC}/clusterroles", role)
    await api.settled()

    for name in ("view", "edit", "admin"):
        assert role["rules"][0] in (await api.get(f"{RBAC}/clusterroles/{name}")).json["rules"]


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

    binary = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    assert (await api.get(first, accept=binary)).code == 406
    empty = await api.get("/openapi/v2", accept=binary)
    assert (empty.header("content-type"), empty.text[:5]) == ([binary.replace("@", ".")], b"\n\x032.0")


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
