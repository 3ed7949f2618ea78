"""What a container gets beside its GPUs: GPUDirect Storage, GDRCopy, RDMA devices, IMEX channels.

Each is a CDI class of our own with a spec file of its own, written only where its device nodes are: a name
without a spec would stop every container. Thin.

Source: k8s-device-plugin v0.19.3, internal/cdi/cdi.go, internal/plugin/server.go:306; its entry point, which
takes a loaded module for a wish.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gpuready import names
from gpuready.gpu.cdi.build import class_specs
from gpuready.gpu.cdi.model import Spec, host_paths
from gpuready.gpu.cdi.scan import Nodes
from gpuready.gpu.tree import Tree
from gpuready.node.files import write_if_changed
from gpuready.operands.device_plugin.allocation import Beside
from gpuready.operands.device_plugin.config import Effective

GDS, GDRCOPY, MOFED = "gds", "gdrcopy", "mofed"
_VENDOR = names.PLUGIN_CDI_KIND.partition("/")[0]
_MODULES = {GDS: "nvidia_fs", GDRCOPY: "gdrdrv", MOFED: "nvidia_fs"}
_NODES = {
    GDS: "/dev/nvidia-fs*",
    GDRCOPY: "/dev/gdrdrv",
    names.IMEX_CLASS: "/dev/nvidia-caps-imex-channels/channel*",
}
_WATCHED = (
    "/dev/gdrdrv",
    "/dev/nvidia-fs0",
    "/dev/infiniband/rdma_cm",
    "/dev/nvidia-caps-imex-channels/channel0",
)


def refresh_beside(host: Tree, folder: Path, effective: Effective, dev_root: str, *, cdi: bool) -> Beside:
    """Bring the spec files up to date.

    folder  where specs are written, as we see it
    cdi     containers are told by CDI names; False removes the files
    """
    nodes = Nodes(host, dev_root)
    wanted = _wanted(host, effective)
    channels = tuple(number for number in effective.imex_channels if _has_channel(nodes, number))
    specs = {spec["kind"].partition("/")[2]: spec for spec in class_specs(host, nodes, _VENDOR)}
    specs = {class_: specs[class_] for class_ in wanted if class_ in specs and _is_whole(host, specs[class_])}
    error = _write(folder, specs if cdi else {})
    here = tuple(class_ for class_ in wanted if class_ in specs and class_ != names.IMEX_CLASS)
    cdi_names = [f"{_VENDOR}/{names.IMEX_CLASS}={number}" for number in channels]
    cdi_names += [f"{_VENDOR}/{class_}=all" for class_ in here]
    return Beside(
        here,
        tuple(cdi_names) if cdi else (),
        channels,
        tuple(_absent(effective, specs, channels)),
        _refusal(effective, channels),
        error,
    )


def watched_nodes(host: Tree) -> list[Path]:
    """Nodes whose coming and going changes what is offered."""
    return [host.resolve_if_possible(path) for path in _WATCHED]


def _wanted(host: Tree, effective: Effective) -> list[str]:
    """Said so, or, where nobody has said, its module is loaded."""
    asked = {GDS: effective.gds, MOFED: effective.mofed, GDRCOPY: effective.gdrcopy}
    asked = {
        class_: host.exists(f"/sys/module/{_MODULES[class_]}") if said is None else said
        for class_, said in asked.items()
    }
    return [*(class_ for class_, said in asked.items() if said), names.IMEX_CLASS]


def _has_channel(nodes: Nodes, number: int) -> bool:
    return bool(list(nodes.at([f"/dev/nvidia-caps-imex-channels/channel{number}"])))


def _is_whole(host: Tree, spec: Spec) -> bool:
    return not host.missing(host_paths(spec))


def _absent(effective: Effective, specs: dict[str, Spec], channels: Sequence[int]) -> list[str]:
    """RDMA devices come with GDS and may be missing: it works with local disks."""
    asked = {GDS: effective.gds, GDRCOPY: effective.gdrcopy}
    found = [f"{class_} ({_NODES[class_]})" for class_, said in asked.items() if said and class_ not in specs]
    if len(channels) < len(effective.imex_channels):
        found.append(f"{names.IMEX_CLASS} ({_NODES[names.IMEX_CLASS]})")
    return found


def _refusal(effective: Effective, channels: Sequence[int]) -> str:
    gone = [number for number in effective.imex_channels if number not in channels]
    if not (effective.imex_required and gone):
        return ""
    node = f"/dev/nvidia-caps-imex-channels/channel{gone[0]}"
    return f"IMEX channel {gone[0]} is required, and {node} is not there"


def _write(folder: Path, specs: dict[str, Spec]) -> str:
    """Why a file is not as it should be; "" when all are."""
    for class_ in names.PLUGIN_CDI_CLASSES:
        file = folder / f"{_VENDOR}-{class_}.json"
        try:
            if class_ in specs:
                write_if_changed(file, json.dumps(specs[class_], indent=1).encode())
            else:
                file.unlink(missing_ok=True)
        except OSError as exc:
            verb = "write" if class_ in specs else "remove"
            return f"cannot {verb} {names.CDI_DIRS[-1]}/{file.name}: {exc.strerror}"
    return ""
