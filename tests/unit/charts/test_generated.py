"""The chart and the product cannot disagree: what the chart copies is made from the product."""

from __future__ import annotations

import subprocess
import sys

import yaml
from tests.unit.charts.chart import CHART, ROOT

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicySpec
from gpuready.api.openapi import schema_of

GENERATE = [sys.executable, str(ROOT / "charts/generate.py")]


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run([*GENERATE, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}run: make chart"


def test_the_charts_version_is_the_products() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == names.VERSION


def test_every_block_of_the_policy_can_be_set_by_values() -> None:
    blocks = yaml.safe_load((CHART / "files/blocks.yaml").read_text())
    spec = schema_of(ClusterPolicySpec)["properties"]
    assert set(spec) - set(blocks) == {"operator", "driver", "psp"}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(blocks) - set(values) == set(), "every block stands in values.yaml, where people look for it"
