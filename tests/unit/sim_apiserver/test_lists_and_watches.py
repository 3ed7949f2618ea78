"""Lists with selectors and pages; watches that resume, expire, filter and end."""

from __future__ import annotations

import pytest

from gpuready_sim.apiserver import watches
from gpuready_sim.apiserver.resources import Settings
from gpuready_sim.apiserver.write_options import WriteOptions

from .harness import CONFIG_MAPS, NODES, PODS, Api, config_map, node, pod

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("tier=gpu", ["a", "b"], id="equal"),
        pytest.param("tier==gpu,zone!=1", ["b"], id="equal and unequal"),
        pytest.param("tier in (gpu, cpu)", ["a", "b", "c"], id="one of a set"),
        pytest.param("tier notin (gpu)", ["c", "d"], id="none of a set, or absent"),
        pytest.param("zone", ["a", "b"], id="present"),
        pytest.param("!zone", ["c", "d"], id="absent"),
        pytest.param("zone>1", ["b"], id="greater"),
        pytest.param("zone<2", ["a"], id="less"),
        pytest.param("example.dev/x=", [], id="empty value of a key with a prefix"),
    ],
)
async def test_label_selectors(api: Api, selector: str, expected: list[str]) -> None:
    await api.made(NODES, node("a", tier="gpu", zone="1"))
    await api.made(NODES, node("b", tier="gpu", zone="2"))
    await api.made(NODES, node("c", tier="cpu"))
    await api.made(NODES, node("d"))

    answer = await api.get(f"{NODES}?labelSelector={selector.replace(' ', '%20')}")

    assert [item["metadata"]["name"] for item in answer.json["items"]] == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param(
            "labelSelector=a=b=c",
            "found '=', expected: ',' or 'end of string'",
            id="two equal signs",
        ),
        pytest.param(
            "labelSelector=a in b",
            "unable to parse requirement: found 'b' expected: '('",
            id="a set without parentheses",
        ),
        pytest.param("fieldSelector=spec.x=1", "field label not supported: spec.x", id="an unknown field"),
        pytest.param(
            "fieldSelector=nonsense",
            "invalid selector: 'nonsense'; can't understand 'nonsense'",
            id="no field selector at all",
        ),
    ],
)
async def test_selectors_that_make_no_sense_are_refused(api: Api, query: str, message: str) -> None:
    answer = await api.get(f"{NODES}?{query.replace(' ', '%20')}")

    assert (answer.code, answer.message) == (400, message)


