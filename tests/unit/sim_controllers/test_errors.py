"""An error about what somebody typed says what, why where it is not plain, and always what to do next."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src" / "gpuready_sim"
ABOUT_WHAT_WAS_TYPED = (
    "CommandError",
    "HardwareStateError",
    "MachineError",
    "PlaceError",
    "SimulatorError",
    "SpecError",
)


def raised() -> list[tuple[str, ast.Call]]:
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ABOUT_WHAT_WAS_TYPED:
                found.append((f"{path.relative_to(SOURCES)}:{call.lineno}", call))
    return found


@pytest.mark.parametrize(("where", "call"), [pytest.param(*each, id=each[0]) for each in raised()])
def test_every_error_names_the_next_step(where: str, call: ast.Call) -> None:
    assert "next_step" in [keyword.arg for keyword in call.keywords], where
