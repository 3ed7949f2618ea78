"""Long lists in pages, while things change."""

from __future__ import annotations

from typing import Any

from .api import Api
from .test_watches import OF_TEST, create, maps


async def page(api: Api, namespace: str, **params: str) -> dict[str, Any]:
    got = await api.call("GET", f"{maps(namespace)}?{OF_TEST}", params=params)
    assert got.status == 200, got.body
    return got.body  # type: ignore[no-any-return]


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_pages_together_are_the_list_as_it_was_when_the_first_was_asked(
    api: Api, namespace: str
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await create(api, namespace, name)
    first = await page(api, namespace, limit="2")
    await create(api, namespace, "bb")
    await api.call("DELETE", f"{maps(namespace)}/d")
    second = await page(api, namespace, limit="2", **{"continue": first["metadata"]["continue"]})
    third = await page(api, namespace, limit="2", **{"continue": second["metadata"]["continue"]})
    assert (names(first), names(second), names(third)) == (["a", "b"], ["c", "d"], ["e"])
    assert "continue" not in third["metadata"]
    versions = {body["metadata"]["resourceVersion"] for body in (first, second, third)}
    assert len(versions) == 1
    assert names(await page(api, namespace)) == ["a", "b", "bb", "c", "e"]


async def test_how_many_remain_is_told_where_nothing_is_selected(api: Api, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await create(api, namespace, name)
    whole = await api.call("GET", f"{maps(namespace)}?limit=1")
    assert whole.body["metadata"]["remainingItemCount"] >= 2
    selected = await page(api, namespace, limit="1")
    assert "remainingItemCount" not in selected["metadata"]


async def test_a_page_has_no_version_of_its_own(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        await create(api, namespace, name)
    token = (await page(api, namespace, limit="1"))["metadata"]["continue"]
    refused = await api.call("GET", maps(namespace), params={"continue": token, "resourceVersion": "5"})
    assert (refused.status, refused.body["reason"]) == (400, "BadRequest")
