"""Generate the Python code of the .proto files beside this module, or check that it is up to date.

    python -m gpuready.protos.generate            writes
    python -m gpuready.protos.generate --check    exits 1 and names the files that differ

`--into FOLDER --package NAME` generates from and into another folder (a second package that holds its own
copy of the files). Needs grpcio-tools and grpclib's protoc plugin, both in the `dev` extra.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    with tempfile.TemporaryDirectory() as scratch:
        generated = generate(options.into, options.package, Path(scratch))
    stale = [path for path, text in generated.items() if _text_of(path) != text]
    if options.check:
        for path in stale:
            sys.stderr.write(f"out of date: {path}; run python -m gpuready.protos.generate\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(generated[path])
        sys.stderr.write(f"wrote {path}\n")
    return 0


def generate(folder: Path, package: str, scratch: Path) -> dict[Path, str]:
    """Text of every file that belongs beside the .proto files of `folder`, by its path."""
    from grpc_tools import protoc

    sources = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.proto"))
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    outputs = [f"--{kind}_out={scratch}" for kind in ("python", "pyi", "grpclib_python")]
    if protoc.main(["protoc", f"-I{folder}", *outputs, *sources]) != 0:
        raise SystemExit("protoc failed; its message is above")
    texts = {
        folder / path.relative_to(scratch): _inside(package, path.read_text())
        for path in sorted(scratch.rglob("*.py*"))
    }
    for parent in {folder.joinpath(*Path(source).parts[:depth]) for source in sources for depth in (1, 2)}:
        texts.setdefault(parent / "__init__.py", "")
    return texts


def _inside(package: str, text: str) -> str:
    """Rewrite `import a.b.api_pb2` (absolute from the include path) to live inside `package`."""
    text = re.sub(r"^import ([\w.]+_pb2)$", rf"import {package}.\1", text, flags=re.M)
    return re.sub(r"(?<![\w./])(\w+\.v\d\w*\.api_pb2)\.", rf"{package}.\1.", text)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--into", type=Path, default=HERE)
    parser.add_argument("--package", default="gpuready.protos")
    return parser.parse_args(argv)


def _text_of(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
