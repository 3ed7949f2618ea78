"""What every pod of a node shares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready_sim.client import SimClient
from gpuready_sim.kubelet.admission import Rejection
from gpuready_sim.kubelet.device_manager import DeviceManager
from gpuready_sim.kubelet.events import EventRecorder
from gpuready_sim.kubelet.identity import Timing
from gpuready_sim.kubelet.objects import NodeObjects
from gpuready_sim.kubelet.probes import Prober
from gpuready_sim.runtime.container import Runtime

Pod = dict[str, Any]


@dataclass
class NodeServices:
    """`devices` is asked each time: a kubelet restart makes a new device manager."""

    name: str
    address: str
    runtime: Runtime
    client: SimClient
    objects: NodeObjects
    events: EventRecorder
    prober: Prober
    timing: Timing
    service_env: Mapping[str, str]
    devices: Callable[[], DeviceManager]
    admit: Callable[[Pod], Awaitable[Rejection | None]]
