"""The toolkit's program: looks at the runtime's files, keeps them true, restarts the runtime, tells. Thin.

One loop, woken by files: the configuration's, the node agent's wish, the runtime's socket. Nothing is looked
at twice without a reason. A plain restart of its pod changes nothing on the node.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuready.errors import GPUReadyError, InternalError, UsageError
from gpuready.log import get_logger
from gpuready.loop_errors import LoopErrors
from gpuready.node import desired
from gpuready.node.desired import Desired
from gpuready.node.files import find_object, write_atomic
from gpuready.node.health_http import answer_probes
from gpuready.node.inotify import Changes
from gpuready.node.root import Root, boot_id
from gpuready.operands.toolkit.decision import (
    INTERNAL,
    OTHER_TOOLKIT,
    REFUSED,
    RESTART_NEEDED,
    ROLLED_BACK,
    WAITING_FOR_WISH,
    Action,
    Decision,
    Problem,
    decide,
    repair_of,
    why_of,
)
from gpuready.operands.toolkit.engine import Engine, Look
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.one_toolkit import OneToolkit
from gpuready.operands.toolkit.record import record_of
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.specs import Specs
from gpuready.operands.toolkit.transaction import Outcome, RolledBack

NAME = "toolkit"
SETTLE_S = 0.05  # files that change together are looked at once
LOOK_AGAIN_S = 5.0  # no event tells that a full file system has room again, or that a daemon has come back
_FAREWELL_S = 3.0  # an uninstall takes our wish away at about the moment at which our pod is stopped
log = get_logger(NAME)


def main(env: Mapping[str, str]) -> int:
    """Run until told to stop; 0 after a clean stop, 2 for an environment that makes no sense."""
    try:
        settings = Settings.from_env(env)
    except UsageError as exc:
        log.error("cannot start", reason=str(exc))
        return 2
    asyncio.run(_run(settings, Root.from_env(env), env))
    return 0


async def _run(settings: Settings, root: Root, env: Mapping[str, str]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrors(log, tracebacks=True))
    daemon = Daemon(settings, root, Host.of(root.host(), env))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.wake)
    await daemon.run()


class Daemon:
    def __init__(self, settings: Settings, root: Root, host: Host) -> None:
        self._settings, self._root, self._host = settings, root, host
        self._boot = boot_id(root)
        self._engine = Engine(settings, host, root.join(settings.journal))
        self._specs = Specs(settings, root, self.wake)
        self._woken, self._stopped = asyncio.Event(), asyncio.Event()
        self._lock = OneToolkit(host.tree.resolve(settings.pid_file))
        self._look: Look | None = None
        self._problem: Problem | None = None
        self._request: dict[str, str] | None = None
        self._repaired: dict[str, Any] | None = None
        self._restarts = 0
        self._whole_digests: dict[str, str] = {}
        self._was_wanted = False
        self._written: Mapping[str, Any] = {}

    def stop(self) -> None:
        self._stopped.set()
        self._woken.set()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        self._remember()
        changes = Changes()
        health = asyncio.create_task(self._answer_probes())
        follow = asyncio.create_task(self._follow(changes))
        try:
            while not self._stopped.is_set():
                self._woken.clear()
                await self._turn()
                if changes.set_paths(self._paths()):
                    continue
                await self._sleep()
            await self._farewell()
        finally:
            for task in (health, follow):
                task.cancel()
            await self._specs.stop()
            self._lock.release()

    async def _sleep(self) -> None:
        """Until something happens; while something is wrong, not for ever."""
        try:
            async with asyncio.timeout(LOOK_AGAIN_S if self._problem else None):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _follow(self, changes: Changes) -> None:
        while True:
            await changes.wait()
            await asyncio.sleep(SETTLE_S)
            self._woken.set()

    # --- one turn -----------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        before = self._problem
        try:
            await self._keep()
        except RolledBack as exc:
            self._problem = Problem.of(ROLLED_BACK, exc)
        except GPUReadyError as exc:
            self._problem = Problem.of(REFUSED, exc)
        except OSError as exc:
            self._problem = Problem(
                REFUSED,
                f"the toolkit's journal cannot be written: {exc.strerror}",
                f"check the file system of {self._settings.journal}",
            )
        except Exception as exc:  # a mistake of ours: told, tried again, and CDI specs are kept all the same
            bug = InternalError.of(exc)
            if before is None or before.message != bug.what:
                log.exception("not kept")
            self._problem = Problem(INTERNAL, bug.what, bug.next_step)
        self._say(before)
        self._record()

    async def _keep(self) -> None:
        other = self._lock.take()
        if other:
            self._problem = Problem(
                OTHER_TOOLKIT,
                f"another toolkit (process {other}) holds {self._settings.pid_file} on this node",
                "remove the other toolkit: two would undo each other's work",
            )
            return
        wish = self._wish()
        if wish is None:
            await self._without_wish()
            return
        self._was_wanted = True
        if self._settings.cdi:
            self._specs.keep()
        else:
            await self._specs.remove()
        if self._engine.recover():
            log.warning("a change that was cut off was undone", next_step="it begins anew")
        self._look = await self._engine.look()
        held_by = _text_of(wish, "heldBy")
        decision = decide(self._look, self._engine.read_journal().failed, self._grant(wish), held_by)
        self._problem = decision.problem
        self._request = decision.request.to_json() if decision.request else None
        if decision.action is Action.CHANGE:
            await self._change(self._look, decision)
        elif self._look.is_whole:
            self._request = None
            self._whole_digests = digests_of(self._look.texts)

    async def _change(self, look: Look, decision: Decision) -> None:
        files, keys = repair_of(look.plan, self._whole_digests, digests_of(look.texts))
        is_repair = bool(self._whole_digests) and look.plan.changes_anything
        outcome = await self._engine.change(look)
        self._request = None
        self._restarts += outcome.restarted
        self._tell(outcome, look)
        if is_repair:
            self._repaired = {"time": _now(), "files": list(files), "keys": list(keys)}
            log.warning("runtime configuration repaired", files=list(files), keys=list(keys))
        self._look = await self._engine.look()
        if outcome.lacks:
            self._problem = Problem(
                RESTART_NEEDED,
                f"the files are as they should be; the running daemon has {'; '.join(outcome.lacks)}",
                f"restart {self._engine.layout.service} on this node",
            )
        if self._look.is_whole:
            self._whole_digests = digests_of(self._look.texts)

    def _tell(self, outcome: Outcome, look: Look) -> None:
        if outcome.changed:
            log.info("runtime configuration written", files=[each.path for each in outcome.changed])
        if outcome.restarted:
            log.info("runtime restarted", reason=why_of(look), handlers="known")

    def _say(self, before: Problem | None) -> None:
        now = self._problem
        if now and (before is None or (before.reason, before.message) != (now.reason, now.message)):
            log.warning("not ready", reason=now.reason, why=now.message, next_step=now.next_step)
        if now is None and before is not None:
            log.info("ready", runtime=self._engine.layout.name)

    # --- wishes -------------------------------------------------------------------------------------------

    def _wish(self) -> Desired | None:
        """Without a node agent nobody need wish anything."""
        folder = self._settings.desired_dir
        if not folder:
            return Desired(NAME, self._boot)
        wish = desired.find(self._root.join(folder), NAME, self._boot)
        if wish is not None and wish.config == desired.AWAY:
            self._was_wanted = True  # by us or by an earlier process, whose work it is to undo
            return None
        return wish

    def _grant(self, wish: Desired) -> str | None:
        """Id of the change that is granted; None where nobody grants: no node agent, or a fresh node."""
        if not self._settings.desired_dir or _text_of(wish, "restart") == "free":
            return None
        return _text_of(wish, "grant")

    async def _without_wish(self) -> None:
        if not self._was_wanted:
            said = "for the node agent to say what is wanted of this node"
            self._problem = Problem(WAITING_FOR_WISH, said, _WISH_STEP)
            return
        said = "nothing is wanted on this node any more"
        self._problem = Problem(WAITING_FOR_WISH, said, "nothing: it ends with the DaemonSet")
        await self._specs.remove()
        outcome = await self._engine.uninstall()
        if outcome.changed:
            log.info("runtime configuration restored", files=[each.path for each in outcome.changed])
        self._was_wanted, self._look, self._request, self._whole_digests = False, None, None, {}

    async def _farewell(self) -> None:
        """Our pod ends. With our wish gone it is for good, and the node gets back what it had."""
        if not (self._was_wanted and self._settings.desired_dir):
            return
        changes = Changes([desired.path_of(self._root.join(self._settings.desired_dir), NAME)])
        until = asyncio.get_running_loop().time() + _FAREWELL_S
        while self._wish() is not None and (left := until - asyncio.get_running_loop().time()) > 0:
            await changes.wait(left)
        changes.close()
        if self._wish() is None:
            await self._turn()

    # --- record and probes --------------------------------------------------------------------------------

    def _record(self) -> None:
        path = self._record_path()
        if path is None or (self._wish() is None and not path.exists()):
            return
        row = record_of(
            self._engine.layout,
            self._look,
            self._problem,
            request=self._request,
            repaired=self._repaired,
            restarts=self._restarts,
            digests=self._whole_digests,
            boot=self._boot,
            specs=self._specs.problems,
        )
        if row == self._written and path.exists():
            return
        try:
            write_atomic(path, json.dumps({**row, "time": _now()}, indent=1).encode())
        except OSError as exc:
            log.warning("record not written", file=path.name, reason=exc.strerror)
            return
        self._written = row

    def _remember(self) -> None:
        """What was whole when an earlier process of ours looked last: what differs now is drift."""
        path = self._record_path()
        row = (find_object(path, {"digests": {}, "repaired": {}, "restarts": int}) if path else None) or {}
        self._whole_digests = {str(key): str(value) for key, value in (row.get("digests") or {}).items()}
        if row.get("bootId") == self._boot:
            self._repaired, self._restarts = row.get("repaired") or None, int(row.get("restarts") or 0)

    def _record_path(self) -> Path | None:
        folder = self._settings.records_dir
        return self._root.join(folder) / f"{NAME}.json" if folder else None

    async def _answer_probes(self) -> None:
        address, port = self._settings.pod_ip or "0.0.0.0", self._settings.health_port
        await answer_probes(address, port, healthy=lambda: (True, "ok"), ready=self._ready, log=log)

    def _ready(self) -> tuple[bool, str]:
        if self._problem:
            return False, f"{self._problem.reason}: {self._problem.message}"
        return self._look is not None, "the runtime knows the handlers" if self._look else "not looked yet"

    def _paths(self) -> list[Path]:
        layout, tree = self._engine.layout, self._host.tree
        texts = self._look.texts if self._look else {}
        named = {layout.config, *texts, *([layout.drop_in] if layout.drop_in else [])}
        paths = [tree.resolve_if_possible(path) for path in named]
        paths += [tree.resolve_if_possible(os.path.dirname(path)) for path in named]
        paths.append(tree.resolve_if_possible(layout.socket))
        if self._settings.desired_dir:
            paths.append(desired.path_of(self._root.join(self._settings.desired_dir), NAME))
        return list(dict.fromkeys(paths))


_WISH_STEP = "look at the pod of DaemonSet gpuready-node-agent on this node, if this lasts"
_LONGEST_TEXT = 300


def _text_of(wish: Desired, key: str) -> str:
    """What the wish says in words; "" for anything else that may stand there."""
    value = (wish.config or {}).get(key)
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


def digests_of(texts: Mapping[str, str]) -> dict[str, str]:
    return {path: hashlib.sha256(text.encode()).hexdigest()[:16] for path, text in sorted(texts.items())}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
