"""`make image-bases`: Python with and without a C compiler as root file systems, of Debian 13's packages.

    python -m tests.node.fetch_base_images

They stand for the two images that images/Containerfile takes from a registry, where none can be reached.
Needs apt, root, and the machine's own Debian mirror; nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.node.fetch_containerd import find_mirror, source_line, unpack

SUITE = "trixie"
_PYTHON = ("python3", "python-is-python3", "ca-certificates")
PACKAGES = {"python": _PYTHON, "compiler": (*_PYTHON, "python3-pip", "gcc", "libc6-dev")}


def folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "gpuready" / "base-images"


def main() -> int:
    mirror = find_mirror()
    if mirror is None or shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.stderr.write("this needs root, apt-get and a Debian mirror in /etc/apt\n")
        return 1
    for name, packages in PACKAGES.items():
        target = folder() / f"{name}.tar"
        if not target.exists():
            make(mirror, packages, target)
        sys.stdout.write(f"{name}: {target}, {target.stat().st_size / 1e6:.0f} MB\n")
    return 0


def make(mirror: str, packages: tuple[str, ...], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpuready-apt-") as scratch:
        program = unpack(mirror, "bookworm", "mmdebstrap", Path(scratch)) / "usr/bin/mmdebstrap"
        made = Path(scratch) / "made.tar"
        words = ["--quiet", "--variant=essential", "--mode=root", f"--include={','.join(packages)}"]
        subprocess.run(["perl", program, *words, SUITE, made, source_line(mirror, SUITE)], check=True)
        beside = target.with_suffix(".new")  # what is there is whole
        shutil.copyfile(made, beside)
        beside.replace(target)


if __name__ == "__main__":
    sys.exit(main())
