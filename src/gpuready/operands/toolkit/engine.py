"""One look at the node's runtime, and what follows from it: a plan, a transaction, a result. Thin.

The daemon turns it, `gpuready toolkit --dry-run` looks through it, an uninstall ends it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from gpuready.chain.cdi_support import CDI_CRI, RunningRuntime, support
from gpuready.errors import GPUReadyError
from gpuready.node.cri import RuntimeSilent
from gpuready.operands.toolkit import journal
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.journal import Journal
from gpuready.operands.toolkit.layouts import Layout, layout_of
from gpuready.operands.toolkit.plan import ABSENT, FileChange, Keys, Plan, SettingChange, Wanted
from gpuready.operands.toolkit.running import Running
from gpuready.operands.toolkit.runtimes import Goal, NodeRuntime, find_low_level
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.transaction import Outcome, RolledBack, Step, Transaction, recover
from gpuready.operands.toolkit.undo import undone

CDI_HANDLER, LEGACY_HANDLER = "nvidia-cdi", "nvidia-legacy"
_NOTHING = Goal(Wanted((), ""))
_NVIDIA_RUNTIME = "toolkit/nvidia-container-runtime"


@dataclass(frozen=True)
class Look:
    """What is, and what would have to change. `running` None: the daemon does not answer, `silent` says why.

    texts   path -> text of every file that decides
    digest  of those and of what is wanted: a change that was rolled back is not tried again on the same
    version of the runtime: its own answer, or its program's where it does not answer; "" = nobody says
    """

    texts: Mapping[str, str]
    plan: Plan
    lacks: tuple[str, ...] = ()
    running: Running | None = None
    silent: RuntimeSilent | None = None
    digest: str = ""
    version: str = ""

    @property
    def is_whole(self) -> bool:
        return self.running is not None and not self.plan.changes_anything and not self.lacks


def wanted_of(settings: Settings, host: Host, running: Running | None = None) -> Wanted:
    """The handlers are the node's runc where the runtime injects CDI devices, else NVIDIA's runtime.

    raises  GPUReadyError: the node lacks the program behind the handlers
    """
    injects = running is None or _injects(running) is not False
    if settings.cdi and injects:
        names = tuple(dict.fromkeys((settings.handler, CDI_HANDLER, LEGACY_HANDLER)))
        program = _own_program(settings, host, running) or find_low_level(host, settings.low_level)
        return Wanted(names, program, True, as_default=settings.as_default)
    path = f"{settings.install_dir.rstrip('/')}/{_NVIDIA_RUNTIME}"
    found = next((each for each in (path, "/usr/bin/nvidia-container-runtime") if host.tree.exists(each)), "")
    if not found and settings.cdi:
        told = support((CDI_CRI,), RunningRuntime(running.name, running.version, False) if running else None)
        raise GPUReadyError(
            "no handler would give a container its GPU", why=told.why[0], next_step=told.next_step
        )
    if not found:
        raise GPUReadyError(
            "the node has no nvidia-container-runtime",
            why=f"without CDI the handlers run it, and neither {path} nor /usr/bin has it",
            next_step="set spec.cdi.enabled: true, or install NVIDIA's container toolkit on the node",
        )
    names = tuple(dict.fromkeys((settings.handler, LEGACY_HANDLER)))
    return Wanted(names, found, False, as_default=settings.as_default)


def _own_program(settings: Settings, host: Host, running: Running | None) -> str:
    """What CRI-O itself runs by default: the rest of that runtime's table, which we copy, is made for it."""
    if running is None or running.name != "cri-o" or settings.low_level != Settings().low_level:
        return ""
    program = running.handlers.get(running.default, "")
    is_nvidias = program.rpartition("/")[2].startswith("nvidia")
    return program if program and not is_nvidias and host.tree.exists(program) else ""


def _injects(running: Running) -> bool | None:
    """Whether it can: that it is switched off is ours to change."""
    return RunningRuntime(running.name, running.version, None).injects


