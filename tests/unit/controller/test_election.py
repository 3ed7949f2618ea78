"""Whether an operator asks for the Lease, what it says of it, and what a new term begins with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gpuready import names
from gpuready.commands import gpuready
from gpuready.commands.options import Seconds
from gpuready.controller import main as controller
from gpuready.controller.election import Leadership, elects_by_default, identity, is_originals
from gpuready.errors import UsageError
from gpuready.kube.fence import Fence
from gpuready.kube.lease import Record, Timing

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def record(holder: str, mark: str = "") -> Record:
    meta = {"annotations": {names.LEADER_ANNOTATION: mark}} if mark else {}
    return Record({"metadata": meta, "spec": {"holderIdentity": holder}})


@pytest.mark.parametrize(
    ("env", "kubeconfig", "elects"),
    [
        pytest.param(POD, None, True, id="in a pod"),
        pytest.param(POD, "/some/kubeconfig", False, id="in a pod, for another cluster"),
        pytest.param({**POD, "KUBECONFIG": "/some"}, None, False, id="in a pod that was given a kubeconfig"),
        pytest.param({}, None, False, id="on somebody's own machine"),
    ],
)
def test_an_election_is_held_where_there_may_be_others(
    env: dict[str, str], kubeconfig: str | None, elects: bool
) -> None:
    assert elects_by_default(env, kubeconfig) is elects


def test_a_container_of_the_same_pod_goes_on_under_the_same_name_and_nobody_else_does() -> None:
    pod = {names.POD_UID_ENV: "5d1c"}

    assert identity(pod) == identity(pod)
    assert identity(pod).endswith("_5d1c")
    assert identity(pod) != identity({names.POD_UID_ENV: "77aa"})
    assert identity({}) != identity({})


@pytest.mark.parametrize(
    ("found", "originals"),
    [
        pytest.param(record("gpu-operator-5d_77"), True, id="no mark of ours"),
        pytest.param(record("gpu-operator-5d_77", mark="ours_1"), True, id="taken over from one of ours"),
        pytest.param(record("ours_2", mark="ours_2"), False, id="one of ours"),
        pytest.param(record("", mark="ours_2"), False, id="nobody"),
    ],
)
def test_the_original_is_known_by_what_it_does_not_write(found: Record, originals: bool) -> None:
    assert is_originals(found) is originals


@pytest.mark.parametrize(
    ("words", "timing"),
    [
        pytest.param([], Timing(15, 10, 2), id="client-go's"),
        pytest.param(["--leader-lease-renew-deadline", "60s"], Timing(65, 60, 2), id="as for the original"),
        pytest.param(["--leader-elect-lease-duration=3s"], Timing(3, 2, 0.4), id="all the rest goes with it"),
        pytest.param(
            ["--leader-elect-lease-duration=1m", "--leader-elect-renew-deadline=40"],
            Timing(60, 40, 2),
            id="minutes and plain seconds",
        ),
        pytest.param(
            ["--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=.2"],
            Timing(7, 1.5, 0.2),
            id="parts of a second",
        ),
    ],
)
def test_durations_come_from_the_usual_options(
    monkeypatch: pytest.MonkeyPatch, words: list[str], timing: Timing
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(controller, "main", lambda env, kubeconfig, election: asked.append(election) or 0)
    result = CliRunner().invoke(gpuready, ["operator", "--leader-elect", *words], standalone_mode=False)
    assert result.exception is None
    assert asked == [timing]


def test_who_says_no_asks_for_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(controller, "main", lambda env, kubeconfig, election: asked.append(election) or 0)
    env = {**POD, "GPUREADY_LEADER_ELECT": "false"}
    CliRunner().invoke(gpuready, ["operator"], env=env, standalone_mode=False)
    assert asked == [None]


@pytest.mark.parametrize("words", [(10.0, 10.0, None), (2.5, None, None), (None, 2.0, 3.0)])
def test_durations_that_cannot_work_are_refused_in_words(words: tuple[float | None, ...]) -> None:
    with pytest.raises(UsageError) as refused:
        Timing.of(*words)
    assert refused.value.why
    assert refused.value.next_step


@pytest.mark.parametrize("text", ["", "fast", "10 s", "1d", "s", "-4", "nan", "inf"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration; write it like 15s"):
        Seconds().convert(text, None, None)


def leadership(**state: Any) -> Leadership:
    """With an elector in that state; it leads, and has renewed, unless told otherwise."""
    nobody: Any = SimpleNamespace(sever=None)
    made = Leadership(nobody, nobody, Fence(), "ns", Timing(), nobody, "me")
    usual = {"leads": True, "unrenewed_s": 1.0, "trouble": "", "record": None, "free_in_s": 0.0}
    usual |= {"timing": Timing(), "namespace": "ns", "name": "lease"}
    made._elector = SimpleNamespace(**{**usual, **state})  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("state", "ready", "words"),
    [
        pytest.param({}, True, "ok, leading", id="leads"),
        pytest.param(
            {"leads": False, "record": record("other_1"), "free_in_s": 35.2},
            True,
            "standing by: other_1 holds the Lease ns/lease, which is free in 35 s unless it is renewed",
            id="stands by",
        ),
        pytest.param(
            {"leads": False, "free_in_s": 9.6},
            True,
            "standing by: the Lease ns/lease was deleted; its last holder's time ends in 10 s",
            id="waits out a deleted Lease",
        ),
        pytest.param(
            {"leads": False}, True, "nobody holds the Lease ns/lease, asking for it", id="asks for it"
        ),
        pytest.param(
            {"leads": False, "trouble": "leases are forbidden"},
            False,
            "leases are forbidden",
            id="may not ask for it",
        ),
        pytest.param(
            {"unrenewed_s": 7.2, "trouble": "no answer in time"},
            False,
            "last renewed 7.2 s ago: no answer in time; without a renewal all work stops in 2.8 s",
            id="cannot renew",
        ),
    ],
)
def test_readiness_says_who_leads_and_when_a_renewal_is_late(
    state: dict[str, Any], ready: bool, words: str
) -> None:
    is_ready, text = leadership(**state).readiness()
    assert is_ready is ready
    assert words in text
