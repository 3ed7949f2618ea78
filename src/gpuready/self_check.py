"""`gpuready ROLE --self-check`: could this role run from what is in this image? It starts nothing.

Every module of the role is imported (a daemon imports some only when it needs them), its libraries and files
are looked for, and what it will need of the node or the cluster is said.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuready import names

_HERE = Path(__file__).parent
_KUBELET = ("the kubelet's sockets", names.PLUGIN_DIR)
_HOST = ("the host's root", "/host")


@dataclass(frozen=True)
class Role:
    """packages   whose modules it runs; libraries  of others, which are imported late
    files      below gpuready/ that must be in the image; (path, must it be executable)
    needs      what its pod has to bring: (in words, path in the pod; "" for what is no file)
    """

    packages: tuple[str, ...]
    libraries: tuple[str, ...]
    files: tuple[tuple[str, bool], ...] = ()
    needs: tuple[tuple[str, str], ...] = ()


ROLES = {
    "operator": Role(
        ("gpuready.controller", "gpuready.operands.registry", "gpuready.kube", "gpuready.api"),
        ("aiohttp", "msgspec", "prometheus_client", "uvicorn", "httptools", "yaml"),
        (("api/crds/clusterpolicies.nvidia.com.yaml", False), ("api/crds/gpunodes.gpuready.dev.yaml", False)),
        (("an account that may do what `gpuready rbac` prints", ""),),
    ),
    "node-agent": Role(
        ("gpuready.operands.node_agent", "gpuready.node", "gpuready.chain", "gpuready.gpu.inventory_child"),
        ("aiohttp", "msgspec", "pynvml"),
        needs=(_HOST, ("an account of its own", "/var/run/secrets/kubernetes.io/serviceaccount/token")),
    ),
    "device-plugin": Role(
        ("gpuready.operands.device_plugin", "gpuready.node", "gpuready.gpu", "gpuready.protos.deviceplugin"),
        ("grpclib", "google.protobuf", "msgspec", "pynvml"),
        needs=(_HOST, _KUBELET),
    ),
    "toolkit": Role(
        ("gpuready.operands.toolkit", "gpuready.node", "gpuready.gpu.cdi"),
        ("tomlkit", "grpclib", "google.protobuf", "pynvml"),
        (("_native/nvidia-cdi-hook", True),),
        (_HOST, ("the process ids of the host (hostPID)", "")),
    ),
    "exporter": Role(
        ("gpuready.operands.exporter", "gpuready.node", "gpuready.gpu"),
        ("uvicorn", "httptools", "grpclib", "google.protobuf", "pynvml"),
        needs=(_HOST, ("the kubelet's word of pods", names.POD_RESOURCES_SOCKET)),
    ),
}
# Written with the help of tools that are not in the image.
_NOT_FOR_IMAGES = ("gpuready.protos.generate",)


def run(role: str) -> int:
    """0 when all is in the image; 1 with a line for each thing that is not."""
    found = ROLES[role]
    rows = [*_modules(found.packages), *_libraries(found.libraries), *_files(found.files)]
    broken = [row for row in rows if row[1]]
    lines = [f"FAIL  {what:24} {why}" for what, why in broken]
    lines += [f"ok    {role}: {len(rows)} modules, libraries and files"] if not broken else []
    lines += [f"needs {what}{_is_here(path)}" for what, path in found.needs]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if broken else 0


def _modules(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(module, why it cannot be imported)"""
    for package in packages:
        yield package, _import(package)
        folder = getattr(sys.modules.get(package), "__path__", None)
        for each in pkgutil.walk_packages(folder or [], f"{package}."):
            if each.name not in _NOT_FOR_IMAGES:
                yield each.name, _import(each.name)


def _libraries(libraries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for library in libraries:
        yield library, _import(library)


def _import(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as exc:  # whatever a module does when it is imported, the others are looked at, too
        return f"cannot be imported: {type(exc).__name__}: {exc}"
    return ""


def _files(files: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, str]]:
    for name, is_program in files:
        path = _HERE / name
        if not path.is_file():
            yield name, f"{path} is not there"
        else:
            runs = not is_program or os.access(path, os.X_OK)
            yield name, "" if runs else f"{path} is not executable"


def _is_here(path: str) -> str:
    if not path:
        return ""
    return f" at {path}" + ("" if os.path.exists(path) else " (not here)")
