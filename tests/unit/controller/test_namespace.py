"""That privileged pods may run in the operator's namespace."""

from __future__ import annotations

from typing import Any

import pytest

from gpuready.api.policy import parse_policy
from gpuready.controller.policy.namespace import missing_labels

MODES = ("enforce", "audit", "warn")
ALL = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in MODES}


@pytest.mark.parametrize(
    ("psa", "labels", "expected"),
    [
        pytest.param({}, {}, {}, id="not asked for"),
        pytest.param({"enabled": True}, {"team": "ml"}, ALL, id="all three are missing"),
        pytest.param({"enabled": True}, ALL, {}, id="all are there"),
        pytest.param(
            {"enabled": True},
            {**ALL, "pod-security.kubernetes.io/enforce": "restricted"},
            {"pod-security.kubernetes.io/enforce": "privileged"},
            id="one says otherwise",
        ),
        pytest.param({"enabled": False}, ALL, {}, id="taken back: what was set stays, as in the original"),
    ],
)
def test_the_namespace_gets_the_labels_that_it_lacks(
    psa: dict[str, Any], labels: dict[str, str], expected: dict[str, str]
) -> None:
    assert missing_labels(parse_policy({"spec": {"psa": psa}}), labels) == expected
