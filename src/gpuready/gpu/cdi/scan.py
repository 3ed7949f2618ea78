"""Read which files of the driver a container needs: the facts behind the CDI specs.

Source: nvidia-container-toolkit v1.19.1, pkg/nvcdi (driver-nvml.go, common-nvml.go, management.go),
internal/discover (graphics.go, ipc.go), internal/lookup.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence

from gpuready.gpu.cdi.edits import gpu_node_paths
from gpuready.gpu.cdi.model import DeviceNode, DriverScan
from gpuready.gpu.driver_files import LIBRARY_DIRS, NvmlLibrary, find_nvml_library
from gpuready.gpu.inventory import GPU
from gpuready.gpu.tree import Tree

_PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_PROGRAM_DIRS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin")
_SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
_CONTROL = ("/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
# Libraries that have a version of their own; nothing that manages GPUs needs them.
_OTHER_LIBRARIES = (
    "libnvidia-egl-gbm.so.*.*",
    "libnvidia-egl-wayland.so.*.*",
    "libnvidia-egl-wayland2.so.*.*",
    "libnvidia-egl-xcb.so.*.*",
    "libnvidia-egl-xlib.so.*.*",
    "libnvidia-nvvm70.so.*",
)
# In the container these stand at one place, wherever the distribution puts them.
_SHARED_DATA = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/09_nvidia_wayland2.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/20_nvidia_xcb.json",
    "egl/egl_external_platform.d/20_nvidia_xlib.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
)
_SETTINGS = (
    "OpenCL/vendors/nvidia.icd",
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
)
_XORG_DIRS = ("/usr/lib/xorg/modules", "/usr/lib64/xorg/modules", "/usr/lib/x86_64-linux-gnu/nvidia/xorg")
_FIRMWARE_DIRS = ("/lib/firmware/updates", "/lib/firmware", "/usr/lib/firmware")
_FIRMWARE_SETTING = "/sys/module/firmware_class/parameters/path"
# Not for those who manage GPUs: the switches' and the file system's nodes belong to other drivers.
_NO_MANAGEMENT = ("nvidia-fs", "nvidia-nvswitch", "nvidia-nvlink")


def scan_driver(
    driver: Tree,
    host: Tree,
    driver_root: str,
    gpus: Sequence[GPU],
    hooks: Iterable[str],
    dev_root: str = "",
    library_dirs: Sequence[str] = (),
) -> DriverScan | None:
    """None when the tree holds no driver library.

    driver        the tree with the libraries; `driver_root` is its path on the host
    host          the host's tree, for sockets, hooks and device nodes
    hooks         paths of hook programs on the host, the best first
    dev_root      where on the host /dev of the driver lies; "" finds out
    library_dirs  look for libraries here and nowhere else
    """
    library = find_nvml_library(driver, library_dirs)
    if library is None or not library.version:
        return None
    folders = _library_folders(driver, library, library_dirs or LIBRARY_DIRS)
    libraries, links = _libraries(driver, folders, library.version)
    nodes = Nodes(host, dev_root or _dev_root(host, driver_root))
    return DriverScan(
        root=driver_root,
        version=library.version,
        libraries=tuple(libraries),
        links=(*links, *_glx_links(folders, libraries)),
        files=tuple(_files(driver, host, driver_root, library.version)),
        graphics=tuple(_graphics(driver, folders, library.version)),
        sockets=tuple(_sockets(host, driver_root)),
        control=tuple(nodes.at(_CONTROL)),
        nodes={node.path: node for gpu in gpus for node in nodes.at(gpu_node_paths(gpu))},
        management=tuple(nodes.of_the_driver()),
        hook=next((path for path in hooks if path and host.exists(path)), ""),
    )


def missing_paths(host: Tree, paths: Iterable[str]) -> list[str]:
    """Those that do not exist on the host: a spec with one of them stops every container."""
    return host.missing(paths)


class Nodes:
    """Device nodes below the driver's /dev.

    dev_root  where on the host that /dev lies
    """

    def __init__(self, host: Tree, dev_root: str) -> None:
        self._host = host
        self._dev_root = dev_root

    def at(self, paths: Iterable[str]) -> Iterator[DeviceNode]:
        """Those that exist."""
        for path in paths:
            node = node_at(self._host, self._dev_root, path)
            if node is not None:
                yield node

    def below(self, folder: str, pattern: str) -> Iterator[DeviceNode]:
        names = self._host.names_in(_below(self._dev_root, folder))
        yield from self.at(f"{folder}/{name}" for name in names if fnmatch.fnmatchcase(name, pattern))

    def of_the_driver(self) -> Iterator[DeviceNode]:
        for node in self.below("/dev", "nvidia*"):
            if not node.path.removeprefix("/dev/").startswith(_NO_MANAGEMENT) and not self._is_folder(node):
                yield node
        yield from self.below("/dev/nvidia-caps", "nvidia-cap*")
        yield from self.below("/dev/nvidia-caps-imex-channels", "channel*")

    def _is_folder(self, node: DeviceNode) -> bool:
        return self._host.resolve(node.host_path).is_dir()


def node_at(host: Tree, dev_root: str, path: str) -> DeviceNode | None:
    host_path = _below(dev_root, path)
    try:
        status = host.resolve(host_path).stat()
    except OSError:
        return None
    if not stat.S_ISCHR(status.st_mode):
        return DeviceNode(path, host_path)

    numbers = (os.major(status.st_rdev), os.minor(status.st_rdev))
    return DeviceNode(path, host_path, numbers, stat.S_IMODE(status.st_mode), status.st_gid)


def _library_folders(driver: Tree, library: NvmlLibrary, dirs: Iterable[str]) -> list[str]:
    """The folder of NVML and the others that hold libraries of its version, each once however it is named."""
    folders = {str(library.path.parent): library.folder}
    for folder in dirs:
        try:
            real = driver.resolve(folder)
        except OSError:
            continue
        has_some = any(name.endswith(f".so.{library.version}") for name in driver.names_in(folder))
        if has_some:
            folders.setdefault(str(real), folder)
    return list(folders.values())


def _libraries(driver: Tree, folders: Iterable[str], version: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Everything with the driver's version in its name, and the links in the same folder that lead to it."""
    libraries: list[str] = []
    links: list[tuple[str, str]] = []
    for folder in folders:
        for place in (folder, f"{folder}/vdpau"):
            real = {name for name in driver.names_in(place) if name.endswith(f".so.{version}")}
            libraries += [f"{place}/{name}" for name in sorted(real)]
            links += _links_to(driver, place, real)
    return libraries, links


