"""What the controller believes of a GPUNode."""

from __future__ import annotations

import json

import pytest

from gpuready.controller.nodes.summary import decode_gpunode


@pytest.mark.parametrize(("observed", "believed"), [(3, True), (2, False)])
def test_uninstalled_counts_only_when_said_of_this_spec(observed: int, believed: bool) -> None:
    status = {"uninstalled": True, "observedGeneration": observed}
    row = {"metadata": {"name": "n", "generation": 3}, "spec": {"uninstall": True}, "status": status}

    assert decode_gpunode(json.dumps(row).encode()).status.uninstalled is believed


def test_nodes_that_are_well_and_alike_share_what_is_known_of_them() -> None:
    """Five thousand copies of the same wishes and verdicts are most of what an operator would hold."""
    whole = [{"link": "driver", "state": "ok", "message": "570.86.10"}]

    def row(name: str) -> bytes:
        wishes = {"devicePlugin": {"enabled": True}}
        return json.dumps({"metadata": {"name": name}, "spec": wishes, "status": {"chain": whole}}).encode()

    one, other = decode_gpunode(row("a")), decode_gpunode(row("b"))

    assert one.spec is other.spec
    assert one.status.chain is other.status.chain
    assert (one.metadata.name, other.metadata.name) == ("a", "b")
