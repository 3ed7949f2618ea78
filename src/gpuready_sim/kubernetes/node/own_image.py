"""The product's image, put together from what runs it on this machine: interpreter, packages, libraries.

It stands for the image of a release (images/Containerfile): the same folders and program, started by the same
words and compiled like it. Python and its libraries stay at their places, since an interpreter knows where it
was installed.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpuready_sim.kubernetes.node.images import Image

PACKAGES = "app"
_PRODUCT = "gpuready"
_PROGRAM = """\
#!{python}
import sys
from gpuready.cli import main
sys.exit(main())
"""
# Parts of the standard library that no program of ours imports, and what is installed beside it.
_UNUSED = frozenset({"ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter", "turtledemo"})
_LIBRARY = re.compile(r"=> (/\S+)|^\s*(/\S+) \(", re.MULTILINE)


def own_image(name: str, env: Mapping[str, str]) -> Image:
    """`gpuready ROLE` on this machine's Python; `env` comes on top of what it needs itself."""
    python = Path(sys.executable).resolve()
    files = {**_interpreter(python), **_packages()}
    programs = [
        python,
        *(path for path in files.values() if path.name.endswith(".so") or ".so." in path.name),
    ]
    files |= {_inside(path): path for path in _libraries(programs)}
    return Image(
        name,
        files=files,
        texts={
            "usr/bin/gpuready": _PROGRAM.format(python=python),
            "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
        },
        links={link: f"usr/{link}" for link in ("bin", "lib", "lib64")} | {"usr/bin/python3": str(python)},
        env={"PATH": "/usr/bin", "PYTHONPATH": f"/{PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1", **env},
        entrypoint=["gpuready"],
        bytecode=True,
    )


def _interpreter(python: Path) -> dict[str, Path]:
    parts = [part for part in Path(sysconfig.get_path("stdlib")).iterdir() if part.name not in _UNUSED]
    return {_inside(path): path for path in [python, *_files_below(parts)]}


def _packages() -> dict[str, Path]:
    """The product and all that it requires, in one folder."""
    source = Path(__file__).parents[3] / _PRODUCT
    found = {f"{PACKAGES}/{path.relative_to(source.parent)}": path for path in _files_below([source])}
    for distribution in _required(_PRODUCT, set()):
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if path.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                found[f"{PACKAGES}/{file}"] = path
    return found


def _files_below(places: Iterable[Path]) -> Iterator[Path]:
    """Without what Python compiled for itself and what only linkers read."""
    for place in places:
        if place.is_dir() and place.name != "__pycache__":
            yield from _files_below(place.iterdir())
        elif place.is_file() and place.suffix != ".a":
            yield place


def _required(name: str, seen: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """The distributions that one requires, directly or not, without extras."""
    for text in importlib.metadata.requires(name) or ():
        wanted = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
        if "extra ==" in text or wanted.lower() in seen:
            continue
        seen.add(wanted.lower())
        try:
            distribution = importlib.metadata.distribution(wanted)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python or system
        yield distribution
        yield from _required(wanted, seen)


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that they load, and the loader."""
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    return {Path(first or second) for first, second in _LIBRARY.findall(done.stdout)}


def _inside(path: Path) -> str:
    """Where a file of this machine is in the image: /lib is a link to /usr/lib there."""
    text = str(path).lstrip("/")
    return f"usr/{text}" if text.partition("/")[0] in ("bin", "lib", "lib64") else text
