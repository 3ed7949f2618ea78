"""The specs of a whole node: every GPU by each of its names, and what else can be asked for. Pure.

    nvidia.com/gpu              GPUs and MIG devices by index, UUID, and `all`
    management.nvidia.com/gpu   every node of the driver, for programs that manage GPUs; also by UUID
    nvidia.com/<class>          gds, gdrcopy, mofed, imex-channel

Source: nvidia-container-toolkit v1.19.1, pkg/nvcdi (lib-nvml.go, mig-device-nvml.go,
management.go, gds.go and their like).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready import names
from gpuready.gpu.cdi.edits import (
    drm_links,
    gids,
    gpu_node_paths,
    link_hook,
    management_edits,
    node_rows,
    workload_edits,
)
from gpuready.gpu.cdi.model import DeviceNode, DriverScan, Spec, finished
from gpuready.gpu.cdi.qualified import ALL, Style, name_of_gpu, name_of_partition
from gpuready.gpu.inventory import GPU

STYLES = (Style.INDEX, Style.UUID)
VENDOR = names.GPU_CDI_KIND.partition("/")[0]


@dataclass(frozen=True)
class Generated:
    """spec      None when not even one device can be offered
    left_out  (device, why): without its nodes it would start for nobody, so nobody is offered it
    """

    spec: Spec | None
    left_out: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Device:
    """One GPU or MIG device.

    names  under which it can be asked for, in our styles
    uuid   its own
    nodes  of its GPU, DRM and capabilities
    links  TARGET::LINK for the hook
    """

    names: tuple[str, ...]
    uuid: str
    nodes: tuple[DeviceNode, ...]
    links: tuple[str, ...] = ()

    def edits(self, hook: str, *, with_gids: bool) -> dict[str, Any]:
        edits: dict[str, Any] = {"deviceNodes": node_rows(self.nodes)}
        if hook and self.links:
            edits["hooks"] = [link_hook(hook, self.links)]
        if with_gids and (groups := gids(self.nodes)):
            edits["additionalGids"] = groups
        return edits


def gpu_spec(
    scan: DriverScan,
    gpus: Sequence[GPU],
    capabilities: Mapping[str, Sequence[DeviceNode]],
    *,
    styles: Sequence[Style] = STYLES,
    with_all: bool = True,
    with_gids: bool = True,
) -> Generated:
    """Kind nvidia.com/gpu.

    capabilities  MIG UUID -> its two capability nodes; without both it is left out
    with_gids     let a process that is not root use nodes that belong to a group; needs readers of CDI 0.7
    """
    devices, left_out = _devices(scan, gpus, capabilities, styles)
    if not devices:
        return Generated(None, tuple(left_out))

    offered = {name: device for device in devices for name in device.names}
    if with_all:
        offered.setdefault(ALL, _merged(devices))
    rows = [
        {"name": name, "containerEdits": device.edits(scan.hook, with_gids=with_gids)}
        for name, device in offered.items()
    ]
    return Generated(finished(names.GPU_CDI_KIND, rows, workload_edits(scan)), tuple(left_out))


def management_spec(
    scan: DriverScan,
    gpus: Sequence[GPU] = (),
    capabilities: Mapping[str, Sequence[DeviceNode]] | None = None,
    mig_nodes: Iterable[DeviceNode] = (),
) -> Generated:
    """Kind management.nvidia.com/gpu: `all`, which needs no NVML, and each GPU by its UUID.

    mig_nodes  nodes that allow to configure and monitor MIG; they go with every GPU
    """
    if not scan.management:
        return Generated(None, ((ALL, "there is no device node /dev/nvidia*"),))

    rows = [_row(ALL, scan.management)]
    left_out = []
    for gpu in gpus:
        own = [node for path in gpu_node_paths(gpu)[:1] if (node := (scan.nodes or {}).get(path))]
        if not own:
            left_out.append((gpu.uuid, _no_node(gpu)))
            continue
        caps = [node for each in gpu.partitions for node in (capabilities or {}).get(each.uuid, ())]
        rows.append(_row(gpu.uuid, [*scan.control, *own, *mig_nodes, *caps]))
    spec = finished(names.MANAGEMENT_CDI_KIND, rows, management_edits(scan))
    return Generated(spec, tuple(left_out))


def other_specs(
    nodes: Mapping[str, Sequence[DeviceNode]], files: Mapping[str, Sequence[str]], vendor: str = VENDOR
) -> list[Spec]:
    """One spec for each class that has nodes here.

    nodes  class -> nodes; of imex-channel each is a device of its own, named by its number
    files  class -> files and folders of the host that go with it
    """
    found = []
    for class_, members in nodes.items():
        if not members:
            continue
        if class_ == names.IMEX_CLASS:
            rows = [_row(node.path.rpartition("/channel")[2], [node]) for node in members]
            rows.append(_row(ALL, members))
        else:
            rows = [_row(ALL, members, files.get(class_, ()))]
        found.append(finished(f"{vendor}/{class_}", rows, {}))
    return found


def _devices(
    scan: DriverScan,
    gpus: Sequence[GPU],
    capabilities: Mapping[str, Sequence[DeviceNode]],
    styles: Sequence[Style],
) -> tuple[list[Device], list[tuple[str, str]]]:
    nodes = scan.nodes or {}
    devices: list[Device] = []
    left_out: list[tuple[str, str]] = []
    for gpu in gpus:
        own, *drm = [nodes.get(path) for path in gpu_node_paths(gpu)]
        if own is None:
            left_out.append((gpu.uuid, _no_node(gpu)))
        elif gpu.mig_enabled:
            _add_partitions(gpu, own, capabilities, styles, devices, left_out)
        else:
            given = tuple(name_of_gpu(gpu, style) for style in styles)
            whole = (own, *(node for node in drm if node))
            devices.append(Device(given, gpu.uuid, whole, tuple(drm_links(gpu, nodes))))
    return devices, left_out


def _add_partitions(
    gpu: GPU,
    own: DeviceNode,
    capabilities: Mapping[str, Sequence[DeviceNode]],
    styles: Sequence[Style],
    devices: list[Device],
    left_out: list[tuple[str, str]],
) -> None:
    """A GPU with MIG on is offered by its partitions only."""
    for partition in gpu.partitions:
        caps = capabilities.get(partition.uuid, ())
        if len(caps) < 2:
            left_out.append((partition.uuid, "the kernel names no capability of it"))
            continue
        given = tuple(name_of_partition(gpu, partition, style) for style in styles)
        devices.append(Device(given, partition.uuid, (own, *caps)))
    if not gpu.partitions:
        left_out.append((gpu.uuid, "MIG is on and it has no partitions"))


def _merged(devices: Iterable[Device]) -> Device:
    found = list(devices)
    nodes = tuple(node for device in found for node in device.nodes)
    return Device((ALL,), ALL, nodes, tuple(link for device in found for link in device.links))


def _row(name: str, nodes: Iterable[DeviceNode], folders: Iterable[str] = ()) -> dict[str, Any]:
    mounts = [
        {"hostPath": path, "containerPath": path, "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]}
        for path in folders
    ]
    edits = {"deviceNodes": node_rows(nodes), "mounts": mounts}
    return {"name": name, "containerEdits": {key: value for key, value in edits.items() if value}}


def _no_node(gpu: GPU) -> str:
    return f"/dev/nvidia{gpu.minor} does not exist"
