"""The node agent: the one daemon of a node that talks to the API server.

One loop on one event loop: something may have changed (a watch, a file, the kernel, NVML's answer) → look at
everything → judge → keep files → tell the API server what differs. The file side never waits for the
network. It never opens NVML or libcuda: short-lived children do, when there is a reason.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpuready import names
from gpuready.errors import ApiError, UsageError
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.contact import Contact
from gpuready.kube.errors import ApiStatusError, Away, is_passing
from gpuready.kube.events import EventRecorder
from gpuready.kube.resources import GPU_NODES, NODES
from gpuready.kube.trimmed import Node, decode_node
from gpuready.log import get_logger
from gpuready.loop_errors import LoopErrors
from gpuready.node.health_http import serve_health
from gpuready.node.inotify import Changes
from gpuready.node.links.cuda import Asking, CudaChild
from gpuready.node.links.driver import DriverLink, Look, NvmlChild
from gpuready.node.root import Root
from gpuready.operands.node_agent import decision
from gpuready.operands.node_agent.allocations import RECORD, Allocations
from gpuready.operands.node_agent.decision import Judgement, View
from gpuready.operands.node_agent.holders import find_holders, list_holders
from gpuready.operands.node_agent.keeper import RETRY_S, Keeper, without_files
from gpuready.operands.node_agent.observer import Observer, Settling
from gpuready.operands.node_agent.reporter import Reporter
from gpuready.operands.node_agent.settings import Settings

TICK_S = 1.0
STALLED_AFTER_S = 30.0
UNTOLD_AFTER_S = 30.0  # refused that long, what the GPUNode says of the node is taken for what it was
PLUGIN_PATIENCE_S = 30.0  # an uninstall waits so long for the device plugin to stop
PLUGIN_QUIET_S = 1.0  # and so long after its last word, which may not have been the last
FIRST_RETRY_S, LONGEST_RETRY_S = 0.5, 15.0
_SETTLED_WORLD_S = 0.01  # one wake-up for a burst of events


def main(env: Mapping[str, str]) -> int:
    settings = Settings.from_env(env)
    if not settings.node_name:
        raise UsageError("NODE_NAME is not set", next_step="set it from spec.nodeName in the pod")
    asyncio.run(_serve(settings, Root.from_env(env)))
    return 0


async def _serve(settings: Settings, root: Root) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrors(get_logger("node-agent"), tracebacks=True))
    client = KubeClient.in_cluster("gpuready-node-agent")
    agent = Agent(settings, root, client)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    health = await serve_health(
        settings.pod_ip or "0.0.0.0",
        names.NODE_AGENT_HEALTH_PORT,
        healthy=agent.is_healthy,
        ready=agent.is_ready,
        patience_s=2.0,
    )
    try:
        await agent.run()
    finally:
        health.close()
        await client.close()


class Agent:
    """Wires observer, keeper and reporter to what wakes them."""

    def __init__(
        self,
        settings: Settings,
        root: Root,
        client: KubeClient,
        *,
        child: NvmlChild | None = None,
        cuda_child: CudaChild | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = get_logger("node-agent", node=settings.node_name)
        self._clock = clock
        selector = f"metadata.name={settings.node_name}"
        contact = Contact(self._log)
        self._nodes: WatchCache[Node] = WatchCache(
            client, NODES, field_selector=selector, decode=decode_node, contact=contact
        )
        self._gpu_nodes: WatchCache[dict[str, Any]] = WatchCache(
            client, GPU_NODES, field_selector=selector, contact=contact
        )
        host = root.host()
        link = DriverLink(
            host,
            child or NvmlChild(deadline_s=settings.nvml_deadline_s),
            install_dir=settings.driver_install_dir,
            clock=clock,
        )
        self._observer = Observer(root, settings, link, self._nodes, self._gpu_nodes, clock, cuda_child)
        self._keeper = Keeper(self._observer, host, settings.driver_install_dir, self._log)
        events = EventRecorder(client, "gpuready-node-agent", instance=settings.node_name)
        self._reporter = Reporter(
            client, events, lambda: find_holders(root), clock=clock, now=_now, log=self._log
        )
        self._allocations = Allocations(
            settings.node_name,
            lambda: list_holders(root),
            events.event,
            self._observer.records_dir / RECORD,
            lambda: self._wake.set(),
            boot_id=self._observer.boot_id,
            clock=clock,
            log=self._log,
        )
        self._link = link
        self._wake, self._tell = asyncio.Event(), asyncio.Event()
        self._stop = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._proving: asyncio.Task[None] | None = None
        self._proved_driver = ("", "")
        self._latest: tuple[View, Judgement, dict[str, Any] | None] | None = None
        self._due_at = float("inf")
        self._ticked_at = clock()
        self._retired_at: float | None = None
        self._cleaned = False
        self._quiet = Settling(PLUGIN_QUIET_S)
        self._trouble = ""
        self._root = root
        self._cannot_keep = False
        self._nodes.add_handler(self._on_node)
        self._gpu_nodes.add_handler(lambda old, new: self._wake.set())

    def stop(self) -> None:
        self._stop.set()

    def is_healthy(self) -> tuple[bool, str]:
        stalled_s = self._clock() - self._ticked_at
        if stalled_s > STALLED_AFTER_S:
            return False, f"no look at the node for {stalled_s:.0f} s"
        return True, "looks at the node every second"

    def is_ready(self) -> tuple[bool, str]:
        for cache, what in ((self._nodes, "this node"), (self._gpu_nodes, "what is wanted of this node")):
            if not cache.synced:
                why = f": {cache.trouble}" if cache.trouble else ""
                return False, f"the API server has not shown {what} yet{why}"
        if self._latest is None:
            return False, "the node has not been judged yet"
        if refusal := self._reporter.find_refusal(UNTOLD_AFTER_S):
            return False, f"what it sees of this node cannot be told: {refusal}"
        return self.is_healthy()

    async def run(self) -> None:
        """Until `stop`; whatever goes wrong inside a loop ends the program, which is then started anew."""
        loops: list[Awaitable[None]] = [
            self._nodes.run(),
            self._gpu_nodes.run(),
            self._watch_files(),
            self._tick(),
            self._judge_loop(),
            self._report_loop(),
            self._allocations.run(),
        ]
        self._wake.set()
        tasks = [asyncio.ensure_future(loop) for loop in loops]
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
        finally:
            children = [task for task in (self._asking, self._proving) if task is not None]
            await _cancel([*tasks, stopped, *children])
            if self._cleaned:
                self._keeper.clean()

    # --- what wakes us -----------------------------------------------------------------------------------

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        """The kubelet writes its heartbeat every few seconds: no reason to look at anything."""
        if old is None or new is None or _telling(old) != _telling(new):
            self._wake.set()

    async def _watch_files(self) -> None:
        changes = Changes(self._observer.paths())
        try:
            while True:
                await changes.wait()
                self._wake.set()
                changes.set_paths(self._observer.paths())
        finally:
            changes.close()

    async def _tick(self) -> None:
        """The one place that looks again and again: the kernel sends no event for its modules."""
        while True:
            await asyncio.sleep(TICK_S)
            self._ticked_at = self._clock()
            if self._observer.kernel_has_changed() or self._clock() >= self._due_at:
                self._wake.set()

    # --- look, judge, keep -------------------------------------------------------------------------------

    async def _judge_loop(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(_SETTLED_WORLD_S)
            self._wake.clear()
            self._pass()

    def _pass(self) -> None:
        seen = self._observer.look()
        self._ask_nvml_if_needed(seen)
        view = self._observer.find_view(seen)
        self._due_at = self._observer.due_at
        if view is None:
            return
        judgement, gpu_node = decision.judge(view), self._observer.gpu_node()
        view = self._with_allocations(view, gpu_node)
        self._prove_cuda_if_needed(seen, view, judgement)
        if view.wishes.uninstall:
            try:
                self._retire(view)
            except OSError as exc:
                self._note_unwritable(exc)
        elif self._retired_at is None or view.gpu_node:
            # After an uninstall the GPUNode goes before we do: that is no reason to begin again.
            self._retired_at, self._cleaned = None, False
            judgement = self._keep(view, judgement)
        self._latest = (view, judgement, gpu_node)
        self._tell.set()

    def _with_allocations(self, view: View, gpu_node: Mapping[str, Any] | None) -> View:
        if view.wishes.uninstall or gpu_node is None:
            self._allocations.forget()
            return view
        self._allocations.see(view.record, (gpu_node.get("status") or {}).get("devices") or ())
        return replace(view, held=self._allocations.held)

    def _keep(self, view: View, judgement: Judgement) -> Judgement:
        """Keep the files; the judgement to tell, which is another when that is not possible."""
        try:
            self._keeper.keep(view, judgement, _now())
        except OSError as exc:
            self._note_unwritable(exc)
            return without_files(judgement, exc, str(self._root.base))
        self._cannot_keep = False
        return judgement

    def _note_unwritable(self, exc: OSError) -> None:
        """Said once; tried again after a while."""
        if not self._cannot_keep:
            self._log.error("files not kept", path=str(exc.filename), error=exc.strerror)
        self._cannot_keep = True
        self._due_at = min(self._due_at, self._clock() + RETRY_S)

    def _retire(self, view: View) -> None:
        """Undo our own part at once, the plugin's when it has stopped: until then it would write again."""
        self._retired_at = self._clock() if self._retired_at is None else self._retired_at
        self._keeper.retire(view)
        is_gone = decision.plugin_is_gone(view) and not self._observer.toolkit_journal.exists()
        gone_for_good = self._quiet.is_settled((is_gone, view.record), self._clock())
        patience_over_at = self._retired_at + PLUGIN_PATIENCE_S
        if (is_gone and gone_for_good) or self._clock() >= patience_over_at:
            self._keeper.clean()
            self._cleaned = True
        else:
            self._due_at = min(self._due_at, patience_over_at, self._quiet.due_at)

    def _ask_nvml_if_needed(self, seen: Look) -> None:
        if self._asking is not None and not self._asking.done():
            return
        if self._link.wants_asking(seen):
            self._asking = asyncio.create_task(self._ask_nvml(seen))

    async def _ask_nvml(self, seen: Look) -> None:
        try:
            await self._link.ask(seen)
        except OSError as exc:
            self._log.error("NVML child not started", error=str(exc))
            await asyncio.sleep(TICK_S)
        finally:
            self._wake.set()

    def _prove_cuda_if_needed(self, seen: Look, view: View, judgement: Judgement) -> None:
        """Beside everything else: no GPU waits for its proof to be offered."""
        if self._proving is not None and not decision.may_go_on_proving(view, self._proved_driver):
            self._proving.cancel()
        if (self._proving is not None and not self._proving.done()) or view.cuda.asking is None:
            return
        cuda, asking = self._observer.cuda, view.cuda.asking
        try:
            cuda.forget_gone(asking.subjects)
        except OSError as exc:
            self._note_unwritten_proofs(exc)
        if decision.may_prove(view, judgement) and cuda.due(asking):
            self._proved_driver = asking.driver
            self._proving = asyncio.create_task(self._prove_cuda(seen, asking))

    async def _prove_cuda(self, seen: Look, asking: Asking) -> None:
        try:
            await self._observer.cuda.run(self._link.driver_root(seen), asking)
        except OSError as exc:
            self._note_unwritten_proofs(exc)
        finally:
            self._wake.set()

    def _note_unwritten_proofs(self, exc: OSError) -> None:
        """They are known all the same; an agent that starts anew runs the programs again."""
        self._log.error("CUDA proofs not written down", path=str(exc.filename), error=exc.strerror)

    # --- tell --------------------------------------------------------------------------------------------

    async def _report_loop(self) -> None:
        retry_s, failed = FIRST_RETRY_S, 0
        while True:
            await self._tell.wait()
            self._tell.clear()
            try:
                wait_s = await self._report()
            except ApiError as exc:
                failed += 1
                asked_s = exc.retry_after if isinstance(exc, ApiStatusError) else None
                # Not all agents of a fleet together, when the API server is back.
                wait_s = max(retry_s * random.uniform(0.8, 1.2), asked_s or 0.0)
                retry_s = min(retry_s * 2, LONGEST_RETRY_S)
                if failed > 1 or not is_passing(exc):
                    self._complain(exc, wait_s)
            else:
                self._complain(None, 0.0)
                retry_s, failed = FIRST_RETRY_S, 0
            if wait_s > 0:
                asyncio.get_running_loop().call_later(wait_s, self._wake.set)

    async def _report(self) -> float:
        if self._latest is None:
            return 0.0
        view, judgement, gpu_node = self._latest
        if view.wishes.uninstall and gpu_node is not None:
            return await self._reporter.report_uninstalled(view, gpu_node) if self._cleaned else 0.0
        if self._retired_at is not None:
            return 0.0
        return await self._reporter.report(view, judgement, gpu_node)

    def _complain(self, exc: ApiError | None, retry_s: float) -> None:
        """Once per kind of trouble, and once when it is over; that the server is away, the watches say."""
        if isinstance(exc, Away):
            return
        trouble = str(exc) if exc is not None else ""
        if trouble and trouble != self._trouble:
            self._log.warning("API server not told", error=trouble, retry_in_s=round(retry_s, 1))
        elif self._trouble and not trouble:
            self._log.info("API server told")
        self._trouble = trouble


def _telling(node: Node) -> tuple[Any, ...]:
    """What of a Node can change a verdict or what we write."""
    there = node.condition(names.GPU_READY_CONDITION)
    said = (there.status, there.reason, there.message) if there else ()
    meta, status = node.metadata, node.status
    return meta.labels, meta.annotations, status.capacity, status.allocatable, node.ready, said


async def _cancel(tasks: list[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
