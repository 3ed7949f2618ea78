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