async def test_field_selectors(api: Api) -> None:
    await api.made(NODES, node("n1"))
    await api.made(PODS, pod("p1"))
    await api.made(PODS, pod("p2"))
    await api.create(
        f"{PODS}/p1/binding", {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    )

    on_node = await api.get("/api/v1/pods?fieldSelector=spec.nodeName=n1,status.phase!=Failed")
    named = await api.get("/api/v1/pods?fieldSelector=metadata.name=p2")

    assert [item["metadata"]["name"] for item in on_node.json["items"]] == ["p1"]
    assert [item["metadata"]["name"] for item in named.json["items"]] == ["p2"]


async def test_pages_show_one_moment(api: Api) -> None:
    for name in "abcde":
        await api.made(NODES, node(name))

    first = (await api.get(f"{NODES}?limit=2")).json
    await api.delete(f"{NODES}/c")
    await api.made(NODES, node("cc"))
    second = (await api.get(f"{NODES}?limit=2&continue={first['metadata']['continue']}")).json
    third = (await api.get(f"{NODES}?limit=2&continue={second['metadata']['continue']}")).json

    assert first["metadata"]["remainingItemCount"] == 3
    pages = [[item["metadata"]["name"] for item in page["items"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]


async def test_a_page_that_came_too_late_is_gone_but_can_go_on(api: Api) -> None:
    for name in "abc":
        await api.made(NODES, node(name))
    first = (await api.get(f"{NODES}?limit=1")).json
    await api.made(NODES, node("bb"))
    await api.call("POST", "/simulator/compact")

    late = await api.get(f"{NODES}?limit=1&continue={first['metadata']['continue']}")
    assert (late.code, late.json["reason"]) == (410, "Expired")

    rest = await api.get(f"{NODES}?continue={late.json['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest.json["items"]] == ["b", "bb", "c"]


async def test_lists_of_a_certain_version(api: Api) -> None:
    made = await api.made(NODES, node("a"))
    await api.made(NODES, node("b"))
    version = made["metadata"]["resourceVersion"]

    exact = await api.get(f"{NODES}?resourceVersion={version}&resourceVersionMatch=Exact")
    newer = await api.get(f"{NODES}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    future = await api.get(f"{NODES}?resourceVersion=999999")
    nonsense = await api.get(f"{NODES}?resourceVersionMatch=Exact")

    assert [item["metadata"]["name"] for item in exact.json["items"]] == ["a"]
    assert len(newer.json["items"]) == 2
    assert (future.code, future.json["reason"]) == (504, "Timeout")
    assert future.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert nonsense.code == 422


async def test_tables_and_metadata_only(api: Api) -> None:
    await api.made(NODES, node("a", tier="gpu"))

    table = await api.get(NODES, accept=f"{TABLE},application/json")
    assert table.json["kind"] == "Table"
    assert table.json["columnDefinitions"][0]["name"] == "Name"
    assert table.json["rows"][0]["cells"][0] == "a"
    assert table.json["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

    metadata = await api.get(NODES, accept=METADATA_LIST)
    assert metadata.json["kind"] == "PartialObjectMetadataList"
    assert set(metadata.json["items"][0]) == {"kind", "apiVersion", "metadata"}

    one = await api.get(f"{NODES}/a", accept=METADATA)
    assert one.json["metadata"]["labels"] == {"tier": "gpu"}

    binary = await api.get(NODES, accept="application/vnd.kubernetes.protobuf")
    assert (binary.code, binary.json["reason"]) == (406, "NotAcceptable")

    text = await api.get(f"{NODES}/a", accept="application/yaml")
    assert text.text.startswith(b"apiVersion: v1\nkind: Node\n")


async def test_a_watch_tells_every_change_in_order(api: Api) -> None:
    version = (await api.get(CONFIG_MAPS)).json["metadata"]["resourceVersion"]
    await api.made(CONFIG_MAPS, config_map("early"))

    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as watch:
        await api.made(CONFIG_MAPS, config_map("a"))
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
        await api.delete(f"{CONFIG_MAPS}/a")
        await api.made("/api/v1/namespaces/kube-system/configmaps", config_map("elsewhere"))

        assert await watch.names(4) == [
            ("ADDED", "early"),
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
        ]
        assert watch.empty()


async def test_a_watch_without_a_version_begins_with_what_there_is(api: Api) -> None:
    await api.made(NODES, node("a"))

    async with api.watch(f"{NODES}?watch=true") as watch:
        assert await watch.names(1) == [("ADDED", "a")]


async def test_a_watch_with_a_selector_sees_objects_come_and_go(api: Api) -> None:
    await api.made(NODES, node("a"))

    async with api.watch(f"{NODES}?watch=true&labelSelector=tier=gpu") as watch:
        await api.patch(f"{NODES}/a", {"metadata": {"labels": {"tier": "gpu"}}})
        await api.patch(f"{NODES}/a", {"metadata": {"labels": {"more": "1"}}})
        last = await api.patch(f"{NODES}/a", {"metadata": {"labels": {"tier": None}}})
        await api.patch(f"{NODES}/a", {"metadata": {"labels": {"more": "2"}}})

        events = [await watch.next() for _ in range(3)]
        assert [e["type"] for e in events if e] == ["ADDED", "MODIFIED", "DELETED"]
        left = events[-1]
        assert left is not None
        assert left["object"]["metadata"]["labels"] == {"tier": "gpu", "more": "1"}
        assert left["object"]["metadata"]["resourceVersion"] == last.json["metadata"]["resourceVersion"]
        assert watch.empty()


async def test_a_watch_from_a_compacted_version_is_gone_in_the_stream(api: Api) -> None:
    version = (await api.get(NODES)).json["metadata"]["resourceVersion"]
    await api.made(NODES, node("a"))
    await api.call("POST", "/simulator/compact")

    async with api.watch(f"{NODES}?watch=true&resourceVersion={version}") as watch:
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )
        assert await watch.next() is None


@pytest.mark.parametrize("settings", [Settings(gone_in_stream=False)], ids=["as a status"])
async def test_a_watch_from_a_compacted_version_may_be_refused_at_once(api: Api) -> None:
    version = (await api.get(NODES)).json["metadata"]["resourceVersion"]
    await api.made(NODES, node("a"))
    await api.call("POST", "/simulator/compact")

    answer = await api.get(f"{NODES}?watch=true&resourceVersion={version}")

    assert (answer.code, answer.json["reason"]) == (410, "Expired")


async def test_a_streaming_list_ends_with_the_marked_bookmark(api: Api) -> None:
    await api.made(NODES, node("a"))
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    async with api.watch(f"{NODES}?{query}") as watch:
        assert await watch.names(1) == [("ADDED", "a")]
        mark = await watch.next()
        assert mark is not None
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await api.made(NODES, node("b"))
        assert await watch.names(1) == [("ADDED", "b")]

    unclear = await api.get(f"{NODES}?watch=true&sendInitialEvents=true")
    assert unclear.code == 422


@pytest.mark.parametrize("settings", [Settings(bookmark_interval_s=0.02)], ids=["often"])
async def test_bookmarks_tell_the_version_while_nothing_happens(api: Api) -> None:
    await api.made(NODES, node("a"))
    version = (await api.get(NODES)).json["metadata"]["resourceVersion"]

    async with api.watch(f"{NODES}?watch=true&resourceVersion={version}&allowWatchBookmarks=true") as watch:
        mark = await watch.next()

    assert mark is not None
    assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "Node")
    assert mark["object"]["metadata"]["resourceVersion"] == version


async def test_a_watch_ends_at_its_timeout_and_with_its_server(api: Api) -> None:
    async with api.watch(f"{NODES}?watch=true&timeoutSeconds=1") as watch:
        assert await watch.next() is None
    async with api.watch(f"{NODES}?watch=true") as watch:
        api.server.end_streams()
        assert await watch.next() is None


async def test_a_watcher_that_does_not_keep_up_is_cut_off(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "BACKLOG_LINES", 2)

    async with api.watch(f"{NODES}?watch=true") as watch:
        writes = api.server.writes
        resource = api.server.registry.find("", "v1", "nodes")
        assert resource is not None
        for name in "abcd":  # without giving the watcher a turn
            writes.create(resource, "", node(name), WriteOptions())

        assert await watch.names(2) == [("ADDED", "a"), ("ADDED", "b")]
        assert await watch.next() is None


async def test_a_watch_can_be_a_table(api: Api) -> None:
    async with api.watch(f"{NODES}?watch=true", accept=TABLE) as watch:
        await api.made(NODES, node("a"))
        event = await watch.next()

    assert event is not None
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert event["object"]["rows"][0]["cells"][0] == "a"


async def test_delete_collection_takes_what_is_selected(api: Api) -> None:
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        body = config_map(name)
        body["metadata"]["labels"] = {"tier": tier}
        await api.made(CONFIG_MAPS, body)

    await api.delete(f"{CONFIG_MAPS}?labelSelector=tier=x")

    left = (await api.get(f"{CONFIG_MAPS}?labelSelector=tier")).json["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]
