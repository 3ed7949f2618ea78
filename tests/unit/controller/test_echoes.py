"""A write whose echo has not come is not repeated."""

from __future__ import annotations

from gpuready.controller.conditional import replacing
from gpuready.controller.echoes import PATIENCE_S, Echoes


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_object_that_is_still_as_before_our_write_is_waited_for():
    echoes = Echoes(Clock())
    echoes.wrote("node", "7")
    assert echoes.wait_s("node", "7") == PATIENCE_S
    assert echoes.wait_s("other", "7") == 0


def test_any_newer_version_is_worth_a_decision_and_ends_the_wait_for_good():
    echoes = Echoes(Clock())
    echoes.wrote("node", "")
    assert echoes.wait_s("node", "8") == 0
    assert echoes.wait_s("node", "") == 0, "it was there and is gone: make it anew"


def test_an_echo_that_was_lost_in_a_gap_of_the_watch_is_not_waited_for_for_ever():
    clock = Clock()
    echoes = Echoes(clock)
    echoes.wrote("node", "7")
    clock.now += PATIENCE_S
    assert echoes.wait_s("node", "7") == 0


def test_a_field_is_replaced_only_over_the_version_that_was_decided_on():
    assert replacing("7", "/spec", {"a": 1}) == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec", "value": {"a": 1}},
    ]
