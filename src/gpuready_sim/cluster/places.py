"""Where clusters live: directories, the lock against a second `up`, the range of loopback addresses."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuready_sim.errors import SimulatorError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
# A cluster owns 127.X.0.0/16; whoever listens on this port of its last address has it. Machine-wide and
# gone with the process, so two state directories cannot hand out the same range.
_CLAIM_PORT = 30999
_FIRST_RANGE, _LAST_RANGE = 16, 254


class PlaceError(SimulatorError):
    """A cluster's name or directory cannot be used."""


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


@contextmanager
def owned(place: Place) -> Iterator[None]:
    """Hold the cluster's lock; raises PlaceError when another process has it."""
    place.lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise PlaceError(
                f"cluster {place.name} is running already",
                why=f"process {_holder(descriptor)} holds {place.lock}",
                next_step=f"use it, end it with `gpuready-sim down --name {place.name}`, or choose --name",
            ) from exc
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


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
    raise PlaceError("no loopback range is free", why=f"{span} clusters run on this machine")


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
