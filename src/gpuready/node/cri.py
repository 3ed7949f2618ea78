"""Ask the running container runtime, over the kubelet's own interface (CRI v1), who it is and what it knows.

What a runtime's files say is one thing; what the process knows is this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError

from gpuready.errors import GPUReadyError
from gpuready.node.kubelet.calls import alone
from gpuready.node.kubelet.sockets import Directory
from gpuready.protos.runtime.v1 import api_grpc, api_pb2

_DEADLINE_S = 5.0


class RuntimeSilent(GPUReadyError):
    """The runtime does not answer on its socket; ask again later."""


@dataclass(frozen=True)
class RuntimeAnswer:
    """handlers  names that it lists; containerd does so from 2.0 on, () = it does not list any
    config    what it says of its own configuration in JSON; {} = nothing
    """

    name: str
    version: str
    handlers: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)


async def ask(socket: Path) -> RuntimeAnswer:
    """raises  RuntimeSilent: no socket, nobody who listens, no CRI there, or no answer within 5 s"""
    try:
        with Directory(socket.parent) as directory:
            channel = Channel(path=directory.short(socket.name))
            try:
                stub = api_grpc.RuntimeServiceStub(channel)
                version = await alone(stub.Version(api_pb2.VersionRequest(), timeout=_DEADLINE_S))
                asked = api_pb2.StatusRequest(verbose=True)
                status = await alone(stub.Status(asked, timeout=_DEADLINE_S))
            finally:
                channel.close()
    except GRPCError as exc:
        raise RuntimeSilent(
            f"{socket.name} answers, and its CRI plugin does not",
            why=exc.message or exc.status.name,
            next_step="see whether disabled_plugins names it, and why it did not load (journalctl)",
        ) from exc
    except (OSError, StreamTerminatedError, TimeoutError, AttributeError) as exc:
        # AttributeError: grpclib over a connection that was closed before it was used.
        said = getattr(exc, "strerror", None) or str(exc) or "no answer within 5 s"
        raise RuntimeSilent(f"the container runtime does not answer on {socket.name}", why=said) from exc
    return RuntimeAnswer(
        version.runtime_name,
        version.runtime_version,
        tuple(sorted(handler.name for handler in status.runtime_handlers if handler.name)),
        _object_of(status.info.get("config", "")),
    )


def _object_of(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
