"""Who a simulated node is, and how fast its kubelet lives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KUBELET_VERSION = "v1.36.2"
RUNTIME_VERSION = "containerd://2.1.9"


def _default_capacity() -> dict[str, str]:
    return {
        "cpu": "64",
        "memory": "1056763904Ki",
        "ephemeral-storage": "1843269632Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": "110",
    }


@dataclass(frozen=True)
class NodeIdentity:
    """What the kubelet was started with.

    address  the node's own loopback address (127.0.0.0/8); its pods have it too, so ports never clash
    port     of the kubelet's HTTP (plain, loopback); 0 picks a free one
    taints   as in Node.spec.taints; set at registration only
    pod_api  "HOST:PORT" at which pods find the API server; "" = where the kubelet itself does
    """

    name: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, Any]] = ()
    capacity: Mapping[str, str] = field(default_factory=_default_capacity)
    architecture: str = "amd64"
    kubelet_version: str = KUBELET_VERSION
    runtime_version: str = RUNTIME_VERSION
    port: int = 10250
    pod_api: str = ""


@dataclass(frozen=True)
class Timing:
    """Every period of the kubelet, in seconds; the real kubelet's value stands behind each."""

    status_interval_s: float = 10  # 10; a device change is written at once here, at the next period there
    report_interval_s: float = 300  # 300; an unchanged status is repeated this often
    lease_interval_s: float = 10  # 10
    lease_duration_s: int = 40  # 40
    plugin_grace_s: float = 300  # 300 (endpointStopGracePeriod)
    dial_timeout_s: float = 10  # 10
    backoff_base_s: float = 0.5  # 10
    backoff_max_s: float = 10  # 300
    backoff_reset_s: float = 600  # 600
    mount_retry_s: float = 0.5  # 0.5, doubling
    mount_retry_max_s: float = 4  # 122
    token_refresh_share: float = 0.8  # 0.8 of a token's life
    probe_scale: float = 1.0  # multiplies periods and delays of probes
