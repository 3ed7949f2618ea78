"""Why a program of Kubernetes ended, from its log."""

from __future__ import annotations

import json

import pytest

from gpuready_sim.cluster.processes import last_words

FULL = json.dumps({"level": "panic", "msg": "failed to create WAL", "error": "no space left on device"})
STACK = ["", "goroutine 1 [running]:", "main.main()", "\tetcd/main.go:11 +0x28"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(
            [FULL, "panic: failed to create WAL", *STACK],
            "failed to create WAL: no space left on device",
            id="etcd on a full disk",
        ),
        pytest.param(
            [json.dumps({"level": "fatal", "msg": "file descriptor limit of etcd process is too low"})],
            "file descriptor limit of etcd process is too low",
            id="no words but its own",
        ),
        pytest.param(["panic: nil map", *STACK], "panic: nil map", id="a panic without an entry"),
        pytest.param(["[1]", "{half", "E1130 command failed"], "", id="nothing of the kind"),
    ],
)
def test_the_cause_stands_before_the_stack(lines: list[str], said: str) -> None:
    assert last_words(lines) == said
