"""Which boards there are, and the file that each is written to."""

from __future__ import annotations

import json
from pathlib import Path

from monitoring.boards import gpu, health, mig, node, pods
from monitoring.boards.grafana import page_of

FOLDER = Path(__file__).parents[1] / "dashboards"
BOARDS = (node.BOARD, gpu.BOARD, pods.BOARD, mig.BOARD, health.BOARD)


def files() -> dict[Path, str]:
    """Every file that this writes, with its text."""
    return {FOLDER / f"{board.uid}.json": json.dumps(page_of(board), indent=1) + "\n" for board in BOARDS}
