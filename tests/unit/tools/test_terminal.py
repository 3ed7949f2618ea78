"""What comes from a cluster cannot write to the screen: one fact is one line, without control characters."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.unit.tools.cluster import GPU, cluster, gpu_node, link, node, operand_pod, pod, policy

from gpuready.commands import run
from gpuready.tools import snapshot as snapshots
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.node_rows import rows_of
from gpuready.tools.snapshot import Snapshot
from gpuready.tools.status import live, table
from gpuready.tools.terminal import folded, joined, printable

FAKE = "ok    all fine"
EVIL = f"\x1b[2J\r\n\u2028\u202e\u200b\x9b2J\ud800{FAKE}"


def poisoned() -> Snapshot:
    """The same text wherever somebody else chooses the words."""
    broken = link("driver", "broken", EVIL, EVIL, evidence=[EVIL], nextStep=EVIL)
    stuck = {"reason": "CrashLoopBackOff", "message": EVIL}
    silent = node("g2", gpus=1, ready=False)
    silent["status"]["conditions"][0]["message"] = EVIL
    return cluster(
        node(f"g1{EVIL}", gpus=1),
        silent,
        node("g3", gpus=1, taints=[{"key": EVIL, "value": EVIL, "effect": "NoSchedule"}]),
        node("g4", gpus=8, cordoned=True),
        gpu_nodes=[
            gpu_node(f"g1{EVIL}", broken),
            gpu_node("g2"),
            gpu_node("g3", link("driver", "waiting", "DriverInstalling", EVIL)),
            gpu_node("g4", link("device-plugin", "not-checked", "Disabled", EVIL)),
        ],
        pods=[
            operand_pod("driver", "g3", waiting=stuck),
            pod(f"p{EVIL}", gpus=1, said=EVIL, nodeSelector={EVIL: EVIL}),
            pod("q", gpus=1, resource=f"{GPU}{EVIL}"),
        ],
        policies=[
            policy("notReady", EVIL, EVIL),
            policy(operands=[{"name": EVIL, "state": "notImplemented"}]),
        ],
    )


def is_clean(shown: str) -> bool:
    lines = shown.split("\n")
    unseen = [
        char for char in "".join(lines) if unicodedata.category(char)[0] == "C" or char in "\u2028\u2029"
    ]
    return not unseen and not any(line.startswith(FAKE) for line in lines)


@given(st.text(st.characters(), max_size=40))
def test_nothing_that_moves_the_cursor_is_left(words: str) -> None:
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in printable(words))
    assert printable(printable(words)) == printable(words)
    assert joined([words, words]).count("\n") == 1


def test_what_people_read_stays_as_it_is() -> None:
    assert printable("GPU 3 (GPU-d5): größer, 例") == "GPU 3 (GPU-d5): größer, 例"
    assert printable("a\x1b[2J\nb\u202e") == r"a\x1b[2J\nb\u202e"


def test_doctor_prints_no_control_character() -> None:
    report = report_of(poisoned())

    assert is_clean(text.report_text(report))
    assert all(is_clean(text.node_text(row, report)) for row in report.rows)
    assert json.loads(json.dumps(report.to_json())) == report.to_json(), "json keeps the words as they are"


def test_status_prints_no_control_character() -> None:
    given = poisoned()
    rows = rows_of(given)
    console = Console(width=400, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for part in live.drawn(rows, 400):
        console.print(part)

    assert is_clean(table.plain(rows, given.policies))
    assert all(is_clean(line) and "\n" not in line for line in table.changes(rows, []))
    assert all(is_clean(line) and "\n" not in line for line in table.changes([], rows))
    assert is_clean(console.export_text())


def test_an_error_that_names_a_node_prints_no_control_character(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshots.save(poisoned(), str(tmp_path / "bundle"))

    assert run(["doctor", "--bundle", str(tmp_path / "bundle"), "--node", "absent"]) == 2
    assert is_clean(capsys.readouterr().err)


def test_lines_are_folded_between_words_at_the_terminals_width_and_go_on_below_their_text() -> None:
    line = "FAIL  node/gpu-17  toolkit  containerd knows no runtime handler nvidia, and so since monday"
    why = "      why   conf.d/99-registry.toml replaces the whole CRI section of the configuration there"

    shown = folded(f"{line}\n{why}", 60).split("\n")

    assert shown == [
        "FAIL  node/gpu-17  toolkit  containerd knows no runtime",
        "      handler nvidia, and so since monday",
        "      why   conf.d/99-registry.toml replaces the whole CRI",
        "            section of the configuration there",
    ]


def test_what_to_do_next_stays_one_line_so_that_it_can_be_copied() -> None:
    step = "      next  kubectl label node gpu-17 nvidia.com/gpu.deploy.device-plugin=paused --overwrite"
    assert folded(step, 40) == step


def test_a_pipe_gets_whole_lines() -> None:
    assert folded("a " * 200, None) == "a " * 200
