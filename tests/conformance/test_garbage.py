"""What becomes of dependents: background, foreground, orphan, and owners that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from .api import Api
from .scenarios.words import config_map
from .test_watches import maps


async def make(api: Api, namespace: str, name: str, *owners: dict[str, Any], **meta: Any) -> dict[str, Any]:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    body = config_map(name, labels={"of": "test"}, ownerReferences=references, **meta)
    made = await api.call("POST", maps(namespace), body)
    assert made.status == 201, made.body
    return made.body  # type: ignore[no-any-return]


async def gone(api: Api, namespace: str, *names: str) -> None:
    """Waits until all of them are; the test's deadline is that of its watch."""
    left = set(names)
    async with api.watch(f"{maps(namespace)}?labelSelector=of%3Dtest") as watch:
        for name in names:
            if (await api.call("GET", f"{maps(namespace)}/{name}")).status == 404:
                left.discard(name)
        while left:
            event = await watch.next()
            if event["type"] == "DELETED":
                left.discard(event["object"]["metadata"]["name"])


async def test_dependents_go_in_the_background(api: Api, namespace: str) -> None:
    owner = await make(api, namespace, "owner")
    child = await make(api, namespace, "child", owner)
    await make(api, namespace, "grandchild", child)
    answer = await api.call("DELETE", f"{maps(namespace)}/owner", {"propagationPolicy": "Background"})
    assert answer.status == 200
    assert (await api.call("GET", f"{maps(namespace)}/owner")).status == 404
    await gone(api, namespace, "child", "grandchild")


async def test_in_the_foreground_the_owner_waits_for_its_dependents(api: Api, namespace: str) -> None:
    owner = await make(api, namespace, "owner")
    await make(api, namespace, "child", owner, finalizers=["x.dev/hold"])
    answer = await api.call("DELETE", f"{maps(namespace)}/owner", {"propagationPolicy": "Foreground"})
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    async with api.watch(f"{maps(namespace)}?fieldSelector=metadata.name%3Dchild") as watch:
        while not (await watch.next())["object"]["metadata"].get("deletionTimestamp"):
            pass
    assert (await api.call("GET", f"{maps(namespace)}/owner")).status == 200
    await api.call("PATCH", f"{maps(namespace)}/child", {"metadata": {"finalizers": None}}, type="merge")
    await gone(api, namespace, "child", "owner")


async def test_orphans_stay_without_their_reference(api: Api, namespace: str) -> None:
    owner = await make(api, namespace, "owner")
    await make(api, namespace, "child", owner)
    await api.call("DELETE", f"{maps(namespace)}/owner", {"propagationPolicy": "Orphan"})
    await gone(api, namespace, "owner")
    child = (await api.call("GET", f"{maps(namespace)}/child")).body
    assert "ownerReferences" not in child["metadata"]
    assert "deletionTimestamp" not in child["metadata"]


async def test_one_owner_of_two_is_enough_to_stay(api: Api, namespace: str) -> None:
    first, second = await make(api, namespace, "first"), await make(api, namespace, "second")
    await make(api, namespace, "child", first, second)
    await api.call("DELETE", f"{maps(namespace)}/first", {"propagationPolicy": "Background"})
    async with api.watch(f"{maps(namespace)}?fieldSelector=metadata.name%3Dchild") as watch:
        while True:
            event = await watch.next()
            assert event["type"] != "DELETED"
            owners = [one["name"] for one in event["object"]["metadata"]["ownerReferences"]]
            if owners == ["second"]:
                break
    await api.call("DELETE", f"{maps(namespace)}/second", {"propagationPolicy": "Background"})
    await gone(api, namespace, "child")


@pytest.mark.parametrize(
    "wrong",
    [pytest.param({"uid": "0"}, id="another uid"), pytest.param({"name": "nobody"}, id="another name")],
)
async def test_who_has_only_owners_that_never_were_goes(
    api: Api, namespace: str, wrong: dict[str, str]
) -> None:
    owner = await make(api, namespace, "owner")
    await make(api, namespace, "child", {"metadata": owner["metadata"] | wrong})
    await gone(api, namespace, "child")


async def test_a_namespace_goes_with_all_that_is_in_it(api: Api, namespace: str) -> None:
    await make(api, namespace, "held", finalizers=["x.dev/hold"])
    deleted = await api.call("DELETE", f"/api/v1/namespaces/{namespace}")
    assert deleted.body["status"]["phase"] == "Terminating"
    refused = await api.call("POST", maps(namespace), config_map("late"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    async with api.watch(f"{maps(namespace)}?fieldSelector=metadata.name%3Dheld") as watch:
        while not (await watch.next())["object"]["metadata"].get("deletionTimestamp"):
            pass
    await api.call("PATCH", f"{maps(namespace)}/held", {"metadata": {"finalizers": None}}, type="merge")
    async with api.watch(f"/api/v1/namespaces?fieldSelector=metadata.name%3D{namespace}") as watch:
        while (await api.call("GET", f"/api/v1/namespaces/{namespace}")).status == 200:
            await watch.next()
