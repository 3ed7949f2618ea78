"""Facts about CUDA: what came of a small program on each GPU, run in a child process and written down.

It is run when there is a reason: a driver, a GPU or a partition that was not proved yet in this boot, a GPU
that is well again after it was not, a person who asks for it, and again after a while where it failed. What
came of it stands in /run, so that a node agent that starts anew runs nothing. Where all GPUs are proved,
nothing of this file does anything.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.chain.cuda import Target
from gpuready.gpu.inventory import GPU, Inventory
from gpuready.gpu.process_start import runs
from gpuready.gpu.proofs import AT_ONCE, Outcome, Proof
from gpuready.gpu.tree import Tree
from gpuready.gpu.xid import withdraws
from gpuready.node.files import find_object, write_if_changed
from gpuready.shape import Needed

RECORD = "cuda.json"
DEADLINE_S = 30.0
UVM = "/sys/module/nvidia_uvm"
_GRACE_S = 5.0  # beyond the child's own deadlines
_FIRST_RETRY_S, _LONGEST_RETRY_S = 5.0, 600.0
_STRINGS = {"uuid": str, "outcome": str, "call": str, "name": str, "text": str, "after": str}
_SHAPE = Needed(
    {
        "bootId": str,
        "driver": [str],
        "asked": str,
        "trouble": str,
        "searched": [str],
        "library": str,
        "proofs": [Needed({**_STRINGS, "code": int, "pid": int, "started": int}, ("uuid", "outcome"))],
    },
    ("bootId", "driver", "proofs"),
)


@dataclass(frozen=True)
class Subject:
    """What is to be proved: a target, and the last XID that took its GPU out of service ("" = none)."""

    target: Target
    after: str = ""


@dataclass(frozen=True)
class Asking:
    """Everything on which it depends whether, and of what, a proof is due.

    driver     versions of library and kernel module: other ones make every proof void
    asked      value of the annotation by which a person asks for all of them
    """

    subjects: tuple[Subject, ...]
    driver: tuple[str, str]
    asked: str = ""


def subjects_of(inventory: Inventory | None, record: Mapping[str, Any] | None) -> tuple[Subject, ...]:
    """GPUs that NVML and the health engine call well; of a GPU in MIG mode its partitions.

    record  the device plugin's; None where nobody tells of health
    """
    rows = {str(row.get("uuid")): row for row in (record or {}).get("devices") or ()}
    found: list[Subject] = []
    for gpu in inventory.gpus if inventory else ():
        row = rows.get(gpu.uuid) or {}
        if row.get("health", "Healthy") == "Healthy":
            found += [Subject(target, _withdrawn_by(row)) for target in _targets(gpu)]
    return tuple(found)


def _targets(gpu: GPU) -> list[Target]:
    if not gpu.mig_enabled:
        return [Target(gpu.uuid, gpu.index)]
    return [
        Target(part.uuid, gpu.index, part.product.rpartition(" ")[2] or str(part.index))
        for part in gpu.partitions
    ]


def _withdrawn_by(row: Mapping[str, Any]) -> str:
    xid = row.get("lastXid") or {}
    return f"{xid.get('code')} {xid.get('time')}" if withdraws(str(xid.get("action") or "")) else ""


@dataclass(frozen=True)
class Answer:
    """What the child told. trouble: why it told nothing of any GPU; searched: where no libcuda was."""

    proofs: tuple[Proof, ...] = ()
    library: str = ""
    searched: tuple[str, ...] = ()
    trouble: str = ""


class CudaChild:
    """Runs the proofs in a child process; never longer than they may take together."""

    def __init__(self, *, deadline_s: float = DEADLINE_S, command: Sequence[str] | None = None) -> None:
        self._deadline_s = deadline_s
        self._command = tuple(command or (sys.executable, "-m", "gpuready.gpu.cuda_child"))

    async def run(self, driver_root: Path, kernel_root: Path, uuids: Sequence[str]) -> Answer:
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                *("--driver-root", str(driver_root), "--kernel-root", str(kernel_root)),
                *("--deadline-s", str(self._deadline_s), *uuids),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as exc:
            return Answer(trouble=f"its process could not be started: {exc.strerror}")
        rounds = -(-len(uuids) // AT_ONCE)
        patience_s = rounds * (self._deadline_s + _GRACE_S)
        try:
            async with asyncio.timeout(patience_s):
                printed, complaints = await child.communicate()
        except TimeoutError:
            return Answer(trouble=f"its process did not end within {patience_s:g} s")
        finally:
            if child.returncode is None:
                child.terminate()  # it ends and buries its own, which a kill would leave to us
                asyncio.get_running_loop().call_later(_GRACE_S, _kill, child)
        return parse(printed, complaints, child.returncode or 0)


def _kill(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.kill()


def parse(printed: bytes, complaints: bytes, exit_status: int) -> Answer:
    try:
        row = json.loads(printed)
        proofs = tuple(Proof.from_json(each) for each in row["proofs"])
        return Answer(proofs, row["library"] or "", tuple(row["searched"]))
    except (ValueError, KeyError, TypeError):
        ended = f"signal {-exit_status}" if exit_status < 0 else f"status {exit_status}"
        lines = complaints.decode(errors="replace").strip().splitlines()
        return Answer(trouble=f"its process ended with {ended}" + (f": {lines[-1]}" if lines else ""))


@dataclass(frozen=True)
class Look:
    """What there is to judge by, at one moment.

    asking   None while NVML has told of no GPU
    gate     cuda-ready is there, whoever wrote it
    """

    asking: Asking | None = None
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    trouble: str = ""
    searched: tuple[str, ...] = ()
    library: str = ""
    is_uvm_loaded: bool = True
    gate: bool = False


@dataclass
class _Known:
    """What was found out, as the record file holds it."""

    driver: tuple[str, str] = ("", "")
    asked: str = ""
    trouble: str = ""
    searched: tuple[str, ...] = ()
    library: str = ""
    proofs: dict[str, tuple[Proof, str]] | None = None  # uuid -> what came of it, after which XID

    def rows(self) -> dict[str, tuple[Proof, str]]:
        return self.proofs or {}


class CudaLink:
    """Remembers what came of it and knows what is due."""

    def __init__(
        self, host: Tree, child: CudaChild, record: Path, boot_id: str, clock: Callable[[], float]
    ) -> None:
        self._host, self._child = host, child
        self._path, self._boot_id, self._clock = record, boot_id, clock
        self._known = _read(record, boot_id)
        self._retry_s, self._again_at = _FIRST_RETRY_S, float("-inf")

    # --- what is known ------------------------------------------------------------------------------------

    def proofs(self, asking: Asking) -> dict[str, Proof]:
        """By uuid; only what still speaks of this driver and these GPUs as they are."""
        if self._known.driver != asking.driver:
            return {}
        rows = self._known.rows()
        found = {each.target.uuid: rows.get(each.target.uuid) for each in asking.subjects}
        after = {each.target.uuid: each.after for each in asking.subjects}
        return {uuid: row[0] for uuid, row in found.items() if row and row[1] == after[uuid]}

    def trouble(self, asking: Asking) -> tuple[str, tuple[str, ...]]:
        """Why none could be run, and where libcuda was searched."""
        return (
            (self._known.trouble, self._known.searched) if self._known.driver == asking.driver else ("", ())
        )

    def look(self, asking: Asking, gate: bool) -> Look:
        trouble, searched = self.trouble(asking)
        is_uvm_loaded = self._host.exists(UVM)
        return Look(asking, self.proofs(asking), trouble, searched, self._known.library, is_uvm_loaded, gate)

    # --- what is due --------------------------------------------------------------------------------------

    def due(self, asking: Asking) -> list[str]:
        """UUIDs on which a program is to be run now."""
        there = self.proofs(asking)
        stuck = self._stuck()
        wanted = [each.target.uuid for each in asking.subjects if each.target.uuid not in stuck]
        if asking.asked and asking.asked != self._known.asked:
            return wanted
        may_retry = self._clock() >= self._again_at
        trouble, searched = self.trouble(asking)
        if trouble or searched:
            return wanted if may_retry else []
        missing = [uuid for uuid in wanted if uuid not in there]
        failed = [uuid for uuid in wanted if uuid in there and not there[uuid].is_good]
        return [*missing, *(failed if may_retry else [])]

    @property
    def due_at(self) -> float:
        """When a failed one is tried again, by the clock."""
        return self._again_at if self._again_at > self._clock() else float("inf")

    def _stuck(self) -> set[str]:
        """Where a process sleeps inside the driver for ever: another would only join it."""
        rows = self._known.rows().items()
        return {uuid for uuid, (proof, _) in rows if proof.pid and runs(proof.pid, proof.started)}

    # --- running ------------------------------------------------------------------------------------------

    async def run(self, driver_root: Path, asking: Asking) -> None:
        """Run what is due and write it down.

        raises  OSError when that cannot be written; it is known all the same
        """
        due = self.due(asking)
        if not due:
            return
        answer = await self._child.run(driver_root, self._host.base, due)
        self._learn(asking, answer)
        self._plan_retry(asking)
        self._write()

    def _learn(self, asking: Asking, answer: Answer) -> None:
        after = {each.target.uuid: each.after for each in asking.subjects}
        rows = {} if self._known.driver != asking.driver else dict(self._known.rows())
        rows |= {proof.uuid: (proof, after.get(proof.uuid, "")) for proof in answer.proofs}
        self._known = _Known(
            asking.driver, asking.asked, answer.trouble, answer.searched, answer.library, rows
        )

    def _plan_retry(self, asking: Asking) -> None:
        there = self.proofs(asking)
        if (
            not self._known.trouble
            and not self._known.searched
            and all(each.is_good for each in there.values())
        ):
            self._retry_s, self._again_at = _FIRST_RETRY_S, float("-inf")
            return
        self._again_at = self._clock() + self._retry_s
        self._retry_s = min(self._retry_s * 2, _LONGEST_RETRY_S)

    def forget_gone(self, subjects: Iterable[Subject]) -> None:
        """A GPU that fell ill or went away is proved anew when it is back."""
        here = {each.target.uuid for each in subjects}
        gone = [uuid for uuid in self._known.rows() if uuid not in here]
        if gone:
            self._known.proofs = {uuid: row for uuid, row in self._known.rows().items() if uuid in here}
            self._write()

    def _write(self) -> None:
        """Not where the directory is gone: an uninstall leaves nothing behind."""
        known = self._known
        proofs = [
            {**proof.to_json(), **({"after": after} if after else {})}
            for proof, after in known.rows().values()
        ]
        row = {
            "operand": "cuda",
            "bootId": self._boot_id,
            "driver": list(known.driver),
            "asked": known.asked,
            "trouble": known.trouble,
            "searched": list(known.searched),
            "library": known.library,
            "proofs": proofs,
        }
        write_if_changed(self._path, json.dumps(row, indent=1).encode())


def _read(path: Path, boot_id: str) -> _Known:
    row = find_object(path, _SHAPE)
    if row is None or row["bootId"] != boot_id:
        return _Known()
    library, module = ([*row["driver"], "", ""])[:2]
    known = [each for each in row["proofs"] if each["outcome"] in list(Outcome)]
    proofs = {each["uuid"]: (Proof.from_json(each), str(each.get("after") or "")) for each in known}
    return _Known(
        (library, module),
        str(row.get("asked") or ""),
        str(row.get("trouble") or ""),
        tuple(row.get("searched") or ()),
        str(row.get("library") or ""),
        proofs,
    )


def has_gate(gates: Path) -> bool:
    return (gates / names.CUDA_READY).exists()
