"""Gate files: "this link is whole", written by the node agent, waited for by everybody else.

Names and contents are the original validator's, so that its daemons and scripts read ours and ours read
theirs. Beside each gate lies a record `<gate>.json` that says for which boot, driver and reason it stands: a
gate of another boot is stale, a gate without a record (the original's) is taken as it is.

Source: node-chain.md §1.2 (gpu-operator, cmd/nvidia-validator/main.go).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.chain.verdict import Verdict
from gpuready.node.files import find_object, write_atomic, write_if_changed


@dataclass(frozen=True)
class GateState:
    """Whether a gate is open, and one line for whoever waits for it."""

    is_open: bool
    why: str


def state_of(directory: Path, gate: str, boot_id: str) -> GateState:
    """Is `gate` open in this boot? `boot_id` "" (unknown) never makes a gate stale.

    The line names the gate and not its directory, which others see under another path than we do.
    """
    if not (directory / gate).exists():
        return GateState(False, f"the gate {gate} is not there: {_refusal(directory, gate)}")
    of_boot = str((read_record(directory, gate) or {}).get("bootId") or boot_id)
    if boot_id and of_boot != boot_id:
        return GateState(False, f"the gate {gate} is stale: it is of boot {of_boot}, this is boot {boot_id}")
    return GateState(True, f"the gate {gate} is there")


def record_path(directory: Path, gate: str) -> Path:
    return directory / f"{gate}.json"


def read_record(directory: Path, gate: str) -> dict[str, Any] | None:
    """The record beside a gate; None when there is none or it cannot be read."""
    return find_object(record_path(directory, gate), {})


def open_gate(
    directory: Path,
    gate: str,
    verdict: Verdict,
    *,
    content: str,
    boot_id: str,
    driver_version: str,
    time: str,
) -> bool:
    """Write record and gate; True when either differed. `time` alone makes no difference."""
    record = _record_of(verdict, boot_id=boot_id, driver_version=driver_version)
    changed = _write_record(directory, gate, record, time)
    return write_if_changed(directory / gate, content.encode()) or changed


def close_gate(
    directory: Path, gate: str, verdict: Verdict, *, boot_id: str, driver_version: str, time: str
) -> bool:
    """Take the gate away and leave the reason in its record; True when anything differed."""
    was_open = (directory / gate).exists()
    (directory / gate).unlink(missing_ok=True)
    record = _record_of(verdict, boot_id=boot_id, driver_version=driver_version)
    return _write_record(directory, gate, record, time) or was_open


def disown(directory: Path, gate: str) -> None:
    """Somebody else keeps this gate now: it stays as it is, and our word about it goes."""
    record_path(directory, gate).unlink(missing_ok=True)


def remove(directory: Path, gate: str) -> None:
    """No gate, no record: as if we had never been there."""
    (directory / gate).unlink(missing_ok=True)
    record_path(directory, gate).unlink(missing_ok=True)


def driver_ready(
    *, host_driver: bool, install_dir: str = names.DRIVER_INSTALL_DIR, has_own_dev: bool = False
) -> str:
    """Content of `driver-ready`: five shell assignments that other containers source.

    has_own_dev  the driver container's root has a `dev` directory of its own
    """
    in_own_dev = has_own_dev and not host_driver
    rows = {
        "IS_HOST_DRIVER": "true" if host_driver else "false",
        "NVIDIA_DRIVER_ROOT": "/" if host_driver else install_dir,
        "DRIVER_ROOT_CTR_PATH": "/host" if host_driver else "/driver-root",
        "NVIDIA_DEV_ROOT": install_dir if in_own_dev else "/",
        "DEV_ROOT_CTR_PATH": "/driver-root" if in_own_dev else "/host",
    }
    return "".join(f"{key}={value}\n" for key, value in rows.items())


def _refusal(directory: Path, gate: str) -> str:
    record = read_record(directory, gate) or {}
    reason = record.get("reason")
    return f"{record.get('state')}, {reason}" if reason else "nobody has judged this link yet"


def _record_of(verdict: Verdict, *, boot_id: str, driver_version: str) -> dict[str, Any]:
    return {
        "link": str(verdict.link),
        "bootId": boot_id,
        "driverVersion": driver_version,
        "state": str(verdict.state),
        "reason": verdict.reason,
        "message": verdict.message,
    }


def _write_record(directory: Path, gate: str, record: dict[str, Any], time: str) -> bool:
    before = read_record(directory, gate) or {}
    if {key: value for key, value in before.items() if key != "time"} == record:
        return False
    write_atomic(record_path(directory, gate), json.dumps({**record, "time": time}).encode())
    return True
