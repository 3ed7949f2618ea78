"""`make containerd`: the containerds of Debian 12 and 13, unpacked beside the cache of `make kubernetes`.

    python -m tests.node.fetch_containerd

Needs apt and the machine's own Debian mirror. apt gets lists and a cache of its own in a scratch directory:
nothing is installed, and the machine's own packages stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITES = {"1.6": "bookworm", "1.7": "trixie"}
PROGRAMS = ("containerd", "containerd-shim-runc-v2")
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def main() -> int:
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpuready" / "containerd"
    mirror = find_mirror()
    if mirror is None or shutil.which("apt-get") is None:
        sys.stderr.write("this needs apt-get and a Debian mirror in /etc/apt\n")
        return 1
    for release, suite in SUITES.items():
        if not os.access(base / release / "containerd", os.X_OK):
            fetch(mirror, suite, base / release)
        sys.stdout.write(f"containerd {release}: {base / release}\n")
    return 0


def find_mirror(folder: Path = Path("/etc/apt")) -> str | None:
    """The first mirror of Debian itself that this machine uses."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"^(?:deb\s+(?:\[.*?\]\s+)?|URIs:\s*)(\S+/debian/?)(?:\s|$)", text, flags=re.M)
    return found[1] if found else None


def fetch(mirror: str, suite: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="gpuready-apt-") as scratch:
        unpacked = unpack(mirror, suite, "containerd", Path(scratch))
        target.mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            shutil.copy2(unpacked / "usr" / "bin" / name, target / name)


def source_line(mirror: str, suite: str) -> str:
    return f"deb [signed-by={_KEYS}] {mirror} {suite} main"


def unpack(mirror: str, suite: str, package: str, place: Path) -> Path:
    """The folder below `place` where the files of one package lie then."""
    for name in ("lists/partial", "cache/archives/partial", "unpacked"):
        (place / name).mkdir(parents=True)
    sources = place / "sources.list"
    sources.write_text(f"{source_line(mirror, suite)}\n")
    apt = ["apt-get", "-qq", "-o", f"Dir::State={place}", "-o", f"Dir::State::lists={place}/lists"]
    apt += ["-o", f"Dir::Cache={place}/cache", "-o", f"Dir::Etc::sourcelist={sources}"]
    apt += ["-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Sandbox::User=root"]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", package], check=True, cwd=place)
    (found,) = place.glob(f"{package}_*.deb")
    subprocess.run(["dpkg", "-x", found, place / "unpacked"], check=True)
    return place / "unpacked"


if __name__ == "__main__":
    sys.exit(main())
