"""A round ends when every key has had its turn."""

from __future__ import annotations

from gpuready.controller.rounds import Round


def test_a_round_is_over_when_each_key_has_had_its_turn():
    ends: list[str] = []
    this = Round()
    this.when_over(lambda: ends.append("over"))

    this.begin(["a", "b"])
    this.had_its_turn("a")
    assert not this.is_over

    this.had_its_turn("b")
    assert this.is_over
    assert ends == ["over"]


def test_a_key_whose_turn_comes_again_ends_no_second_round():
    ends: list[str] = []
    this = Round()
    this.when_over(lambda: ends.append("over"))

    this.begin(["a"])
    this.had_its_turn("a")
    this.had_its_turn("a")
    this.had_its_turn("of no round")

    assert ends == ["over"]


def test_a_round_that_begins_before_the_last_is_over_holds_the_keys_of_both():
    this = Round()

    this.begin(["a", "gone"])
    this.begin(["a", "b"])
    for key in ("a", "b"):
        this.had_its_turn(key)
    assert not this.is_over

    this.had_its_turn("gone")
    assert this.is_over
