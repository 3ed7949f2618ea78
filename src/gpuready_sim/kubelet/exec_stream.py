"""`kubectl exec`, the kubelet's end: a program's output and its end over a WebSocket.

Each message begins with the number of its channel. There is no standard input: the programs that the
simulator runs read none.

Source: kubernetes, apimachinery/pkg/util/remotecommand/constants.go, client-go/tools/remotecommand.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from gpuready_sim.runtime.container import Container

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDOUT, ERROR = b"\x01", b"\x03"
_LONGEST_S = 24 * 3600.0


async def answer(request: web.Request, container: Container) -> web.WebSocketResponse:
    """Until the program ends, or the client goes away."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS)
    await socket.prepare(request)
    running = asyncio.create_task(container.exec(request.query.getall("command"), _LONGEST_S))
    leaving = asyncio.create_task(_wait_until_gone(socket))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            code, output = running.result()
            await socket.send_bytes(STDOUT + output.encode())
            await socket.send_bytes(ERROR + json.dumps(status_of(code)).encode())
    finally:
        for task in (running, leaving):
            task.cancel()
        await asyncio.gather(running, leaving, return_exceptions=True)
        await socket.close()
    return socket


async def _wait_until_gone(socket: web.WebSocketResponse) -> None:
    async for _ in socket:
        pass


def status_of(code: int) -> dict[str, Any]:
    """How a program ended, as the client reads it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
