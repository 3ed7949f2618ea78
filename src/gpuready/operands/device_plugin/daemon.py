"""The device plugin's program: observes, lets `situation.decide` decide, acts, writes the record.

One loop, woken by files, by the NVML thread's facts and by the kubelet's streams. The thread alone calls
NVML: Allocate and ListAndWatch answer from memory, whatever the driver does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuready import names
from gpuready.chain.cdi_support import Support, support
from gpuready.errors import UsageError
from gpuready.gpu.driver_files import LIBRARY_DIRS
from gpuready.gpu.feed import Fact, Feed, InventoryTaken, LibraryReplaced, Pace, Probed, Unavailable, XidSeen
from gpuready.gpu.inventory import GPU
from gpuready.gpu.xid import policy_from_env
from gpuready.log import get_logger
from gpuready.loop_errors import LoopErrors
from gpuready.node import driver_place as driver
from gpuready.node.driver_gate import Gate, read_gate
from gpuready.node.driver_place import Driver
from gpuready.node.health_http import answer_probes
from gpuready.node.inotify import Changes
from gpuready.node.kubelet.plugins import Plugins
from gpuready.node.root import Root, boot_id
from gpuready.node.running_runtime import RuntimeWatch
from gpuready.operands.device_plugin import desired, fleet
from gpuready.operands.device_plugin.beside import watched_nodes
from gpuready.operands.device_plugin.cdi_file import Place, Written, refresh
from gpuready.operands.device_plugin.config import Chosen, Effective
from gpuready.operands.device_plugin.fleet import Fleet
from gpuready.operands.device_plugin.ledger import Ledger
from gpuready.operands.device_plugin.offers import offers_of, topology_of
from gpuready.operands.device_plugin.record import record_of
from gpuready.operands.device_plugin.recorder import Recorder
from gpuready.operands.device_plugin.settings import EXCLUDE_INFOROM, Settings
from gpuready.operands.device_plugin.situation import (
    DEVICE_NODE_MISSING,
    INFOROM_CORRUPTED,
    WAITING_FOR_RUNTIME,
    Facts,
    NvmlTrouble,
    Plan,
    Problem,
    decide,
    ignored_by,
)

TICK_S, TICK_WITH_AGENT_S = 1.0, 5.0
# /proc announces no change, and an NVML call that hangs none either: both are looked at this often. With a
# node agent that does so every second and moves the gate, less often will do.
_JOIN_S = 2.5
_SETTLE_S = 0.02  # files that change together are looked at once

NAME = "device-plugin"
log = get_logger(NAME)


def main(env: Mapping[str, str]) -> int:
    """Run until told to stop; 0 after a clean stop, 2 for an environment that makes no sense."""
    try:
        settings = Settings.from_env(env)
    except UsageError as exc:
        log.error("cannot start", reason=str(exc))
        return 2
    again = asyncio.run(_run(settings, Root.from_env(env)))
    if again:
        log.info("starting anew", reason="the driver has another library now")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return 0


async def _run(settings: Settings, root: Root) -> bool:
    """True when the process should start anew to load another library."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrors(log, tracebacks=True))
    daemon = Daemon(settings, root)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.look_again)
    return await daemon.run()


