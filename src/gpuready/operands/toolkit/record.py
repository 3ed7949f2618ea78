"""What the toolkit tells of itself, for the node agent. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuready.operands.toolkit.decision import Problem
from gpuready.operands.toolkit.engine import Look
from gpuready.operands.toolkit.layouts import Layout


def record_of(
    layout: Layout,
    look: Look | None,
    problem: Problem | None,
    *,
    request: Mapping[str, str] | None,
    repaired: Mapping[str, Any] | None,
    restarts: int,
    digests: Mapping[str, str],
    boot: str,
    specs: Sequence[str] = (),
) -> dict[str, Any]:
    """specs     why nobody keeps the node's CDI specs now
    repaired  {"time", "files", "keys"} of the last drift that was put right
    digests   of the files when all was well
    """
    running = look.running if look else None
    return {
        "bootId": boot,
        "runtime": {
            "name": layout.runtime,
            "layout": layout.name,
            "version": running.version if running else "",
            "config": layout.config,
            "socket": layout.socket,
        },
        "whole": bool(look and look.is_whole and problem is None),
        "handlers": sorted(running.handlers) if running else [],
        "programs": sorted({*running.handlers.values()} - {""}) if running else [],
        "cdi": running.cdi if running else None,
        "lacks": list(look.lacks) if look else [],
        "notes": list(look.plan.notes) if look else [],
        "problem": problem.to_json() if problem else None,
        "request": dict(request) if request else None,
        "repaired": dict(repaired) if repaired else None,
        "restarts": restarts,
        "digests": dict(digests),
        "specs": list(specs),
    }
