"""Writes the stubs beside the .proto files: `python -m gpuready_sim.kubelet.protos.regenerate`.

protoc names modules from the .proto root; the stubs live in this package, so their one import line is
rewritten. A test regenerates into a temporary directory and compares.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "gpuready_sim.kubelet.protos"
PROTOS = ("deviceplugin/v1beta1/api.proto", "podresources/v1/api.proto", "runtime/v1/api.proto")


def regenerate(target: Path) -> list[Path]:
    """Generate all stubs below `target`; returns the files written, as paths relative to `target`."""
    scripts = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpclib_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}", *outputs, *PROTOS]
    subprocess.run(command, check=True, env=env)
    written: list[Path] = []
    for proto in PROTOS:
        stem = proto.removesuffix(".proto")
        _make_import_local(target / f"{stem}_grpc.py", Path(stem).parent)
        written += [Path(f"{stem}{suffix}") for suffix in ("_pb2.py", "_pb2.pyi", "_grpc.py")]
    return written


def _make_import_local(stub: Path, folder: Path) -> None:
    module = ".".join(folder.parts)
    text = stub.read_text()
    text = text.replace(f"import {module}.api_pb2\n", f"from {PACKAGE}.{module} import api_pb2\n")
    stub.write_text(text.replace(f"{module}.api_pb2.", "api_pb2."))


if __name__ == "__main__":
    regenerate(HERE)
