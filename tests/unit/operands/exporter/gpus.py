"""GPUs, holders and samples for the exporter's tests, with every argument defaulted."""

from __future__ import annotations

from typing import Any

from gpuready.gpu.telemetry.model import Device, Entity, Field, Instance, Kind, Sample, Scope, Value
from gpuready.node.kubelet.pod_resources import Claim, Held, Holder

GPU = "nvidia.com/gpu"


def gpu(index: int = 0, **more: Any) -> Device:
    return Device(
        **{
            "uuid": f"GPU-{index}",
            "index": index,
            "minor": index,
            "pci_bus_id": f"00000000:{index:02X}:00.0",
            "model": "NVIDIA H100 80GB HBM3",
            **more,
        }
    )


def mig_gpu(index: int = 0, **profiles: str) -> Device:
    """mig_gpu(gi1="1g.10gb", gi2="3g.40gb"): instances 1 and 2, their devices MIG-<index>-1 and -2."""
    instances = tuple(
        Instance(int(name[2:]), profile, (f"MIG-{index}-{name[2:]}",)) for name, profile in profiles.items()
    )
    return gpu(index, mig_enabled=True, instances=instances)


def held(
    pod: str, *ids: str, resource: str = GPU, namespace: str = "team", container: str = "main", **more: Any
) -> Held:
    return Held(Holder(namespace, pod, container), {resource: ids} if ids else {}, **more)


def claimed(pod: str, device: str, **more: Any) -> Held:
    return held(pod, claims=(Claim("gpu.nvidia.com", "node", device, "c", "team"),), **more)


GPU_TEMP = Field(150, "DCGM_FI_DEV_GPU_TEMP", (), "C", Kind.GAUGE, Scope.GPU, "GPU temperature")
UTIL = Field(203, "DCGM_FI_DEV_GPU_UTIL", (), "%", Kind.GAUGE, Scope.GPU, "GPU utilisation")
USED = Field(252, "DCGM_FI_DEV_FB_USED", (), "MiB", Kind.GAUGE, Scope.INSTANCE, "memory used")
DRIVER = Field(1, "DCGM_FI_DRIVER_VERSION", (), "", Kind.LABEL, Scope.NODE, "driver version")
SERIAL = Field(53, "DCGM_FI_DEV_SERIAL", (), "", Kind.LABEL, Scope.GPU, "serial number")
XIDS = Field(20_001, "gpuready_xid_errors_total", (), "", Kind.COUNTER, Scope.GPU, "XID errors")


def sample(what: Field, value: Value, device: Device | None = None, **more: Any) -> Sample:
    instance, labels = more.pop("instance", None), more.pop("labels", ())
    return Sample(what, Entity(device, instance, **more), value, 0.0, labels)
