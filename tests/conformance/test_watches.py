"""What a watch tells: from where, what, in which order, and when it must be begun anew."""

from __future__ import annotations

import asyncio
from typing import Any

from .api import Api
from .scenarios.words import GPU_NODES, config_map, gpu_node

OF_TEST = "labelSelector=of%3Dtest"


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def labelled(name: str, **data: str) -> dict[str, Any]:
    return config_map(name, data or None, labels={"of": "test"})


async def create(api: Api, namespace: str, name: str, **data: str) -> dict[str, Any]:
    made = await api.call("POST", maps(namespace), labelled(name, **data))
    assert made.status == 201, made.body
    return made.body  # type: ignore[no-any-return]


async def list_version(api: Api, namespace: str) -> str:
    return str((await api.call("GET", maps(namespace))).body["metadata"]["resourceVersion"])


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def test_a_watch_resumes_after_any_version_that_was_seen(api: Api, namespace: str) -> None:
    start = await list_version(api, namespace)
    first = await create(api, namespace, "a")
    await create(api, namespace, "b")
    await api.call("PATCH", f"{maps(namespace)}/a", {"data": {"k": "1"}}, type="merge")
    await api.call("DELETE", f"{maps(namespace)}/b")
    for version, expected in (
        (start, [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]),
        (first["metadata"]["resourceVersion"], [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]),
    ):
        async with api.watch(f"{maps(namespace)}?{OF_TEST}", resourceVersion=version) as watch:
            assert told(await watch.take(len(expected))) == expected


async def test_versions_rise_and_a_deletion_has_its_own(api: Api, namespace: str) -> None:
    start = await list_version(api, namespace)
    made = await create(api, namespace, "a", k="v")
    await api.call("DELETE", f"{maps(namespace)}/a")
    async with api.watch(f"{maps(namespace)}?{OF_TEST}", resourceVersion=start) as watch:
        added, deleted = await watch.take(2)
    assert added["object"]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert deleted["object"]["data"] == {"k": "v"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (added, deleted)]
    assert int(start) < versions[0] < versions[1]


async def test_what_comes_into_a_selection_is_added_and_what_leaves_it_deleted(
    api: Api, namespace: str
) -> None:
    start = await list_version(api, namespace)
    await api.call("POST", maps(namespace), config_map("a"))
    path = f"{maps(namespace)}/a"
    await api.call("PATCH", path, {"metadata": {"labels": {"of": "test"}}}, type="merge")
    await api.call("PATCH", path, {"data": {"k": "1"}}, type="merge")
    await api.call("PATCH", path, {"metadata": {"labels": None}}, type="merge")
    async with api.watch(f"{maps(namespace)}?{OF_TEST}", resourceVersion=start) as watch:
        events = await watch.take(3)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[2]["object"]["metadata"]["labels"] == {"of": "test"}  # as it was last seen in the selection


async def test_a_watch_without_version_begins_with_what_is_there(api: Api, namespace: str) -> None:
    for name in ("b", "a"):
        await create(api, namespace, name)
    async with api.watch(f"{maps(namespace)}?{OF_TEST}") as watch:
        assert sorted(told(await watch.take(2))) == [("ADDED", "a"), ("ADDED", "b")]
        await create(api, namespace, "c")
        assert told([await watch.next()]) == [("ADDED", "c")]


