"""Waiting for the driver link's gate, and what it says about the driver's place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuready import names
from gpuready.node import gates
from gpuready.node.files import read_regular


@dataclass(frozen=True)
class Gate:
    """waiting  why it is closed, "" when it is open; driver_root, dev_root  as the gate names them."""

    waiting: str = ""
    driver_root: str | None = None
    dev_root: str | None = None


def read_gate(directory: Path | None, boot: str, before: Gate) -> Gate:
    """`directory` None: nobody writes gates here. A gate that vanishes never stops a running daemon."""
    if directory is None:
        return Gate()
    state = gates.state_of(directory, names.DRIVER_READY, boot)
    if not state.is_open:
        return before if not before.waiting else Gate(waiting=state.why)
    values = _assignments(directory / names.DRIVER_READY)
    return Gate("", values.get("NVIDIA_DRIVER_ROOT") or None, values.get("NVIDIA_DEV_ROOT") or None)


def _assignments(path: Path) -> dict[str, str]:
    """The shell assignments of the file; no shell reads them here."""
    try:
        lines = read_regular(path).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}
