"""Container images as OCI archives, made from files of this machine: what `ctr images import` reads."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import platform
import py_compile
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuready_sim.kubernetes.node.settings import PAUSE_IMAGE

_PRINTENV = """\
#!/bin/sh
[ $# = 0 ] && exec env
exec sed -z -n "s/^$1=//p" /proc/self/environ
"""
BUSYBOX_IMAGE = "gpuready.sim/busybox:1"
_OCI = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """name      with its tag
    files     path in the image -> file or directory of this machine
    texts     path in the image -> what stands in it
    links     path in the image -> target of a symbolic link
    bytecode  compile every Python file in it, as the build of a release does
    """

    name: str
    files: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": "/usr/bin:/bin"})
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    bytecode: bool = False


def busybox_images(busybox: Path) -> list[Image]:
    """The pause image of sandboxes, and an image with busybox's programs. `busybox` is a static program."""
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{name}": "busybox" for name in applets if name not in ("busybox", "printenv")}
    texts = {
        "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
        "etc/group": "root:x:0:\n",
        "bin/printenv": _PRINTENV,  # Debian's busybox has none
    }
    shared: dict[str, Any] = {"files": {"bin/busybox": busybox}, "links": links, "texts": texts}
    return [
        Image(PAUSE_IMAGE, **shared, entrypoint=["/bin/sleep", "infinity"]),
        Image(BUSYBOX_IMAGE, **shared, command=["/bin/sh"]),
    ]


def write_archive(path: Path, image: Image) -> None:
    """An OCI image layout of one layer, as a tar file."""
    layer = path.with_suffix(".layer")
    try:
        _write_layer(layer, image)
        with tarfile.open(path, "w") as archive:
            _write_layout(archive, image, layer)
    finally:
        layer.unlink(missing_ok=True)


def _write_layer(path: Path, image: Image) -> None:
    with tarfile.open(path, "w", dereference=True) as layer:
        for folder in ("dev", "proc", "sys", "tmp"):
            layer.addfile(_folder(folder, 0o1777 if folder == "tmp" else 0o755))
        for name, source in image.files.items():
            layer.add(source, name, filter=_of_root)
        if image.bytecode:
            _add_bytecode(layer, image.files)
        for name, text in image.texts.items():
            _add_text(layer, name, text)
        for name, target in image.links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            layer.addfile(link)


def _add_bytecode(layer: tarfile.TarFile, files: Mapping[str, Path]) -> None:
    """Valid whatever the time stamps of the sources are: nobody edits a file in an image."""
    with tempfile.NamedTemporaryFile(suffix=".pyc") as compiled:
        for name, source in files.items():
            if source.suffix != ".py":
                continue
            try:
                py_compile.compile(
                    str(source),
                    compiled.name,
                    dfile=f"/{name}",
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
            except py_compile.PyCompileError:
                continue  # some libraries bring files for other versions of Python
            target = importlib.util.cache_from_source(name)
            layer.add(compiled.name, target, filter=_readable_of_root)


def _readable_of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.mode = 0o644
    return _of_root(entry)


def _folder(name: str, mode: int) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode = tarfile.DIRTYPE, mode
    return made


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Everything belongs to root; what Python compiled for itself stays behind."""
    if entry.name.endswith("/__pycache__"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _write_layout(archive: tarfile.TarFile, image: Image, layer: Path) -> None:
    layer_digest = _add_blob_file(archive, layer)
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Env": [f"{name}={value}" for name, value in image.env.items()],
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created_by": "gpuready-sim"}],
    }
    config_blob = _add_blob(archive, config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": {"mediaType": f"{_OCI}.config.v1+json", **config_blob},
        "layers": [
            {
                "mediaType": f"{_OCI}.layer.v1.tar",
                "digest": layer_digest,
                "size": layer.stat().st_size,
            }
        ],
    }
    manifest_blob = _add_blob(archive, manifest)
    index = {
        "schemaVersion": 2,
        "manifests": [
            {
                "mediaType": f"{_OCI}.manifest.v1+json",
                **manifest_blob,
                "platform": {"architecture": architecture, "os": "linux"},
                "annotations": {"io.containerd.image.name": image.name},
            }
        ],
    }
    _add_text(archive, "index.json", json.dumps(index))
    _add_text(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}))


def _add_blob_file(archive: tarfile.TarFile, path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    archive.add(path, f"blobs/sha256/{digest}")
    return f"sha256:{digest}"


def _add_blob(archive: tarfile.TarFile, content: Mapping[str, Any]) -> dict[str, Any]:
    data = json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    _add_bytes(archive, f"blobs/sha256/{digest}", data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    _add_bytes(archive, name, text.encode(), mode=0o755 if text.startswith("#!") else 0o644)


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
