"""The toolkit link: what a node says of its container runtime."""

from __future__ import annotations

import pytest

from gpuready import names
from gpuready.chain.cdi_specs import SpecFacts, SpecFile
from gpuready.chain.device_plugin import Problem
from gpuready.chain.kept_away import kept_away
from gpuready.chain.toolkit import ToolkitFacts, ToolkitRecord, judge
from gpuready.chain.verdict import State

HIDDEN = '/etc/containerd/config.toml: plugins."io.containerd.grpc.v1.cri" has no effect'


def record(**changes: object) -> ToolkitRecord:
    base = {
        "runtime": "containerd",
        "version": "1.7.24",
        "config": "/etc/containerd/config.toml",
        "whole": True,
        "handlers": ("nvidia", "nvidia-cdi", "runc"),
        "cdi": True,
    }
    return ToolkitRecord(**{**base, **changes})  # type: ignore[arg-type]


def facts(**changes: object) -> ToolkitFacts:
    return ToolkitFacts(**{"wanted": True, "record": record(), **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "state", "reason", "said"),
    [
        pytest.param(
            facts(),
            State.OK,
            "HandlersKnown",
            "containerd 1.7.24 knows the handlers nvidia, nvidia-cdi, CDI is enabled",
            id="all is well",
        ),
        pytest.param(
            facts(record=record(notes=(HIDDEN,))),
            State.DEGRADED,
            "SettingsWithoutEffect",
            f"containerd 1.7.24 knows the handlers; {HIDDEN}",
            id="another file hides what the administrator wrote",
        ),
        pytest.param(
            facts(record=record(specs=("the CDI specs are not followed: No space left on device",))),
            State.DEGRADED,
            "CdiSpecsNotKept",
            "knows the handlers; the CDI specs are not followed: No space left on device",
            id="nobody keeps the CDI specs",
        ),
        pytest.param(
            facts(record=record(cdi=False), strategies=("cdi-annotations", "cdi-cri")),
            State.BROKEN,
            "CdiNotEnabled",
            "containerd 1.7.24 has enable_cdi = false: it ignores cdi-annotations",
            id="the device plugin names CDI devices and the runtime takes none",
        ),
        pytest.param(
            facts(record=record(cdi=False), strategies=("envvar",)),
            State.OK,
            "HandlersKnown",
            "CDI is not enabled",
            id="no CDI, and nobody needs it",
        ),
        pytest.param(facts(wanted=False), State.NOT_CHECKED, "Disabled", "does not want", id="not wanted"),
        pytest.param(
            facts(wanted=False, installed=True),
            State.NOT_CHECKED,
            "Leaving",
            "gives the runtime back what it had",
            id="not wanted any more",
        ),
        pytest.param(
            facts(wanted=None), State.NOT_CHECKED, "Disabled", "does not want", id="nobody has said"
        ),
        pytest.param(
            facts(record=None), State.WAITING, "ToolkitNotStarted", "since this boot", id="no record"
        ),
        pytest.param(
            facts(original=True, gate=True),
            State.OK,
            "ToolkitReady",
            "NVIDIA's validator",
            id="the original, ready",
        ),
        pytest.param(
            facts(original=True),
            State.WAITING,
            "ToolkitNotReady",
            "not ready yet",
            id="the original, not yet",
        ),
        pytest.param(
            facts(deploy_label="paused-for-driver-upgrade"),
            State.WAITING,
            "Paused",
            "paused-for",
            id="paused",
        ),
        pytest.param(facts(deploy_label="false"), State.NOT_CHECKED, "OptedOut", "=false", id="opted out"),
        pytest.param(
            facts(record=record(whole=False)), State.WAITING, "ToolkitWorking", "being taught", id="at work"
        ),
        pytest.param(
            facts(record=record(problem=Problem("WaitingForGrant", "waits for its turn"))),
            State.WAITING,
            "WaitingForGrant",
            "containerd 1.7.24: waits for its turn",
            id="waits for its turn",
        ),
        pytest.param(
            facts(record=record(problem=Problem("RuntimeConfigRolledBack", "did not come back"))),
            State.BROKEN,
            "RuntimeConfigRolledBack",
            "containerd 1.7.24: did not come back",
            id="rolled back",
        ),
    ],
)
def test_what_is_judged_of_the_runtime(given, state, reason, said):
    found = judge(given)

    assert (found.state, found.reason) == (state, reason)
    assert said in found.message


def test_what_lacks_cdi_names_the_key_and_the_file():
    found = judge(facts(record=record(cdi=False), strategies=("cdi-cri",)))

    assert "enable_cdi = true" in found.next_step
    assert found.next_step.endswith("the file is /etc/containerd/config.toml")


def test_a_toolkit_at_work_says_what_the_daemon_lacks_and_where_to_look():
    found = judge(facts(record=record(whole=False, lacks=("CDI is not enabled",))))

    assert found.evidence == ("still: CDI is not enabled",)
    assert "DaemonSet nvidia-container-toolkit-daemonset" in found.next_step


def test_a_problem_brings_what_the_files_say_as_evidence():
    problem = Problem("RuntimeConfigRefused", "no place", "by hand", ("seen",))

    found = judge(facts(record=record(problem=problem, notes=(HIDDEN,))))

    assert found.evidence == ("seen", HIDDEN)
    assert found.next_step == "by hand"


KEPT_AWAY = kept_away("toolkit", "nvidia-container-toolkit-daemonset", ["team=ml:NoSchedule"])


@pytest.mark.parametrize("given", [{"record": None}, {"original": True, "record": None}])
def test_a_toolkit_that_a_taint_keeps_away_is_broken_with_the_toleration(given: dict[str, object]) -> None:
    verdict = judge(facts(kept_away=KEPT_AWAY, **given))

    assert (verdict.state, verdict.reason) == (State.BROKEN, "OperandKeptAway")
    assert "nvidia-container-toolkit-daemonset does not tolerate team=ml:NoSchedule" in verdict.message
    assert '{key: team, operator: Equal, value: "ml", effect: NoSchedule}' in verdict.next_step


def test_a_toolkit_that_runs_already_is_not_touched_by_a_taint_that_came_later() -> None:
    assert judge(facts(kept_away=KEPT_AWAY)).state is State.OK


def test_the_plugins_spec_of_an_earlier_driver_waits_while_the_plugin_is_paused() -> None:
    old = SpecFile(names.PLUGIN_CDI_FILE, names.PLUGIN_CDI_KIND, missing=("/usr/lib/libcuda.so.570.86.10",))
    given = {"specs": SpecFacts(files=(old,)), "has_driver": True}

    assert judge(facts(**given)).reason == "CdiHostPathMissing"
    verdict = judge(facts(plugin_label="paused-for-driver-upgrade", **given))

    assert (verdict.state, verdict.reason) == (State.WAITING, "PluginPaused")
    assert "nvidia.com/gpu.deploy.device-plugin=paused-for-driver-upgrade" in verdict.message
    assert "libcuda.so.570.86.10" in verdict.evidence[0]
