"""Ask the running CRI-O which runtimes it knows. Thin.

CRI's Status lists handlers since 1.30 only, and never what is behind them; what `crio status config` prints,
GET /config on the same socket, has had both in every release. After a reload (SIGHUP) both name what was
reloaded, though pods get the runtimes of the start: that is why we restart it (docs/reference/runtimes.md).

Source: cri-o v1.36.3, server/inspect.go, server/runtime_status.go; cri-o issue 10202.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuready.node import cri, socket_http
from gpuready.node.cri import RuntimeSilent
from gpuready.operands.toolkit.running import Running


async def ask(path: Path) -> Running:
    """raises  RuntimeSilent"""
    answer = await cri.ask(path)
    try:
        told = tomllib.loads((await socket_http.get(path, "/config")).decode())
    except (OSError, TimeoutError, ValueError) as exc:
        said = str(exc) or "no answer in 5 s"
        raise RuntimeSilent("CRI-O does not tell its configuration", why=said) from exc
    runtime = _table(_table(told, "crio"), "runtime")
    tables = _table(runtime, "runtimes")
    handlers = {name: str(_table(tables, name).get("runtime_path") or "") for name in sorted(tables)}
    return Running(answer.name, answer.version, handlers, str(runtime.get("default_runtime") or ""))


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = table.get(key)
    return found if isinstance(found, Mapping) else {}
