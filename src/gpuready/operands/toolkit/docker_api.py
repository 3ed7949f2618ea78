"""Ask the running dockerd which runtimes it knows: one HTTP request on its socket. Thin.

Source: Docker Engine API v1.40 on, GET /info: Runtimes, DefaultRuntime, ServerVersion.
"""

from __future__ import annotations

import json
from pathlib import Path

from gpuready.node import socket_http
from gpuready.node.cri import RuntimeSilent
from gpuready.operands.toolkit.running import Running


async def ask(path: Path) -> Running:
    """raises  RuntimeSilent"""
    try:
        row = json.loads(await socket_http.get(path, "/info"))
        runtimes = {name: str(table.get("path") or "") for name, table in (row.get("Runtimes") or {}).items()}
    except (OSError, TimeoutError, ValueError, AttributeError) as exc:
        said = getattr(exc, "strerror", None) or str(exc) or f"no answer within {socket_http.DEADLINE_S:g} s"
        raise RuntimeSilent(f"dockerd does not answer on {path.name}", why=said) from exc
    return Running(
        "docker", str(row.get("ServerVersion") or ""), runtimes, str(row.get("DefaultRuntime") or "")
    )
