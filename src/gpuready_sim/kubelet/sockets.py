"""Unix sockets of gRPC servers and clients in deep directories.

A socket's address holds 107 bytes and a simulated node's directories are long, so sockets are reached
through `/proc/self/fd/<directory>/<name>`: the file lies where it should, the address stays short.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Collection
from pathlib import Path
from typing import Any

import grpclib.const
import grpclib.exceptions
import h2.connection
from google.protobuf.message import DecodeError
from grpclib.client import Channel
from grpclib.encoding.proto import ProtoCodec
from grpclib.protocol import H2Protocol
from grpclib.server import Server

MAX_MESSAGE_BYTES = 4 * 1024 * 1024  # gRPC's default, which the kubelet keeps

# h2 remembers up to 65,536 closed streams per connection (11 MB); a long-lived connection needs few.
h2.connection.H2Connection.MAX_CLOSED_STREAMS = 256


class Directory:
    """An open directory whose sockets can be named by a short path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_DIRECTORY | os.O_RDONLY | os.O_CLOEXEC)

    def short(self, name: str) -> str:
        return f"/proc/self/fd/{self._fd}/{name}"

    def close(self) -> None:
        os.close(self._fd)


class UnixServer:
    """A gRPC server on a unix socket that lets go of its clients when it is closed."""

    def __init__(self, handlers: Collection[Any], directory: Directory, name: str) -> None:
        self._server = _TrackingServer(handlers)
        self._directory = directory
        self._name = name

    async def start(self) -> None:
        path = self._directory.short(self._name)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if os.path.lexists(path):
                os.unlink(path)
            listener.bind(path)
        except OSError:
            listener.close()
            raise
        await self._server.start(sock=listener)

    async def close(self) -> None:
        """As when the process ends: connections break, the socket's file stays behind."""
        self._server.close()
        self._server.drop_connections()
        try:
            async with asyncio.timeout(1):
                await self._server.wait_closed()
        except TimeoutError:
            pass


class _TrackingServer(Server):
    def __init__(self, handlers: Collection[Any]) -> None:
        super().__init__(handlers)
        self._protocols: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        self._protocols = [p for p in self._protocols if not _is_over(p)]
        self._protocols.append(protocol)
        return protocol

    def drop_connections(self) -> None:
        for protocol in self._protocols:
            if hasattr(protocol, "connection"):
                protocol.connection.close()


def _is_over(protocol: H2Protocol) -> bool:
    return hasattr(protocol, "connection") and protocol.connection.is_closing()


class LimitedCodec(ProtoCodec):
    """Protobuf that refuses what cannot be read and what is over the kubelet's limit, as grpc-go says it."""

    def decode(self, data: bytes, message_type: Any) -> Any:
        if len(data) > MAX_MESSAGE_BYTES:
            raise grpclib.exceptions.GRPCError(
                grpclib.const.Status.RESOURCE_EXHAUSTED,
                f"grpc: received message larger than max ({len(data)} vs. {MAX_MESSAGE_BYTES})",
            )
        try:
            return super().decode(data, message_type)
        except DecodeError as exc:
            raise grpclib.exceptions.GRPCError(
                grpclib.const.Status.INTERNAL, f"grpc: failed to unmarshal the received message: {exc}"
            ) from exc


async def dial(directory: Directory, name: str, timeout_s: float) -> Channel:
    """Connect to a server's socket, trying again until `timeout_s` is over; raises TimeoutError."""
    channel = Channel(path=directory.short(name), codec=LimitedCodec())
    pause = 0.02
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    await channel.__connect__()
                    return channel
                except OSError:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 1)
    except TimeoutError:
        channel.close()
        raise