class Engine:
    def __init__(self, settings: Settings, host: Host, book: Path, *, step: Step | None = None) -> None:
        self._settings, self._host, self._book, self._step = settings, host, book, step
        self._version = ""

    @property
    def layout(self) -> Layout:
        return layout_of(self._settings, self._host.tree.exists)

    def recover(self) -> bool:
        """Finish what somebody who was killed had begun. raises HostFileError, OSError"""
        return recover(self._host.tree, self._book)

    def read_journal(self) -> Journal:
        return journal.find(self._book)

    # --- looking ------------------------------------------------------------------------------------------

    async def look(self) -> Look:
        """raises  GPUReadyError: nothing can be planned, and why"""
        asked = self._runtime(_NOTHING)
        running, silent = await self._ask(asked)
        goal = Goal(wanted_of(self._settings, self._host, running or asked.as_its_files_say()))
        runtime = self._runtime(goal)
        texts = runtime.files()
        plan = _plan(runtime, texts, self.read_journal())
        lacks = tuple(goal.lacks(running)) if running else ()
        digest = _digest(texts, goal.wanted)
        return Look(texts, plan, lacks, running, silent, digest, self._version)

    async def _ask(self, runtime: NodeRuntime) -> tuple[Running | None, RuntimeSilent | None]:
        try:
            running = await runtime.running()
        except RuntimeSilent as exc:
            await runtime.learn_version()
            self._version = runtime.version
            return None, silent_at(runtime.layout, self._settings.socket, exc)
        self._version = running.version
        return running, None

    # --- changing -----------------------------------------------------------------------------------------

    async def change(self, look: Look) -> Outcome:
        """Bring files and daemon to what is wanted. raises RolledBack and the errors of Transaction.run"""
        runtime = self._runtime(Goal(wanted_of(self._settings, self._host, look.running)))
        try:
            return await self._transaction(runtime).run(look.plan)
        except RolledBack as exc:
            self._remember_failure(exc, look.digest)
            raise

    async def look_back(self) -> tuple[Plan, Look]:
        """What an uninstall would change. raises GPUReadyError"""
        plan, _, look = await self._way_back()
        return plan, look

    async def uninstall(self) -> Outcome:
        """Every file as it was before us, and the daemon with it. raises like `change`"""
        self.recover()
        plan, runtime, look = await self._way_back()
        outcome = Outcome()
        if plan.changes_anything or look.lacks:
            outcome = await self._transaction(runtime).run(plan)
        self._book.unlink(missing_ok=True)
        return outcome

    async def _way_back(self) -> tuple[Plan, NodeRuntime, Look]:
        runtime = self._runtime(Goal(Wanted((), "", self._settings.cdi), gone=True))
        running, silent = await self._ask(runtime)
        runtime = self._runtime(runtime.goal)
        texts = runtime.files()
        changes = []
        for each in self.read_journal().installed:
            there = texts.get(each.path)
            without = undone(each, there)
            if without != there:
                changes.append(FileChange(each.path, there, without))
        # The root first: what it imports may then go.
        changes.sort(key=lambda change: change.path != self.layout.config)
        settings = runtime.settings_between(texts, _with(texts, changes)) if changes else ()
        plan = Plan(tuple(changes), settings)
        touched = Wanted(_handlers_touched(self.read_journal()), "", True, as_default=True)
        gone = touched.handlers if runtime.is_generated(texts) and changes else _handlers_gone(settings)
        goal = Goal(Wanted(gone, "", self._settings.cdi), gone=True, ours=touched)
        lacks = tuple(goal.lacks(running)) if running else ()
        return plan, self._runtime(goal), Look(texts, plan, lacks, running, silent, "", self._version)

    def _transaction(self, runtime: NodeRuntime) -> Transaction:
        return Transaction(self._host.tree, self._book, runtime, step=self._step)

    def _remember_failure(self, exc: RolledBack, digest: str) -> None:
        row = {"digest": digest, "message": exc.what, "why": exc.why, "nextStep": exc.next_step}
        journal.write(self._book, self.read_journal().abandoned(row))

    def _runtime(self, goal: Goal) -> NodeRuntime:
        return NodeRuntime(
            self._host, self.layout, goal, restart_s=self._settings.restart_s, version=self._version
        )


