"""Doctor on the pods of operands: what crashes, what is kept away, what is missing."""

from __future__ import annotations

from tests.unit.tools.cluster import AGENT, cluster, daemonset, gpu_node, link, node, operand_pod, pod
from tests.unit.tools.findings import findings, told

from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.doctor.finding import Severity

INSTALLING = link("driver", "waiting", "DriverInstalling", "the driver container is not finished")


def test_a_driver_pod_that_crashes_is_a_problem_with_its_last_words() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "no headers for 6.8.0-71-generic"}
    seen = cluster(
        node("d1", gpus=8),
        gpu_nodes=[gpu_node("d1", INSTALLING)],
        pods=[operand_pod("driver", "d1", waiting=waiting)],
        daemonsets=[AGENT, daemonset("nvidia-driver-daemonset", "driver")],
    )

    (finding,) = findings(seen)

    assert (finding.severity, finding.reason) == (Severity.PROBLEM, "CrashLoopBackOff")
    assert "6.8.0-71-generic" in told(finding)


def test_a_failing_driver_pod_is_seen_through_the_pause_with_who_holds_the_gpu() -> None:
    failing = link(
        "driver",
        "degraded",
        "DriverPodFailing",
        "on g1 the driver pod d fails: CrashLoopBackOff",
        nextStep="x",
    )
    paused = link("device-plugin", "waiting", "Paused", "paused: nvidia.com/gpu.deploy.device-plugin=paused")
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1", failing, paused)],
        pods=[pod("train", on="g1", gpus=2)],
    )

    report = report_of(seen)

    first, second = report.findings
    assert (first.severity, first.link, first.reason) == (Severity.PROBLEM, "driver", "DriverPodFailing")
    assert "pod default/train holds 2 nvidia.com/gpu" in first.evidence
    assert second.reason == "Paused"
    assert text.counts(report) == text.counts(report_of(seen, "g1")) == "1 problem, 1 waiting"


def test_what_an_earlier_link_has_to_say_is_not_lost_when_somebody_pauses_the_node_for_it() -> None:
    outdated = link(
        "driver", "degraded", "DriverOutdated", "g1 runs 570.86.10, the policy asks for 570.124.06"
    )
    paused = link("device-plugin", "waiting", "Paused", "paused: nvidia.com/gpu.deploy.device-plugin=paused")
    seen = cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", outdated, paused)])

    report = report_of(seen)

    assert [each.reason for each in report.findings] == ["DriverOutdated", "Paused"]
    assert text.counts(report) == text.counts(report_of(seen, "g1")) == "1 warning, 1 waiting"


def test_an_operand_kept_away_by_a_taint_says_where_the_toleration_goes() -> None:
    absent = link("device-plugin", "waiting", "PluginNotStarted", "has not reported")
    seen = cluster(
        node("g1", gpus=8, taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}]),
        gpu_nodes=[gpu_node("g1", absent)],
        daemonsets=[AGENT, daemonset("nvidia-device-plugin-daemonset", "device-plugin")],
    )

    (finding,) = findings(seen)

    assert (finding.severity, finding.reason) == (Severity.PROBLEM, "OperandKeptAway")
    assert "team=ml" in finding.message
    assert "spec.daemonsets.tolerations" in finding.next_step


NO_TOOLKIT = link("toolkit", "waiting", "ToolkitNotStarted", "the toolkit has not reported", nextStep="look")
NO_PLUGIN = link("device-plugin", "waiting", "PluginNotStarted", "has not reported")
SETS = [
    AGENT,
    daemonset("nvidia-container-toolkit-daemonset", "toolkit"),
    daemonset("nvidia-device-plugin-daemonset", "device-plugin"),
]


def test_the_first_link_that_a_taint_keeps_away_is_the_problem_whatever_operand_it_is() -> None:
    team_ml = node("g1", gpus=8, taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    seen = cluster(team_ml, gpu_nodes=[gpu_node("g1", NO_TOOLKIT, NO_PLUGIN)], daemonsets=SETS)

    report = report_of(seen)
    (finding,) = report.findings
    alone = report_of(seen, "g1")

    assert (finding.subject, finding.severity, finding.link) == ("node/g1", Severity.PROBLEM, "toolkit")
    assert "nvidia-container-toolkit-daemonset" in finding.message
    assert "team=ml:NoSchedule" in finding.message
    assert '{key: team, operator: Equal, value: "ml", effect: NoSchedule}' in finding.next_step
    assert alone.findings == report.findings
    assert text.counts(report) == text.counts(alone) == "1 problem"
    assert (report.rows[0].columns["runtime"], report.rows[0].columns["plugin"]) == ("broken", "broken")


def test_a_toolkit_pod_that_crashes_is_a_problem() -> None:
    crashing = operand_pod("toolkit", "g1", waiting={"reason": "CrashLoopBackOff"})
    seen = cluster(
        node("g1", gpus=8), gpu_nodes=[gpu_node("g1", NO_TOOLKIT)], pods=[crashing], daemonsets=SETS
    )

    (finding,) = findings(seen)

    assert (finding.severity, finding.link) == (Severity.PROBLEM, "toolkit")
    assert "the toolkit pod gpu-operator/toolkit-g1 does not start: CrashLoopBackOff" in finding.message
