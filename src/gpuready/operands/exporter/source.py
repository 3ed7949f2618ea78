"""Where the exporter's values come from, as the settings have it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuready.gpu.telemetry.reader import Reader
from gpuready.gpu.tree import Tree
from gpuready.log import get_logger
from gpuready.node.root import Root
from gpuready.operands.exporter.settings import DCGM, NVML, EngineAddress, Settings

if TYPE_CHECKING:
    from gpuready.gpu.dcgm import HostEngine
    from gpuready.gpu.telemetry.two_sources import Sources

log = get_logger("exporter")


def source_of(settings: Settings, root: Root, nvml: Reader, driver: Callable[[], Tree]) -> Reader | Sources:
    """NVML, and DCGM where it was asked for. driver: its tree, asked anew each time"""
    source, named = settings.source_in_use, settings.engine
    if source == NVML:
        if named:
            reason = "GPUREADY_EXPORTER_SOURCE=nvml"
            log.warning("setting without effect", variable="DCGM_REMOTE_HOSTENGINE_INFO", reason=reason)
        return nvml
    from gpuready.gpu.telemetry.engines import Engines  # DCGM's part is loaded where DCGM is asked for
    from gpuready.gpu.telemetry.two_sources import Sources

    engine = _seen_from_here(named, root) if named else None
    engines = Engines(engine, lambda: (driver(), root.host(), root), driver, time)
    return Sources(nvml, engines, engine, time, alone=source == DCGM)


def _seen_from_here(named: EngineAddress, root: Root) -> HostEngine:
    from gpuready.gpu.dcgm import HostEngine

    address = str(root.join(named.address)) if named.is_socket else named.address
    return HostEngine(address, named.is_socket)
