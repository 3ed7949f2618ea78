"""Which of several policies is in force, and what is said of the others."""

from __future__ import annotations

from tests.unit.controller.policies import NOW, raw

from gpuready.controller.policy.active import active_of, ignored_of, read
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.status import ignored_status, status_of


def test_the_oldest_policy_is_in_force_and_ties_go_by_name():
    young, old = raw("a", "2026-02-01T00:00:00Z"), raw("b", "2026-01-01T00:00:00Z")
    assert active_of([young, old]).name == "b"
    assert [obj["metadata"]["name"] for obj in ignored_of([young, old])] == ["a"]
    assert active_of([raw("b"), raw("a")]).name == "a"


def test_the_next_policy_takes_over_when_the_first_is_being_deleted():
    old = raw("old", "2026-01-01T00:00:00Z")
    old["metadata"]["deletionTimestamp"] = NOW
    assert active_of([old, raw("young")]).name == "young"


def test_an_ignored_policy_is_told_whose_turn_it_is():
    status = ignored_status(raw("young"), "old", "gpu-operator", NOW)
    assert status["state"] == "ignored"
    assert "old" in status["conditions"][0]["message"]


def test_a_malformed_policy_freezes_and_names_path_value_and_what_is_allowed():
    active = read(raw(driver={"kernelModuleType": "closed"}))
    assert active.is_frozen
    status = status_of(active, None, Observed([], {}), "gpu-operator", NOW)
    message = status["conditions"][1]["message"]
    assert status["conditions"][1]["reason"] == "PolicyInvalid"
    for word in ("spec.driver.kernelModuleType", "closed", "auto", "open", "proprietary"):
        assert word in message
