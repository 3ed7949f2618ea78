"""The same random requests to both servers end the same.

What is found here becomes a scenario with a name, and a fix.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .api import Api
from .conftest import install_definitions, make_namespace
from .scenarios.words import (
    DEPLOYMENTS,
    GPU_NODES,
    MAPS,
    PODS,
    apply,
    config_map,
    delete,
    deployment,
    get,
    gpu_node,
    patch,
    pod,
    post,
    put,
)
from .test_scenarios import difference
from .transcript import Ask, Scenario, played

Obj = dict[str, Any]
EXAMPLES = int(os.environ.get("CONFORMANCE_EXAMPLES", "25"))  # thousands, to look for what nobody thought of
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.generate],  # to make a case smaller, a hundred others would have to be tried
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

names = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["1", "2"])
texts = st.dictionaries(names, values, max_size=2)
maybe_texts = st.dictionaries(names, st.one_of(st.none(), values), max_size=3)
managers = st.sampled_from(["alice", "bob", "carol"])
dry = st.sampled_from([{}, {}, {}, {"dryRun": "All"}])
forced = st.sampled_from([{}, {}, {"force": "true"}, {"dryRun": "All"}, {"force": "true", "dryRun": "All"}])
validated = st.sampled_from([{}, {"fieldValidation": "Strict"}, {"fieldValidation": "Warn"}])
preconditions = st.sampled_from(
    [
        {},
        {"preconditions": {"uid": "$UID0"}},
        {"preconditions": {"resourceVersion": "$RV0"}},
        {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}},
        {"propagationPolicy": "Background"},
        {"gracePeriodSeconds": 0},
        {"dryRun": ["All"]},
    ]
)
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


def operations(paths: list[str], value: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Obj]]:
    """A JSON patch."""
    path = st.sampled_from(paths)
    operation = st.one_of(
        st.builds(lambda at, what: {"op": "add", "path": at, "value": what}, path, value),
        st.builds(lambda at, what: {"op": "replace", "path": at, "value": what}, path, value),
        st.builds(lambda at, what: {"op": "test", "path": at, "value": what}, path, value),
        st.builds(lambda at: {"op": "remove", "path": at}, path),
        st.builds(lambda at, to: {"op": "copy", "from": at, "path": to}, path, path),
        st.builds(lambda at, to: {"op": "move", "from": at, "path": to}, path, path),
    )
    return st.lists(operation, min_size=1, max_size=3)


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
    unnamed = {"metadata": {"generateName": "g-", "labels": {"g": "1"}}}
    places = [
        "/data",
        "/data/a",
        "/data/b",
        "/metadata/labels",
        "/metadata/labels/a",
        "/metadata/finalizers",
        "/kind",
    ]
    ends = st.builds(lambda some: {"metadata": {"finalizers": some}}, finalizers)
    anew = st.just({"metadata": {"managedFields": [{}]}})
    request = st.one_of(
        st.builds(lambda body, how: post(MAPS, body, **how), whole, dry),
        st.builds(lambda body, how: put(path, body, **how), whole, dry),
        st.builds(lambda body, how: patch("merge", path, body, **how), partial, dry),
        st.builds(lambda body, how: patch("strategic", path, body, **how), partial, dry),
        st.builds(lambda body: patch("jsonpatch", path, body), operations(places, st.one_of(values, texts))),
        st.builds(lambda body, who, how: apply(path, body, who, **how), said, managers, forced),
        st.builds(lambda body: delete(path, body or None), preconditions),
        st.builds(lambda body: patch("merge", path, body), st.one_of(ends, anew)),
        st.builds(lambda how: post(MAPS, unnamed, **how), dry),
    )
    first = post(MAPS, draw(whole))
    return [
        first,
        *draw(st.lists(request, min_size=1, max_size=8)),
        get(path),
        get(MAPS, labelSelector="a=1"),
    ]


@st.composite
def pod_requests(draw: st.DrawFn) -> list[Ask]:
    path = f"{PODS}/p"
    image = st.sampled_from(["i", "j"])
    place = st.sampled_from([{}, {"nodeName": "nowhere"}, {"terminationGracePeriodSeconds": 5}])
    toleration = st.builds(
        lambda key, seconds: {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": seconds,
        },
        names,
        st.sampled_from([10, 20]),
    )
    tolerations = st.lists(toleration, max_size=2)
    whole = st.builds(
        lambda some, where, bears: pod("p", *some, tolerations=bears, **where),
        containers(image),
        place,
        tolerations,
    )
    spec = st.one_of(
        st.builds(lambda some: {"containers": some}, containers(st.one_of(st.none(), image))),
        st.builds(lambda bears: {"tolerations": bears}, tolerations),
        st.sampled_from(
            [
                {"activeDeadlineSeconds": 5},
                {"restartPolicy": "Never"},
                {"containers": [{"name": "a", "$patch": "delete"}]},
            ]
        ),
    )
    condition = st.builds(
        lambda kind, value: {"type": kind, "status": value},
        st.sampled_from(["Ready", "x.dev/a"]),
        st.sampled_from(["True", "False"]),
    )
    status = st.builds(
        lambda phase, some, address: {"phase": phase, "conditions": some, "podIP": address},
        st.sampled_from(["Running", "Failed", None]),
        st.lists(condition, unique_by=lambda one: one["type"], max_size=2),
        st.sampled_from(["10.0.0.1", "10.0.0.2", None]),
    )
    places = [
        "/spec/containers/0/image",
        "/spec/containers/-",
        "/metadata/labels",
        "/spec/tolerations/0",
        "/status/phase",
    ]
    request = st.one_of(
        st.builds(lambda body, how: patch("strategic", path, {"spec": body}, **how), spec, dry),
        st.builds(lambda body: patch("merge", path, {"spec": body}), spec),
        st.builds(lambda labels: patch("strategic", path, {"metadata": {"labels": labels}}), maybe_texts),
        st.builds(lambda body: patch("strategic", f"{path}/status", {"status": body}), status),
        st.builds(lambda body: patch("merge", f"{path}/status", {"status": body}), status),
        st.builds(lambda body: patch("jsonpatch", path, body), operations(places, image)),
        st.builds(
            lambda body, who: apply(f"{path}/status", {**_HEAD_OF_POD, "status": body}, who), status, managers
        ),
        st.builds(
            lambda labels, who, how: apply(path, _labelled(labels), who, **how), texts, managers, forced
        ),
        st.builds(lambda body: delete(path, body or None), preconditions),
    )
    first = post(PODS, draw(whole))
    end = delete(path, {"gracePeriodSeconds": 0})
    return [first, *draw(st.lists(request, min_size=1, max_size=7)), get(path), end]


_HEAD_OF_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def _labelled(labels: Obj) -> Obj:
    return {**_HEAD_OF_POD, "metadata": {"name": "p", "labels": labels}}


def _in_version(spec: Obj, version: str) -> Obj:
    whole = gpu_node(spec)
    return {**whole, "metadata": {**whole["metadata"], "resourceVersion": version}}


@st.composite
def gpu_node_requests(draw: st.DrawFn) -> list[Ask]:
    path = f"{GPU_NODES}/$NS"
    spec = st.sampled_from(
        [{}, {"driver": {"enabled": True}}, {"driver": {"enabled": False}}, {"uninstall": True}]
    )
    link = st.builds(
        lambda name, state: {"link": name, "state": state, "reason": "r", "message": "m"},
        st.sampled_from(["driver", "cuda"]),
        st.sampled_from(["ok", "broken"]),
    )
    status = st.builds(
        lambda gpus, chain, more: {"gpus": gpus, "chain": chain, **more},
        st.sampled_from([0, 8, None, "many"]),
        st.lists(link, max_size=2),
        st.sampled_from([{}, {}, {"healthy": 8}, {"unknown": 1}]),
    )
    both = st.builds(lambda one, other: {"spec": one, "status": other}, spec, status)
    request = st.one_of(
        st.builds(lambda body, how: patch("merge", path, body, **how), both, validated),
        st.builds(lambda body, how: patch("merge", f"{path}/status", body, **how), both, validated),
        st.builds(lambda body: put(path, _in_version(body, "$RV0")), spec),
        st.builds(lambda body, who, how: apply(path, gpu_node(body), who, **how), spec, managers, forced),
        st.builds(
            lambda body, who, how: apply(f"{path}/status", {**gpu_node(), "status": body}, who, **how),
            status,
            managers,
            forced,
        ),
        st.builds(
            lambda body: patch("jsonpatch", path, body),
            operations(
                ["/spec/driver", "/spec/driver/enabled", "/status/gpus", "/metadata/labels"], st.booleans()
            ),
        ),
        st.builds(lambda body: delete(path, body or None), preconditions),
    )
    first = post(GPU_NODES, gpu_node(draw(spec)))
    return [first, *draw(st.lists(request, min_size=1, max_size=7)), get(path), delete(path)]


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


class Twins:
    """Both servers, asked at the same time."""

    def __init__(self, runner: asyncio.Runner, apis: list[Api]) -> None:
        self._runner = runner
        self._apis = apis

    def agree(self, asks: list[Ask]) -> None:
        """Fails with what is different."""
        kubernetes, embedded = self._runner.run(self._played(asks))
        if found := difference(kubernetes, embedded):
            pytest.fail("\n".join([*map(str, asks), found]), pytrace=False)

    async def _played(self, asks: list[Ask]) -> list[list[Obj]]:
        return await asyncio.gather(*(_answers(api, asks) for api in self._apis))


@pytest.fixture(scope="module")
def twins(both: dict[str, Path]) -> Iterator[Twins]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def connect() -> list[Api]:
            apis = [
                await stack.enter_async_context(Api.connected(server, both[server]))
                for server in ("kubernetes", "embedded")
            ]
            for api in apis:
                await install_definitions(api)
            return apis

        yield Twins(runner, runner.run(connect()))
        runner.run(stack.aclose())


async def _answers(api: Api, asks: list[Ask]) -> list[Obj]:
    """Objects whole; of refusals what programs look at. The namespace stays: it takes longest to go."""
    namespace = f"r-{uuid.uuid4().hex[:8]}"
    await make_namespace(api, namespace)
    answers = await played(api, Scenario("random", asks), namespace)
    return [answer if answer["status"] < 300 else _refusal(answer) for answer in answers]


def _refusal(answer: Obj) -> Obj:
    body = answer["body"]
    return answer | {"body": body.get("reason") if isinstance(body, dict) else body}


@pytest.mark.timeout(0)
@given(asks=config_map_requests())
@SETTINGS
def test_config_maps_fare_alike(twins: Twins, asks: list[Ask]) -> None:
    twins.agree(asks)


@pytest.mark.timeout(0)
@given(asks=deployment_requests())
@SETTINGS
def test_deployments_fare_alike(twins: Twins, asks: list[Ask]) -> None:
    twins.agree(asks)


@pytest.mark.timeout(0)
@given(asks=pod_requests())
@SETTINGS
def test_pods_fare_alike(twins: Twins, asks: list[Ask]) -> None:
    twins.agree(asks)


@pytest.mark.timeout(0)
@given(asks=gpu_node_requests())
@SETTINGS
def test_gpu_nodes_fare_alike(twins: Twins, asks: list[Ask]) -> None:
    twins.agree(asks)
