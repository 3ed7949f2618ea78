"""The CDI spec of our device names: which files and device nodes a container gets with a GPU.

Pure: facts of the driver's files and the GPUs in, the spec as a dict out. `driver_scan.py` reads the facts.
All paths are the host's; our own mounts never show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from gpuready import names
from gpuready.gpu.inventory import GPU

_MOUNT_OPTIONS = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
_SOCKET_OPTIONS = ["nosuid", "nodev", "rbind", "rprivate", "noexec"]
# Source: nvidia-container-toolkit v1.19.1, internal/discover (mounts.go, ipc.go).


@dataclass(frozen=True)
class DeviceNode:
    """path       in the container and, below the device root, on the host
    host_path  where it lies on the host
    numbers    (major, minor); None where it is no character device (a simulated node)
    mode       permission bits
    """

    path: str
    host_path: str
    numbers: tuple[int, int] | None = None
    mode: int = 0


@dataclass(frozen=True)
class DriverScan:
    """What of one driver version lies where.

    root       the driver's root on the host: "/" or "/run/nvidia/driver"
    libraries  paths inside the root, ending in the driver's version
    links      (path, real path) inside the root: sonames that lead to one of `libraries`
    files      other read-only files and programs, inside the root
    sockets    paths on the host
    control    device nodes that every GPU container needs
    nodes      path -> node, of GPUs and their DRM nodes
    hook       path of nvidia-cdi-hook or nvidia-ctk on the host; "" when there is none
    """

    root: str = "/"
    version: str = ""
    libraries: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    control: tuple[DeviceNode, ...] = ()
    nodes: Mapping[str, DeviceNode] | None = None
    hook: str = ""


def spec_of(scan: DriverScan, gpus: Sequence[GPU], *, by_index: bool = False) -> dict[str, Any]:
    """The spec of kind k8s.device-plugin.nvidia.com/gpu.

    by_index  also name GPUs by their index (deviceIDStrategy index)
    """
    devices = [_device(gpu.uuid, gpu, scan) for gpu in gpus]
    if by_index:
        devices += [_device(str(gpu.index), gpu, scan) for gpu in gpus]
    spec = {
        "kind": names.PLUGIN_CDI_KIND,
        "devices": sorted(devices, key=lambda device: str(device["name"])),
        "containerEdits": _common_edits(scan),
    }
    return {"cdiVersion": minimal_version(spec), **spec}


def minimal_version(spec: Mapping[str, Any]) -> str:
    """Readers refuse versions that they do not know, so state the oldest that will do.

    Source: container-device-interface 1.1, specs-go/version.go.
    """
    nodes = [node for edits in _all_edits(spec) for node in edits.get("deviceNodes", ())]
    digit = any(device["name"][:1].isdigit() for device in spec["devices"])
    return "0.5.0" if digit or any("hostPath" in node for node in nodes) else "0.3.0"


def host_paths(spec: Mapping[str, Any]) -> list[str]:
    """Every path that must exist on the host, or a container with these devices cannot be created."""
    found: list[str] = []
    for edits in _all_edits(spec):
        found += [node.get("hostPath", node["path"]) for node in edits.get("deviceNodes", ())]
        found += [mount["hostPath"] for mount in edits.get("mounts", ())]
        found += [hook["path"] for hook in edits.get("hooks", ())]
    return sorted(set(found))


def gpu_node_paths(gpu: GPU) -> list[str]:
    """Where a GPU's nodes lie below the device root; the DRM ones are optional."""
    return [f"/dev/nvidia{gpu.minor}", *(f"/dev/dri/{name}" for name in gpu.drm_nodes)]


def _device(name: str, gpu: GPU, scan: DriverScan) -> dict[str, Any]:
    nodes = scan.nodes or {}
    own, *drm = gpu_node_paths(gpu)
    found = [nodes.get(own, DeviceNode(own, own)), *(nodes[path] for path in drm if path in nodes)]
    return {"name": name, "containerEdits": {"deviceNodes": [_node(node) for node in found]}}


def _common_edits(scan: DriverScan) -> dict[str, Any]:
    folders = _folders(scan.libraries)
    edits: dict[str, Any] = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [_node(node) for node in sorted(scan.control, key=lambda node: node.path)],
        "mounts": sorted(_mounts(scan), key=lambda mount: _depth(str(mount["containerPath"]))),
    }
    if folders:
        edits["env"].insert(0, f"NVIDIA_CTK_LIBCUDA_DIR={':'.join(folders)}")
    if scan.hook and folders:
        edits["hooks"] = [_ldcache_hook(scan.hook, folders)]
    return {key: value for key, value in edits.items() if value}


def _mounts(scan: DriverScan) -> list[dict[str, Any]]:
    """Libraries by file name and by the sonames that programs load: no hook needs to make links."""
    plain = [(path, path) for path in (*scan.libraries, *scan.files)]
    mounts = [_mount(scan.root, source, target) for target, source in (*plain, *scan.links)]
    mounts += [
        {"hostPath": path, "containerPath": path, "options": list(_SOCKET_OPTIONS)} for path in scan.sockets
    ]
    return mounts


def _mount(root: str, source: str, target: str) -> dict[str, Any]:
    return {
        "hostPath": on_host(root, source),
        "containerPath": target,
        "options": list(_MOUNT_OPTIONS),
    }


def on_host(root: str, path: str) -> str:
    """A path inside the driver's root as the host names it."""
    return path if root in ("", "/") else root.rstrip("/") + path


def _ldcache_hook(path: str, folders: Iterable[str]) -> dict[str, Any]:
    program = PurePosixPath(path).name
    start = [program] if program == "nvidia-cdi-hook" else [program, "hook"]
    args = [*start, "update-ldcache", *(word for folder in folders for word in ("--folder", folder))]
    return {"hookName": "createContainer", "path": path, "args": args, "env": ["NVIDIA_CTK_DEBUG=false"]}


def _node(node: DeviceNode) -> dict[str, Any]:
    row: dict[str, Any] = {"path": node.path}
    if node.host_path != node.path:
        row["hostPath"] = node.host_path
    if node.numbers is not None:
        major, minor = node.numbers
        row |= {"major": major, "minor": minor, "fileMode": node.mode}
    row["permissions"] = "rwm"
    return row


def _folders(libraries: Iterable[str]) -> list[str]:
    return sorted({str(PurePosixPath(path).parent) for path in libraries})


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _all_edits(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [spec["containerEdits"], *(device["containerEdits"] for device in spec["devices"])]
