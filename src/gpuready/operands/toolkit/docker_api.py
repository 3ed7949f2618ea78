"""Ask the running dockerd which runtimes it knows: one HTTP request on its socket. Thin.

Source: Docker Engine API v1.40 on, GET /info: Runtimes, DefaultRuntime, ServerVersion.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from gpuready.node.cri import RuntimeSilent
from gpuready.node.kubelet.sockets import Directory
from gpuready.operands.toolkit.running import Running

_DEADLINE_S = 5.0
_REQUEST = b"GET /info HTTP/1.0\r\nHost: docker\r\nAccept: application/json\r\n\r\n"


async def ask(path: Path) -> Running:
    """raises  RuntimeSilent"""
    try:
        with Directory(path.parent) as directory:
            async with asyncio.timeout(_DEADLINE_S):
                reader, writer = await asyncio.open_unix_connection(directory.short(path.name))
                try:
                    writer.write(_REQUEST)
                    answer = await reader.read(-1)
                finally:
                    writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise ValueError(head.split(b"\r\n", 1)[0].decode("latin-1"))
        row = json.loads(body)
        runtimes = {name: str(table.get("path") or "") for name, table in (row.get("Runtimes") or {}).items()}
    except (OSError, TimeoutError, ValueError, AttributeError) as exc:
        raise RuntimeSilent(
            f"dockerd does not answer on {path.name}", why=str(exc) or "no answer in 5 s"
        ) from exc
    return Running(
        "docker", str(row.get("ServerVersion") or ""), runtimes, str(row.get("DefaultRuntime") or "")
    )
