"""Quantities and the sum a pod asks for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpuready_sim.controllers.quantity import parse_quantity, requests_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("1Gi", "1073741824"),
        ("1e3", "1000"),
        ("2", "2"),
        (3, "3"),
        ("1M", "1000000"),
        ("1E", "1e18"),
        ("1Ei", str(2**60)),
    ],
)
def test_quantities_are_exact(text, value):
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "abc", "1Xi", "Gi"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


def test_the_init_phase_counts_when_it_is_larger():
    def container(cpu: str, **rest):
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **rest}

    pod = {
        "spec": {
            "containers": [container("1"), container("500m")],
            "initContainers": [container("1", restartPolicy="Always"), container("4")],
        }
    }

    assert requests_of(pod) == {"cpu": Decimal(5)}
