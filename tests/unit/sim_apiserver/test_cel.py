"""The CEL of validation rules: Kubernetes' functions, errors, names that must be escaped."""

from __future__ import annotations

from typing import Any

import pytest

from gpuready_sim.apiserver import cel
from gpuready_sim.apiserver.cel import CelError
from gpuready_sim.apiserver.cel_types import DYN, STRING, escaped_name


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.a > 1 && self.a == 2.0", {"a": 2}),
        ("has(self.a) && !has(self.b)", {"a": 1}),
        ("self.all(k, self[k] != '')", {"a": "b"}),
        ("self.exists_one(x, x.n == 'a')", [{"n": "a"}, {"n": "b"}]),
        ("self.map(x, x * 2).sum() == 6", [1, 2]),
        ("self.isSorted()", ["a", "b"]),
        ("self.matches('^[a-z]+$')", "abc"),
        ("self.find('[0-9]+') == '12'", "a12b"),
        ("self.findAll('[0-9]').size() == 2", "a12b"),
        ("self.split(',').size() == 2 && self.lowerAscii() == 'a,b'", "A,B"),
        ("quantity(self).isGreaterThan(quantity('1Gi'))", "2Gi"),
        ("quantity('100m').compareTo(quantity('0.1')) == 0", 0),
        ("isQuantity('1Gi') && !isQuantity('x')", 0),
        ("isURL('https://a/b') && isIP('::1') && isCIDR('10.0.0.0/8')", 0),
        ("duration(self) > duration('1s')", "2s"),
        ("timestamp(self) < timestamp('2027-01-01T00:00:00Z')", "2026-01-01T00:00:00Z"),
        ("self.?a.orValue('x') == 'x'", {}),
        ("size(self) <= 3", "abc"),
        ("self in ['a', 'b']", "a"),
    ],
)
def test_expressions_as_in_the_api_server(expression: str, value: Any) -> None:
    assert cel.evaluate(expression, {"self": value}) is True


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("self.x > 1", "no such key: x"),
        ("self.a / 0 == 1", "divide by zero"),
        ("self.(", "Syntax error"),
        ("x", "undeclared"),
    ],
)
def test_failures_are_told(expression: str, words: str) -> None:
    with pytest.raises(CelError, match=words):
        cel.evaluate(expression, {"self": {"a": 1}})


def test_checking_needs_no_values() -> None:
    assert cel.check("self.a == oldSelf.a", DYN).problem == ""
    assert "undeclared" in cel.check("self == other", DYN).problem
    assert "no matching overload" in cel.check("self == 1", STRING).problem
    assert cel.check("self", STRING).problem == "cel expression must evaluate to a bool"
    assert cel.check("1", DYN, gives=STRING).problem == "messageExpression must evaluate to a string"


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("a-b", "a__dash__b"),
        ("a.b", "a__dot__b"),
        ("a/b", "a__slash__b"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
    ],
)
def test_names_that_are_no_identifiers_are_escaped(name: str, spelt: str) -> None:
    assert escaped_name(name) == spelt
