"""Calls that fail, and kinds that are kept from us: the rest goes on, and the status says why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.controller.fake_api import FakeApi, invalid, overloaded
from tests.unit.controller.test_loops import PLUGIN, Controller, gpu_node, policy

from gpuready import names
from gpuready.controller.policy import loop as policy_loop
from gpuready.controller.policy import setbacks
from gpuready.controller.troubles import Troubles
from gpuready.errors import GPUReadyError
from gpuready.kube import backoff
from gpuready.kube.errors import ApiStatusError, Unreachable, error_of
from gpuready.log import get_logger

AGENT = "gpuready-node-agent"
HUNG = Unreachable("the API server did not answer PATCH", why="no answer in time")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_S", 0.01)


def forbidden(plural: str = "nodes") -> ApiStatusError:
    text = f'{plural} is forbidden: User "operator" cannot list resource "{plural}"'
    return error_of(403, {"message": text, "reason": "Forbidden"}, call=f"GET {plural}")


def agent_daemonset() -> dict[str, Any]:
    labels = {names.OPERAND_LABEL: "node-agent"}
    return {
        "metadata": {"name": AGENT, "namespace": "gpu-operator", "uid": "d", "labels": labels},
        "spec": {},
    }


@asynccontextmanager
async def blind_controller(api: FakeApi) -> AsyncIterator[Controller]:
    """Started as the operator does: when every kind was listed or is kept from it."""
    made = Controller(api)
    watching = asyncio.gather(made.caches.run(), made.schemas.run())
    async with asyncio.timeout(30):
        await made.caches.wait_answered()
        await made.schemas.wait_known()
    yield made
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def passes(made: Controller, count: int = 1) -> None:
    for _ in range(count):
        with suppress(GPUReadyError):
            await made.policy.reconcile("policy")


def error_of_status(api: FakeApi) -> dict[str, Any]:
    return next(row for row in api.written["conditions"] if row["type"] == "Error")


@pytest.mark.parametrize(
    "failure",
    [pytest.param(HUNG, id="no answer in time"), pytest.param(overloaded(), id="503")],
)
async def test_an_object_whose_calls_fail_is_told_at_the_second_time_and_the_others_are_applied(
    failure, monkeypatch
):
    monkeypatch.setattr(setbacks, "FIRST_RETRY_S", 0.0)  # the second pass is another try
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse[AGENT] = failure  # the DaemonSet, its account and its role

    async with blind_controller(api) as made:
        await passes(made)
        assert f"apply daemonsets {PLUGIN}" in api.sent
        assert error_of_status(api)["reason"] != "ReconcileFailed", "it may have been a moment"

        made.policy._written.clear()  # a status may be written once a second
        made.policy._echoes = type(made.policy._echoes)()
        await passes(made)

    said = error_of_status(api)
    assert said["reason"] == "ReconcileFailed"
    assert str(failure) in said["message"]


async def test_what_the_server_asks_to_wait_is_waited_by_the_queue():
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse[PLUGIN] = error_of(429, {"message": "later"}, retry_after="120")

    async with blind_controller(api) as made:
        with pytest.raises(GPUReadyError) as caught:
            await made.policy.reconcile("policy")

    assert caught.value.retry_after == 120


KINDS = (
    "nodes", "gpunodes", "pods", "configmaps", "serviceaccounts", "clusterroles", "clusterrolebindings",
    "daemonsets",
)  # fmt: skip


@pytest.mark.parametrize("plural", KINDS)
async def test_a_kind_that_is_kept_from_the_operator_is_named_in_the_status(plural: str):
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node("g1")])
    api.hidden[plural] = forbidden(plural)

    async with blind_controller(api) as made:
        await passes(made)

    said = error_of_status(api)
    assert said["reason"] == "ReconcileFailed"
    assert f'cannot list resource "{plural}"' in said["message"]
    assert "gpuready rbac" in said["message"]


async def test_a_look_that_is_only_for_service_monitors_is_no_trouble_of_the_policy():
    api = FakeApi(clusterpolicies=[policy()])
    api.hidden["customresourcedefinitions"] = forbidden("customresourcedefinitions")

    async with blind_controller(api) as made:
        await passes(made)

    assert error_of_status(api)["reason"] != "ReconcileFailed"


@pytest.mark.parametrize("plural", KINDS)
async def test_what_the_operator_may_not_see_it_takes_for_neither_absent_nor_done(plural: str):
    """Nothing is deleted, uninstalled or written over, with a policy and without one."""
    for policies in ([policy()], []):
        api = FakeApi(
            clusterpolicies=policies,
            nodes=[gpu_node("g1")],
            gpunodes=[{"metadata": {"name": "g1", "uid": "u1", "resourceVersion": "1"}, "spec": {}}],
            daemonsets=[agent_daemonset()],
        )
        api.hidden[plural] = forbidden(plural)

        async with blind_controller(api) as made:
            await passes(made)
            with suppress(GPUReadyError):
                await made.nodes.reconcile("g1")
                await made.labelling.reconcile("g1")

        assert "delete gpunodes g1" not in api.sent
        hidden_objects = [line for line in api.sent if line.startswith(f"apply {plural} ")]
        assert hidden_objects == []


@pytest.mark.parametrize("plural", ["pods", "configmaps", "clusterroles"])
async def test_the_rest_goes_on_beside_a_kind_that_is_kept_from_the_operator(plural: str):
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node("g1")])
    api.hidden[plural] = forbidden(plural)

    async with blind_controller(api) as made:
        await passes(made)
        await made.labelling.reconcile("g1")
        await made.nodes.reconcile("g1")

    assert {f"apply daemonsets {PLUGIN}", "patch nodes g1", "create gpunodes g1"} <= set(api.sent)


async def test_a_configuration_that_cannot_be_read_leaves_the_last_good_one_in_force():
    plugin = {"config": {"version": "v1", "replicas": 4}, "configName": "shared", "configDigest": "d"}
    wanted = policy(devicePlugin={"config": {"name": "sharing", "default": "shared"}})
    labelled = gpu_node("g1")
    spec = {"devicePlugin": plugin}
    api = FakeApi(
        clusterpolicies=[wanted],
        nodes=[labelled],
        gpunodes=[{"metadata": {"name": "g1", "uid": "u1", "resourceVersion": "1"}, "spec": spec}],
    )
    api.hidden["configmaps"] = forbidden("configmaps")

    async with blind_controller(api) as made:
        await made.nodes.reconcile("g1")

    kept = api.written["devicePlugin"]
    assert kept["config"] == plugin["config"]
    assert kept["error"]["reason"] == "ConfigMapUnreadable"
    assert 'cannot list resource "configmaps"' in kept["error"]["message"]


async def test_nodes_that_cannot_be_written_are_named_with_the_reason_in_the_status():
    fleet = [gpu_node(f"g{number}") for number in range(5)]
    api = FakeApi(clusterpolicies=[policy()], nodes=fleet)
    for node in fleet:
        api.refuse[node["metadata"]["name"]] = invalid("a webhook says no")

    async with blind_controller(api) as made:
        made.policy._others = (made.labelling, made.nodes)
        for node in fleet:
            await made.labelling._result_of(node["metadata"]["name"])
        await passes(made)

    said = error_of_status(api)
    assert said["reason"] == "ReconcileFailed"
    assert "labelling of g0, g1, g2 and 2 more" in said["message"]
    assert "a webhook says no" in said["message"]


def test_a_cause_that_meets_a_whole_fleet_is_logged_once_and_its_end_too(caplog):
    caplog.set_level(logging.INFO)
    changes: list[int] = []
    troubles = Troubles("labelling", get_logger("controller.labelling"))
    troubles.on_change = lambda: changes.append(1)

    for node in ("g1", "g2", "g3", "g4", "g1"):
        troubles.failed(node, f'PATCH /api/v1/nodes/{node}: nodes "{node}" is forbidden', 1.0)
    troubles.failed("other", "something else", 1.0)
    assert [record.message for record in caplog.records] == ["not reconciled"] * 2
    assert troubles.texts() == [
        'labelling of g1, g2, g3 and 1 more: PATCH /api/v1/nodes/g1: nodes "g1" is forbidden',
        "labelling of other: something else",
    ]

    for node in ("g1", "g2", "g3", "g4", "other"):
        troubles.over(node)
    assert [record.message for record in caplog.records][2:] == ["reconciled again"] * 2
    assert troubles.texts() == []
    assert len(changes) == 10


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_jumps_an_hour_writes_nothing(hours: int, monkeypatch: pytest.MonkeyPatch):
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node("g1")])
    async with blind_controller(api) as made:
        await passes(made)
    settled = {**policy(), "status": api.written}
    api = FakeApi(clusterpolicies=[settled], nodes=[gpu_node("g1")])

    class Jumped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr(policy_loop, "datetime", Jumped)
    async with blind_controller(api) as made:
        await passes(made)

    assert "patch clusterpolicies p" not in api.sent


async def test_what_is_no_longer_wanted_and_cannot_be_deleted_is_told():
    left = agent_daemonset()
    left["metadata"] |= {"name": "nvidia-dcgm", "labels": {names.OPERAND_LABEL: "dcgm"}}
    api = FakeApi(clusterpolicies=[policy()], daemonsets=[left])
    api.refuse["nvidia-dcgm"] = error_of(403, {"message": "cannot delete it"})

    async with blind_controller(api) as made:
        await passes(made)

    said = error_of_status(api)
    assert said["reason"] == "ReconcileFailed"
    assert "DaemonSet/nvidia-dcgm: cannot delete it" in said["message"]
