"""What a disruption budget allows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpuready_sim.controllers.disruption.budget import status_of

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def budget(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "b", "namespace": "n", "generation": 3},
        "spec": spec,
        "status": status or {},
    }


def pod(name: str, *, ready: bool = True, ending: bool = False, owner: str = "") -> dict[str, Any]:
    kind, _, owner_name = owner.partition("/")
    references = [{"kind": kind, "name": owner_name, "controller": True}] if owner else []
    meta: dict[str, Any] = {"name": name, "ownerReferences": references}
    if ending:
        meta["deletionTimestamp"] = "2026-07-01T11:59:00Z"
    return {
        "metadata": meta,
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


OF_SET = {"owner": "ReplicaSet/web"}


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        pytest.param({"minAvailable": 1}, [pod("a"), pod("b")], (1, 2, 1, 2), id="one of two may go"),
        pytest.param({"minAvailable": 1}, [pod("a")], (0, 1, 1, 1), id="the last healthy one stays"),
        pytest.param({"minAvailable": 1}, [pod("a"), pod("b", ready=False)], (0, 1, 1, 2), id="one is ill"),
        pytest.param(
            {"minAvailable": 1}, [pod("a"), pod("b", ending=True)], (0, 1, 1, 2), id="one goes already"
        ),
        pytest.param({"minAvailable": 0}, [], (0, 0, 0, 0), id="nothing is covered"),
        pytest.param(
            {"minAvailable": "50%"}, [pod("a", **OF_SET), pod("b", **OF_SET)], (0, 2, 2, 4), id="half of four"
        ),
        pytest.param(
            {"maxUnavailable": 1},
            [pod("a", **OF_SET), pod("b", **OF_SET), pod("c", **OF_SET), pod("d", **OF_SET)],
            (1, 4, 3, 4),
            id="one of four may be away",
        ),
        pytest.param({"maxUnavailable": 1}, [pod("a")], (0, 1, 0, 0), id="pods of nobody do not count"),
    ],
)
def test_a_budget_allows(
    spec: dict[str, Any], pods: list[dict[str, Any]], expected: tuple[int, int, int, int]
) -> None:
    status = status_of(budget(**spec), pods, {"ReplicaSet/web": 4}, NOW)

    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    assert tuple(status[name] for name in names) == expected
    assert status["observedGeneration"] == 3
    assert status["conditions"][0]["reason"] == ("SufficientPods" if expected[0] else "InsufficientPods")


def test_pods_of_a_daemon_set_have_no_number_to_take_a_share_of() -> None:
    status = status_of(budget(maxUnavailable=1), [pod("a", owner="DaemonSet/agent")], {}, NOW)

    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["reason"] == "SyncFailed"
    assert "does not implement the scale subresource" in status["conditions"][0]["message"]


def test_an_eviction_counts_until_its_pod_goes_or_two_minutes_are_over() -> None:
    allowed = {"disruptedPods": {"a": "2026-07-01T11:59:00Z", "b": "2026-07-01T11:57:59Z"}}

    status = status_of(budget(allowed, minAvailable=1), [pod("a"), pod("b"), pod("c")], {}, NOW)

    assert status["disruptedPods"] == {"a": "2026-07-01T11:59:00Z"}
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (2, 1)


def test_what_was_written_is_not_written_again() -> None:
    pods = [pod("a"), pod("b")]
    first = status_of(budget(minAvailable=1), pods, {}, NOW)

    assert status_of(budget(dict(first), minAvailable=1), pods, {}, NOW.replace(hour=13)) == first
