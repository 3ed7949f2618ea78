"""Which answers of the API server blame the object, so that it is not sent again at every pass."""

from __future__ import annotations

import pytest

from gpuready.controller.policy.refusals import Refusals, advised
from gpuready.kube.errors import ApiStatusError, error_of

DESIRED = {"metadata": {"name": "plugin"}, "spec": {"cpu": "lots"}}


@pytest.mark.parametrize(
    ("status", "message", "rests"),
    [
        pytest.param(422, "is invalid", True, id="invalid"),
        pytest.param(400, "bad", True, id="bad request"),
        pytest.param(403, "forbidden", True, id="forbidden"),
        pytest.param(404, "not found", True, id="no such kind or namespace"),
        pytest.param(410, "expired", False, id="an answer about another moment"),
        pytest.param(401, "who are you", False, id="not signed in"),
        pytest.param(500, "failed to create typed patch object (…)", True, id="does not fit its schema"),
        pytest.param(500, "etcdserver: request timed out", False, id="the server's own trouble"),
        pytest.param(409, "conflict", False, id="conflict"),
        pytest.param(429, "too many requests", False, id="too many requests"),
    ],
)
def test_only_an_answer_that_blames_the_object_lets_it_rest(status, message, rests):
    refusals = Refusals(clock=lambda: 0.0)

    refusals.add("DaemonSet/plugin", DESIRED, error_of(status, {"message": message}))

    assert (refusals.find("DaemonSet/plugin", DESIRED) is not None) == rests
    assert refusals.find("DaemonSet/plugin", {**DESIRED, "spec": {}}) is None, "another text is tried at once"


@pytest.mark.parametrize("status", [400, 403, 404])
def test_what_may_end_without_a_word_to_us_is_tried_again_after_a_second_and_then_less_and_less_often(status):
    """A rule that was just granted, a webhook that is just starting."""
    now = [0.0]
    refusals = Refusals(clock=lambda: now[0])
    waits = []
    for _ in range(8):
        refusals.add("DaemonSet/plugin", DESIRED, error_of(status, {"message": "no"}))
        assert "DaemonSet/plugin" in refusals
        waits.append(refusals.next_retry_s())
        now[0] += waits[-1]
        assert refusals.find("DaemonSet/plugin", DESIRED) is None
        assert refusals.next_retry_s() is None, "it is tried now, and not again and again"

    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    refusals.add("DaemonSet/plugin", {"spec": "new"}, error_of(status, {"message": "no"}))
    assert refusals.next_retry_s() == 1, "of another text nothing is known"


@pytest.mark.parametrize("status", [422, 413])
def test_a_wrong_text_rests_at_once(status):
    refusals = Refusals(clock=lambda: 0.0)
    refusals.add("DaemonSet/plugin", DESIRED, error_of(status, {"message": "is invalid"}))
    assert refusals.next_retry_s() == 30


def test_an_answer_that_passes_by_itself_ends_the_rest():
    refusals = Refusals(clock=lambda: 0.0)
    refusals.add("DaemonSet/plugin", DESIRED, error_of(403, {"message": "no"}))
    refusals.add("DaemonSet/plugin", DESIRED, error_of(503, {"message": "later"}))
    assert "DaemonSet/plugin" not in refusals


PLUGIN = {
    "kind": "DaemonSet",
    "metadata": {"name": "plugin", "labels": {"gpuready.dev/operand": "device-plugin"}},
    "spec": {"cpu": "abc"},
}


@pytest.mark.parametrize(
    ("status", "message", "desired", "step"),
    [
        pytest.param(
            500, "failed to convert new object", PLUGIN, "spec.devicePlugin or spec.daemonsets", id="misfit"
        ),
        pytest.param(422, "is invalid", PLUGIN, "spec.devicePlugin or spec.daemonsets", id="invalid"),
        pytest.param(
            422,
            "is invalid",
            {**PLUGIN, "kind": "Service"},
            "spec.devicePlugin",
            id="no DaemonSet",
        ),
        pytest.param(422, "is invalid", DESIRED, "spec", id="an object of no operand"),
    ],
)
def test_what_is_refused_for_its_text_names_the_place_in_the_policy(status, message, desired, step):
    told = Refusals().add("DaemonSet/plugin", desired, error_of(status, {"message": message}))

    assert told.next_step == (
        f"correct {step} in the policy; gpuready render -f POLICY.yaml shows the object"
    )


def test_a_refusal_with_a_next_step_of_its_own_keeps_it():
    forbidden = error_of(403, {"message": "forbidden"})

    assert Refusals().add("DaemonSet/plugin", PLUGIN, forbidden).next_step == forbidden.next_step


def test_a_refusal_that_names_thousands_of_fields_is_told_by_its_first_and_its_last():
    causes = ", ".join(f"spec.tolerations[{number}].operator: Invalid value" for number in range(5000))
    refusals = Refusals(clock=lambda: 0.0)
    told = refusals.add("DaemonSet/plugin", PLUGIN, error_of(422, {"message": f"is invalid: [{causes}]"}))

    assert str(refusals.find("DaemonSet/plugin", PLUGIN)) == str(told)
    assert "spec.tolerations[0].operator" in str(told)
    assert "spec.tolerations[4999].operator" in str(told)
    assert len(str(told)) < 600


def test_a_missing_right_is_told_whole() -> None:
    text = (
        "PATCH /x: is attempting to grant RBAC permissions not currently held: "
        + "y" * 500
        + " [nodes]"
        + "z" * 200
    )
    told = advised(ApiStatusError(text, status=403, reason="Forbidden"), {"kind": "ClusterRole"})
    assert told.message == text
