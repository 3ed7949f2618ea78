"""Where the example files are: beside the installed package, or in the checkout."""

from __future__ import annotations

from pathlib import Path

from gpuready_sim.errors import SimulatorError


def example(name: str) -> Path:
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / name).is_file():
            return folder / name
    raise SimulatorError(
        f"the example {name} was not found", next_step="reinstall gpuready, or use a checkout"
    )