def _plan(runtime: NodeRuntime, texts: Mapping[str, str], book: Journal) -> Plan:
    """From what is there; when something of ours is there that nobody wants any more, without that."""
    now = runtime.plan(texts)
    if not book.installed:
        return now
    base = dict(texts)
    for each in book.installed:
        without = undone(each, texts.get(each.path))
        if without is None:
            base.pop(each.path, None)
        else:
            base[each.path] = without
    fresh = runtime.plan(base)
    if not fresh.files or not _leftovers(book, fresh, texts):
        return now
    return replace(now, files=tuple(_from(texts, base, fresh)))


def _leftovers(book: Journal, fresh: Plan, texts: Mapping[str, str]) -> bool:
    """Is something of ours there that nobody wants any more?

    A handler in a second file is no leftover: the other file may go as it came.
    """
    needed = {change.path: {_setting(keys) for keys in change.values} for change in fresh.files}
    heads = {_head(setting) for settings in needed.values() for setting in settings}
    for each in book.installed:
        here = needed.get(each.path, set())
        for setting in map(_setting, each.values if each.path in texts else ()):
            is_here = _head(setting) in {_head(other) for other in here}
            if setting and (_head(setting) not in heads or (is_here and setting not in here)):
                return True
    return False


def _setting(keys: Keys) -> Keys:
    """Without the name of the plugin's section, which is another one in each version; () for imports."""
    if keys[0] == "imports":
        return ()
    return keys[2:] if keys[0] == "plugins" else keys


def _head(setting: Keys) -> Keys:
    """A handler as a whole; any other setting by itself."""
    return setting[: setting.index("runtimes") + 2] if "runtimes" in setting[:-1] else setting


def _from(texts: Mapping[str, str], base: Mapping[str, str], fresh: Plan) -> list[FileChange]:
    """The changes that lead from `texts` to where `fresh` leads from `base`."""
    meant = {change.path: change for change in fresh.files}
    paths = [*meant, *(path for path in texts if path not in meant and texts[path] != base.get(path))]
    changes = []
    for path in paths:
        there, change = texts.get(path), meant.get(path)
        after = change.after if change else base.get(path)
        if after != there:
            changes.append(FileChange(path, there, after, change.values if change else {}))
    return changes


def _with(texts: Mapping[str, str], changes: Sequence[FileChange]) -> dict[str, str]:
    found = {**texts, **{change.path: change.after or "" for change in changes}}
    return {
        path: text for path, text in found.items() if path not in {c.path for c in changes if c.after is None}
    }


def _handlers_touched(book: Journal) -> tuple[str, ...]:
    names = [
        keys[keys.index("runtimes") + 1]
        for each in book.installed
        for keys in each.values
        if "runtimes" in keys[:-1]
    ]
    return tuple(dict.fromkeys(names))


def _handlers_gone(settings: Sequence[SettingChange]) -> tuple[str, ...]:
    """Handlers of which nothing is in force any more."""
    gone = [
        each.keys[each.keys.index("runtimes") + 1]
        for each in settings
        if each.after is ABSENT and "runtimes" in each.keys[:-1]
    ]
    return tuple(dict.fromkeys(gone))


def _digest(texts: Mapping[str, str], wanted: Wanted) -> str:
    row = json.dumps([sorted(texts.items()), repr(wanted)])
    return hashlib.sha256(row.encode()).hexdigest()[:16]


def silent_at(layout: Layout, asked: str, silent: RuntimeSilent) -> RuntimeSilent:
    """With the socket's path on the host, and the variable where the policy has named it.

    asked  the socket that the settings name, "" = the usual one
    """
    path = layout.socket
    what = silent.what if path in silent.what else silent.what.replace(PurePosixPath(path).name, path)
    step = silent.next_step
    if asked and not step:
        own = f"{layout.runtime.upper()}_SOCKET"
        step = f"start the runtime, or correct {own} (or RUNTIME_SOCKET) in spec.toolkit.env: it says {asked}"
    return RuntimeSilent(what, why=silent.why, next_step=step)
