"""Change a runtime's configuration as one transaction: all of it, or nothing. Thin.

write down what will be done → write the files → ask the program what it makes of them → restart it, when what
is in force changes → ask the running daemon → done. Whatever does not hold is rolled back, and told. Whoever
is killed in between is finished by the next start (`recover`): the files go back, and it begins anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpuready.errors import GPUReadyError
from gpuready.gpu.tree import Tree
from gpuready.operands.toolkit import host_files, journal
from gpuready.operands.toolkit.journal import Journal, Touched, touched_by
from gpuready.operands.toolkit.plan import FileChange, Plan
from gpuready.operands.toolkit.toml_file import ConfigFileError
from gpuready.operands.toolkit.undo import undone

Step = Callable[[str], None]


class RolledBack(GPUReadyError):
    """The change did not hold: every file is as it was before."""


class Runtime(Protocol):
    """What a transaction needs of a container runtime."""

    def parse(self, text: str, path: str) -> dict[str, Any]: ...

    async def prepare(self) -> None:
        """Remember what the program makes of the files before they change."""
        ...

    async def objections(self) -> list[str]:
        """What the program itself has against the files as they are now; [] = nothing."""
        ...

    async def knows(self) -> list[str]:
        """What the running daemon still lacks of what the plan is for; raises RuntimeSilent."""
        ...

    async def restart(self) -> bool:
        """False where nobody may restart it but its administrator."""
        ...

    async def wait_until_it_knows(self) -> list[str]:
        """Like `knows`, until [] or the deadline; an answer of why it is silent counts as one objection."""
        ...

    async def wait_until_it_answers(self) -> bool: ...


@dataclass(frozen=True)
class Outcome:
    """lacks  what the running daemon does not know until somebody else restarts it"""

    restarted: bool = False
    changed: tuple[FileChange, ...] = ()
    lacks: tuple[str, ...] = ()


class Transaction:
    """book: the journal's file. step: told of each step that is behind us (tests end the process there)."""

    def __init__(self, host: Tree, book: Path, runtime: Runtime, *, step: Step | None = None) -> None:
        self._host, self._book, self._runtime = host, book, runtime
        self._step = step or (lambda name: None)

    async def run(self, plan: Plan) -> Outcome:
        """raises  RolledBack, HostFileError, RuntimeSilent, OSError (the journal cannot be written)"""
        touched = [self._touched(change) for change in plan.files]
        if touched:
            await self._runtime.prepare()
            self._note(journal.find(self._book).begun(touched))
        self._step("journalled")
        await self._change(plan.files, touched)
        outcome = await self._activate(plan, touched)
        if touched:
            self._note(journal.find(self._book).finished())
        self._step("finished")
        return outcome

    async def _change(self, changes: Sequence[FileChange], touched: Sequence[Touched]) -> None:
        try:
            for change in changes:
                host_files.replace(self._host, change.path, change.before, change.after)
                self._step(f"wrote {change.path}")
            objections = await self._runtime.objections() if changes else []
        except GPUReadyError:
            self._undo(touched)
            raise
        self._step("checked")
        if objections:
            self._undo(touched)
            raise RolledBack(
                "the container runtime would not take the configuration as it was meant",
                why="; ".join(objections),
                next_step="nothing was activated; every file is as it was",
            )

    def _touched(self, change: FileChange) -> Touched:
        tables = self._runtime.parse(change.before, change.path) if change.before else {}
        return touched_by(change, tables)

    async def _activate(self, plan: Plan, touched: Sequence[Touched]) -> Outcome:
        """Restart it if the running daemon does not know yet what the files say."""
        lacks = await self._runtime.knows()
        if not lacks:
            return Outcome(changed=plan.files)
        try:
            if not await self._runtime.restart():
                return Outcome(changed=plan.files, lacks=tuple(lacks))
            self._step("restarted")
            lacks = await self._runtime.wait_until_it_knows()
        except GPUReadyError as exc:
            lacks = [f"{exc.what} ({exc.why})" if exc.why else exc.what]
        if lacks:
            await self._roll_back(touched, lacks)
        self._step("verified")
        return Outcome(restarted=True, changed=plan.files)

    async def _roll_back(self, touched: Sequence[Touched], lacks: Sequence[str]) -> None:
        self._undo(touched)
        is_back = True
        if touched:
            # One that is down cannot be told; whoever supervises it starts it with the old files.
            with contextlib.suppress(GPUReadyError):
                await self._runtime.restart()
            is_back = await self._runtime.wait_until_it_answers() and await self._has_forgotten()
        said = "; ".join(lacks)
        raise RolledBack(
            "the container runtime did not come back with its new configuration"
            if is_back
            else "the container runtime did not come back, and does not with its old configuration either",
            why=said,
            next_step="every file is as it was; read the runtime's log on this node (journalctl)",
        )

    async def _has_forgotten(self) -> bool:
        """One that comes back late has read the files of just now: it starts once more, with the old ones."""
        with contextlib.suppress(GPUReadyError):
            if not await self._runtime.knows() and await self._runtime.restart():
                return await self._runtime.wait_until_it_answers()
        return True

    def _undo(self, touched: Sequence[Touched]) -> None:
        put_back(self._host, touched)
        self._note(journal.find(self._book).abandoned())

    def _note(self, book: Journal) -> None:
        journal.write(self._book, book)


def put_back(host: Tree, touched: Sequence[Touched]) -> None:
    """Files that are still as we left them become what they were; of others' only what is ours goes."""
    for each in reversed(touched):
        host_files.clean_up(host, each.path)
        there = host_files.read(host, each.path)
        without = _without_us(each, there)
        if without != there:
            host_files.replace(host, each.path, there, without)


def _without_us(touched: Touched, there: str | None) -> str | None:
    if there == touched.before:
        return there
    try:
        return undone(touched, there)
    except ConfigFileError:
        return there  # nobody can read it, and so no daemon starts with it: its writer will have to mend it


def recover(host: Tree, book: Path) -> bool:
    """Undo a transaction that was cut off; True when there was one. raises HostFileError, OSError"""
    found = journal.find(book)
    if not found.pending:
        return False
    put_back(host, found.pending)
    journal.write(book, found.abandoned())
    return True
