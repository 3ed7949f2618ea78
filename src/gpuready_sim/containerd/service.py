"""The daemon: what its files said when it started is what it knows until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from gpuready_sim.containerd import merge
from gpuready_sim.kubelet.protos.runtime.v1 import api_grpc, api_pb2
from gpuready_sim.kubelet.sockets import UnixServer
from gpuready_sim.runtime_socket import serve_until_ended

SOCKET = "run/containerd/containerd.sock"


def serve(node_root: Path, told: merge.Table, release: str) -> None:
    """Until SIGTERM or SIGHUP; a CRI plugin that does not load leaves the daemon running without one."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(node_root, told, release))


async def _serve(node_root: Path, told: merge.Table, release: str) -> None:
    handlers = [] if merge.why_cri_fails(told) else [_Cri(told, release)]
    await serve_until_ended(node_root / SOCKET, lambda directory, name: UnixServer(handlers, directory, name))


class _Cri(api_grpc.RuntimeServiceBase):
    def __init__(self, told: merge.Table, release: str) -> None:
        self._cri = merge.cri_of(told)
        self._release = release

    async def Version(self, stream: Any) -> None:
        await stream.recv_message()
        answer = api_pb2.VersionResponse(
            version="0.1.0",
            runtime_name="containerd",
            runtime_version=self._release,
            runtime_api_version="v1",
        )
        await stream.send_message(answer)

    async def Status(self, stream: Any) -> None:
        request = await stream.recv_message()
        names = sorted(self._cri["containerd"]["runtimes"]) if self._release.startswith("2.") else []
        ready = api_pb2.RuntimeCondition(type="RuntimeReady", status=True)
        answer = api_pb2.StatusResponse(
            status=api_pb2.RuntimeStatus(conditions=[ready]),
            info={"config": json.dumps(self._config())} if request.verbose else {},
            runtime_handlers=[api_pb2.RuntimeHandler(name=name) for name in names],
        )
        await stream.send_message(answer)

    def _config(self) -> dict[str, Any]:
        """Under the names that containerd has for them in JSON; 1.6 knows nothing of CDI."""
        table = self._cri["containerd"]
        runtimes = {
            name: {"runtimeType": row.get("runtime_type", ""), "options": row.get("options")}
            for name, row in table["runtimes"].items()
        }
        found: dict[str, Any] = {
            "containerd": {"defaultRuntimeName": table["default_runtime_name"], "runtimes": runtimes}
        }
        return found if self._release.startswith("1.6") else {**found, "enableCDI": self._cri["enable_cdi"]}
