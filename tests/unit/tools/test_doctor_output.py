"""What doctor prints, from a cluster or a saved bundle, and its exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.tools.cluster import GPU, cluster, gpu_node, node
from tests.unit.tools.findings import MISMATCH, WANTS_ONE

from gpuready.errors import UsageError
from gpuready.tools import snapshot as snapshots
from gpuready.tools.doctor import command, text
from gpuready.tools.doctor.analysis import Report, report_of
from gpuready.tools.snapshot import Snapshot


def saved(tmp_path: Path, seen: Snapshot) -> str:
    file = tmp_path / "bundle.json"
    snapshots.save(seen, str(file))
    return str(file)


def test_a_saved_bundle_gives_the_same_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", MISMATCH)], pods=[WANTS_ONE])
    bundle = saved(tmp_path, seen)

    assert command.run(bundle=bundle, output="json") == 1

    assert json.loads(capsys.readouterr().out) == report_of(seen).to_json()


def test_a_healthy_bundle_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(bundle=saved(tmp_path, cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1")]))) == 0
    assert "nothing found" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{not json", '{"kind": "List"}', "[]"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)

    with pytest.raises(UsageError, match="not a bundle"):
        command.run(bundle=str(file))


def test_a_bundle_holds_no_environment_no_command_and_no_annotation() -> None:
    secret = {
        "metadata": {"name": "p", "annotations": {"a": "s3cret"}, "managedFields": []},
        "spec": {
            "containers": [{"name": "c", "env": [{"name": "K", "value": "s3cret"}], "command": ["s3cret"]}]
        },
        "status": {"phase": "Pending"},
    }

    assert "s3cret" not in json.dumps(snapshots.trimmed_pod(secret))


def test_a_report_names_the_same_fields_in_json_and_text() -> None:
    report: Report = report_of(cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", MISMATCH)]))

    (row,) = report.to_json()["findings"]

    assert text.report_text(report).splitlines() == [
        f"FAIL  {row['subject']}  {row['link']}  {row['message']}",
        f"      why   {row['evidence'][0]}",
        f"      next  {row['nextStep']}",
        "1 problem",
    ]
    assert GPU not in row["message"]
