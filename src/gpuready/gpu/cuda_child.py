"""A short-lived process that proves CUDA on each of some GPUs and prints what came of it as JSON.

    python -m gpuready.gpu.cuda_child --driver-root DIR [--kernel-root DIR] [--deadline-s S] UUID...

Each GPU or MIG device gets a process of its own, which sees nothing else (CUDA_VISIBLE_DEVICES): a MIG device
can be seen only so, a GPU that fails or hangs takes nobody with it, and what a failed context leaves behind
goes with its process. They are forked, so that the interpreter is started once.

    {"library": "550.163.01", "searched": [], "proofs": [{"uuid": ..., "outcome": "ok"}, ...]}

`library` is libcuda's version from its file's name, null where there is no library.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from gpuready.gpu import driver_files
from gpuready.gpu.cuda import Cuda, CudaError
from gpuready.gpu.cuda_proof import prove
from gpuready.gpu.inventory_child import default_kernel_root
from gpuready.gpu.nvml import Nvml, NvmlError
from gpuready.gpu.process_start import start_of
from gpuready.gpu.proofs import AT_ONCE, PROHIBITED, Outcome, Proof, Use, reason_to_leave_alone
from gpuready.gpu.tree import Tree

CUDA_SONAME = "libcuda.so.1"
DEADLINE_S = 30.0
_KILL_GRACE_S = 1.0
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    signal.signal(signal.SIGTERM, _end)
    driver = Tree(options.driver_root)
    library = driver_files.find_library([driver], [CUDA_SONAME])
    row: dict[str, Any] = {"library": None, "searched": list(driver_files.LIBRARY_DIRS), "proofs": []}
    if library is not None:
        share_device_nodes([Tree(options.kernel_root), driver], _own_dev())
        nvml = driver_files.find_nvml_library(driver)
        proofs = _prove_all(options.uuids, library, nvml.path if nvml else None, options.deadline_s)
        row = {"library": driver_files.version_of_library(library.name), "searched": [], "proofs": proofs}
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run a small CUDA program on GPUs and say what came of it")
    parser.add_argument("--driver-root", type=Path, required=True, help="the tree that holds the driver")
    parser.add_argument("--kernel-root", type=Path, default=default_kernel_root(), help="has the host's /dev")
    parser.add_argument("--deadline-s", type=float, default=DEADLINE_S, help="for each GPU")
    parser.add_argument("uuids", nargs="+", metavar="UUID", help="of a GPU or of a MIG device")
    return parser.parse_args(argv)


# --- device nodes -----------------------------------------------------------------------------------------


def _own_dev() -> Path:
    return Path(os.environ.get("GPUREADY_ROOT") or "/") / "dev"


def share_device_nodes(
    trees: Iterable[Tree], own: Path, make: Callable[[Path, os.stat_result], None] | None = None
) -> list[str]:
    """Give this container the nvidia device nodes that it lacks; their names.

    A container has the nodes of the moment at which it was created, and the node agent is there before the
    driver is. What must not be made is left out: CUDA then says what it lacks.
    """
    make = make or _make_node
    made = []
    for tree in trees:
        for name in _device_names(tree):
            place = own / name
            if place.exists():
                continue
            try:
                info = os.stat(tree.resolve(f"/dev/{name}"))
                if not stat.S_ISCHR(info.st_mode):
                    continue
                place.parent.mkdir(exist_ok=True)
                make(place, info)
            except OSError:
                continue
            made.append(name)
    return made


def _device_names(tree: Tree) -> list[str]:
    names = [name for name in tree.names_in("/dev") if name.startswith("nvidia")]
    return [*names, *(f"nvidia-caps/{name}" for name in tree.names_in("/dev/nvidia-caps"))]


def _make_node(place: Path, info: os.stat_result) -> None:
    os.mknod(place, stat.S_IFCHR | stat.S_IMODE(info.st_mode), info.st_rdev)


# --- one process per device -------------------------------------------------------------------------------


@dataclass
class _Prover:
    """A forked process; `said` is what came through its pipe: a line for each call, at last its proof."""

    uuid: str
    pid: int
    pipe: int
    due_at: float
    said: bytearray = field(default_factory=bytearray)

    @property
    def lines(self) -> list[str]:
        return self.said.decode(errors="replace").splitlines()


def _prove_all(
    uuids: Sequence[str], library: Path, nvml: Path | None, deadline_s: float
) -> list[dict[str, Any]]:
    import pynvml  # noqa: F401  before the fork: read from the disk once

    waiting, running, rows = list(uuids), list[_Prover](), dict[str, Proof]()
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(_fork(waiting.pop(0), library, nvml, deadline_s))
            for prover in _ended(running):
                running.remove(prover)
                rows[prover.uuid] = _outcome(prover, deadline_s)
    finally:
        # Whoever ends us early is process 1 of a container, and would have to bury them.
        for prover in running:
            _reap(prover.pid, kill=True)
    return [rows[uuid].to_json() for uuid in uuids]


def _fork(uuid: str, library: Path, nvml: Path | None, deadline_s: float) -> _Prover:
    ours, theirs = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _be_prover(uuid, library, nvml, theirs, parent)
    os.close(theirs)
    os.set_blocking(ours, False)
    return _Prover(uuid, pid, ours, time.monotonic() + deadline_s)


def _be_prover(uuid: str, library: Path, nvml: Path | None, pipe: int, parent: int) -> None:
    """Never returns: nothing of the parent's may be done twice."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == parent:
            _let_go_of_streams()
            _isolate(uuid)
            proof = _prove_one(uuid, library, nvml, lambda call: _say(pipe, call))
            _say(pipe, json.dumps(proof.to_json()))
            status = 0
    finally:
        os._exit(status)


