"""The node agent where the API server refuses one thing: the rest is told, and the log names it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.operands.node_agent.fake_api import FakeApi
from tests.unit.operands.node_agent.machine import FakeChild, Machine, inventory
from tests.unit.operands.node_agent.one_node import PCI, gpu_node, node, running

from gpuready.operands.node_agent import daemon, observer

NODE, GPU_NODE = "/api/v1/nodes/n1", "/apis/gpuready.dev/v1alpha1/gpunodes/n1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "PATIENCE_S", 0.3)


def is_labelled(api: FakeApi) -> bool:
    return api.get("nodes", "n1")["metadata"]["labels"].get(PCI) == "true"


def has_status(api: FakeApi) -> bool:
    return bool(api.get("gpunodes", "n1").get("status", {}).get("chain"))


def has_condition(api: FakeApi) -> bool:
    return any(row["type"] == "GPUReady" for row in api.get("nodes", "n1")["status"]["conditions"])


@pytest.mark.parametrize(
    "answer", [pytest.param((403, "Forbidden"), id="403"), pytest.param((500, ""), id="500")]
)
def has_event(api: FakeApi) -> bool:
    return bool(api.events)


@pytest.mark.parametrize(
    ("call", "missing", "answer"),
    [
        pytest.param(f"PATCH {NODE}", is_labelled, (403, "Forbidden"), id="labels"),
        pytest.param(f"PATCH {NODE}", is_labelled, (500, "InternalError"), id="labels, 500"),
        pytest.param(f"PATCH {GPU_NODE}/status", has_status, (403, "Forbidden"), id="GPUNode.status"),
        pytest.param(f"PATCH {NODE}/status", has_condition, (403, "Forbidden"), id="condition"),
        pytest.param("POST /api/v1/namespaces/default/events", has_event, (403, "Forbidden"), id="events"),
    ],
)
async def test_what_cannot_be_written_is_named_and_the_rest_is_told(
    api: FakeApi,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    call: str,
    missing: Callable[[FakeApi], bool],
    answer: tuple[int, str],
) -> None:
    machine = Machine(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    api.refused[call] = answer

    async with running(api, machine, FakeChild(inventory())):
        others = {is_labelled, has_status, has_condition} - {missing}
        await api.until(lambda: all(check(api) for check in others))
        assert not missing(api)
        await api.until(lambda: _errors(caplog, call), deadline_s=20)
        if "events" not in call:
            api.refused.clear()
            await api.until(lambda: missing(api), deadline_s=20)


def _errors(caplog: pytest.LogCaptureFixture, call: str) -> list[str]:
    said = [str(getattr(record, "fields", {}).get("error", "")) for record in caplog.records]
    return [text for text in said if call.partition("?")[0] in text]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        pytest.param("/api/v1/nodes", "this node", id="nodes"),
        pytest.param("/apis/gpuready.dev/v1alpha1/gpunodes", "what is wanted of this node", id="gpunodes"),
    ],
)
async def test_what_cannot_be_read_makes_it_not_ready_and_says_so(
    api: FakeApi,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    path: str,
    what: str,
) -> None:
    caplog.set_level(logging.INFO)
    machine = Machine(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    api.refused[f"GET {path}"] = (403, "Forbidden")

    async with running(api, machine, FakeChild(inventory())) as agent:
        other = is_labelled if "gpunodes" in path else has_status
        await api.until(lambda: other(api), deadline_s=20)
        await api.until(lambda: _errors(caplog, f"GET {path}"), deadline_s=20)
        ready, why = agent.is_ready()

        assert not ready
        assert f"has not shown {what} yet" in why
        assert f"GET {path}" in why

        api.refused.clear()
        await api.until(lambda: is_labelled(api) and has_status(api) and has_condition(api), deadline_s=20)
        assert agent.is_ready()[0]
    assert [record.message for record in caplog.records].count("cannot be read") == 1


async def test_an_agent_that_may_not_tell_what_it_sees_is_not_ready(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its last word would stand: everybody who reads the GPUNode would call a broken GPU well."""
    monkeypatch.setattr(daemon, "UNTOLD_AFTER_S", 0.5)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    api.refused[f"PATCH {GPU_NODE}/status"] = (403, "Forbidden")

    async with running(api, Machine(tmp_path), FakeChild(inventory())) as agent:
        await api.until(
            lambda: agent.is_ready()[1].startswith("what it sees of this node cannot be told"), deadline_s=20
        )
        assert f"PATCH {GPU_NODE}/status" in agent.is_ready()[1]
        api.refused.clear()
        await api.until(lambda: has_status(api) and agent.is_ready()[0], deadline_s=20)


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_jumps_an_hour_writes_nothing(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    machine = Machine(tmp_path)
    machine.install_driver()
    machine.load_module()
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    looks = 0

    async with running(api, machine, FakeChild(inventory())) as agent:
        await api.until(lambda: is_labelled(api) and has_status(api) and has_condition(api))
        await api.until_quiet(0.6)
        written = len(api.writes)
        jumped = datetime.now(UTC) + timedelta(hours=hours)
        monkeypatch.setattr(daemon, "_now", lambda: jumped.strftime("%Y-%m-%dT%H:%M:%SZ"))
        while looks < 3:
            agent._wake.set()
            await api.until_quiet(0.1)
            looks += 1

    assert api.writes[written:] == []
