"""Ids of the shares of a device: `<uuid>::<n>`."""

from __future__ import annotations

from collections.abc import Sequence

from gpuready.errors import PolicyError

SEPARATOR = "::"


def expand(uuids: Sequence[str], replicas: int) -> list[str]:
    """Ids to advertise so that `replicas` pods may share each device.

    uuids     in NVML index order; exclusive devices keep their plain uuid and do not come here
    replicas  shares per device, >= 2
    returns   len(uuids) * replicas ids, grouped by device: "GPU-a::0", "GPU-a::1", "GPU-b::0", ...
    raises    PolicyError when replicas < 2

    Source: k8s-device-plugin v0.19.3, internal/rm/device_map.go:286, api/config/v1/replicas.go:255.
    """
    if replicas < 2:
        raise PolicyError(
            f"{replicas} replicas for a shared GPU",
            why="a shared GPU has at least 2",
            next_step="set replicas to 2 or more, or remove the resource from the sharing configuration",
        )
    return [f"{uuid}{SEPARATOR}{number}" for uuid in uuids for number in range(replicas)]


def device_of(device_id: str) -> str:
    """The uuid behind an advertised id, shared or not."""
    return device_id.split(SEPARATOR, 1)[0]


def replica_of(device_id: str) -> int:
    """Number of the share; -1 for a plain uuid."""
    _, _, number = device_id.partition(SEPARATOR)
    return int(number) if number.isdigit() else -1


def is_replica(device_id: str) -> bool:
    return SEPARATOR in device_id
