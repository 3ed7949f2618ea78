"""Which devices a container gets: the decisions of the kubelet's device manager.

Pure: what is registered, held and asked for goes in, ids or a refusal come out. `device_manager.py` asks
the plugin for its preference in between. The topology manager's policy is the kubelet's default, none, so
no device is ever "aligned": all available ones are alike.

Source: kubernetes v1.36, pkg/kubelet/cm/devicemanager/manager.go, devicesToAllocate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Order = Callable[[Iterable[str]], list[str]]


class Refused(Exception):
    """The pod cannot be admitted; the text is the kubelet's own."""


@dataclass(frozen=True)
class Demand:
    """One container's request for one resource, and all that decides it.

    healthy   ids the plugin calls healthy; None when no plugin ever registered the resource
    in_use    ids held by any container of an active pod, this pod's init containers included
    held      ids this very container already has (it was admitted before a kubelet restart)
    reusable  ids of this pod's finished init containers
    running   the container is already running: it was admitted before a kubelet restart
    """

    resource: str
    required: int
    healthy: frozenset[str] | None
    pod_uid: str = ""
    container: str = ""
    in_use: frozenset[str] = field(default_factory=frozenset)
    held: frozenset[str] = field(default_factory=frozenset)
    reusable: frozenset[str] = field(default_factory=frozenset)
    running: bool = False


def is_nothing_to_do(demand: Demand) -> bool:
    """Whether the container keeps what it has; raises Refused when it can never be served.

    A running container is left alone whatever became of its devices. One that has to be started again
    after a reboot is not: its devices must be registered and healthy first.
    """
    if demand.held and len(demand.held) != demand.required:
        raise Refused(
            f'pod "{demand.pod_uid}" container "{demand.container}" changed request for resource '
            f'"{demand.resource}" from {len(demand.held)} to {demand.required}'
        )
    if demand.running and demand.held:
        return True
    if demand.healthy is None:
        raise Refused(f"cannot allocate unregistered device {demand.resource}")
    if not demand.healthy:
        raise Refused(f"no healthy devices present; cannot allocate unhealthy devices {demand.resource}")
    if not demand.held <= demand.healthy:
        raise Refused(
            "previously allocated devices are no longer healthy; "
            f"cannot allocate unhealthy devices {demand.resource}"
        )
    return len(demand.held) == demand.required


def reused(demand: Demand, order: Order) -> list[str]:
    """Devices of finished init containers come first, whatever the plugin would prefer."""
    return order(demand.reusable)[: demand.required]


def available(demand: Demand, chosen: Iterable[str]) -> frozenset[str]:
    """Healthy devices nobody holds; raises Refused when they cannot complete `chosen`."""
    free = (demand.healthy or frozenset()) - demand.in_use
    needed = demand.required - len(list(chosen))
    if len(free) < needed:
        raise Refused(
            f"requested number of devices unavailable for {demand.resource}. "
            f"Requested: {needed}, Available: {len(free)}"
        )
    return free


def complete(
    demand: Demand, chosen: list[str], free: frozenset[str], preferred: Iterable[str], order: Order
) -> list[str]:
    """Fill `chosen` up: the plugin's preference as far as it is available, then anything free."""
    picked = list(chosen)
    for pool in (frozenset(preferred) & free, free):
        missing = demand.required - len(picked)
        picked += order(pool.difference(picked))[:missing]
    return picked
