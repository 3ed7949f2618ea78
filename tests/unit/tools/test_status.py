"""The table of nodes and links, as lines and as it changes."""

from __future__ import annotations

from rich.console import Console
from tests.unit.tools.cluster import cluster, gpu_node, link, node, policy

from gpuready.tools.node_rows import rows_of
from gpuready.tools.snapshot import Snapshot
from gpuready.tools.status import live, table

MISMATCH = link("driver", "broken", "DriverLibraryMismatch", "two versions")
WAITING = link("device-plugin", "waiting", "WaitingForDriver", "for driver")


def seen(*changed: dict[str, object]) -> Snapshot:
    return cluster(
        node("cpu-1"),
        node("gpu-01", gpus=8),
        node("gpu-2", gpus=1),
        gpu_nodes=[gpu_node("gpu-01", *changed, healthy=0 if changed else 8), gpu_node("gpu-2", gpus=1)],
        policies=[policy("notReady", "OperandNotReady", "gpu-01: two versions") if changed else policy()],
    )


def test_the_table_shows_nodes_by_links_and_the_policy() -> None:
    given = seen(MISMATCH, WAITING)

    assert table.plain(rows_of(given), given.policies).splitlines() == [
        "policy cluster-policy: notReady (gpu-01: two versions)",
        "NODE     DRIVER   RUNTIME   PLUGIN    CUDA   GPUS   HEALTHY   REASON",
        "gpu-01   broken   -         waiting   -      8      0         DriverLibraryMismatch",
        "gpu-2    ok       -         ok        -      1      1",
        "1 node without GPUs",
    ]


def test_without_a_terminal_only_what_changed_is_told() -> None:
    before, after = seen(MISMATCH, WAITING), seen()

    assert table.changes(rows_of(before), rows_of(after)) == [
        "gpu-01  driver=ok  runtime=-  plugin=ok  cuda=-  gpus=8  healthy=8"
    ]
    assert table.changes(rows_of(after), rows_of(after)) == []


def test_json_has_the_reason_of_every_node() -> None:
    given = seen(MISMATCH)

    row = table.to_json(rows_of(given), given.policies)

    assert {entry["name"]: entry["reason"] for entry in row["nodes"]} == {
        "gpu-01": "DriverLibraryMismatch",
        "gpu-2": "",
    }
    assert row["nodesWithoutGpus"] == 1


def test_a_cluster_without_a_policy_says_so() -> None:
    assert table.policy_line([]) == "no ClusterPolicy"


def test_the_live_table_says_the_same_in_words() -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(live.drawn(rows_of(seen(MISMATCH))))

    shown = console.export_text()
    assert "DriverLibraryMismatch" in shown
    assert "broken" in shown
