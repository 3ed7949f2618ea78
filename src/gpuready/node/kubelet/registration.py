"""Tell the kubelet of a device plugin that is already being served."""

from __future__ import annotations

import asyncio
from pathlib import Path

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError

from gpuready.errors import GPUReadyError
from gpuready.node.kubelet.calls import alone
from gpuready.node.kubelet.model import Offer
from gpuready.node.kubelet.plugin_server import API_VERSION, options_of
from gpuready.node.kubelet.sockets import Directory
from gpuready.protos.deviceplugin.v1beta1 import api_grpc, api_pb2

_DEADLINE_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.5


class RegistrationError(GPUReadyError):
    """The kubelet is not there or refused; it is worth trying again when its socket changes."""


async def register(kubelet_socket: Path, endpoint: str, resource: str, offer: Offer) -> None:
    """Register `resource`, served on the socket file `endpoint` beside the kubelet's own.

    A socket that exists but does not listen yet (its creation wakes us before listen()) is tried again
    after 2, 4, 8 ... ms; a missing one is not.
    raises  RegistrationError
    """
    request = api_pb2.RegisterRequest(
        version=API_VERSION, endpoint=endpoint, resource_name=resource, options=options_of(offer)
    )
    pause = _FIRST_PAUSE_S
    try:
        async with asyncio.timeout(_DEADLINE_S):
            while not await _try_once(kubelet_socket, request):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
    except TimeoutError as exc:
        raise RegistrationError(f"the kubelet does not answer on {kubelet_socket.name}") from exc
    except FileNotFoundError as exc:
        raise RegistrationError(f"the kubelet has no socket {kubelet_socket.name}") from exc
    except GRPCError as exc:
        raise RegistrationError(
            f"the kubelet refused {resource}", why=exc.message or exc.status.name
        ) from exc


async def _try_once(kubelet_socket: Path, request: api_pb2.RegisterRequest) -> bool:
    """False when the kubelet is there but not yet listening, or hung up."""
    with Directory(kubelet_socket.parent) as directory:
        channel = Channel(path=directory.short(kubelet_socket.name))
        try:
            await alone(api_grpc.RegistrationStub(channel).Register(request))
        except (ConnectionError, StreamTerminatedError):
            return False
        finally:
            channel.close()
    return True
