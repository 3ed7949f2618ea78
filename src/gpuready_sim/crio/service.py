"""The daemon: what its files said when it started, and what a SIGHUP made it take up since.

A reload is taken up by what it tells (CRI Status, GET /config) and by nothing that starts pods: those keep
the runtimes of the start (cri-o issue 10202). So its answers name handlers that no pod can use.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import tomlkit
from grpclib.protocol import H2Protocol

from gpuready_sim.crio import merge
from gpuready_sim.kubelet.protos.runtime.v1 import api_grpc, api_pb2
from gpuready_sim.kubelet.sockets import Directory, UnixServer
from gpuready_sim.runtime_socket import serve_until_ended

SOCKET = "run/crio/crio.sock"
_FIRST_WITH_HANDLERS, _FIRST_WITH_CONFIG = (1, 30), (1, 33)
_HTTP2 = b"PRI"  # a gRPC client's first bytes; anything else is HTTP/1, as with the real one's multiplexer
_GO_NAMES = {
    "runtime_path": "RuntimePath",
    "runtime_type": "RuntimeType",
    "runtime_root": "RuntimeRoot",
    "runtime_config_path": "RuntimeConfigPath",
    "monitor_path": "MonitorPath",
    "monitor_cgroup": "MonitorCgroup",
}


class Daemon:
    """raises merge.Refused: it would not start."""

    def __init__(self, node_root: Path, release: str, root: str, drop_ins: str) -> None:
        self._node_root, self._places = node_root, (root, drop_ins)
        self.release = release
        self.told = self._read()

    def _read(self) -> merge.Table:
        told = merge.configuration(self._node_root, self.release, *self._places)
        return merge.started(told, self._node_root, self.release)

    def reload(self) -> None:
        """Of what is not refused, the runtimes and the default one (since 1.26), and the level of the log."""
        try:
            fresh = self._read()["crio"]["runtime"]
        except merge.Refused as exc:
            sys.stderr.write(f"Unable to reload configuration: {exc}\n")
            return
        kept = self.told["crio"]
        taken = {key: fresh[key] for key in ("runtimes", "default_runtime", "log_level")}
        self.told = {"crio": {**kept, "runtime": {**kept["runtime"], **taken}}}

    def toml(self) -> str:
        return tomlkit.dumps(self.told)


def serve(daemon: Daemon, node_root: Path) -> None:
    """Until SIGTERM; it ends in order, with exit status 0."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(daemon, node_root))


async def _serve(daemon: Daemon, node_root: Path) -> None:
    await serve_until_ended(
        node_root / SOCKET,
        lambda directory, name: _BothServer([_Cri(daemon)], directory, name, daemon),
        {signal.SIGHUP: daemon.reload},
    )


class _BothServer(UnixServer):
    """gRPC and HTTP/1 on one socket."""

    def __init__(self, handlers: Collection[Any], directory: Directory, name: str, daemon: Daemon) -> None:
        super().__init__(handlers, directory, name)
        grpc = self._server._protocol_factory
        self._server._protocol_factory = lambda: _Either(grpc, daemon)  # type: ignore[method-assign,return-value,assignment]


class _Either(asyncio.Protocol):
    def __init__(self, grpc: Callable[[], H2Protocol], daemon: Daemon) -> None:
        self._grpc, self._daemon = grpc, daemon
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        if data.startswith(_HTTP2):
            protocol = self._grpc()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            protocol.data_received(data)
            return
        is_config = data.split(b" ")[1:2] == [b"/config"]
        line, body = (
            ("200 OK", self._daemon.toml()) if is_config else ("404 Not Found", "404 page not found\n")
        )
        head = f"HTTP/1.0 {line}\r\nContent-Type: application/toml\r\n\r\n"
        transport.write(head.encode() + body.encode())
        transport.close()


class _Cri(api_grpc.RuntimeServiceBase):
    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    async def Version(self, stream: Any) -> None:
        await stream.recv_message()
        answer = api_pb2.VersionResponse(
            version="0.1.0",
            runtime_name="cri-o",
            runtime_version=self._daemon.release,
            runtime_api_version="v1",
        )
        await stream.send_message(answer)

    async def Status(self, stream: Any) -> None:
        request = await stream.recv_message()
        release, runtime = merge.release_of(self._daemon.release), self._daemon.told["crio"]["runtime"]
        names = [*sorted(runtime["runtimes"]), ""] if release >= _FIRST_WITH_HANDLERS else []
        ready = api_pb2.RuntimeCondition(type="RuntimeReady", status=True)
        says = request.verbose and release >= _FIRST_WITH_CONFIG
        answer = api_pb2.StatusResponse(
            status=api_pb2.RuntimeStatus(conditions=[ready]),
            info={"config": json.dumps(_in_go(runtime))} if says else {},
            runtime_handlers=[api_pb2.RuntimeHandler(name=name) for name in names],
        )
        await stream.send_message(answer)


def _in_go(runtime: merge.Table) -> merge.Table:
    """Under the names that CRI-O's own structures have in JSON."""
    runtimes = {
        name: {told: table.get(key, "") for key, told in _GO_NAMES.items()}
        for name, table in runtime["runtimes"].items()
    }
    crio = {"DefaultRuntime": runtime["default_runtime"], "Runtimes": runtimes}
    return {"sandboxImage": "registry.k8s.io/pause:3.10.1", "crio": crio}
