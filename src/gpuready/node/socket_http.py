"""One HTTP/1 question on a unix socket: dockerd and CRI-O answer some there beside their own. Thin."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpuready.node.kubelet.sockets import Directory

DEADLINE_S = 5.0


async def get(path: Path, target: str) -> bytes:
    """Body of the answer to GET `target`.

    raises  OSError, TimeoutError (no answer within 5 s), ValueError (another answer than 200)
    """
    with Directory(path.parent) as directory:
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_unix_connection(directory.short(path.name))
            try:
                writer.write(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                answer = await reader.read(-1)
            finally:
                writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first = head.split(b"\r\n", 1)[0]
    if b" 200 " not in first:
        raise ValueError(first.decode("latin-1") or "an empty answer")
    return body
