"""Listens for a daemon's probes before the daemon is loaded.

A kubelet writes a Warning for every connection that is refused. On a busy node an interpreter takes longer to
load a daemon than the first probe waits; with the socket there from the first moment, the probe waits instead
of failing. Nothing else is imported here: it must be over before anything takes time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

from gpuready import names

_DESCRIPTOR = "GPUREADY_HEALTH_FD"  # from the start of this process to its server, never to another process
_PORTS = {
    "node-agent": names.NODE_AGENT_HEALTH_PORT,
    "device-plugin": names.DEVICE_PLUGIN_HEALTH_PORT,
    "toolkit": names.TOOLKIT_HEALTH_PORT,
    "exporter": names.EXPORTER_HEALTH_PORT,
}


def listen(role: str, env: MutableMapping[str, str] = os.environ) -> None:
    """Where the daemon will; what is wrong with that, it says itself when it tries."""
    host = env.get("POD_IP") or "0.0.0.0"
    try:
        port = int(env.get("GPUREADY_HEALTH_PORT") or _PORTS[role])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, port), family=family, backlog=16)
    except (OSError, ValueError, OverflowError):
        return
    env[_DESCRIPTOR] = str(server.detach())


def find(host: str, port: int, env: MutableMapping[str, str] = os.environ) -> socket.socket | None:
    """The socket that listens there already; it is the caller's from now on."""
    text = env.pop(_DESCRIPTOR, "")
    if not text:
        return None
    server = socket.socket(fileno=int(text))
    if server.getsockname()[:2] == (host, port):
        return server
    server.close()
    return None
