"""The spec of the names that our device plugin hands out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuready import names
from gpuready.gpu.cdi.edits import common_edits, gpu_node_paths, node_row
from gpuready.gpu.cdi.model import DeviceNode, DriverScan, Spec, finished
from gpuready.gpu.inventory import GPU


def spec_of(scan: DriverScan, gpus: Sequence[GPU], *, by_index: bool = False) -> Spec:
    """The spec of kind k8s.device-plugin.nvidia.com/gpu.

    by_index  also name GPUs by their index (deviceIDStrategy index)
    """
    devices = [_device(gpu.uuid, gpu, scan) for gpu in gpus]
    if by_index:
        devices += [_device(str(gpu.index), gpu, scan) for gpu in gpus]
    return finished(names.PLUGIN_CDI_KIND, devices, common_edits(scan))


def _device(name: str, gpu: GPU, scan: DriverScan) -> dict[str, Any]:
    nodes = scan.nodes or {}
    own, *drm = gpu_node_paths(gpu)
    found = [nodes.get(own, DeviceNode(own, own)), *(nodes[path] for path in drm if path in nodes)]
    return {"name": name, "containerEdits": {"deviceNodes": [node_row(node) for node in found]}}
