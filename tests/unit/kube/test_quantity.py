"""Amounts in the API server's short form, wherever a number of GPUs is read."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from gpuready.kube.compare import differences
from gpuready.kube.quantity import find_quantity, find_whole
from gpuready.kube.trimmed import decode_pod
from gpuready.node.links.device_plugin import gpu_quantities
from gpuready.tools import placement


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8", Decimal(8)),
        ("1k", Decimal(1000)),
        ("1500m", Decimal("1.5")),
        ("1Ki", Decimal(1024)),
        ("1e3", Decimal(1000)),
        pytest.param("1e99999999999999999999", None, id="an exponent that no library takes"),
        pytest.param("1..2", None, id="two points"),
        pytest.param("٣", None, id="a digit of another script"),
        pytest.param("8\n", None, id="a line end"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_an_amount_is_read_as_the_api_server_means_it(text, amount):
    assert find_quantity(text) == amount


@pytest.mark.parametrize("text", ["1500m", "-1", "1e30", "²", "many"])
def test_what_cannot_be_a_number_of_devices_is_none(text):
    assert find_whole(text) is None


def test_a_thousand_shares_of_a_gpu_are_seen_by_the_node_agent_the_controller_and_the_tools():
    """8 GPUs shared by 125 pods each: the API server stores 1000 as "1k"."""
    shown = {"nvidia.com/gpu": "1k", "nvidia.com/gpu.shared": "0", "cpu": "4"}
    limits = {"resources": {"limits": {"nvidia.com/gpu": "2k"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", **limits}]}}

    assert gpu_quantities(shown) == {"nvidia.com/gpu": 1000, "nvidia.com/gpu.shared": 0}
    assert placement.allocatable({"status": {"allocatable": shown}}) == {"nvidia.com/gpu": 1000}
    assert placement.requested(pod) == {"nvidia.com/gpu": 2000}
    assert decode_pod(json.dumps(pod).encode()).limits == {"nvidia.com/gpu": 2000}


def test_an_amount_beyond_all_bounds_is_a_difference_like_any_other():
    want, have = (
        {"spec": {"resources": {"limits": {"cpu": cpu}}}} for cpu in ("1e99999999999999999999", "1")
    )

    assert [each.path for each in differences(want, have)] == ["spec.resources.limits.cpu"]
