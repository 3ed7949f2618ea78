"""The socket of a simulated container runtime, served until its service manager ends the process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuready_sim.kubelet.sockets import Directory, UnixServer
from gpuready_sim.parent import die_with_parent


async def serve_until_ended(
    socket: Path,
    server_in: Callable[[Directory, str], UnixServer],
    on_signal: Mapping[signal.Signals, Callable[[], None]] | None = None,
) -> None:
    """Until SIGTERM or SIGINT, or the end of the service manager; the socket goes with the server.

    server_in   makes the server that listens in a directory under a name
    on_signal   what else the process listens to
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    for number, do in (on_signal or {}).items():
        loop.add_signal_handler(number, do)
    die_with_parent()
    socket.parent.mkdir(parents=True, exist_ok=True)
    directory = Directory(socket.parent)
    server = server_in(directory, socket.name)
    await server.start()
    try:
        await ended.wait()
    finally:
        await server.close()
        socket.unlink(missing_ok=True)
        directory.close()
