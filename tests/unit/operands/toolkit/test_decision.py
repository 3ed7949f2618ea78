"""What the toolkit does after a look, and what it says while it does nothing."""

from __future__ import annotations

import pytest

from gpuready.node.cri import RuntimeSilent
from gpuready.operands.toolkit import dry_run
from gpuready.operands.toolkit.daemon import _text_of
from gpuready.operands.toolkit.decision import Action, decide
from gpuready.operands.toolkit.engine import Look, silent_at
from gpuready.operands.toolkit.layouts import layout_of
from gpuready.operands.toolkit.plan import FileChange, Plan, SettingChange
from gpuready.operands.toolkit.running import Running
from gpuready.operands.toolkit.settings import Settings

CHANGE = FileChange("/etc/docker/daemon.json", None, "{}\n")
PLAN = Plan((CHANGE,), (SettingChange(("runtimes", "nvidia", "path"), "", "/usr/bin/runc"),))
SILENT = RuntimeSilent("dockerd does not answer on docker.sock", why="No such file or directory")


def look(**changes: object) -> Look:
    base = {"texts": {}, "plan": PLAN, "running": Running("docker", "28.1"), "digest": "d", "version": "28.1"}
    return Look(**{**base, **changes})  # type: ignore[arg-type]


def test_a_runtime_that_is_silent_is_left_alone_and_the_next_step_is_told():
    found = decide(look(running=None, silent=SILENT), {}, None)

    assert found.action is Action.NOTHING
    assert found.problem.reason == "RuntimeSilent"
    assert found.problem.message == "dockerd does not answer on docker.sock: No such file or directory"
    assert found.problem.next_step.startswith("start the node's container runtime, or read its log")


def test_a_next_step_of_the_runtimes_own_goes_before_the_general_one():
    silent = RuntimeSilent("no CRI", next_step="see whether disabled_plugins names it")

    assert decide(look(running=None, silent=silent), {}, None).problem.next_step == silent.next_step


def test_who_waits_for_a_grant_says_who_is_first_and_how_many_may():
    found = decide(look(lacks=("no runtime handler",)), {}, "another", "gpu-1 first, 1 at a time")

    assert found.problem.message.startswith("waits for its turn to restart the runtime (gpu-1 first, 1 at a")
    assert "spec.gpuready.toolkit.maxUnavailable" in found.problem.next_step


@pytest.mark.parametrize("odd", [[1], {"a": 1}, 7, None, True])
def test_a_word_of_the_wish_that_is_none_is_not_printed(odd):
    from gpuready.node.desired import Desired

    wish = Desired("toolkit", "b", config={"heldBy": odd, "grant": odd})

    assert (_text_of(wish, "heldBy"), _text_of(wish, "grant")) == ("", "")


def dry(found: Look) -> str:
    layout = layout_of(Settings(runtime="docker"), lambda path: False)
    return dry_run.text_of(layout, found, found.plan)


def test_a_dry_run_promises_no_restart_of_what_does_not_run():
    said = dry(look(running=None, silent=SILENT))

    assert said.splitlines()[-1] == (
        "no restart: the runtime does not answer, and until it does nothing is changed"
    )
    assert dry(look()).splitlines()[-1].startswith("restart: ")


def test_a_dry_run_shows_the_version_also_of_a_runtime_that_does_not_answer():
    assert "1.7.24" in dry(look(running=None, silent=SILENT, version="1.7.24")).splitlines()[0]


def test_a_socket_that_the_policy_names_is_told_with_its_path_and_its_variable():
    layout = layout_of(Settings(runtime="containerd", socket="/run/elsewhere/c.sock"), lambda path: False)
    silent = RuntimeSilent("the container runtime does not answer on c.sock", why="No such file or directory")

    found = silent_at(layout, "/run/elsewhere/c.sock", silent)

    assert found.what == "the container runtime does not answer on /run/elsewhere/c.sock"
    assert "CONTAINERD_SOCKET" in found.next_step
    assert silent_at(layout, "", silent).next_step == ""
