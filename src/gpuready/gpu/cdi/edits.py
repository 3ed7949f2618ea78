"""Found files and nodes as container edits. Pure.

Libraries are mounted by file name and by the sonames that programs load, so that no hook has to make links.
A hook remains for what a mount cannot do: the container's ld.so.cache, and links to device nodes.

Source: nvidia-container-toolkit v1.19.1, internal/discover (mounts.go, ipc.go), pkg/nvcdi.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from gpuready.gpu.cdi.model import DeviceNode, DriverScan
from gpuready.gpu.inventory import GPU

_MOUNT_OPTIONS = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
_SOCKET_OPTIONS = ["nosuid", "nodev", "rbind", "rprivate", "noexec"]


def common_edits(scan: DriverScan) -> dict[str, Any]:
    """What every container with a GPU gets."""
    return _common(scan, [*scan.files, *scan.graphics], scan.control)


def workload_edits(scan: DriverScan) -> dict[str, Any]:
    """The same, with all that hooks can do for it.

    A newer libcuda that the container brings itself goes first, which the ld.so.cache has to learn; and the
    driver's library makes no device nodes in the container.
    """
    edits = common_edits(scan)
    if edits.get("hooks"):
        before = hook(scan.hook, "enable-cuda-compat", f"--host-driver-version={scan.version}")
        after = hook(scan.hook, "disable-device-node-modification")
        edits["hooks"] = [before, *edits["hooks"], after]
    return edits


def management_edits(scan: DriverScan) -> dict[str, Any]:
    """Without nodes, which each device of the spec has itself, and without what draws."""
    return _common(scan, scan.files, ())


def _common(
    scan: DriverScan, files: Sequence[tuple[str, str]], nodes: Sequence[DeviceNode]
) -> dict[str, Any]:
    folders = library_folders(scan)
    env = ["NVIDIA_VISIBLE_DEVICES=void"]  # a legacy hook then does nothing
    if folders:
        main = [folder for folder in folders if not folder.endswith("/vdpau")]
        env.insert(0, f"NVIDIA_CTK_LIBCUDA_DIR={':'.join(main)}")
    edits = {
        "env": env,
        "deviceNodes": node_rows(nodes),
        "mounts": sorted(_mounts(scan, files), key=lambda mount: _depth(str(mount["containerPath"]))),
        "hooks": [_ldcache_hook(scan.hook, folders)] if scan.hook and folders else [],
    }
    return {key: value for key, value in edits.items() if value}


def node_rows(nodes: Iterable[DeviceNode]) -> list[dict[str, Any]]:
    """Outer ones first, each once."""
    by_path = {node.path: node for node in nodes}
    return [node_row(by_path[path]) for path in sorted(by_path, key=_depth)]


def node_row(node: DeviceNode) -> dict[str, Any]:
    row: dict[str, Any] = {"path": node.path}
    if node.host_path != node.path:
        row["hostPath"] = node.host_path
    if node.is_made:
        row["type"] = "c"
    if node.numbers is not None:
        major, minor = node.numbers
        row |= {"major": major, "minor": minor, "fileMode": node.mode}
    if node.gid:
        row["gid"] = node.gid
    row["permissions"] = "rwm"
    return row


def gids(nodes: Iterable[DeviceNode]) -> list[int]:
    """Groups that a process which is not root needs for nodes that are not everybody's."""
    return sorted({node.gid for node in nodes if node.gid and node.mode & 0o006 != 0o006})


def gpu_node_paths(gpu: GPU) -> list[str]:
    """Where a GPU's nodes lie below the device root; the DRM ones are optional."""
    return [f"/dev/nvidia{gpu.minor}", *(f"/dev/dri/{name}" for name in gpu.drm_nodes)]


def drm_links(gpu: GPU, nodes: Mapping[str, DeviceNode]) -> list[str]:
    """TARGET::LINK for each DRM node, by which programs find a card of a PCI address."""
    links = []
    for name in gpu.drm_nodes:
        suffix = "card" if name.startswith("card") else "render" if name.startswith("renderD") else ""
        if suffix and f"/dev/dri/{name}" in nodes:
            links.append(f"../{name}::/dev/dri/by-path/pci-{gpu.pci_address}-{suffix}")
    return links


def link_hook(path: str, links: Sequence[str]) -> dict[str, Any]:
    return hook(path, "create-symlinks", *(word for link in links for word in ("--link", link)))


def hook(path: str, *args: str) -> dict[str, Any]:
    program = PurePosixPath(path).name
    start = [program] if program == "nvidia-cdi-hook" else [program, "hook"]
    row = {"hookName": "createContainer", "path": path, "args": [*start, *args]}
    return {**row, "env": ["NVIDIA_CTK_DEBUG=false"]}


def library_folders(scan: DriverScan) -> list[str]:
    return sorted({str(PurePosixPath(path).parent) for path in scan.libraries})


def on_host(root: str, path: str) -> str:
    """A path inside the driver's root as the host names it."""
    return path if root in ("", "/") else root.rstrip("/") + path


def _ldcache_hook(path: str, folders: Iterable[str]) -> dict[str, Any]:
    return hook(path, "update-ldcache", *(word for folder in folders for word in ("--folder", folder)))


def _mounts(scan: DriverScan, files: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    plain = [(path, path) for path in scan.libraries]
    mounts = [
        {"hostPath": on_host(scan.root, source), "containerPath": target, "options": list(_MOUNT_OPTIONS)}
        for target, source in dict([*plain, *files, *scan.links]).items()
    ]
    mounts += [
        {"hostPath": path, "containerPath": target, "options": list(_SOCKET_OPTIONS)}
        for target, path in scan.sockets
    ]
    return mounts


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path
