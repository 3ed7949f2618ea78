"""How many nodes may be without their driver, and who keeps the others waiting (case C28)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.controller.policies import deployed, gpu_node, status

from gpuready import names
from gpuready.api.clusterpolicy import UpgradePolicy
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.upgrade.budget import Budget, DriverNode, explained, next_step

ASKED = {
    "driver": {"upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "25%"}}
}
U = [f"u{number}" for number in range(1, 9)]


def driver_node(name: str, state: str = "upgrade-required", **facts: bool) -> DriverNode:
    return DriverNode(name, state, **facts)


def budget_of(*nodes: DriverNode, parallel: int = 1, unavailable: int | str = "25%") -> Budget:
    return Budget.of(UpgradePolicy(max_parallel_upgrades=parallel, max_unavailable=unavailable), nodes)


def c28(**changed: DriverNode) -> Budget:
    """u3 cordoned by its admin, u6 NotReady, u8 done, five wait."""
    nodes = {name: driver_node(name) for name in U}
    nodes["u3"] = driver_node("u3", "upgrade-done", cordoned=True)
    nodes["u6"] = driver_node("u6", "upgrade-done", ready=False)
    nodes["u8"] = driver_node("u8", "upgrade-done")
    return budget_of(*{**nodes, **changed}.values())


def test_a_used_up_budget_is_explained_with_its_arithmetic_and_who_uses_it():
    budget = c28()
    assert (len(budget.waiting), budget.slots, budget.held_back_by) == (5, 0, "maxUnavailable")
    assert explained(budget) == (
        "5 nodes wait for another driver (u1, u2, u4, u5, u7); maxUnavailable 25% of 8 driver nodes is 2, "
        "used by u3 (cordoned), u6 (NotReady): none may begin"
    )
    assert next_step(budget) == (
        "bring u6 back to Ready, kubectl uncordon u3, or raise spec.driver.upgradePolicy.maxUnavailable"
    )


def test_one_node_may_begin_when_one_is_back():
    assert c28(u6=driver_node("u6", "upgrade-done")).slots == 1


def a() -> DriverNode:
    return driver_node("a")


@pytest.mark.parametrize(
    ("nodes", "options", "slots", "limit"),
    [
        pytest.param([a(), driver_node("b")], {}, 1, "", id="one of two"),
        pytest.param(
            [a(), driver_node("b", "drain-required", cordoned=True)],
            {"unavailable": 2},
            0,
            "maxParallelUpgrades",
            id="one is under way",
        ),
        pytest.param(
            [a(), driver_node("b", "upgrade-failed", cordoned=True)],
            {"unavailable": 2},
            0,
            "maxParallelUpgrades",
            id="a failed one has not been given back",
        ),
        pytest.param(
            [a(), driver_node("b")], {"parallel": 0, "unavailable": "100%"}, 2, "", id="only as many as wait"
        ),
        pytest.param([a()], {"unavailable": 0}, 0, "maxUnavailable", id="nothing is allowed"),
        pytest.param([driver_node("a", "")], {}, 1, "", id="nobody waits"),
        pytest.param(
            [a(), driver_node("b", "cordon-required")],
            {"parallel": 0, "unavailable": 1},
            0,
            "maxUnavailable",
            id="one is about to be cordoned",
        ),
        pytest.param([driver_node("a", skipped=True)], {}, 1, "", id="the only one that waits is left out"),
    ],
)
def test_the_budget_counts_as_the_original_does(nodes, options, slots, limit):
    budget = budget_of(*nodes, **options)
    assert (budget.slots, budget.held_back_by) == (slots, limit)


def test_a_failed_node_is_what_to_look_at_when_it_holds_the_only_place():
    budget = budget_of(driver_node("a"), driver_node("b", "upgrade-failed", cordoned=True), unavailable=2)
    assert "maxParallelUpgrades 1 is used up by b (upgrade-failed)" in explained(budget)
    assert next_step(budget).startswith("look why b failed")


def test_a_node_without_a_driver_container_takes_no_part():
    for value in ("", "false", "pre-installed"):
        assert DriverNode.of("a", {names.DEPLOY_DRIVER: value}, None, cordoned=True, ready=False) is None


def test_a_node_that_runs_another_driver_than_asked_waits_without_any_label():
    body = b'{"metadata":{"name":"a"},"spec":{"driver":{"trouble":{"reason":"DriverOutdated"}}}}'
    node = DriverNode.of("a", {names.DEPLOY_DRIVER: "true"}, decode_gpunode(body), cordoned=False, ready=True)
    assert node.waits


# --- as the user sees it ----------------------------------------------------------------------------------


def upgrade_condition(*, auto: bool = True, u6_ready: bool = False):
    nodes = {name: deployed(name, **{names.UPGRADE_STATE_LABEL: "upgrade-required"}) for name in U}
    for name in ("u3", "u6", "u8"):
        nodes[name] = deployed(name, **{names.UPGRADE_STATE_LABEL: "upgrade-done"})
    nodes["u3"] = replace(nodes["u3"], cordoned=True)
    nodes["u6"] = replace(nodes["u6"], ready=u6_ready)
    result = status(
        *nodes.values(), gpu_nodes=[gpu_node(name) for name in U], spec=ASKED if auto else {"driver": {}}
    )
    return next((row for row in result["conditions"] if row["type"] == "DriverUpgradeWaiting"), None)


def test_a_policy_tells_who_waits_for_a_driver_and_why_nobody_begins():
    row = upgrade_condition()
    assert (row["status"], row["reason"]) == ("True", "MaxUnavailable")
    for word in ("5 nodes wait", "u3 (cordoned)", "u6 (NotReady)", "25%", "is 2", "next: bring u6 back"):
        assert word in row["message"]


def test_with_room_in_the_budget_it_says_that_nobody_upgrades_by_itself():
    row = upgrade_condition(u6_ready=True)
    assert row["reason"] == "ByHand"
    assert "this version upgrades no driver by itself; next: gpuready doctor" in row["message"]


def test_without_automatic_upgrades_nobody_speaks_of_a_budget():
    assert upgrade_condition(auto=False) is None
