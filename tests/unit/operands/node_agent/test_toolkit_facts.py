"""What the agent hands to the judgement of the toolkit's link."""

from __future__ import annotations

from typing import Any

from gpuready.chain.cdi_specs import KeptSpec, SpecFacts
from gpuready.chain.driver import DriverFacts
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.operands.node_agent.decision import View, judge
from gpuready.operands.node_agent.observer import SettledSpecs, Settling
from gpuready.operands.node_agent.wishes import Wishes, for_judgement, wishes_of

STALE = SpecFacts(kept=(KeptSpec("nvidia.com/gpu", "/f", stale=True, reason="NVML does not answer"),))
GONE = SpecFacts(kept=(KeptSpec("nvidia.com/gpu", "/f"),))
ROW = {"runtime": {"name": "containerd", "version": "1.7.24", "config": "/c"}, "whole": True, "cdi": False}


def toolkit(**changes: Any) -> Verdict:
    given: dict[str, Any] = {"toolkit": ROW, "wishes": Wishes(toolkit_wanted=True), **changes}
    return judge(View("n1", "boot-1", DriverFacts(), **given)).of(Link.TOOLKIT)


def test_the_specs_that_lie_on_the_node_are_judged():
    assert toolkit().reason == "HandlersKnown"
    assert toolkit(specs=STALE).reason == "CdiSpecStale"


def test_the_ways_in_which_the_device_plugin_hands_out_gpus_are_judged_with_the_runtime():
    found = toolkit(record={"registered": True, "strategies": ["cdi-annotations", "cdi-cri"]})

    assert (found.state, found.reason) == (State.BROKEN, "CdiNotEnabled")


def test_a_spec_that_goes_and_is_back_is_told_to_nobody():
    specs = SettledSpecs(Settling(1.0))
    whole = SpecFacts()
    assert specs.take(whole, 0.0) is whole

    assert specs.take(GONE, 10.0) is whole
    assert specs.take(whole, 10.5) is whole
    assert specs.take(GONE, 20.0) is whole
    assert specs.take(GONE, 21.1) is GONE


def test_claims_that_come_and_go_do_not_put_off_what_is_to_be_told():
    specs = SettledSpecs(Settling(1.0))
    specs.take(SpecFacts(), 0.0)
    for tenth in range(11):
        churn = SpecFacts(kept=GONE.kept, there=frozenset({f"/claim-{tenth}"}))
        told = specs.take(churn, 10 + tenth / 10)

    assert told.kept == GONE.kept


def test_an_agent_that_starts_anew_does_not_take_a_trouble_back_for_a_moment():
    assert SettledSpecs(Settling(1.0)).take(STALE, 0.0) is STALE


def test_words_of_the_wish_that_are_no_words_are_left_out():
    spec = {"toolkit": {"enabled": True, "heldBy": [1], "grant": "g1"}}

    wish = wishes_of(spec, generation=1, boot_id="b").toolkit

    assert wish is not None
    assert wish.config == {"restart": "", "grant": "g1", "heldBy": ""}


def test_what_keeps_pods_away_reaches_both_links_from_the_gpunode():
    row = {"reason": "OperandKeptAway", "message": "DaemonSet x does not tolerate team=ml:NoSchedule"}
    spec = {"devicePlugin": {"enabled": True, "keptAway": row}, "toolkit": {"enabled": True, "keptAway": row}}

    wishes = wishes_of(spec, generation=1, boot_id="b")

    assert wishes.toolkit_kept_away == for_judgement(wishes).kept_away
    assert toolkit(toolkit=None, wishes=wishes).message == row["message"]
