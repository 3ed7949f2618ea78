"""What the node agent shows of daemons that no link of the chain speaks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuready.chain.driver import DriverFacts
from gpuready.node.operand_records import EXPORTER, find_rows, path_of
from gpuready.operands.node_agent import report
from gpuready.operands.node_agent.decision import View, judge

RECORD = {
    "bootId": "b1",
    "state": "degraded",
    "reason": "GpuSilent",
    "message": "1 of 8 GPUs does not answer",
    "details": ["GPU 3 (GPU-3): no answer for 12 s"],
    "nextStep": "look for XIDs",
    "pid": 7,
    "time": "now",
}
ROW = {
    "name": EXPORTER,
    "state": "degraded",
    "reason": "GpuSilent",
    "message": "1 of 8 GPUs does not answer",
    "details": ["GPU 3 (GPU-3): no answer for 12 s"],
    "nextStep": "look for XIDs",
}


def written(folder: Path, content: Any) -> Path:
    path_of(folder, EXPORTER).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_record_of_this_boot_is_a_row(tmp_path):
    assert find_rows(written(tmp_path, RECORD), "b1") == (ROW,)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({**RECORD, "bootId": "b0"}, id="of an earlier boot"),
        pytest.param({**RECORD, "state": "splendid"}, id="a state that is none"),
        pytest.param({**RECORD, "details": "x"}, id="details that are no list"),
        pytest.param({"state": "ok"}, id="without a reason"),
        pytest.param("{", id="half a record"),
        pytest.param("[]", id="no object"),
    ],
)
def test_what_is_no_record_of_this_boot_is_left_out(tmp_path, content):
    assert find_rows(written(tmp_path, content), "b1") == ()


def test_no_record_is_no_row(tmp_path):
    assert find_rows(tmp_path, "b1") == ()


def test_a_record_never_makes_the_gpunode_large(tmp_path):
    long = {**RECORD, "message": "m" * 10_000, "details": ["d" * 10_000] * 50}

    [row] = find_rows(written(tmp_path, long), "b1")

    assert len(json.dumps(row)) < 25_000


def test_the_gpunode_shows_it_and_lets_go_of_it():
    view = View("n1", "b1", DriverFacts(), operands=(ROW,))
    told = report.status_of(view, judge(view), {}, generation=1, now="t")
    assert told["operands"] == [ROW]

    gone = View("n1", "b1", DriverFacts())
    after = report.status_of(gone, judge(gone), told, generation=1, now="t")
    assert report.status_patch(told, after) == {"operands": None}
