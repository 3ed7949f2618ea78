"""`make kubernetes`: compiles Kubernetes, etcd and containerd from their Go modules, once.

    python -m gpuready_sim.kubernetes.build             # what is missing or out of date
    python -m gpuready_sim.kubernetes.build --check     # what is there; 0 all, 1 something is missing

The modules are pinned by go.mod and go.sum under modules/; Go verifies every one of them and changes neither
file. A program is built beside its place and then moved there, so a broken build leaves the old one. Programs
that somebody else put into KUBEBUILDER_ASSETS are left as they are.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuready_sim.errors import SimulatorError
from gpuready_sim.kubernetes import assets

MODULES = Path(__file__).parent / "modules"
OLDEST_GO = (1, 26)
RECORD = "gpuready-build.json"  # program -> digest of what it was built from
_LAST_LINES = 12
_SCRATCH = ".build-"
_HALF_DONE = ""  # no digest: a build that was killed here is told from a program of somebody else's
_STRIPPED = "-s -w"
_CONTAINERD = "github.com/containerd/containerd/v2"
# Snapshotters that want C libraries or kernel modules.
_CONTAINERD_TAGS = "no_btrfs,no_devmapper,no_zfs"


class BuildError(SimulatorError):
    """Kubernetes could not be built."""


@dataclass(frozen=True)
class Program:
    """name, the wrapper module that pins it, its package, the linker's flags and the build tags."""

    name: str
    module: str
    package: str
    flags: str = _STRIPPED
    tags: str = ""

    def digest(self) -> str:
        """Changes whenever the program would."""
        seen = hashlib.sha256("\0".join((self.name, self.package, self.flags, self.tags)).encode())
        for file in sorted(path for path in (MODULES / self.module).iterdir() if path.is_file()):
            seen.update(file.read_bytes())
        return seen.hexdigest()


def programs() -> list[Program]:
    """In the order in which they are built: the control plane, then what a node has."""
    kubernetes = [
        Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", _kubernetes_flags())
        for name in (*assets.CONTROL_PLANE, *assets.NODE)
        if name.startswith("kube")
    ]
    containerd = [
        Program(name, "containerd", f"{_CONTAINERD}/cmd/{name}", _containerd_flags(), _CONTAINERD_TAGS)
        for name in assets.NODE
        if not name.startswith("kube")
    ]
    return [Program("etcd", "etcd", "."), *kubernetes, *containerd]


