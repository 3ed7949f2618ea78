"""The API server refuses, loses, delays and spoils calls of operator and node agent: the end is the same."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.fault_cluster import KINDS, FaultCluster, fault_cluster, message_of
from tests.sim.faults import (
    answers,
    cut_after,
    cut_before,
    cut_in_answer,
    cut_line,
    doubled,
    doubled_lines,
    error_line,
    forbids,
    garbage_line,
    half_json,
    hangs,
    invalid,
    redirects,
    refuses,
)
from tests.sim.faulty_proxy import FOR_EVER
from tests.sim.operator_cluster import (
    NAMESPACE,
    POLICIES,
    POLICY,
    expect_no_writes,
    operand,
    policy,
    quiet,
    ready,
)

from gpuready_sim.client import DAEMON_SETS

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_CALLS = (
    refuses(500, "InternalError"),
    refuses(429, "TooManyRequests", retry_after=0.1),
    cut_after(),
    refuses(409, "Conflict"),
    answers(b"<html>sign in</html>", content_type="text/html"),
    cut_before(),
    refuses(504, "Timeout"),
    half_json(),
    doubled(),
    answers(b"{}"),
    redirects(),
    cut_in_answer(),
    refuses(503, "ServiceUnavailable", retry_after=0.1),
)
WATCHES = [kind for kind in KINDS if kind[1] == "watch"]
OF_WATCHES = (cut_line(1), garbage_line(), error_line(410, "Expired"), doubled_lines(), error_line(500, ""))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def faults(state_home: Path) -> AsyncIterator[FaultCluster]:
    async with fault_cluster() as started:
        yield started


async def test_faults_at_the_first_call_of_every_kind_change_nothing_of_the_end(faults: FaultCluster):
    of_calls, of_watches = itertools.cycle(OF_CALLS), itertools.cycle(OF_WATCHES)
    rules = [
        faults.proxy.add(
            next(of_watches if verb == "watch" else of_calls), client=client, verb=verb, resource=resource
        )
        for client, verb, resource in KINDS
    ]
    await faults.operator.kill()
    await faults.operator.start()

    calls = await faults.converge()

    met = [kind for kind, rule in zip(KINDS, rules, strict=True) if rule.hits]
    assert len(met) >= len(KINDS) - 2, set(KINDS) - set(met)
    assert faults.needless_writes(calls) == []
    start = await quiet(faults.cluster)
    await expect_no_writes(faults.cluster, start)
    said = await faults.logs()
    assert "Traceback" not in said
    faults.proxy.rules.clear()


async def test_an_api_server_that_restarts_is_said_once_and_watched_on_from_where_we_were(
    faults: FaultCluster,
):
    await ready(faults.cluster)
    before, told = len(faults.proxy.calls), (await faults.logs()).count("API server away")

    await faults.proxy.restart(away_s=1.5)
    await faults.proxy.until(lambda done: done.call.verb == "watch" and done.status == 200, len(WATCHES))

    since = faults.proxy.calls[before:]
    assert [str(done.call) for done in since if done.call.verb == "list"] == []
    said = await faults.logs()
    assert said.count("API server away") == told + 1 + len(faults.nodes)
    assert "Traceback" not in said


async def test_a_missing_rule_is_named_with_what_to_do_and_the_rest_goes_on(faults: FaultCluster):
    await ready(faults.cluster)

    with faults.proxy.rule(forbids(), client="gpuready-operator", verb="apply", times=FOR_EVER):
        edit = policy(devicePlugin={"env": [{"name": "GPUREADY_PROBE_S", "value": "0.2"}]})
        await faults.cluster.apply(edit)
        found = await faults.cluster.wait(
            POLICIES, POLICY, until=lambda obj: "is forbidden" in message_of(obj), timeout_s=40
        )
        said = message_of(found)
        assert 'cannot patch resource "daemonsets" in API group "apps"' in said
        assert "gpuready rbac" in said
        assert operand(found, "driver")["state"] == "ready", "the rest goes on"


async def test_one_object_that_is_invalid_breaks_its_operand_alone_and_names_the_field(faults: FaultCluster):
    field = "spec.template.spec.containers[0].image"
    with faults.proxy.rule(
        invalid(field), verb="apply", name="nvidia-device-plugin-daemonset", times=FOR_EVER
    ):
        edit = policy(devicePlugin={"env": [{"name": "GPUREADY_PROBE_S", "value": "0.3"}]})
        await faults.cluster.apply(edit)
        found = await faults.cluster.wait(
            POLICIES, POLICY, until=lambda obj: field in message_of(obj), timeout_s=40
        )

    broken = operand(found, "device-plugin")
    assert broken["reason"] == "ApplyFailed"
    assert field in broken["message"]
    assert operand(found, "driver")["state"] == "ready"


async def test_a_write_that_hangs_holds_up_its_own_operand_alone(faults: FaultCluster):
    with faults.proxy.rule(hangs(), verb="apply", name="nvidia-device-plugin-daemonset") as held:
        edit = policy(
            devicePlugin={"env": [{"name": "GPUREADY_PROBE_S", "value": "0.4"}]},
            dcgmExporter={"enabled": True},
        )
        await faults.cluster.apply(edit)
        await faults.cluster.wait(DAEMON_SETS, "nvidia-dcgm-exporter", NAMESPACE)
        assert held.hits == 1
