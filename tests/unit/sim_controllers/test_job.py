"""Jobs: pods until enough have succeeded, or too many have failed, or the time is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from gpuready_sim.controllers.job.decision import decide, is_finished

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def job(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "j"},
        "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 2, **spec},
    }


def pods(*phases: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": f"j-{n}"}, "status": {"phase": p}} for n, p in enumerate(phases)]


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {row["type"]: row["reason"] for row in status.get("conditions", ())}


def test_a_failed_pod_is_followed_by_another_until_the_limit() -> None:
    assert decide(job(), [], NOW).create == 1
    assert decide(job(), pods("Running"), NOW).create == 0
    assert decide(job(), pods("Failed"), NOW).create == 1
    assert decide(job(), pods("Failed", "Failed"), NOW).create == 1
    over = decide(job(), pods("Failed", "Failed", "Failed"), NOW)
    assert over.create == 0
    assert conditions(over.status)["Failed"] == "BackoffLimitExceeded"
    assert is_finished({**job(), "status": over.status})


def test_enough_successes_complete_it_and_what_still_runs_goes() -> None:
    done = decide(job(), pods("Failed", "Succeeded", "Running"), NOW)
    assert conditions(done.status)["Complete"] == "CompletionsReached"
    assert (done.status["succeeded"], done.status["failed"]) == (1, 1)
    assert [pod["metadata"]["name"] for pod in done.delete] == ["j-2"]
    assert done.status["completionTime"] == "2026-11-30T00:00:00Z"


def test_no_more_pods_run_side_by_side_than_there_is_work_left() -> None:
    assert decide(job(completions=5, parallelism=3), pods("Succeeded"), NOW).create == 3
    assert decide(job(completions=5, parallelism=3), pods(*["Succeeded"] * 4), NOW).create == 1


def test_the_deadline_counts_from_the_first_look_and_ends_what_runs() -> None:
    limited = job(activeDeadlineSeconds=60)
    first = decide(limited, [], NOW)
    assert first.again_s == 60
    limited["status"] = first.status
    late = decide(limited, pods("Running"), NOW + timedelta(seconds=61))
    assert conditions(late.status)["Failed"] == "DeadlineExceeded"
    assert len(late.delete) == 1
