"""Doctor on the links of a node: the first that is broken is the finding."""

from __future__ import annotations

import pytest
from tests.unit.tools.cluster import cluster, gpu_node, link, node, pod
from tests.unit.tools.findings import ILL, MISMATCH, WAITING_PLUGIN, findings

from gpuready.errors import UsageError
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.doctor.finding import Severity


def test_a_healthy_cluster_yields_no_finding() -> None:
    seen = cluster(
        node("cpu"), node("g1", gpus=8), gpu_nodes=[gpu_node("g1")], pods=[pod("p", on="g1", gpus=8)]
    )

    assert findings(seen) == []
    assert text.report_text(report_of(seen)).splitlines() == [
        "ok    g1: 8 GPUs, every checked link is whole",
        "-     1 node without GPUs",
        "nothing found",
    ]


def test_a_state_that_only_a_newer_node_agent_knows_is_told_with_its_word() -> None:
    cooling = link("driver", "cooling\x07", reason="", message="90 C")
    report = report_of(cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", cooling)]))

    assert text.report_text(report).splitlines() == [
        "warn  node/g1  driver  this gpuready does not know the state that its node agent reports: "
        "cooling\\x07: 90 C",
        "      next  use a gpuready of the operator's version",
        "1 warning",
    ]
    assert "cooling\\x07 driver         90 C" in text.node_text(report.rows[0], report)


def test_only_the_first_broken_link_of_a_node_is_a_finding() -> None:
    (finding,) = findings(
        cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", WAITING_PLUGIN, MISMATCH, healthy=0)])
    )

    assert (finding.subject, finding.link, finding.severity) == ("node/g1", "driver", Severity.PROBLEM)
    assert "570.9" in finding.message
    assert "570.1" in finding.message


def test_an_unhealthy_gpu_is_a_warning_with_its_xid_and_its_action() -> None:
    (finding,) = findings(cluster(node("g1", gpus=8, healthy=7), gpu_nodes=[gpu_node("g1", ILL, healthy=7)]))

    assert finding.severity is Severity.WARNING
    assert "XID 79" in finding.message
    assert finding.next_step == "GPU 3: reboot the node"


def test_a_lost_gpu_is_one_finding_with_one_next_step() -> None:
    silent = link(
        "driver",
        "degraded",
        "GpuNotAnswering",
        "570.86.10 works with 7 of 8 GPUs; GPU 3 (0000:1d:00.0) does not answer (GPU is lost)",
        nextStep="reboot the node: GPU 3 comes back only so",
    )
    (finding,) = findings(
        cluster(node("g1", gpus=8, healthy=7), gpu_nodes=[gpu_node("g1", silent, ILL, healthy=7)])
    )

    assert (finding.link, finding.next_step) == ("device-plugin", "GPU 3: reboot the node")


def test_one_node_is_shown_link_by_link() -> None:
    seen = cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", WAITING_PLUGIN, MISMATCH)])

    report = report_of(seen, "g1")

    assert text.node_text(report.rows[0], report).splitlines() == [
        "ok    reporting      agent gpu-operator/node-agent-g1 is ready",
        "ok    discovery      fine",
        "FAIL  driver         driver/library version mismatch: library 570.9, module 570.1",
        "      why            module nvidia 570.1 is loaded",
        "      next           reload the NVIDIA modules, or reboot the node",
        "-     toolkit        fine",
        "wait  device-plugin  for driver: DriverLibraryMismatch",
        "-     cuda           fine",
        "1 problem",
    ]


def test_of_a_node_that_nobody_speaks_for_what_was_last_known_is_called_so() -> None:
    seen = cluster(node("g1", gpus=8, ready=False), gpu_nodes=[gpu_node("g1", WAITING_PLUGIN)])

    report = report_of(seen, "g1")

    first, *others = text.node_text(report.rows[0], report).splitlines()
    assert first.startswith("FAIL  reporting      node g1 is not ready")
    assert "-     driver         last known: fine" in others
    assert "-     device-plugin  last known: for driver: DriverLibraryMismatch" in others
    assert not [line for line in others if line.startswith("ok")]


def test_a_node_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(UsageError) as caught:
        report_of(cluster(node("g1")), "g2")

    assert (caught.value.what, caught.value.why) == ("there is no node g2", "the nodes are g1")
    assert caught.value.next_step == "kubectl get nodes"


def test_of_a_thousand_nodes_only_those_with_a_similar_name_are_told() -> None:
    many = [node(f"worker-{number:03d}") for number in range(500)]

    with pytest.raises(UsageError) as caught:
        report_of(cluster(*many, node("gpu-17"), agents=False), "gpu-18")

    assert caught.value.why == "none of the 501 nodes has this name; the nearest are gpu-17"
