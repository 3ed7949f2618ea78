"""Which taints keep a DaemonSet's pods away."""

from __future__ import annotations

import pytest

from gpuready.kube.taints import taints_against_daemonset

NETWORK = {"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({}, ["node.kubernetes.io/network-unavailable:NoSchedule"], id="a network of its own"),
        pytest.param({"hostNetwork": True}, [], id="the node's own network"),
    ],
)
def test_a_node_whose_network_is_not_up_takes_pods_that_use_its_own(pod, expected):
    assert taints_against_daemonset([NETWORK], {"spec": {"template": {"spec": pod}}}) == expected
