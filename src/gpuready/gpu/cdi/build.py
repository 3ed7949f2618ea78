"""All specs of a node from what lies there now: reads files, writes none.

A spec that would stop containers (a host path that does not exist, a library that is not the module's) is not
built; the reason says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuready import names
from gpuready.gpu.cdi.capabilities import Capabilities
from gpuready.gpu.cdi.kinds import STYLES, VENDOR, Generated, gpu_spec, management_spec, other_specs
from gpuready.gpu.cdi.model import DeviceNode, DriverScan, Spec, host_paths
from gpuready.gpu.cdi.qualified import Style
from gpuready.gpu.cdi.scan import Nodes, missing_paths, scan_driver
from gpuready.gpu.driver_files import find_module_version, look_for_nvml
from gpuready.gpu.inventory import GPU
from gpuready.gpu.tree import Tree

_NODES_OF_CLASS = {
    "gds": (("/dev", "nvidia-fs*"),),
    "gdrcopy": (("/dev", "gdrdrv"),),
    "mofed": (("/dev/infiniband", "uverbs*"), ("/dev/infiniband", "rdma_cm")),
    names.IMEX_CLASS: (("/dev/nvidia-caps-imex-channels", "channel*"),),
}
_FILES_OF_CLASS = {"gds": ("/run/udev", "/etc/cufile.json")}
# Source: nvidia-container-toolkit v1.19.1, pkg/nvcdi (gds.go, gdrcopy.go, mofed.go, imex.go).
_MOST_NAMED = 3


@dataclass(frozen=True)
class Place:
    """Where things are on this node.

    host          the host's tree as we see it
    driver        the tree with the driver's libraries; `driver_root` is its path on the host
    dev_root      where on the host the driver's /dev lies; "" finds out
    library_dirs  look for libraries here and nowhere else
    hooks         paths of hook programs on the host, the best first
    """

    host: Tree
    driver: Tree
    driver_root: str = "/"
    dev_root: str = ""
    library_dirs: tuple[str, ...] = ()
    hooks: tuple[str, ...] = (names.CDI_HOOK, "/usr/bin/nvidia-cdi-hook", "/usr/bin/nvidia-ctk")


@dataclass(frozen=True)
class Wishes:
    """styles  how GPUs are named; with_all  also `all`; with_gids  see kinds.gpu_spec."""

    styles: tuple[Style, ...] = STYLES
    with_all: bool = True
    with_gids: bool = True


@dataclass(frozen=True)
class Built:
    """spec      None when it cannot be made now: `reason` says why
    left_out  (device, why) that are not in it
    """

    kind: str
    spec: Spec | None
    reason: str = ""
    left_out: tuple[tuple[str, str], ...] = ()


def build(
    place: Place, gpus: Sequence[GPU] | None, wishes: Wishes | None = None, why: str = ""
) -> list[Built]:
    """nvidia.com/gpu, management.nvidia.com/gpu, then a spec for each other class that is here.

    gpus  None when NVML did not answer; `why` is what it said
    """
    wishes = wishes or Wishes()
    scan = scan_driver(
        place.driver,
        place.host,
        place.driver_root,
        gpus or (),
        place.hooks,
        place.dev_root,
        place.library_dirs,
    )
    trouble = _trouble(place, scan)
    if scan is None or trouble:
        return [Built(kind, None, trouble) for kind in (names.GPU_CDI_KIND, names.MANAGEMENT_CDI_KIND)]

    nodes = Nodes(place.host, place.dev_root or dev_root_of(scan))
    capabilities = Capabilities(place.host)
    by_uuid = _capability_nodes(gpus or (), capabilities, nodes)
    mig_nodes = tuple(nodes.at(capabilities.of_mig()))
    generated = {
        names.GPU_CDI_KIND: _gpus(scan, gpus, by_uuid, wishes, why),
        names.MANAGEMENT_CDI_KIND: management_spec(scan, gpus or (), by_uuid, mig_nodes),
    }
    found = [_checked(place.host, kind, each) for kind, each in generated.items()]
    return found + [
        _checked(place.host, spec["kind"], Generated(spec)) for spec in class_specs(place.host, nodes)
    ]


def dev_root_of(scan: DriverScan) -> str:
    """Where the scan found the control nodes."""
    for node in (*scan.control, *scan.management):
        return node.host_path.removesuffix(node.path) or "/"
    return "/"


def _trouble(place: Place, scan: DriverScan | None) -> str:
    """Why nothing can be said of this driver; "" when all is well."""
    if scan is None:
        tried = look_for_nvml(place.driver, place.library_dirs)
        near = [f"{each.place}: {each.outcome}" for each in tried if each.is_odd]
        return f"no driver library below {place.driver_root}" + (f" ({'; '.join(near)})" if near else "")
    module = find_module_version(place.host)
    if module and module != scan.version:
        return f"the driver's library is {scan.version} and its module {module}"
    return ""


def _gpus(
    scan: DriverScan,
    gpus: Sequence[GPU] | None,
    capabilities: Mapping[str, Sequence[DeviceNode]],
    wishes: Wishes,
    why: str,
) -> Generated:
    if gpus is None:
        return Generated(None, (("", f"NVML does not answer{f': {why}' if why else ''}"),))
    return gpu_spec(
        scan,
        gpus,
        capabilities,
        styles=wishes.styles,
        with_all=wishes.with_all,
        with_gids=wishes.with_gids,
    )


def _capability_nodes(
    gpus: Iterable[GPU], capabilities: Capabilities, nodes: Nodes
) -> dict[str, tuple[DeviceNode, ...]]:
    found = {}
    for gpu in gpus:
        for partition in gpu.partitions:
            paths = capabilities.of_partition(gpu, partition)
            there = {node.path: node for node in nodes.at(paths)}
            made = [there.get(path) or capabilities.described(path) for path in paths]
            found[partition.uuid] = tuple(node for node in made if node)
    return found


def class_specs(host: Tree, nodes: Nodes, vendor: str = VENDOR) -> list[Spec]:
    """One for each class beside GPUs whose device nodes are here: gds, gdrcopy, mofed, imex-channel."""
    found = {
        class_: [node for folder, pattern in places for node in nodes.below(folder, pattern)]
        for class_, places in _NODES_OF_CLASS.items()
    }
    files = {
        class_: [path for path in paths if host.exists(path)] for class_, paths in _FILES_OF_CLASS.items()
    }
    return other_specs(found, files, vendor)


def _checked(host: Tree, kind: str, generated: Generated) -> Built:
    if generated.spec is None:
        reasons = [f"{name}: {why}" if name else why for name, why in generated.left_out]
        return Built(kind, None, "; ".join(reasons) or "the node has no GPU", generated.left_out)
    missing = missing_paths(host, host_paths(generated.spec))
    if missing:
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        reason = f"{', '.join(missing[:_MOST_NAMED])}{more} not on the host"
        return Built(kind, None, reason, generated.left_out)
    return Built(kind, generated.spec, "", generated.left_out)