class Daemon:
    """Everything the daemon knows, and the four steps of its loop."""

    def __init__(self, settings: Settings, root: Root) -> None:
        self._settings = settings
        self._root = root
        self._host = root.host()
        self._boot = boot_id(root)
        self._policy = policy_from_env(
            {
                "DP_DISABLE_HEALTHCHECKS": settings.disable_health_checks,
                "DP_ENABLE_HEALTHCHECKS": settings.enable_health_checks,
            },
            settings.clean_probes,
        )
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._stopping = False
        self._failure: BaseException | None = None
        self._timer: asyncio.TimerHandle
        self._chosen = Chosen()
        self._gate = Gate(waiting="not looked yet") if settings.gates_dir else Gate()
        self._driver = Driver("/", self._host, None, "")
        self._fleet = Fleet()
        self._trouble: NvmlTrouble | None = None
        self._silent_s = 0.0
        self._module_stamp = b""
        self._written = Written()
        self._spec_is_due = True
        self._topology = topology_of(self._fleet.inventory)
        self._plan = Plan(hold_nvml=False)
        self._recorder = Recorder(self._record_path(), self._boot, self._wake)
        self._ledger = Ledger(self._record_now)
        self._said: Problem | None = None
        self._feed = Feed(lambda: self._driver.tree, self._host, self._tell, self._pace())
        self._plugins = Plugins(root.join(settings.kubelet_socket), self._wake, log)
        self._runtime = RuntimeWatch(self._host, self._wake)

    # --- life -------------------------------------------------------------------------------------------
    async def run(self) -> bool:
        cards, health = self._recorder.remember()
        self._fleet = replace(self._fleet, cards={card.uuid: card for card in cards}, health=health)
        self._ledger.remember(self._recorder.remember_allocations())
        self._feed.release()
        self._feed.start()
        changes = Changes()
        self._tick()
        loops = (
            self._plugins.run(),
            self._follow(changes),
            self._follow_record(),
            self._answer_probes(),
            self._runtime.run(),
        )
        tasks = [asyncio.create_task(loop) for loop in loops]
        for task in tasks:
            task.add_done_callback(self._task_ended)
        try:
            while not self._stopping:
                self._woken.clear()
                self._turn()
                watches_more = changes.set_paths(self._paths())
                if self._plan.restart:
                    break
                if watches_more:
                    self._spec_is_due = True
                    continue
                await self._woken.wait()
            if self._failure is not None:
                raise self._failure
            return not self._stopping
        finally:
            self._timer.cancel()
            self._ledger.close()
            for task in tasks:
                task.cancel()
            await self._end()

    def stop(self) -> None:
        self._stopping = True
        self._wake()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Both run for ever: one that ends takes the daemon with it, so that the pod is started anew."""
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failure = failure
            self.stop()

    def look_again(self) -> None:
        self._spec_is_due = True
        self._feed.look_now()
        self._wake()

    async def _end(self) -> None:
        """The kubelet hears the end and the driver is given up, within a few seconds."""
        self._feed.stop()
        await self._plugins.close()
        hangs = self._feed.silent_for() > self._settings.silent_s
        await asyncio.to_thread(self._feed.join, 0.1 if hangs else _JOIN_S)
        # A DaemonSet that is made anew starts its pod before the old one has ended: the record is its.
        if not self._plugins.has_successor():
            self._record_now(stopped=True)

    async def _answer_probes(self) -> None:
        address, port = self._settings.pod_ip or "0.0.0.0", self._settings.health_port
        await answer_probes(address, port, healthy=lambda: (True, "ok"), ready=self._ready, log=log)

    # --- the loop ---------------------------------------------------------------------------------------
    def _turn(self) -> None:
        """Observe, decide, act, tell; never waits."""
        self._observe()
        facts = self._facts()
        self._plan = decide(facts)
        self._act(self._plan)
        self._say(self._plan.problem)
        self._record_now()

    def _observe(self) -> None:
        self._chosen = desired.choose(self._settings, self._root, self._boot, self._chosen)
        self._gate = read_gate(self._gates_dir(), self._boot, self._gate)
        before = self._driver
        self._driver = driver.find_driver(self._host, self._wanted_root())
        if before != self._driver:
            self._spec_is_due = True
            self._feed.look_now()
        may_write = self._may_write(self._root.join(self._settings.cdi_file))
        if self._spec_is_due and may_write and self._chosen.effective and self._fleet.gpus:
            self._written = refresh(self._place(), self._known_gpus(), self._dev_root(self._chosen.effective))
            self._spec_is_due = False

    def _act(self, plan: Plan) -> None:
        if plan.hold_nvml:
            self._feed.resume()
        else:
            self._feed.release()
        self._feed.suspect(self._fleet.suspects)
        if self._chosen.effective is not None:
            nodes = dict(self._written.nodes)
            usable = self._support(self._chosen.effective).usable
            effective, note = replace(self._chosen.effective, strategies=usable), self._ledger.note
            beside = self._written.beside
            self._plugins.set(offers_of(plan.resources, effective, self._topology, nodes, note, beside))

    def _say(self, problem: Problem | None) -> None:
        """One line when what we wait for, or suffer from, changes."""
        if problem and (self._said is None or self._said.reason != problem.reason):
            log.warning("not ready", reason=problem.reason, why=problem.message, next_step=problem.next_step)
        if problem is None and self._said is not None:
            log.info("ready", devices=len(self._fleet.cards), driver=self._driver.version)
        self._said = problem

    def _tick(self) -> None:
        """Look at the two things that nothing announces: the kernel module and a library that hangs."""
        tick_s = TICK_WITH_AGENT_S if self._settings.gates_dir else TICK_S
        self._timer = self._loop.call_later(tick_s, self._tick)
        silent = self._feed.silent_for()
        before, self._silent_s = self._silent_s, silent if silent > self._settings.silent_s else 0.0
        stamp = driver.module_stamp(self._host)
        if bool(before) != bool(self._silent_s) or stamp != self._module_stamp:
            self._module_stamp = stamp
            self._wake()
        is_cut_off = self._chosen.effective is not None and not self._has_its_files()
        if self._written.error or self._recorder.has_failed or is_cut_off:
            # No event tells that a full file system has room again, or that a directory that was replaced
            # below our mount is back: with the wish in it, perhaps, and without our record.
            self._spec_is_due = True
            self._wake()

    async def _follow(self, changes: Changes) -> None:
        while True:
            await changes.wait()
            await asyncio.sleep(_SETTLE_S)
            self._spec_is_due = True
            self._wake()

    async def _follow_record(self) -> None:
        """Our own writing is seen here, too: no reason to make the CDI spec anew."""
        changes = Changes([self._recorder.path] if self._recorder.path else [])
        while True:
            await changes.wait()
            await asyncio.sleep(_SETTLE_S)
            self._wake()

    # --- facts of the NVML thread -----------------------------------------------------------------------
    def _tell(self, fact: Fact) -> None:
        """Called in the thread."""
        try:
            self._loop.call_soon_threadsafe(self._take, fact)
        except RuntimeError:
            pass  # the loop is closed: we are ending

    def _take(self, fact: Fact) -> None:
        now = time.time()
        before, had_trouble = self._fleet, self._trouble is not None or self._silent_s > 0
        match fact:
            case InventoryTaken(inventory=inventory):
                self._trouble, self._silent_s = None, 0.0
                self._fleet = fleet.after_inventory(before, inventory, now, self._policy)
            case XidSeen(uuid=uuid, code=code):
                self._fleet = fleet.after_xid(before, uuid, code, fact.time, self._policy)
                self._note_xid(before, fact)
            case Probed(uuid=uuid, probe=probe):
                self._fleet = fleet.after_probe(before, uuid, probe, now, self._policy)
            case Unavailable(code=code, name=name, message=message):
                self._trouble = NvmlTrouble(code, name, message)
            case LibraryReplaced():
                pass
        self._note_changes(before)
        if self._fleet != before or isinstance(fact, Unavailable | LibraryReplaced) or had_trouble:
            self._wake()

    def _note_xid(self, before: Fleet, seen: XidSeen) -> None:
        """One line for a storm of the same XID, however long it lasts within a second."""
        last = before.health[seen.uuid].last_xid if seen.uuid in before.health else None
        if last is None or last.code != seen.code or abs(seen.time - last.time) >= 1:
            meaning = self._policy.rule_of(seen.code).meaning
            log.warning("xid raised", device=seen.uuid, xid=seen.code, meaning=meaning)

    def _note_changes(self, before: Fleet) -> None:
        if before.gpus != self._fleet.gpus:
            self._spec_is_due = True
        if before.inventory.pair_scores != self._fleet.inventory.pair_scores:
            self._topology = topology_of(self._fleet.inventory)
        for uuid, health in self._fleet.health.items():
            old = before.health.get(uuid)
            if old is not None and old.healthy != health.healthy:
                say = log.info if health.healthy else log.warning
                say(
                    "device healthy" if health.healthy else "device unhealthy",
                    device=uuid,
                    reason=health.message,
                )

    # --- what is known ----------------------------------------------------------------------------------
    def _facts(self) -> Facts:
        uuids = set(self._fleet.cards)
        inforom = dict.fromkeys(self._fleet.corrupted_inforom, INFOROM_CORRUPTED)
        excluded = {uuid: DEVICE_NODE_MISSING for uuid in self._written.without if uuid in uuids}
        if self._settings.inforom == EXCLUDE_INFOROM:
            excluded |= inforom
        return Facts(
            chosen=self._chosen,
            gate_waiting=self._gate.waiting,
            module=self._driver.module,
            library=self._driver.version,
            loaded_path=self._feed.loaded_library,
            library_path=self._driver.library_path,
            searched=LIBRARY_DIRS,
            cards=tuple(sorted(self._fleet.cards.values(), key=lambda card: card.index)),
            health=self._fleet.health,
            inventory_taken=self._fleet.taken,
            flagged=inforom,
            excluded=excluded,
            failures=self._fleet.sentences(),
            trouble=self._trouble,
            silent_s=self._silent_s,
            runtime_problem=self._runtime_problem(),
            cdi_missing=self._written.missing,
            cdi_error=self._written.error,
        )

    def _support(self, effective: Effective) -> Support:
        """Which of the strategies the node's runtime does not ignore."""
        return support(effective.strategies, self._runtime.runtime)

    def _runtime_problem(self) -> Problem | None:
        effective = self._chosen.effective
        if not self._runtime.was_asked:
            return WAITING_FOR_RUNTIME
        return ignored_by(self._support(effective)) if effective else None

    def _record_now(self, *, stopped: bool = False) -> None:
        if self._recorder.path is None or not self._may_write(self._recorder.path):
            return
        states = [self._plugins.status(resource.name) for resource in self._plan.resources]
        why = next((state.problem for state in states if state.problem), "")
        record = record_of(
            self._facts(),
            self._plan,
            registered=self._is_registered() and not stopped,
            registration_problem="the plugin has been stopped" if stopped else why,
            cdi=self._written.to_json(),
            absent=self._written.beside.absent,
            allocations=self._ledger.to_json(),
        )
        self._recorder.write(record, at_once=stopped)

    def _is_registered(self) -> bool:
        resources = self._plan.resources
        return bool(resources) and all(self._plugins.status(r.name).registered for r in resources)

    def _ready(self) -> tuple[bool, str]:
        problem = self._plan.problem
        text = f"{problem.reason}: {problem.message}" if problem else "registered"
        return self._is_registered(), text if problem or self._is_registered() else "not registered yet"

    def _known_gpus(self) -> list[GPU]:
        return sorted(self._fleet.gpus.values(), key=lambda gpu: gpu.index)

    # --- places -----------------------------------------------------------------------------------------
    def _gates_dir(self) -> Path | None:
        return self._root.join(self._settings.gates_dir) if self._settings.gates_dir else None

    def _record_path(self) -> Path | None:
        folder = self._settings.records_dir
        return self._root.join(folder) / f"{NAME}.json" if folder else None

    def _may_write(self, path: Path) -> bool:
        """Without a wish nothing is made anew: an uninstall takes the wish away first, then our files."""
        return desired.is_wanted(self._settings, self._root) or path.exists()

    def _has_its_files(self) -> bool:
        """Its wish, and its record: the two by which the node agent and it know of each other."""
        record = self._recorder.path
        return desired.is_wanted(self._settings, self._root) and (record is None or record.exists())

    def _wanted_root(self) -> str | None:
        effective = self._chosen.effective
        return self._gate.driver_root or (effective.driver_root if effective else None)

    def _dev_root(self, effective: Effective) -> Effective:
        return replace(effective, dev_root=effective.dev_root or self._gate.dev_root)

    def _place(self) -> Place:
        return Place(
            file=self._root.join(self._settings.cdi_file),
            named=self._settings.cdi_file,
            host=self._host,
            driver=self._driver.tree,
            driver_root=self._driver.root,
        )

    def _paths(self) -> list[Path]:
        gates = self._gates_dir()
        return [
            *desired.watched_paths(self._settings, self._root),
            *([gates / names.DRIVER_READY] if gates else []),
            *driver.watched_paths(self._host, self._wanted_root()),
            *(self._host.base / f"dev/nvidia{card.minor}" for card in self._fleet.cards.values()),
            self._root.join(self._settings.cdi_file),
            *watched_nodes(self._host),
        ]

    def _pace(self) -> Pace:
        return Pace(inventory_s=self._settings.inventory_s, probe_s=self._settings.probe_s)

    def _wake(self) -> None:
        self._woken.set()
