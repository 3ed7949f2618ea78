"""Doctor on large clusters: its work, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.unit.tools.cluster import cluster, gpu_node, node, pod
from tests.unit.tools.findings import findings

from gpuready.tools import placement
from gpuready.tools.doctor import pending


def test_the_work_grows_with_the_cluster_not_with_nodes_times_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: each pod is read a few times, and pods alike share one walk over the nodes."""
    nodes, held, waiting = 200, 400, 80
    calls: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        real = getattr(module, name)

        def counting(*arguments: Any) -> Any:
            calls[name] += 1
            return real(*arguments)

        monkeypatch.setattr(module, name, counting)

    seen = cluster(
        *(node(f"g{number}", gpus=2) for number in range(nodes)),
        gpu_nodes=[gpu_node(f"g{number}", gpus=2) for number in range(nodes)],
        pods=[
            *(pod(f"held-{number}", on=f"g{number % nodes}", gpus=1) for number in range(held)),
            *(pod(f"one-{number}", gpus=1) for number in range(waiting // 2)),
            *(pod(f"two-{number}", gpus=2, nodeSelector={"zone": "b"}) for number in range(waiting // 2)),
        ],
    )
    count(placement, "requested")
    count(placement, "is_finished")
    count(placement, "quantities")
    count(pending, "_refusal")

    found = findings(seen)

    assert [finding.reason for finding in found] == ["Full"] * 40 + ["NotSelected"] * 40
    assert len({finding.subject for finding in found}) == waiting
    every_pod = len(seen.pods)
    assert calls["_refusal"] < 40, "one look at each kind of node for each kind of request"
    assert calls["requested"] <= 3 * every_pod
    assert calls["is_finished"] <= 2 * every_pod
    assert calls["quantities"] <= 4 * nodes


def test_thousands_of_pods_that_ask_for_different_things_are_held_against_a_few_kinds_of_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, real = 0, pending._refusal

    def counting(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(*arguments)

    monkeypatch.setattr(pending, "_refusal", counting)
    nodes = [node(f"g{number}", gpus=8, labels={"zone": f"z{number % 3}"}) for number in range(120)]
    waiting = [pod(f"p{n}", gpus=1 + n % 8, nodeSelector={"zone": f"z{n}"}) for n in range(400)]

    found = findings(cluster(*nodes, gpu_nodes=[gpu_node(f"g{n}", gpus=8) for n in range(120)], pods=waiting))

    by_pod = {finding.subject: finding for finding in found}
    assert by_pod["pod/default/p7"].reason == "NotSelected"
    assert by_pod["pod/default/p7"].evidence[:2] == ("g0 does not have zone=z7", "g1 does not have zone=z7")
    assert asked < 400 * 20
