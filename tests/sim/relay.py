"""The wire between one client and the API server, which can be slow, or cut, and mended again.

While it is cut it carries nothing and says nothing. What a client has sent meanwhile arrives afterwards, as
TCP would deliver it, unless the client has reset the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self


class Relay:
    """To 127.0.0.1:`port`; listens on `listens_on`."""

    def __init__(self, port: int) -> None:
        self.listens_on = 0
        self._port = port
        self._mended = asyncio.Event()
        self._mended.set()
        self._pause_s = 0.0
        self._wires: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def to(cls, port: int) -> AsyncIterator[Self]:
        relay = cls(port)
        server = await asyncio.start_server(relay._connected, "127.0.0.1", 0)
        relay.listens_on = server.sockets[0].getsockname()[1]
        try:
            yield relay
        finally:
            server.close()
            for wire in relay._wires:
                wire.cancel()
            await asyncio.gather(*relay._wires, return_exceptions=True)

    def cut(self) -> None:
        self._mended.clear()

    def slow(self, pause_s: float) -> None:
        """Whatever is sent arrives this much later."""
        self._pause_s = pause_s

    def mend(self) -> None:
        self._pause_s = 0.0
        self._mended.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._wires.add(task)
        try:
            await self._carry(reader, writer)
        finally:
            self._wires.discard(task)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._mended.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [
            asyncio.create_task(self._pump(reader, far_writer)),
            asyncio.create_task(self._pump(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._until_mended(reader)
                writer.write(data)
                await writer.drain()

    async def _until_mended(self, reader: asyncio.StreamReader) -> None:
        """Raises ConnectionResetError when the sender has reset the connection meanwhile."""
        while not self._mended.is_set():
            await self._mended.wait()
        await asyncio.sleep(self._pause_s)
        if (broken := reader.exception()) is not None:
            raise broken
