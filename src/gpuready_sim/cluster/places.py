"""Where clusters live: directories, the lock against a second `up`, the range of loopback addresses."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gpuready_sim.errors import SimulatorError

DEFAULT_NAME = "gpuready"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
# A cluster owns 127.X.0.0/16; whoever listens on this port of its last address has it. Machine-wide and
# gone with the process, so two state directories cannot hand out the same range.
_CLAIM_PORT = 30999
_FIRST_RANGE, _LAST_RANGE = 16, 254


class PlaceError(SimulatorError):
    """A cluster's name or directory cannot be used."""


class State(StrEnum):
    """What there is of a cluster."""

    RUNNING = "running"
    CHANGING = "starting or ending"
    ENDED = "ended"  # its files are there: logs, requests, the nodes' directories
    ABSENT = "absent"


@dataclass(frozen=True)
class Place:
    """The files of one cluster."""

    directory: Path

    @classmethod
    def of(cls, name: str) -> Place:
        if not _NAME.fullmatch(name):
            raise PlaceError(
                f"{name!r} is no cluster name",
                why="it must be lower case letters, digits and '-', at most 42",
                next_step="choose another --name",
            )
        return cls(state_home() / name)

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def operator_kubeconfig(self) -> Path:
        return self.directory / "operator.kubeconfig"

    @property
    def data(self) -> Path:
        return self.directory / "apiserver"

    @property
    def requests(self) -> Path:
        return self.directory / "requests.jsonl"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def control(self) -> Path:
        return self.directory / "control.sock"

    @property
    def lock(self) -> Path:
        # Beside the directory: `up` may replace the directory while it holds the lock.
        return self.directory.with_name(f".{self.name}.lock")

    @property
    def state(self) -> State:
        if running_pid(self) is not None:
            return State.RUNNING if self.control.exists() else State.CHANGING
        return State.ENDED if self.directory.exists() else State.ABSENT

    def command(self, words: str) -> str:
        """`gpuready-sim WORDS` for this cluster, as somebody would type it."""
        return f"gpuready-sim {words}" + ("" if self.name == DEFAULT_NAME else f" --name {self.name}")

    def node(self, name: str) -> Path:
        return self.directory / "nodes" / name

    def clean(self) -> None:
        """A directory as at the first start; what a killed cluster left is gone."""
        self.remove()
        for directory in (self.directory, self.logs, self.directory / "nodes"):
            directory.mkdir(parents=True, mode=0o700, exist_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def state_home() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "gpuready-sim"


def cluster_names() -> list[str]:
    """Clusters that have a directory, running or not."""
    home = state_home()
    return sorted(p.name for p in home.iterdir() if p.is_dir()) if home.is_dir() else []


def running_names() -> list[str]:
    return [name for name in cluster_names() if Place(state_home() / name).state is State.RUNNING]


@contextmanager
def owned(place: Place) -> Iterator[None]:
    """Hold the cluster's lock, whose file goes with it; raises PlaceError when another process has it
    or it cannot be written."""
    try:
        place.lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(place)
    except OSError as exc:
        raise _unusable(place.lock.parent, exc) from exc
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        place.lock.unlink(missing_ok=True)
        os.close(descriptor)


def _unusable(directory: Path, exc: OSError) -> PlaceError:
    return PlaceError(
        f"cannot keep a cluster in {directory}",
        why=exc.strerror or str(exc),
        next_step="set XDG_STATE_HOME to a directory that you may write to",
    )


def _locked(place: Place) -> int:
    """The open lock file; not one that its last owner has removed meanwhile."""
    while True:
        descriptor = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(place.lock)):
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError as exc:
            pid = _holder(descriptor)
            if pid:
                os.close(descriptor)
                raise _runs_already(place, pid) from exc
            time.sleep(0.01)  # somebody looks whether it runs, or has it and is about to write its id
        os.close(descriptor)


def refuse_running(place: Place) -> None:
    """raises PlaceError when the cluster runs already"""
    if pid := running_pid(place):
        raise _runs_already(place, pid)


def _runs_already(place: Place, pid: int) -> PlaceError:
    return PlaceError(
        f"cluster {place.name} is running already",
        why=f"process {pid} runs it",
        next_step=f"use it, end it with `{place.command('down')}`, or choose another --name",
    )


def running_pid(place: Place) -> int | None:
    """The process that holds the lock, None when nobody does."""
    try:
        descriptor = os.open(place.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor) or None
    finally:
        os.close(descriptor)
    return None


def _holder(descriptor: int) -> int:
    text = os.pread(descriptor, 20, 0).decode().strip()
    return int(text) if text.isdigit() else 0


@dataclass
class AddressRange:
    """127.X.0.0/16 of one cluster, while `claim` is open."""

    octet: int
    claim: socket.socket

    def address(self, index: int) -> str:
        """The loopback address of the node with this number, from 0."""
        return f"127.{self.octet}.{index // 250}.{index % 250 + 1}"

    def close(self) -> None:
        self.claim.close()


def claim_addresses(name: str) -> AddressRange:
    """The range that fits the name, or the next free one."""
    span = _LAST_RANGE - _FIRST_RANGE + 1
    start = zlib.crc32(name.encode()) % span
    for step in range(span):
        octet = _FIRST_RANGE + (start + step) % span
        claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            claim.bind((f"127.{octet}.255.254", _CLAIM_PORT))
            claim.listen(1)
        except OSError:
            claim.close()
            continue
        return AddressRange(octet, claim)
    raise PlaceError(
        "no loopback range is free",
        why=f"{span} clusters run on this machine",
        next_step="end one: gpuready-sim list, then gpuready-sim down --name NAME",
    )


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
