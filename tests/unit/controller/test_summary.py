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
    assert one.status is other.status
    assert (one.metadata.name, other.metadata.name) == ("a", "b")


def test_a_field_of_a_wrong_type_is_left_out_and_named_and_the_rest_is_read() -> None:
    """The schema leaves requests free, so anything may stand there."""
    status = {
        "gpus": 8,
        "healthy": "all",
        "requests": [{"kind": 7}, {"kind": "RestartRuntime", "id": "r1"}],
        "chain": [{"link": "driver", "state": "ok"}],
    }
    raw = json.dumps({"metadata": {"name": "n"}, "spec": {"uninstall": True}, "status": status}).encode()

    found = decode_gpunode(raw)

    assert (found.metadata.name, found.spec) == ("n", {"uninstall": True})
    assert (found.status.gpus, found.status.healthy) == (8, 0)
    assert [each.id for each in found.status.requests] == ["r1"]
    assert [each.link for each in found.status.chain] == ["driver"]
    assert sorted(text.split(":")[0] for text in found.ignored) == ["status.healthy", "status.requests[0]"]


@pytest.mark.parametrize("rest", ['"spec": null', '"status": []', '"spec": 5, "status": "x"'])
def test_a_gpunode_exists_whatever_else_is_in_it(rest: str) -> None:
    found = decode_gpunode(b'{"metadata": {"name": "n"}, ' + rest.encode() + b"}")

    assert (found.metadata.name, found.spec) == ("n", {})