def _links_to(driver: Tree, folder: str, real: Collection[str]) -> Iterator[tuple[str, str]]:
    for name in driver.names_in(folder):
        target = _leads_to(driver, folder, name)
        if name not in real and target is not None and target.rpartition("/")[2] in real:
            yield f"{folder}/{name}", target


def _leads_to(driver: Tree, folder: str, name: str) -> str | None:
    if not name.startswith("lib") or ".so" not in name:
        return None
    try:
        return driver.inside(driver.resolve(f"{folder}/{name}"))
    except OSError:
        return None


def _glx_links(folders: Iterable[str], libraries: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The name by which the loader of GLX asks for whichever vendor's library is there."""
    for folder in folders:
        indirect = next((path for path in libraries if path.startswith(f"{folder}/libGLX_nvidia.so.")), "")
        if indirect:
            yield f"{folder}/libGLX_indirect.so.0", indirect


def _files(driver: Tree, host: Tree, driver_root: str, version: str) -> Iterator[tuple[str, str]]:
    """(path in the container, path inside the driver's root)."""
    for name in _PROGRAMS:
        if path := _first(driver, _PROGRAM_DIRS, name):
            yield path, path
    yield from _firmware(driver, host, driver_root, version)


def _graphics(driver: Tree, folders: Iterable[str], version: str) -> Iterator[tuple[str, str]]:
    for folder in folders:
        real = {name for name in driver.names_in(folder) if _is_graphics_library(driver, folder, name)}
        yield from ((f"{folder}/{name}", f"{folder}/{name}") for name in sorted(real))
        yield from _links_to(driver, folder, real)
        gbm = f"{folder}/gbm/nvidia-drm_gbm.so"
        if driver.exists(gbm):
            yield gbm, driver.inside(driver.resolve(gbm))
    for name in _SHARED_DATA:
        if path := _first(driver, ("/usr/share", "/etc"), name):
            yield f"/usr/share/{name}", path
    for name in _SETTINGS:
        if path := _first(driver, ("/etc", "/usr/share"), name):
            yield f"/etc/{name}", path
    yield from _xorg(driver, version)


def _is_graphics_library(driver: Tree, folder: str, name: str) -> bool:
    matches = any(fnmatch.fnmatchcase(name, each) for each in _OTHER_LIBRARIES)
    return matches and (_leads_to(driver, folder, name) or "").endswith(f"/{name}")


def _xorg(driver: Tree, version: str) -> Iterator[tuple[str, str]]:
    if path := _first(driver, [f"{folder}/drivers" for folder in _XORG_DIRS], "nvidia_drv.so"):
        yield path, path
    places = [f"{folder}/extensions" for folder in _XORG_DIRS]
    if path := _first(driver, places, f"libglxserver_nvidia.so.{version}"):
        yield path, path
        yield f"{path.rpartition('/')[0]}/libglxserver_nvidia.so", path


def _firmware(driver: Tree, host: Tree, driver_root: str, version: str) -> Iterator[tuple[str, str]]:
    """What the GPU's own processor runs; the kernel may be told another place than the usual ones."""
    told = (host.read_text(_FIRMWARE_SETTING) or "").removeprefix(driver_root if driver_root != "/" else "")
    release = host.read_text("/proc/sys/kernel/osrelease") or ""
    usual = [f"{folder}/{release}" for folder in _FIRMWARE_DIRS if release and "/" not in release]
    for folder in [told, *_FIRMWARE_DIRS, *usual]:
        place = f"{folder}/nvidia/{version}"
        names = [name for name in driver.names_in(place) if name.startswith("gsp") and name.endswith(".bin")]
        if folder and names:
            yield from ((f"{place}/{name}", f"{place}/{name}") for name in names)
            return


def _sockets(host: Tree, driver_root: str) -> Iterator[tuple[str, str]]:
    """(path in the container, path on the host): of daemons in the driver's container, or on the host."""
    for path in _SOCKETS:
        for root in dict.fromkeys((driver_root, "/")):
            if host.exists(_below(root, path)):
                yield path, _below(root, path)
                break


def _first(driver: Tree, folders: Iterable[str], name: str) -> str:
    return next((f"{folder}/{name}" for folder in folders if driver.exists(f"{folder}/{name}")), "")


def _dev_root(host: Tree, driver_root: str) -> str:
    inside = f"{driver_root.rstrip('/')}/dev/nvidiactl"
    return driver_root if driver_root != "/" and host.exists(inside) else "/"


def _below(root: str, path: str) -> str:
    return path if root in ("", "/") else root.rstrip("/") + path
