"""The status speaks of the DaemonSet as we have just made it, not as the cache still has it."""

from __future__ import annotations

from typing import Any

from gpuready.controller.policy.ahead import Ahead
from gpuready.kube.apply import ECHO_S


def daemonset(version: str, generation: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": "d", "resourceVersion": version, "generation": generation}}


def test_a_status_that_was_written_before_our_change_does_not_hide_it():
    ahead = Ahead()
    ahead.wrote("d", daemonset("5"), daemonset("7", generation=2))
    for cached in ("5", "6"):
        assert ahead.laid_over({"d": daemonset(cached)})["d"]["metadata"]["generation"] == 2

    shown = daemonset("8", generation=2)
    assert ahead.laid_over({"d": shown}) == {"d": shown}
    assert ahead.laid_over({"d": daemonset("6")}) == {"d": daemonset("6")}, "it is forgotten"


def test_one_that_was_made_or_taken_away_is_known_at_once():
    ahead = Ahead()
    ahead.wrote("d", None, daemonset("7"))
    assert "d" in ahead.laid_over({})
    ahead.forget("d")
    assert ahead.laid_over({}) == {}


def test_a_cluster_that_was_restored_from_a_backup_is_believed_after_a_while():
    now = [0.0]
    ahead = Ahead(clock=lambda: now[0])
    ahead.wrote("d", daemonset("500"), daemonset("501"))
    now[0] += ECHO_S
    assert ahead.laid_over({"d": daemonset("100")}) == {"d": daemonset("100")}