def _kubernetes_flags() -> str:
    major, minor = assets.KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    facts = {
        "gitVersion": assets.KUBERNETES_VERSION,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    words = [f"-X {place}.{name}={value}" for place in places for name, value in facts.items()]
    return " ".join([_STRIPPED, *words])


def _containerd_flags() -> str:
    return f"{_STRIPPED} -X {_CONTAINERD}/version.Version={assets.CONTAINERD_VERSION}"


def build(target: Path) -> list[str]:
    """Bring every program in `target` up to date; returns the names of those that were built.

    raises  BuildError
    """
    target = target.absolute()  # Go runs in another directory
    try:
        return _bring_up_to_date(target)
    except OSError as exc:
        raise BuildError(
            f"cannot write to {target}",
            why=str(exc),
            next_step=f"make room there, or let {assets.VARIABLE} name another folder",
        ) from exc


def _bring_up_to_date(target: Path) -> list[str]:
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        _remove_what_a_killed_build_left(target)
        due = [program for program in programs() if not _is_current(program, target)]
        if due:
            go = _find_go()
            for number, program in enumerate(due, 1):
                _say(f"[{number}/{len(due)}] {program.name}: building")
                started = time.monotonic()
                _build_one(go, program, target)
                size = (target / program.name).stat().st_size / 1e6
                _say(
                    f"[{number}/{len(due)}] {program.name}: {time.monotonic() - started:.0f} s, {size:.0f} MB"
                )
        return [program.name for program in due]


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """A second build waits, and then finds everything done."""
    with (target / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another build of {target} is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_what_a_killed_build_left(target: Path) -> None:
    for scratch in target.glob(f"{_SCRATCH}*"):
        shutil.rmtree(scratch, ignore_errors=True)


def _is_current(program: Program, target: Path) -> bool:
    """Built from these sources, or not built by us at all."""
    if not os.access(target / program.name, os.X_OK):
        return False
    built_from = _record(target).get(program.name)
    return built_from is None or built_from == program.digest()


def _record(target: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((target / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _find_go() -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "Go was not found",
            why="Kubernetes is compiled from its Go modules, and `go` is not on PATH",
            next_step=f"install Go {_text(OLDEST_GO)} or newer, or let {assets.VARIABLE} name a folder that "
            "has the programs",
        )
    said = _version_of(go)
    found = re.match(r"(?:devel )?go(\d+)\.(\d+)", said)
    if found is None:
        raise BuildError(
            f"{go} does not say its version",
            why=f"`go env GOVERSION` answered {said or 'nothing'}",
            next_step=f"install Go {_text(OLDEST_GO)} or newer and put it first on PATH",
        )
    if (int(found.group(1)), int(found.group(2))) < OLDEST_GO:
        raise BuildError(
            f"{go} is too old: it says {said}",
            why=f"Kubernetes {assets.KUBERNETES_VERSION} needs Go {_text(OLDEST_GO)} or newer",
            next_step="install a newer Go and put it first on PATH",
        )
    return go


def _version_of(go: str) -> str:
    """What it says; where it says no version, what it complains about."""
    argv = [go, "env", "GOVERSION"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=_go_env(), check=False)
    except OSError as exc:
        return exc.strerror or str(exc)
    return done.stdout.strip() or done.stderr.strip()


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _go_env() -> dict[str, str]:
    """No cgo: the programs run on any Linux. No other toolchain than the one that is here."""
    fixed = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    return {**os.environ, **fixed}


def _build_one(go: str, program: Program, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target, prefix=_SCRATCH) as scratch:
        fresh = Path(scratch, program.name)
        argv = [go, "build", "-trimpath", "-tags", program.tags, "-ldflags", program.flags]
        argv += ["-o", str(fresh), program.package]
        done = subprocess.run(
            argv, cwd=MODULES / program.module, env=_go_env(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            last = [line for line in done.stderr.splitlines() if line.strip()][-_LAST_LINES:]
            raise BuildError(
                f"{program.name} did not build",
                why="\n        ".join(last) or f"go ended with {done.returncode}",
                next_step="Go fetches modules through GOPROXY: see `go env GOPROXY`, and the disk's space",
            )
        _write_down(program, _HALF_DONE, target, scratch)
        fresh.replace(target / program.name)
        _write_down(program, program.digest(), target, scratch)


def _write_down(program: Program, built_from: str, target: Path, scratch: str) -> None:
    record = Path(scratch, RECORD)
    record.write_text(json.dumps({**_record(target), program.name: built_from}, indent=2))
    record.replace(target / RECORD)


def check() -> int:
    """Print what is there; 1 when something is missing or not what a build would give."""
    missing = 0
    for program in programs():
        asset = assets.find(program.name)
        if asset is None:
            _out(f"missing  {program.name}")
            missing += 1
            continue
        stale = asset.place != "PATH" and not _is_current(program, asset.path.parent)
        missing += stale
        word = "outdated" if stale else "ok"
        _out(f"{word:8} {program.name:24} {asset.version() or '?':10} {asset.path} ({asset.place})")
    if missing:
        _out("next     run `make kubernetes`")
    return 1 if missing else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpuready_sim.kubernetes.build", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="say what is there, build nothing")
    if parser.parse_args(argv).check:
        return check()
    target = assets.target_dir()
    try:
        built = build(target)
    except SimulatorError as exc:
        for word, text in (("error:", exc.what), ("  why  ", exc.why), ("  next ", exc.next_step)):
            if text:
                _say(f"{word} {text}")
        return 1
    except KeyboardInterrupt:
        _say("interrupted; what is built stays, and the next run goes on from there")
        return 130
    _say(f"{len(built)} built" if built else f"Kubernetes {assets.KUBERNETES_VERSION} is up to date")
    _out(str(target))
    return 0


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _out(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
