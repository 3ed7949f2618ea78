"""README.md and CHANGELOG.md count what there is, and say what there is not."""

from __future__ import annotations

import re

import pytest
from tests.unit.monitoring.promql import DASHBOARDS, EXPORTER_ALERTS, EXPORTER_DASHBOARDS, ROOT, alerts

from gpuready.operands import registry

README = (ROOT / "README.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.mark.parametrize("text", [README, CHANGELOG], ids=["README", "CHANGELOG"])
def test_alerts_and_dashboards_are_counted_right(text: str) -> None:
    there = {
        "alerts": len(alerts()) + len(alerts(EXPORTER_ALERTS)),
        "dashboards": len(DASHBOARDS) + len(EXPORTER_DASHBOARDS),
    }
    for what, count in there.items():
        [said] = re.findall(rf", (\w+) {what}\b", " ".join(text.split()))
        assert said in (str(count), dict(enumerate(NUMBERS)).get(count)), f"there are {count} {what}"


def test_what_is_not_done_yet_stands_in_the_readme() -> None:
    planned = {each.name for each in registry.NOT_IMPLEMENTED}
    assert ("automatic driver upgrades" in README) == ("driver-upgrade" in planned)
    assert ("sandbox operands" in README) == ("sandbox-workloads" in planned)
