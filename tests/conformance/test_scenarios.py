"""Requests and answers, as recorded from a real API server."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from .api import Api
from .differences import KNOWN
from .scenarios import SCENARIOS
from .transcript import Scenario, played

EXPECTED = Path(__file__).parent / "expected"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
async def test_answers_as_recorded(
    scenario: Scenario, api: Api, namespace: str, request: pytest.FixtureRequest
) -> None:
    if api.server == "embedded" and scenario.id in KNOWN:
        request.applymarker(pytest.mark.xfail(reason=KNOWN[scenario.id], strict=True))
    answers = await played(api, scenario, namespace)
    file = EXPECTED / f"{scenario.id}.json"
    if os.environ.get("CONFORMANCE_RECORD") and api.server == "kubernetes":
        file.write_text(json.dumps(answers, indent=1) + "\n")
    expected = json.loads(file.read_text())
    if found := difference(expected, answers):
        pytest.fail(found, pytrace=False)


def difference(expected: list[Any], answers: list[Any]) -> str:
    """As a unified diff of YAML; empty when there is none."""
    wanted, got = (yaml.safe_dump(value, width=200).splitlines() for value in (expected, answers))
    return "\n".join(difflib.unified_diff(wanted, got, "kubernetes", "here", lineterm="", n=6))


def test_every_recording_belongs_to_a_scenario() -> None:
    assert {file.stem for file in EXPECTED.glob("*.json")} == {scenario.id for scenario in SCENARIOS}
