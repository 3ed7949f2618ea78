"""Keeps the CDI spec of our names true: written before a device is offered, again when the driver changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuready.gpu.cdi.model import DriverScan, host_paths
from gpuready.gpu.cdi.plugin import spec_of
from gpuready.gpu.cdi.scan import missing_paths, scan_driver
from gpuready.gpu.inventory import GPU
from gpuready.gpu.tree import Tree
from gpuready.node.files import write_if_changed
from gpuready.operands.device_plugin.allocation import Beside, needs_cdi
from gpuready.operands.device_plugin.beside import refresh_beside
from gpuready.operands.device_plugin.config import Effective
from gpuready.operands.device_plugin.desired import digest_of
from gpuready.operands.device_plugin.settings import INDEX

_HOOKS = ("/usr/local/nvidia/toolkit/nvidia-cdi-hook", "/usr/bin/nvidia-cdi-hook", "/usr/bin/nvidia-ctk")


@dataclass(frozen=True)
class Written:
    """What lies in the file now.

    without  uuids whose device node does not exist: not in the spec, so that they spoil it for nobody
    missing  host paths for want of which nothing was written
    nodes    path -> host path, for those who pass device nodes
    beside   what containers get beside their GPUs
    """

    path: str = ""
    digest: str = ""
    driver_version: str = ""
    without: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    error: str = ""
    nodes: tuple[tuple[str, str], ...] = ()
    beside: Beside = field(default_factory=Beside)

    def to_json(self) -> dict[str, str] | None:
        if not self.digest:
            return None
        return {"path": self.path, "digest": self.digest, "driverVersion": self.driver_version}


@dataclass(frozen=True)
class Place:
    """file  where the spec is written, as we see it; named  the same as others name it."""

    file: Path
    named: str
    host: Tree
    driver: Tree
    driver_root: str


def refresh(place: Place, gpus: Sequence[GPU], effective: Effective) -> Written:
    """Bring the files up to date; writes only what differs, and nothing that would stop a container."""
    written, cdi = _refresh_gpus(place, gpus, effective), needs_cdi(effective.strategies)
    dev_root = effective.dev_root or _dev_root_of(written)
    beside = refresh_beside(place.host, place.file.parent, effective, dev_root, cdi=cdi)
    return replace(written, beside=beside, error=written.error or beside.error)


def _dev_root_of(written: Written) -> str:
    """Where the scan found the nodes of the GPUs."""
    return next((real.removesuffix(path) or "/" for path, real in written.nodes), "/")


def _refresh_gpus(place: Place, gpus: Sequence[GPU], effective: Effective) -> Written:
    if not needs_cdi(effective.strategies) and (error := _remove(place)):
        return Written(error=error)
    if not (needs_cdi(effective.strategies) or effective.pass_device_specs):
        return Written()
    hooks = (effective.hook_path, *_HOOKS)
    scan = scan_driver(place.driver, place.host, place.driver_root, gpus, hooks, effective.dev_root or "")
    if scan is None:
        return Written()
    nodes = _nodes_of(scan)
    here = [gpu for gpu in gpus if f"/dev/nvidia{gpu.minor}" in (scan.nodes or {})]
    without = tuple(gpu.uuid for gpu in gpus if gpu not in here)
    if not needs_cdi(effective.strategies) or not here:
        return Written(without=without, nodes=nodes)
    return _write(place, scan, here, without, effective)


def _remove(place: Place) -> str:
    """Nobody would keep it true; why it is still there."""
    try:
        place.file.unlink(missing_ok=True)
    except OSError as exc:
        return f"cannot remove {place.named}: {exc.strerror}"
    return ""


def _write(
    place: Place, scan: DriverScan, gpus: Sequence[GPU], without: tuple[str, ...], effective: Effective
) -> Written:
    spec = spec_of(scan, gpus, by_index=effective.id_strategy == INDEX)
    missing = missing_paths(place.host, host_paths(spec))
    if missing:
        return Written(without=without, missing=tuple(missing), nodes=_nodes_of(scan))
    content = json.dumps(spec, indent=1).encode()
    try:
        write_if_changed(place.file, content)
    except OSError as exc:
        error = f"cannot write {place.named}: {exc.strerror}"
        return Written(without=without, error=error, nodes=_nodes_of(scan))
    return Written(
        path=place.named,
        digest=digest_of(content),
        driver_version=scan.version,
        without=without,
        nodes=_nodes_of(scan),
    )


def _nodes_of(scan: DriverScan) -> tuple[tuple[str, str], ...]:
    nodes = [*scan.control, *(scan.nodes or {}).values()]
    return tuple((node.path, node.host_path) for node in nodes)