def _let_go_of_streams() -> None:
    """One that not even a kill ends keeps nobody waiting who reads what its parent prints, nor adds to it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


def _isolate(uuid: str) -> None:
    """One device; nothing that the caller's environment says of CUDA, nothing left in anybody's cache."""
    for name in [name for name in os.environ if name.startswith("CUDA_")]:
        del os.environ[name]
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    os.environ["CUDA_MODULE_LOADING"] = "LAZY"


def _prove_one(uuid: str, library: Path, nvml: Path | None, entering: Callable[[str], None]) -> Proof:
    if nvml is not None:
        entering("NVML")
        use = _use_of(uuid, nvml)
        if use.compute_mode == PROHIBITED:
            said = "its compute mode forbids every CUDA program"
            return Proof(uuid, Outcome.FAILED, "nvmlDeviceGetComputeMode", 0, "Prohibited", said)
        if why := reason_to_leave_alone(use):
            return Proof(uuid, Outcome.IN_USE, text=why)
    try:
        cuda = Cuda(library, entering)
    except CudaError as exc:
        return Proof(uuid, Outcome.FAILED, exc.call, exc.code, exc.name, exc.text)
    return prove(cuda, uuid)


def _use_of(uuid: str, library: Path) -> Use:
    """What NVML does not tell speaks against nothing."""
    try:
        nvml = Nvml(library)
    except NvmlError:
        return Use()
    try:
        handle = nvml.handle_by_uuid(uuid)
        used_mib, free_mib = nvml.memory_use_mib(handle)
        return Use(nvml.compute_mode(handle), nvml.compute_processes(handle), used_mib, free_mib)
    except NvmlError:
        return Use()
    finally:
        nvml.close()


def _say(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


# --- waiting for them -------------------------------------------------------------------------------------


def _ended(running: Sequence[_Prover]) -> list[_Prover]:
    """Wait until at least one has closed its pipe or is out of time."""
    wait_s = max(0.0, min(prover.due_at for prover in running) - time.monotonic())
    readable, _, _ = select.select([prover.pipe for prover in running], [], [], wait_s)
    ended = []
    for prover in running:
        if (prover.pipe in readable and _has_closed(prover)) or time.monotonic() >= prover.due_at:
            ended.append(prover)
    return ended


def _has_closed(prover: _Prover) -> bool:
    chunk = os.read(prover.pipe, 65536)
    prover.said += chunk
    return not chunk


def _outcome(prover: _Prover, deadline_s: float) -> Proof:
    os.close(prover.pipe)
    is_late = time.monotonic() >= prover.due_at
    status = _reap(prover.pid, kill=is_late)
    lines = prover.lines
    if lines and lines[-1].startswith("{"):
        return Proof.from_json(json.loads(lines[-1]))
    call = lines[-1] if lines else "start"
    if status is None or is_late:
        stuck = (prover.pid, start_of(prover.pid)) if status is None else (0, 0)
        said = f"it did not return within {deadline_s:g} s"
        return Proof(prover.uuid, Outcome.TIMED_OUT, call, text=said, pid=stuck[0], started=stuck[1])
    ended = f"signal {-status}" if status < 0 else f"status {status}"
    return Proof(prover.uuid, Outcome.CRASHED, call, text=f"the process ended with {ended}")


def _reap(pid: int, *, kill: bool) -> int | None:
    """Exit status, or minus the signal; None where even a kill does not end it: it sleeps in the driver.

    It asks again and again, for a second at most: kernels before 5.3 have no descriptor that would tell.
    """
    if kill:
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + _KILL_GRACE_S
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
