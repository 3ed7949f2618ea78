"""What the server tells of its health and its documents, beyond what bodies can say."""

from __future__ import annotations

from gpuready_sim.apiserver import health

from .harness import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_every_check_is_told_to_who_asks_for_words() -> None:
    answer = health.answer("/readyz", "verbose&exclude=etcd&exclude=nope")

    assert answer is not None
    lines = answer.body.decode().splitlines()
    assert lines[:4] == ["[+]ping ok", "[+]log ok", "[+]etcd excluded: ok", "[+]etcd-readiness ok"]
    assert lines[-2:] == [
        'warn: some health checks cannot be excluded: no matches for "nope"',
        "readyz check passed",
    ]


def test_a_check_that_is_not_there_is_no_path() -> None:
    assert health.answer("/livez/nope", "") is None
    assert health.answer("/healthz/", "") is None
    assert health.answer("/version", "") is None


async def test_a_document_is_kept_by_its_hash(api: Api) -> None:
    """A wrong hash leads to the right one; with the right one it may be kept for ever."""
    path = "/openapi/v3/apis/apps/v1"
    wrong = await api.get(f"{path}?hash=123")
    (right,) = wrong.header("location")

    kept = await api.get(right)

    assert wrong.code == 301
    assert kept.code == 200
    assert kept.header("cache-control") == ["public, immutable"]
    assert kept.header("etag") == [f'"{right.partition("=")[2]}"']


async def test_the_root_names_what_can_be_asked(api: Api) -> None:
    paths = (await api.get("/")).json["paths"]

    assert {"/api/v1", "/apis/apps/v1", "/healthz/ping", "/openapi/v3", "/version"} <= set(paths)
    assert paths == sorted(paths)


async def test_everything_at_once_has_a_tag(api: Api) -> None:
    answer = await api.get("/apis", accept=AGGREGATED)

    assert len(answer.header("etag")) == 1
    assert answer.header("vary") == ["Accept"]
