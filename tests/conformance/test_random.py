"""The same random requests to both servers end the same.

What is found here becomes a scenario with a name, and a fix.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .api import Api
from .conftest import make_namespace
from .scenarios.words import DEPLOYMENTS, MAPS, apply, config_map, delete, deployment, get, patch, post, put
from .transcript import Ask, Scenario, played

Obj = dict[str, Any]
EXAMPLES = 60
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

names = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["1", "2"])
texts = st.dictionaries(names, values, max_size=2)
maybe_texts = st.dictionaries(names, st.one_of(st.none(), values), max_size=3)
managers = st.sampled_from(["alice", "bob"])
forced = st.sampled_from([{}, {"force": "true"}])
finalizers = st.lists(st.sampled_from(["x.dev/a", "x.dev/b"]), unique=True, max_size=2)


def _container(name: str, image: str | None, env: Obj, ports: list[int]) -> Obj:
    made: Obj = {"name": name}
    if image:
        made["image"] = image
    if env:
        made["env"] = [{"name": key, "value": value} for key, value in env.items()]
    if ports:
        made["ports"] = [{"containerPort": port} for port in ports]
    return made


def containers(image: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Obj]]:
    ports = st.lists(st.sampled_from([80, 81]), unique=True, max_size=2)
    one = st.builds(_container, names, image, texts, ports)
    return st.lists(one, min_size=1, max_size=2, unique_by=lambda container: container["name"])


@st.composite
def config_map_requests(draw: st.DrawFn) -> list[Ask]:
    path = f"{MAPS}/x"
    whole = st.builds(
        lambda data, labels, ends: config_map("x", data, labels=labels, finalizers=ends),
        texts,
        texts,
        finalizers,
    )
    partial = st.builds(
        lambda data, labels: {"data": data, "metadata": {"labels": labels}}, maybe_texts, maybe_texts
    )
    said = st.builds(lambda data, labels: config_map("x", data, labels=labels), texts, texts)
    request = st.one_of(
        st.builds(lambda body: post(MAPS, body), whole),
        st.builds(lambda body: put(path, body), whole),
        st.builds(lambda body: patch("merge", path, body), partial),
        st.builds(lambda body: patch("strategic", path, body), partial),
        st.builds(lambda body, who, how: apply(path, body, who, **how), said, managers, forced),
        st.just(delete(path)),
        st.builds(lambda ends: patch("merge", path, {"metadata": {"finalizers": ends}}), finalizers),
    )
    return [*draw(st.lists(request, min_size=2, max_size=8)), get(path)]


@st.composite
def deployment_requests(draw: st.DrawFn) -> list[Ask]:
    path = f"{DEPLOYMENTS}/x"
    image = st.sampled_from(["i", "j"])
    whole = st.builds(lambda some: deployment("x", *some, replicas=0), containers(image))

    def template(some: list[Obj]) -> Obj:
        return {"spec": {"template": {"spec": {"containers": some}}}}

    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    some = containers(st.one_of(st.none(), image))
    removal = st.builds(lambda name: template([{"name": name, "$patch": "delete"}]), names)
    request = st.one_of(
        st.builds(lambda body: put(path, body), whole),
        st.builds(lambda body, who, how: apply(path, body, who, **how), whole, managers, forced),
        st.builds(
            lambda body, who, how: apply(path, head | template(body), who, **how), some, managers, forced
        ),
        st.builds(lambda body: patch("strategic", path, template(body)), some),
        st.builds(lambda body: patch("merge", path, template(body)), containers(image)),
        st.builds(lambda body: patch("strategic", path, body), removal),
    )
    first = post(DEPLOYMENTS, draw(whole))
    return [first, *draw(st.lists(request, min_size=1, max_size=6)), get(path), delete(path)]


@pytest.mark.timeout(400)
@given(asks=config_map_requests())
@SETTINGS
def test_config_maps_fare_alike(both: dict[str, Path], asks: list[Ask]) -> None:
    _same(both, asks)


@pytest.mark.timeout(400)
@given(asks=deployment_requests())
@SETTINGS
def test_deployments_fare_alike(both: dict[str, Path], asks: list[Ask]) -> None:
    _same(both, asks)


def _same(both: dict[str, Path], asks: list[Ask]) -> None:
    answers = {server: asyncio.run(_played(server, path, asks)) for server, path in both.items()}
    assert answers["embedded"] == answers["kubernetes"]


async def _played(server: str, kubeconfig: Path, asks: list[Ask]) -> list[Obj]:
    """Objects whole; of refusals what programs look at."""
    async with Api.connected(server, kubeconfig) as api:
        namespace = f"r-{uuid.uuid4().hex[:8]}"
        await make_namespace(api, namespace)
        answers = await played(api, Scenario("random", asks), namespace)
        await api.call("DELETE", f"/api/v1/namespaces/{namespace}")
    return [answer if answer["status"] < 300 else _refusal(answer) for answer in answers]


def _refusal(answer: Obj) -> Obj:
    return {"status": answer["status"], "reason": answer["body"].get("reason")}
