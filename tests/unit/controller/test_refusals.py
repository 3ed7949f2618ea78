"""Which answers of the API server blame the object, so that it is not sent again at every pass."""

from __future__ import annotations

import pytest

from gpuready.controller.policy.refusals import Refusals
from gpuready.kube.errors import error_of

DESIRED = {"metadata": {"name": "plugin"}, "spec": {"cpu": "lots"}}


@pytest.mark.parametrize(
    ("status", "message", "rests"),
    [
        pytest.param(422, "is invalid", True, id="invalid"),
        pytest.param(403, "forbidden", True, id="forbidden"),
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
