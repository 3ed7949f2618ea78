"""Who holds a driver: processes, and the pods to which they belong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpuready_sim.hardware.state import Holder


def describe(holders: Iterable[Holder], pods: Iterable[Mapping[str, Any]]) -> str:
    """`pid 812, gpu-hold, pod default/train; ...`"""
    by_container = {
        container_id: f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        for container_id in _container_ids(pod)
    }
    return "; ".join(_one(holder, by_container) for holder in holders)


def _one(holder: Holder, pods: Mapping[str, str]) -> str:
    container_id = container_of(holder.pid)
    pod = next((name for known, name in pods.items() if container_id and known.startswith(container_id)), "")
    return f"pid {holder.pid}, {_short(holder.command)}, {f'pod {pod}' if pod else 'no pod'}"


def container_of(pid: int) -> str:
    """The (short) id of the container in which a process runs; empty on the host.

    The runtime gives each container a GPUREADY_ROOT below containers/<id>/.
    """
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    for entry in environment.split(b"\0"):
        if entry.startswith(b"GPUREADY_ROOT="):
            parts = Path(entry.decode(errors="replace").partition("=")[2]).parts
            if "containers" in parts[:-1]:
                return parts[parts.index("containers") + 1]
    return ""


def _container_ids(pod: Mapping[str, Any]) -> Iterable[str]:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        yield str(status.get("containerID") or "").rpartition("//")[2]


def _short(command: str) -> str:
    """The command line without the interpreter's own words: `gpuready device-plugin`, not a path."""
    words = command.split()
    if "-m" in words[:3] and len(words) > words.index("-m") + 1:
        module, *rest = words[words.index("-m") + 1 :]
        name = "gpuready" if module == "gpuready.cli" else module.rpartition(".")[2].replace("_", "-")
        return " ".join((name, *rest))
    return command