async def test_a_streamed_list_ends_with_an_annotated_bookmark(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        await create(api, namespace, name)
    async with api.watch(
        f"{maps(namespace)}?{OF_TEST}",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    ) as watch:
        *objects, bookmark = await watch.take(3)
    assert sorted(told(objects)) == [("ADDED", "a"), ("ADDED", "b")]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert set(bookmark["object"]) == {"kind", "apiVersion", "metadata"}


async def test_a_watch_from_the_distant_past_is_gone(api: Api, namespace: str) -> None:
    """A real server remembers a custom resource from its definition on; the embedded one 4,096 changes."""
    path = f"{GPU_NODES}/{namespace}"
    await api.call("POST", GPU_NODES, gpu_node(name=namespace))

    async def change(worker: int) -> None:
        for number in range(625):
            await api.call("PATCH", path, {"metadata": {"labels": {f"w{worker}": str(number)}}}, type="merge")

    if api.server == "embedded":
        await asyncio.gather(*(change(worker) for worker in range(8)))
    await api.call("DELETE", path)
    async with api.watch(GPU_NODES, resourceVersion="1") as watch:
        event = await watch.next()
    assert (watch.status, event["type"]) == (200, "ERROR")
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def test_a_watch_ends_when_its_time_is_over(api: Api, namespace: str) -> None:
    async with api.watch(f"{maps(namespace)}?{OF_TEST}", timeoutSeconds="1") as watch:
        try:
            event = await watch.next()
        except StopAsyncIteration:
            return
    raise AssertionError(event)


async def test_a_watch_can_be_of_tables_and_of_metadata(api: Api, namespace: str) -> None:
    await create(api, namespace, "a", k="v")
    path = f"{maps(namespace)}?{OF_TEST}&watch=true&timeoutSeconds=1&resourceVersion=0"
    table = await api.call("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table.body["object"]["kind"] == "Table"
    assert table.body["object"]["rows"][0]["cells"][:2] == ["a", 1]
    partial = await api.call(
        "GET", path, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    )
    assert partial.body["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in partial.body["object"]


async def test_what_every_namespace_has_comes_back_when_it_is_deleted(api: Api, namespace: str) -> None:
    for plural, name in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        async with api.watch(path, fieldSelector=f"metadata.name={name}") as watch:
            await watch.next()
            await api.call("DELETE", f"{path}/{name}")
            assert told(await watch.take(2)) == [("DELETED", name), ("ADDED", name)]


async def test_a_watch_that_ends_by_itself_tells_how_far_it_has_come(api: Api, namespace: str) -> None:
    start = (await create(api, namespace, "a"))["metadata"]["resourceVersion"]
    path = f"{maps(namespace)}?labelSelector=none"
    events = []
    async with api.watch(
        path, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds="6"
    ) as watch:
        await create(api, namespace, "b")  # not selected, yet it moves the version
        try:
            while True:
                events.append(await watch.next())
        except StopAsyncIteration:
            pass
    # A busy server tells it on the way, too.
    assert {event["type"] for event in events} == {"BOOKMARK"}
    bookmark = events[-1]["object"]
    assert (bookmark["kind"], list(bookmark["metadata"])) == ("ConfigMap", ["resourceVersion"])
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(start)


async def test_a_definition_that_gets_another_schema_ends_the_watches_of_its_kind(
    api: Api, namespace: str
) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    group, name = f"{namespace}.example.com", f"things.{namespace}.example.com"
    await api.call("POST", definitions, definition(group, first="string"))
    things = f"/apis/{group}/v1/things"
    thing = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "first": "x",
        "more": "y",
    }
    while (made := await api.call("POST", things, thing)).status == 404:
        await asyncio.sleep(0.1)
    async with api.watch(things, resourceVersion=made.body["metadata"]["resourceVersion"]) as watch:
        await api.call("PUT", f"{definitions}/{name}", await changed(api, name, more="string"))
        try:
            async with asyncio.timeout(20):
                while True:
                    await watch.next()
        except StopAsyncIteration:
            pass
    await api.call("DELETE", f"{definitions}/{name}")


def definition(group: str, **fields: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": type_} for name, type_ in fields.items()}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
    }


async def changed(api: Api, name: str, **fields: str) -> dict[str, Any]:
    """The definition as it is, with these fields beside its own."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    found: dict[str, Any] = (await api.call("GET", path)).body
    (version,) = found["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"] |= {
        key: {"type": type_} for key, type_ in fields.items()
    }
    return found
