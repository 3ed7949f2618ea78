"""What the operator's /metrics shows of the process, the policy and the fleet."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from tests.unit.controller.exposed import everything, gpu_node, node, operand, policy, scraped

from gpuready.controller import metrics
from gpuready.errors import GPUReadyError
from gpuready.kube.errors import Away, error_of

ORIGINALS = (
    "gpu_operator_gpu_nodes_total",
    "gpu_operator_reconciliation_last_success_ts_seconds",
    "gpu_operator_reconciliation_status",
    "gpu_operator_reconciliation_total",
    "gpu_operator_reconciliation_failed_total",
    "gpu_operator_reconciliation_has_nfd_labels",
    "gpu_operator_openshift_driver_toolkit_enabled",
    "gpu_operator_openshift_driver_toolkit_nfd_too_old",
    "gpu_operator_openshift_driver_toolkit_imagestream_missing",
    "gpu_operator_openshift_driver_toolkit_rhcos_tags_missing",
    "gpu_operator_openshift_driver_toolkit_imagestream_broken",
    "gpu_operator_driver_auto_upgrade_enabled",
    "gpu_operator_nodes_upgrades_in_progress",
    "gpu_operator_nodes_upgrades_done",
    "gpu_operator_nodes_upgrades_failed",
    "gpu_operator_nodes_upgrades_available",
    "gpu_operator_nodes_upgrades_pending",
)


async def test_every_metric_of_the_original_is_there_without_labels() -> None:
    async with scraped(**everything()) as rig:
        rows = rig.rows()

    assert [name for name in ORIGINALS if list(rows.get(name, {})) != [frozenset()]] == []


async def test_a_node_is_counted_under_the_first_link_that_keeps_it_from_serving() -> None:
    nodes = [node(name) for name in ("whole", "a", "b", "new")]
    nodes += [node("silent", silent=True), node("x", gpu=False)]
    gpu_nodes = [
        gpu_node("whole"),
        gpu_node("a", driver="DriverMissing", device_plugin="WaitingForDriver"),
        gpu_node("b", device_plugin="PluginNotRunning"),
        gpu_node("silent", driver="DriverMissing"),
    ]
    async with scraped(nodes=nodes, gpunodes=gpu_nodes) as rig:
        rows = rig.rows()

        assert rows["gpu_operator_gpu_nodes_total"] == {frozenset(): 5}
        held_up = {tuple(sorted(dict(key).items())): n for key, n in rows["gpuready_nodes_held_up"].items()}
        assert held_up == {
            (("link", "driver"), ("reason", "DriverMissing")): 1,
            (("link", "device-plugin"), ("reason", "PluginNotRunning")): 1,
            (("link", "reporting"), ("reason", "AgentSilent")): 1,
            (("link", "reporting"), ("reason", "NotReported")): 1,
        }
        assert rig.value("gpuready_node_held_up", node="a", link="driver", reason="DriverMissing") == 1
        assert 'node="whole"' not in rig.text()
        # what a silent node said last is not counted
        assert rig.value("gpuready_chain_nodes", link="driver", state="broken", reason="DriverMissing") == 1
        assert rig.value("gpuready_chain_nodes", link="driver", state="ok", reason="Fine") == 2


async def test_gpus_that_do_not_work_are_counted_where_they_are() -> None:
    nodes = [node("a"), node("b"), node("silent", silent=True)]
    gpu_nodes = [gpu_node("a", healthy=6), gpu_node("b"), gpu_node("silent", healthy=0)]
    async with scraped(nodes=nodes, gpunodes=gpu_nodes) as rig:
        assert (rig.value("gpuready_gpus"), rig.value("gpuready_gpus_healthy")) == (24, 14)
        assert rig.rows()["gpuready_node_gpus_unhealthy"] == {frozenset({("node", "a")}): 2}


async def test_a_node_cannot_fill_the_metrics_with_words_of_its_own() -> None:
    spoiled = gpu_node("a", driver='Reason"} 1\nevil')
    spoiled["status"]["chain"].append({"link": "no-such-link", "state": "odd", "reason": "x" * 5000})
    async with scraped(nodes=[node("a")], gpunodes=[spoiled]) as rig:
        assert rig.value("gpuready_nodes_held_up", link="driver", reason="Other") == 1
        assert rig.value("gpuready_chain_nodes", link="Other", state="Other", reason="Other") == 1
        assert "evil" not in rig.text()


async def test_a_large_healthy_fleet_has_as_many_rows_as_a_small_one() -> None:
    async def count(size: int) -> int:
        names = [f"gpu-{number}" for number in range(size)]
        fleet = {"nodes": [node(name) for name in names], "gpunodes": [gpu_node(name) for name in names]}
        async with scraped(**fleet) as rig:
            return sum(map(len, rig.rows().values()))

    assert await count(2) == await count(300)


async def test_the_policy_and_its_operands_are_shown_as_in_its_status() -> None:
    rows = (operand("driver", 3, 2, state="notReady", reason="DriverMissing"), operand("mig", enabled=False))
    async with scraped(clusterpolicies=[policy("notReady", "OperandNotReady", *rows, undiscovered=4)]) as rig:
        assert rig.value("gpu_operator_reconciliation_status") == 0
        assert rig.value("gpuready_operand_nodes_desired", operand="driver") == 3
        assert rig.value("gpuready_operand_nodes_ready", operand="driver") == 2
        assert rig.value("gpuready_operand_nodes_ready", operand="mig") is None
        driver = {"operand": "driver", "state": "notReady", "reason": "DriverMissing", "flavour": "own"}
        assert rig.value("gpuready_operand_state", **driver) == 1
        assert rig.value("gpuready_nodes_undiscovered") == 4
        seen = {"policy": "cluster-policy", "state": "notReady", "reason": "OperandNotReady"}
        assert rig.value("gpuready_policy_state", **seen) == 1


async def test_without_a_policy_the_status_is_minus_one_whatever_was_before() -> None:
    async with scraped(clusterpolicies=[policy()]) as rig:
        assert rig.value("gpu_operator_reconciliation_status") == 1
        assert rig.value("gpu_operator_reconciliation_last_success_ts_seconds") == 77

        rig.current.active = rig.current.effective = None

        assert rig.value("gpu_operator_reconciliation_status") == -1
        assert rig.value("gpu_operator_reconciliation_last_success_ts_seconds") is None


async def test_a_replica_that_waits_shows_itself_and_nothing_of_the_cluster() -> None:
    async with scraped(**everything()) as rig:
        rig.metrics.leader = False
        rows = rig.rows()

    assert rows["gpuready_leader"] == {frozenset(): 0}
    assert "gpuready_reconciles_total" in rows
    assert [name for name in rows if name.startswith("gpu_operator") or "node" in name] == []


async def test_the_fleet_is_counted_anew_only_when_a_node_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    real = metrics.fleet_of
    monkeypatch.setattr(metrics, "fleet_of", lambda *args: counted.append(1) or real(*args))  # type: ignore[func-returns-value]
    async with scraped(nodes=[node("a")], gpunodes=[gpu_node("a")]) as rig:
        assert counted == [], "nothing is computed before anybody asks"

        for _ in range(3):
            assert rig.value("gpu_operator_gpu_nodes_total") == 1
        assert len(counted) == 1

        rig.caches.nodes._put("b", _decoded(rig, node("b")))
        assert rig.value("gpu_operator_gpu_nodes_total") == 2
        assert len(counted) == 2


def _decoded(rig: Any, obj: dict[str, Any]) -> Any:
    return rig.caches.nodes._decode(json.dumps(obj).encode())


async def test_no_counter_ever_decreases_also_while_a_pass_is_under_way() -> None:
    async with scraped(**everything()) as rig:
        loop = rig.loop
        loop.raises = {
            "fails": GPUReadyError("no"),
            "conflicts": error_of(409, {"reason": "Conflict"}),
            "away": Away("gone"),
            "breaks": RuntimeError("a mistake"),
        }
        task = asyncio.create_task(loop.run())
        before = rig.counters()
        for key in ("fine", *loop.raises):
            loop.queue.add(key)
            await asyncio.wait_for(loop.inside.wait(), 30)
            before = _grown(before, rig.counters())
            loop.inside.clear()
            loop.go_on.set()
            while loop.results.total() < loop.reconciled:
                await asyncio.sleep(0)
            loop.go_on.clear()
            before = _grown(before, rig.counters())
        rig.api.observer("patch", "nodes", "200")  # type: ignore[attr-defined]
        rig.caches.nodes.restarts["expired"] += 1
        last = _grown(before, rig.counters())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    passes = {labels: n for (name, labels), n in last.items() if name == "gpuready_reconciles_total"}
    ended = {dict(labels)["result"]: n for labels, n in passes.items()}
    assert ended["ok"] == 1
    assert ended["failed"] >= 2
    assert ended["conflict"] >= 1
    assert ended["away"] >= 1
    api = frozenset({"verb": "patch", "resource": "nodes", "code": "200"}.items())
    assert last[("gpuready_api_requests_total", api)] == 1
    watch = frozenset({"resource": "nodes", "reason": "expired"}.items())
    assert last[("gpuready_watch_restarts_total", watch)] == 1
    assert last[("gpuready_reconcile_duration_seconds_count", frozenset({("loop", "policy")}))] >= 5


def _grown(before: Any, after: Any) -> Any:
    smaller = {key: (value, after.get(key)) for key, value in before.items() if after.get(key, -1) < value}
    assert smaller == {}
    return after


async def test_nodes_that_wait_for_a_driver_are_counted_by_the_limit_that_keeps_them() -> None:
    """Case C28: five wait, two others use the budget up."""
    driver = {"nvidia.com/gpu.deploy.driver": "true"}
    waiting = {**driver, "nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}
    nodes = [node(name, **waiting) for name in ("u1", "u2", "u4", "u5", "u7")]
    nodes += [node(name, **driver) for name in ("u3", "u6", "u8")]
    for each in nodes:
        ready = "False" if each["metadata"]["name"] == "u6" else "True"
        each["status"]["conditions"].append({"type": "Ready", "status": ready})
        each["spec"] = {"unschedulable": each["metadata"]["name"] == "u3"}
    asked = policy()
    asked["spec"] = {"driver": {"upgradePolicy": {"autoUpgrade": True, "maxUnavailable": "25%"}}}
    async with scraped(nodes=nodes, clusterpolicies=[asked]) as rig:
        rows = rig.rows()["gpuready_driver_upgrade_blocked_nodes"]
    assert {dict(key)["reason"]: value for key, value in rows.items()} == {
        "maxUnavailable": 5,
        "maxParallelUpgrades": 0,
    }
