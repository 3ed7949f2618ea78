"""Why nobody speaks for a node, in words that stay the same while nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from gpuready.controller.nodes.silence import silence_of
from gpuready.kube.trimmed import Condition, ContainerStatus, Metadata, Node, NodeStatus, Pod


def node(ready: str = "True") -> Node:
    return Node(Metadata(name="g1"), status=NodeStatus(conditions=[Condition("Ready", ready)]))


def pod(name: str = "agent-1", *, ready: bool = False, deleting: str | None = None, **container: Any) -> Pod:
    meta = Metadata(
        name=name, creation_timestamp=f"2026-11-29T12:00:0{name[-1]}Z", deletion_timestamp=deleting
    )
    conditions = [Condition("Ready", "True" if ready else "False")]
    return Pod(meta, conditions=conditions, containers=[ContainerStatus("agent", **container)])


def test_an_agent_that_is_ready_speaks():
    assert silence_of(node(), [pod(ready=True, state="running")]) == ""


def test_one_ready_agent_is_enough_while_another_ends():
    assert silence_of(node(), [pod("agent-1", deleting="now"), pod("agent-2", ready=True)]) == ""


@pytest.mark.parametrize(
    ("container", "words"),
    [
        pytest.param(
            {"state": "waiting", "reason": "ImagePullBackOff", "message": "no such image"},
            "ImagePullBackOff, no such image",
            id="the image cannot be had",
        ),
        pytest.param({"state": "running"}, "readiness probe does not succeed", id="not ready"),
        pytest.param({"state": "waiting", "reason": "ContainerCreating"}, "being started", id="starting"),
        pytest.param({"state": "terminated", "reason": "Error"}, "its container ended (Error)", id="ended"),
    ],
)
def test_the_pods_own_trouble_is_told(container, words):
    said = silence_of(node(), [pod(**container)])
    assert "agent-1" in said
    assert words in said


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param({"state": "waiting", "reason": "CrashLoopBackOff"}, id="waiting for the next try"),
        pytest.param({"state": "running"}, id="trying"),
        pytest.param({"state": "terminated", "reason": "Error"}, id="just ended"),
    ],
)
def test_a_container_that_keeps_ending_is_told_in_the_same_words_at_every_moment(phase):
    said = silence_of(node(), [pod(restart_count=3, last_reason="Error", **phase)])
    assert said.endswith("CrashLoopBackOff, its container keeps ending (Error)")


@pytest.mark.parametrize(
    ("there", "agents", "words"),
    [
        pytest.param(node("Unknown"), [pod(ready=True)], "kubelet does not report", id="the node is away"),
        pytest.param(node(), [], "no node agent runs there", id="no agent"),
        pytest.param(node(), [pod(deleting="now")], "no node agent runs there", id="the last one ends"),
    ],
)
def test_a_node_without_a_living_agent_is_silent(there, agents, words):
    assert words in silence_of(there, agents)
