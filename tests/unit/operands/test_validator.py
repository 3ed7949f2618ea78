"""What of the validator's settings our own flavour follows."""

from __future__ import annotations

import pytest

from gpuready.api.policy import parse_policy
from gpuready.operands.validator.operand import proves_cuda


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ([], True),
        ([{"name": "WITH_WORKLOAD", "value": "true"}], True),
        ([{"name": "WITH_WORKLOAD", "value": "false"}], False),
        ([{"name": "WITH_WORKLOAD", "value": "0"}], False),
        ([{"name": "OTHER", "value": "false"}], True),
        ([{"name": "WITH_WORKLOAD", "value": "false"}, {"name": "WITH_WORKLOAD", "value": "true"}], True),
    ],
)
def test_a_policy_that_wants_no_workload_has_no_program_run(env: list[dict[str, str]], wanted: bool) -> None:
    policy = parse_policy({"metadata": {"name": "p"}, "spec": {"validator": {"cuda": {"env": env}}}})

    assert proves_cuda(policy) is wanted
