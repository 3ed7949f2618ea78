"""The benchmarks still measure: one runs in its shortest form; figures are judged as the table says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.figures import MISSED, NO_PROMISE, NOT_MEASURED, OK, Figure
from benchmarks.harness import Benchmark, Run, measure_all
from benchmarks.scale import original
from click.testing import CliRunner

ROOT = Path(__file__).parents[3]


def test_the_shortest_run_of_the_device_plugin_measures_every_promise():
    command = [sys.executable, "-m", "benchmarks", "device-plugin", "--quick", "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert "will run  device-plugin" in done.stderr
    results = json.loads(done.stdout)
    by_name = {row["figure"]: row for row in results["figures"]}
    assert results["failures"] == {}
    assert results["machine"]["cores"] >= 1
    for name, owed in (("plugin start -> Registered", 300), ("Allocate 1 GPU", 1.2)):
        assert by_name[name]["owed"] == owed
        assert by_name[name]["median"] > 0
        assert by_name[name]["verdict"] in (OK, MISSED)
    assert by_name["Allocate 1 GPU"]["p99"] >= by_name["Allocate 1 GPU"]["median"]


def test_an_unknown_name_is_answered_with_the_known_ones():
    done = CliRunner().invoke(main, ["nonsense"])

    assert done.exit_code == 2
    assert "no benchmark 'nonsense'; there are: ready, device-plugin" in done.output


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        pytest.param(Figure("x", [1, 2, 9], "ms", owed=2), OK, id="the median counts, not one slow run"),
        pytest.param(Figure("x", [3], "ms", owed=2), MISSED, id="too slow"),
        pytest.param(Figure("x", [3], "ms"), NO_PROMISE, id="nothing is promised"),
        pytest.param(Figure("x", [], "ms", owed=2), NOT_MEASURED, id="it was not there to be measured"),
        pytest.param(
            Figure("x", [1] * 98 + [9, 9], "ms", owed=2, owed_p99=3), MISSED, id="two in a hundred too slow"
        ),
        pytest.param(Figure("x", [1, 9], "ms", owed=5, owed_p99=3), OK, id="too few for a 99th percentile"),
    ],
)
def test_a_figure_is_judged_by_what_is_owed(figure, verdict):
    assert figure.verdict == verdict


async def test_a_benchmark_that_cannot_measure_does_not_stop_the_others():
    async def fails(run: Run) -> list[Figure]:
        raise RuntimeError("no GPU anywhere")

    async def works(run: Run) -> list[Figure]:
        return [Figure("x", [run.pick(1, 2)], "s")]

    wanted = [Benchmark("first", "", fails), Benchmark("second", "", works)]
    results = await measure_all(wanted, Run(quick=True))

    assert results.failures == {"first": "RuntimeError: no GPU anywhere"}
    assert [(name, figure.values) for name, figure in results.figures] == [("second", [1])]


def test_sizes_that_are_no_numbers_are_refused_before_anything_runs():
    done = CliRunner().invoke(main, ["scale", "--nodes", "100,many"])

    assert done.exit_code == 2
    assert "--nodes takes numbers with commas between them, not '100,many'" in done.output


def test_a_peer_that_cannot_be_run_is_named_before_anything_runs(tmp_path, monkeypatch):
    """It was told after a minute of waiting for a program that was not there."""

    def said(path: Path) -> str:
        monkeypatch.setenv(original.VARIABLE, str(path))
        with pytest.raises(original.UnusablePeer) as found:
            original.check()
        return str(found.value)

    checkout = tmp_path / "checkout"
    for name in ("assets", "manifests", "config/samples", "deployments/gpu-operator"):
        (checkout / name).mkdir(parents=True)
    (checkout / "config/samples/v1_clusterpolicy.yaml").touch()
    (tmp_path / "file").touch()

    assert "which is a file; it takes the checkout around the program" in said(tmp_path / "file")
    assert "which is no directory" in said(tmp_path / "none")
    assert "which has no gpu-operator: build it there, CGO_ENABLED=0 go build" in said(checkout)
    assert "which has no gpu-operator, assets, manifests" in said(tmp_path)
    (checkout / "gpu-operator").touch()
    assert "whose gpu-operator is no program that may be run" in said(checkout)
    (checkout / "gpu-operator").chmod(0o755)
    original.check()
