"""Deployments: which ReplicaSet gets how many pods, and what the status says."""

from __future__ import annotations

from typing import Any

import pytest

from gpuready_sim.controllers.deployment import replica_set, rollout
from gpuready_sim.controllers.deployment.rollout import View

NOW = "2026-11-30T00:00:00Z"


def deployment(replicas: int = 2, image: str = "a:2", **strategy: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 7},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", **strategy},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}},
        },
    }


def made(image: str, replicas: int, available: int | None = None, revision: int = 1) -> dict[str, Any]:
    """The ReplicaSet of the template with this image."""
    found = rollout.new_replica_set(View(deployment(image=image), (), 0), revision)
    found["spec"]["replicas"] = replicas
    ready = replicas if available is None else available
    found["status"] = {"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready}
    return found


def names(scaled: dict[str, int], *replica_sets: dict[str, Any]) -> dict[str, int]:
    """Numbers by image."""
    images = {
        o["metadata"]["name"]: o["spec"]["template"]["spec"]["containers"][0]["image"] for o in replica_sets
    }
    return {images[name]: count for name, count in scaled.items()}


OLD, NEW = "a:1", "a:2"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param((2, 2), (0, 0), {NEW: 1}, id="one more than wanted may exist at once"),
        pytest.param((2, 2), (1, 0), {}, id="nothing goes before the new one is available"),
        pytest.param((2, 2), (1, 1), {OLD: 1}, id="an old one goes for each new one that is available"),
        pytest.param((2, 1), (1, 0), {OLD: 1}, id="an old one that is not available goes at once"),
        pytest.param((0, 0), (2, 2), {}, id="done"),
    ],
)
def test_a_rolling_update_never_falls_below_what_is_wanted(
    old: tuple[int, int], new: tuple[int, int], expected: dict[str, int]
) -> None:
    sets = [made(OLD, *old), made(NEW, *new, revision=2)]
    assert names(rollout.scaled(View(deployment(), sets, 2)), *sets) == expected


def test_recreate_starts_nothing_new_before_the_last_old_pod_is_gone() -> None:
    recreate = deployment(replicas=1, type="Recreate")
    old, new = made(OLD, 1), made(NEW, 0, revision=2)
    assert names(rollout.scaled(View(recreate, [old, new], 1)), old, new) == {OLD: 0}
    old["spec"]["replicas"], old["status"] = 0, {"replicas": 0}
    assert rollout.scaled(View(recreate, [old, new], 1)) == {}, "its pod is still terminating"
    assert names(rollout.scaled(View(recreate, [old, new], 0)), old, new) == {NEW: 1}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [(4, "25%", "25%", (1, 1)), (1, "25%", "25%", (1, 0)), (3, 0, 0, (0, 1)), (10, 3, "50%", (3, 5))],
)
def test_percentages_of_surge_round_up_and_of_unavailability_down(
    replicas: int, surge: Any, unavailable: Any, expected: tuple[int, int]
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    assert rollout.limits(View(deployment(replicas, rollingUpdate=rolling), (), 0)) == expected


def test_a_template_that_is_back_is_the_same_replica_set() -> None:
    first, again = made(OLD, 0), made(OLD, 1)
    assert first["metadata"]["name"] == again["metadata"]["name"]
    assert made(NEW, 0)["metadata"]["name"] != first["metadata"]["name"]
    view = View(deployment(image=OLD), [first, made(NEW, 2, revision=2)], 2)
    assert view.new is first
    assert rollout.next_revision(view) == 3


def test_helm_and_kubectl_can_tell_from_the_status_that_a_rollout_is_done() -> None:
    done = rollout.status_of(View(deployment(), [made(NEW, 2)], 2), NOW)
    assert done["observedGeneration"] == 7
    assert (done["updatedReplicas"], done["availableReplicas"], done["unavailableReplicas"]) == (2, 2, None)
    conditions = {row["type"]: (row["status"], row["reason"]) for row in done["conditions"]}
    assert conditions["Available"] == ("True", "MinimumReplicasAvailable")
    assert conditions["Progressing"] == ("True", "NewReplicaSetAvailable")
    waiting = rollout.status_of(View(deployment(), [made(NEW, 2, available=0)], 2), NOW)
    assert next(r for r in waiting["conditions"] if r["type"] == "Available")["status"] == "False"


def test_a_condition_that_has_not_changed_keeps_its_time() -> None:
    view = View(deployment(), [made(NEW, 2)], 2)
    view.deployment["status"] = {"conditions": rollout.status_of(view, NOW)["conditions"]}  # type: ignore[index]
    later = rollout.status_of(view, "2026-11-30T01:00:00Z")
    assert later["conditions"] == view.deployment["status"]["conditions"]


def test_old_replica_sets_beyond_the_history_limit_go() -> None:
    limited = deployment()
    limited["spec"]["revisionHistoryLimit"] = 1
    old = [made(f"a:old{number}", 0, revision=number) for number in (1, 2, 3)]
    gone = rollout.surplus(View(limited, [*old, made(NEW, 2, revision=4)], 2))
    assert [rollout.revision_of(each) for each in gone] == [1, 2]


def test_a_replica_set_gives_up_first_what_serves_nobody() -> None:
    def pod(name: str, *, node: str = "", ready: bool = False, created: str = NOW) -> dict[str, Any]:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}] if ready else []
        meta = {"name": name, "creationTimestamp": created}
        return {"metadata": meta, "spec": {"nodeName": node}, "status": {"conditions": conditions}}

    pods = [
        pod("old", node="a", ready=True),
        pod("young", node="a", ready=True, created="2026-11-30T00:05:00Z"),
        pod("starting", node="a"),
        pod("pending"),
    ]
    order = [each["metadata"]["name"] for each in sorted(pods, key=replica_set.worth)]
    assert order == ["pending", "starting", "young", "old"]
