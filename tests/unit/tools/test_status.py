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
        "NODE     DRIVER   RUNTIME   PLUGIN    CUDA   GPUS   HEALTHY   OFFERED   REASON",
        "gpu-01   broken   -         waiting   -      8      0         8         DriverLibraryMismatch",
        "gpu-2    ok       -         ok        -      1      1         1",
        "1 node without GPUs",
    ]


def test_nodes_that_wait_for_their_driver_are_told_below_the_policy() -> None:
    given = seen()
    message = "2 nodes wait for another driver (a, b); ...; next: kubectl uncordon c"
    row = {"type": "DriverUpgradeWaiting", "status": "True", "reason": "MaxUnavailable", "message": message}
    given.policies[0]["status"]["conditions"].append(row)

    assert table.plain(rows_of(given), given.policies).splitlines()[:2] == [
        "policy cluster-policy: ready",
        f"policy cluster-policy: {message}",
    ]


def test_without_a_terminal_only_what_changed_is_told() -> None:
    before, after = seen(MISMATCH, WAITING), seen()

    assert table.changes(rows_of(before), rows_of(after)) == [
        "gpu-01  driver=ok  runtime=-  plugin=ok  cuda=-  gpus=8  healthy=8  offered=8"
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


def test_before_anybody_has_looked_no_node_is_called_one_without_gpus() -> None:
    given = cluster(node("a"), node("b"), agents=False, daemonsets=[], policies=[])

    assert table.plain(rows_of(given), given.policies).splitlines() == [
        "no ClusterPolicy",
        "2 nodes not looked at yet: there is no ClusterPolicy",
    ]
    row = table.to_json(rows_of(given), given.policies)
    assert (row["nodesWithoutGpus"], row["nodesNotLookedAt"]) == (0, 2)


def test_a_shared_card_is_one_gpu_that_several_pods_may_ask_for() -> None:
    shared = node("rtx", gpus=5, resource="nvidia.com/gpu")
    renamed = node("l4", gpus=4, resource="nvidia.com/gpu.shared")
    given = cluster(shared, renamed, gpu_nodes=[gpu_node("rtx", gpus=1), gpu_node("l4", gpus=1)])

    assert table.plain(rows_of(given), given.policies).splitlines()[1:] == [
        "NODE   DRIVER   RUNTIME   PLUGIN   CUDA   GPUS   HEALTHY   OFFERED        REASON",
        "l4     ok       -         ok       -      1      1         4 gpu.shared",
        "rtx    ok       -         ok       -      1      1         5",
    ]


def test_a_ready_policy_says_what_this_version_does_not_install() -> None:
    missing = [{"name": name, "state": "notImplemented"} for name in ("toolkit", "dcgm-exporter")]
    given = policy(operands=[{"name": "driver", "state": "ready"}, *missing])

    assert table.policy_line([given]) == (
        "policy cluster-policy: ready; not installed by this version: toolkit, dcgm-exporter"
    )


def test_the_live_table_says_the_same_in_words() -> None:
    assert on_screen(seen(MISMATCH), 100) == [
        "NODE    DRIVER  RUNTIME  PLUGIN  CUDA  GPUS  HEALTHY  OFFERED  REASON",
        "gpu-01  broken  -        ok      -     8     0        8        DriverLibraryMismatch",
        "gpu-2   ok      -        ok      -     1     1        1",
    ]


def on_screen(given: Snapshot, columns: int) -> list[str]:
    console = Console(width=columns, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for part in live.drawn(rows_of(given), columns):
        console.print(part)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_on_a_narrow_screen_the_live_table_leaves_columns_out_before_it_breaks_a_cell() -> None:
    given = seen(MISMATCH)

    assert on_screen(given, 60) == [
        "NODE    DRIVER  RUNTIME  PLUGIN  CUDA  REASON",
        "gpu-01  broken  -        ok      -     DriverLibraryMismatch",
        "gpu-2   ok      -        ok      -",
        "no room for GPUS, HEALTHY, OFFERED",
    ]
    assert on_screen(given, 36)[:2] == ["NODE    REASON", "gpu-01  DriverLibraryMismatch"]


def test_links_and_states_of_a_newer_node_agent_are_shown_as_it_calls_them() -> None:
    fabric = link("fabric", "broken", "NoFabric", "no manager")
    cooling = link("driver", "cooling\x1b[31m", "TooHot", "90 C")

    assert table.plain(rows_of(seen(fabric)), []).splitlines()[2].split() == [
        *("gpu-01", "ok", "-", "ok", "-"),
        *("8", "0", "8", "NoFabric"),
    ]
    assert table.plain(rows_of(seen(cooling)), []).splitlines()[2].split() == [
        *("gpu-01", "cooling\\x1b[31m", "-", "ok", "-"),
        *("8", "0", "8", "TooHot"),
    ]


def test_a_known_broken_link_goes_before_one_that_only_a_newer_node_agent_knows() -> None:
    fabric = link("fabric", "broken", "NoFabric", "no manager")

    [row] = [row for row in rows_of(seen(fabric, MISMATCH)) if row.name == "gpu-01"]

    assert row.reason == "DriverLibraryMismatch"
