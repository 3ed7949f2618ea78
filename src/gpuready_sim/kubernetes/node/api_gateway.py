"""The API server at its service address, which a service proxy would give to pods."""

from __future__ import annotations

import asyncio
import errno
import socket

from gpuready_sim.cluster.processes import ProcessError
from gpuready_sim.kubernetes.arguments import HOST

SERVICE_ADDRESS = "10.96.0.1"  # the first of the services' range, and in the server's certificate
SERVICE_PORT = 443


class ApiGateway:
    """Hands connections to 10.96.0.1:443 on to the API server's port on loopback.

    The address itself is given to the loopback interface by the node's view, a moment later.
    """

    def __init__(self, api_port: int) -> None:
        self._api_port = api_port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """raises ProcessError when another cluster of this machine has the address"""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)  # before the address is there
        try:
            listener.bind((SERVICE_ADDRESS, SERVICE_PORT))
        except OSError as exc:
            listener.close()
            why = "another cluster uses it" if exc.errno == errno.EADDRINUSE else str(exc)
            raise ProcessError(f"pods cannot have {SERVICE_ADDRESS}:{SERVICE_PORT}", why=why) from exc
        self._server = await asyncio.start_server(self._serve, sock=listener)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            there_reader, there_writer = await asyncio.open_connection(HOST, self._api_port)
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # one of the two has gone
        finally:
            writer.close()
            self._connections.discard(task)


_IP_FREEBIND = 15  # linux/in.h; the socket module has no name for it


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
