"""What containerd makes of its configuration files, as real-parts.md §2 saw the real ones do it. Pure.

Releases before 2.0 take each plugin's section whole from the last file that has it, and their built-in
runtimes only where no file names any. From 2.0 on sections are merged key by key; then files of version 2 are
read under their new names, unless a later file says version 3 (2.0 to 2.2) or file by file (2.3), where no
import may have a higher version than the root.
"""

from __future__ import annotations

import glob
import os
import tomllib
from pathlib import Path
from typing import Any

Table = dict[str, Any]
OLD, RUNTIME, IMAGES = (
    "io.containerd.grpc.v1.cri",
    "io.containerd.cri.v1.runtime",
    "io.containerd.cri.v1.images",
)
_IMAGES_TOO = ("registry", "image_decryption", "max_concurrent_downloads", "stats_collect_period")


class Refused(Exception):
    """The daemon would not start."""


def configuration(node_root: Path, path: str, release: str) -> Table:
    """Everything as `config dump` shows it; raises Refused."""
    generation = tuple(int(part) for part in release.split(".")[:2])
    files = _read(node_root, path)
    if generation < (2, 0):
        return _of_1(files)
    return _of_2(files, generation)


def cri_of(told: Table) -> Table:
    """The CRI plugin's runtime section of a configuration."""
    plugins = told["plugins"]
    found: Table = plugins.get(RUNTIME) or plugins[OLD]
    return found


def why_cri_fails(told: Table) -> str:
    """ "" when the CRI plugin loads."""
    table = cri_of(told)["containerd"]
    default = table["default_runtime_name"]
    if default in table["runtimes"]:
        return ""
    return (
        f'no corresponding runtime configured in `containerd.runtimes` for default_runtime_name = "{default}"'
    )


def _read(node_root: Path, path: str) -> list[tuple[str, Table]]:
    """In the order in which they count: the root, what it imports, what that imports."""
    if not (node_root / path.lstrip("/")).exists():
        return []
    found: list[tuple[str, Table]] = []
    todo, seen = [path], set()
    while todo:
        name = todo.pop(0)
        if name in seen:
            continue
        seen.add(name)
        try:
            table = tomllib.loads((node_root / name.lstrip("/")).read_text())
        except (OSError, ValueError) as exc:
            raise Refused(f"failed to load TOML: {name}: {exc}") from exc
        found.append((name, table))
        for pattern in table.get("imports", []):
            full = pattern if pattern.startswith("/") else os.path.join(os.path.dirname(name), pattern)
            inside = sorted(glob.glob(f"{node_root}{full}")) if "*" in full else [f"{node_root}{full}"]
            todo += [each.removeprefix(str(node_root)) for each in inside]
    return found


def _of_1(files: list[tuple[str, Table]]) -> Table:
    version, sections = 1, {}
    for _, table in files:
        version = table.get("version") or version
        sections.update(table.get("plugins", {}))
    if version > 2:
        raise Refused(f"unsupported config version `{version}`")
    said = sections.get("cri" if version < 2 else OLD, {})
    cri: Table = {
        "sandbox_image": "registry.k8s.io/pause:3.8",
        "enable_cdi": False,
        "registry": {"config_path": ""},
        "containerd": {"default_runtime_name": "runc", "runtimes": {"runc": _runc()}},
    }
    if "runtimes" in said.get("containerd", {}):
        cri["containerd"]["runtimes"] = {}
    _deep(cri, said)
    return {"version": 2, "imports": [name for name, _ in files], "plugins": {OLD: cri}}


def _of_2(files: list[tuple[str, Table]], generation: tuple[int, ...]) -> Table:
    newest = 4 if generation >= (2, 3) else 3
    version, root_version = newest, 0
    plugins: Table = {}
    for name, table in files:
        own = table.get("version", 0)
        root_version = root_version or own
        if own > newest:
            raise Refused(f"expected containerd config version equal to or less than `{newest}`, got `{own}`")
        if newest == 4 and own > root_version:
            raise Refused(
                f"drop-in config version {own} higher than root config version {root_version} ({name})"
            )
        sections = dict(table.get("plugins", {}))
        if own < 2 and "cri" in sections:
            sections[OLD] = sections.pop("cri")
        if newest == 4:
            sections = _renamed(sections) if own < 4 else sections
        elif own >= 2:
            version = own
        _deep(plugins, sections)
    if version < 3:
        plugins = _renamed(plugins)
    runtime: Table = {
        "enable_cdi": True,
        "cdi_spec_dirs": ["/etc/cdi", "/var/run/cdi"],
        "containerd": {"default_runtime_name": "runc", "runtimes": {"runc": _runc()}},
    }
    images: Table = {
        "registry": {"config_path": ""},
        "pinned_images": {"sandbox": "registry.k8s.io/pause:3.10"},
    }
    _deep(runtime, plugins.get(RUNTIME, {}))
    _deep(images, plugins.get(IMAGES, {}))
    return {
        "version": newest,
        "imports": [n for n, _ in files],
        "plugins": {RUNTIME: runtime, IMAGES: images},
    }


def _renamed(plugins: Table) -> Table:
    if OLD not in plugins:
        return plugins
    said, runtime, images = plugins[OLD], dict(plugins.get(RUNTIME, {})), dict(plugins.get(IMAGES, {}))
    for key, value in said.items():
        if key in _IMAGES_TOO:
            images[key] = value
        elif key == "sandbox_image":
            images["pinned_images"] = {**images.get("pinned_images", {}), "sandbox": value}
        elif key == "containerd":
            runtime[key] = {**value, **runtime.get(key, {})}
        else:
            runtime.setdefault(key, value)
    return {**plugins, OLD: {}, RUNTIME: runtime, IMAGES: images}


def _runc() -> Table:
    return {"runtime_type": "io.containerd.runc.v2", "options": {"BinaryName": "", "SystemdCgroup": False}}


def _deep(under: Table, over: Table) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            _deep(under[key], value)
        else:
            under[key] = value
