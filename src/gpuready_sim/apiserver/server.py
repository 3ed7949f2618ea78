"""The API server as a process: TLS, sockets, signals, and an end within two seconds."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import uvicorn

from gpuready_sim.apiserver import pki
from gpuready_sim.apiserver.app import ApiServer
from gpuready_sim.apiserver.resources import Settings
from gpuready_sim.apiserver.tunnel import tunnels
from gpuready_sim.parent import die_with_parent


@dataclass(frozen=True)
class Options:
    """What the command line says.

    port     0 takes a free one; the kubeconfig names it
    history  changes per resource that can be resumed from
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig: Path | None = None
    requests: Path | None = None
    history: int = 4096
    settings: Settings = field(default_factory=Settings)


def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent process dies."""
    die_with_parent()
    asyncio.run(_serve(options))


async def _serve(options: Options) -> None:
    identity = pki.load_or_create(options.data, options.host)
    listener = _listen(options.host, options.port)
    port = listener.getsockname()[1]
    app = ApiServer(
        identity,
        data=options.data,
        audit=options.requests,
        history=options.history,
        settings=options.settings,
    )
    if options.kubeconfig is not None:
        text = pki.kubeconfig(identity.ca_pem, identity.admin_token, f"https://{options.host}:{port}")
        pki.write_kubeconfig(options.kubeconfig, text)
    server = Server(app, identity)
    await server.serve(sockets=[listener])


class Server(uvicorn.Server):
    """uvicorn, told to end open watches when it is asked to stop."""

    def __init__(self, app: ApiServer, identity: pki.Identity) -> None:
        self._app = app
        config = uvicorn.Config(
            app,
            http="httptools",
            ws=tunnels(app.tunnel),
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=1,
            ssl_certfile=str(identity.certificate),
            ssl_keyfile=str(identity.key),
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.end_streams()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self._captured_signals.clear()  # uvicorn would raise them again: being told to stop is no failure


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # asyncio sets TCP_NODELAY only where the protocol is named; without it each answer waits 40 ms.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.set_inheritable(False)
    return listener
