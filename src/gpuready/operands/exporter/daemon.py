"""The exporter's program: gathers what was seen and who holds it, has the page made, serves it. Thin.

The collector's thread alone calls NVML and hands over one `Collection` for each interval. The page is made
then, from memory; a scrape gets bytes that are there already, whatever the driver or the kubelet do.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpuready.gpu.telemetry.fields import field_of, own_fields
from gpuready.gpu.telemetry.history import Windows
from gpuready.gpu.telemetry.model import Collection, Field
from gpuready.gpu.telemetry.reader import Reader
from gpuready.log import get_logger
from gpuready.loop_errors import LoopErrors
from gpuready.node.inotify import Changes
from gpuready.node.operand_records import EXPORTER, path_of
from gpuready.node.root import Root, boot_id
from gpuready.operands.exporter import jobs, pods
from gpuready.operands.exporter.attribution import Pairs, may_be_gpu
from gpuready.operands.exporter.collector import Collector
from gpuready.operands.exporter.compose import Known, families_of, without_samples
from gpuready.operands.exporter.counters_file import CountersFile
from gpuready.operands.exporter.driver_watch import DriverWatch
from gpuready.operands.exporter.families import FB_USED, GPU_UTIL, Listed, Style
from gpuready.operands.exporter.health import Facts, Health, judge
from gpuready.operands.exporter.holders import Holders
from gpuready.operands.exporter.listening import Listening
from gpuready.operands.exporter.page import Page
from gpuready.operands.exporter.pod_labels import PodLabels
from gpuready.operands.exporter.recorder import Recorder
from gpuready.operands.exporter.selection import numbers_missing, parse_selection, repeated, selected
from gpuready.operands.exporter.self_metrics import Counted
from gpuready.operands.exporter.settings import Settings
from gpuready.operands.exporter.source import source_of
from gpuready.operands.exporter.web import Web

TICK_S = 5.0  # for what nothing announces: a look that is overdue, another kernel module
KUBELET_S = 0.5  # so long a page waits for the kubelet's answer; a later one counts for the next page

log = get_logger("exporter")


def run(settings: Settings, root: Root, web: Web) -> bool:
    """Until told to stop. True when the process should start anew to load another library."""
    return asyncio.run(_run(settings, root, web))


async def _run(settings: Settings, root: Root, web: Web) -> bool:
    daemon = Daemon(settings, root, web)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrors(log))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.look_again)
    return await daemon.run()


class Daemon:
    def __init__(self, settings: Settings, root: Root, web: Web) -> None:
        self._settings, self._root = settings, root
        self._host = root.host()
        boot = boot_id(root)
        self._loop = asyncio.get_running_loop()
        self._ends = asyncio.Event()
        self._restart = False
        self._failure: BaseException | None = None
        self._driver = DriverWatch(settings, root, boot)
        self._is_released = True
        self._collection: Collection | None = None
        self._collected_at = time.monotonic()
        self._health = judge(Facts(waiting=self._driver.waiting))
        self._counted = Counted()
        self._page = Page(())
        self._is_stale = False
        self._known = Known()
        self._wants_page = False
        self._making: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._counters = CountersFile(settings, root)
        self._holders = _holders(settings, root) if settings.kubernetes else None
        self._allowed = [re.compile(pattern) for pattern in settings.pod_label_allowlist]
        records = root.join(settings.records_dir) if settings.records_dir else None
        self._recorder = Recorder(path_of(records, EXPORTER) if records else None, boot)
        self._listening = Listening(settings, web, lambda: self._page, self._health_now, self._say)
        self._selection = parse_selection(settings.devices)
        self._missing: Sequence[int] = ()
        self._pod_labels = PodLabels(settings.node_name) if settings.pod_labels else None
        windows = Windows(settings.xid_window_ms / 1000, settings.clock_events_window_ms / 1000)
        nvml = Reader(lambda: self._driver.tree, time, windows, self._driver.is_removed)
        self._reader = source_of(settings, root, nvml, lambda: self._driver.tree)
        self._collector = Collector(
            self._reader, (), settings.interval_s, self._tell, clock=time, failed=self._look_failed
        )

    # --- life -------------------------------------------------------------------------------------------
    async def run(self) -> bool:
        changes = Changes()
        self._look_at_files()
        self._make_page()
        self._collector.start()
        reached = [self._listening.listen(), self._listening.answer_probes()]
        loops = [*reached, self._follow(changes), self._tick()]
        if self._pod_labels is not None:
            loops.append(self._pod_labels.run())
        tasks = [asyncio.create_task(loop) for loop in loops]
        for task in tasks:
            task.add_done_callback(self._task_ended)
        try:
            await self._ends.wait()
        finally:
            for running in (*tasks, self._making, self._asking):
                if running is not None:
                    running.cancel()
            await self._end()
            changes.close()
        if self._failure is not None:
            raise self._failure
        return self._restart

    def stop(self) -> None:
        self._ends.set()

    def look_again(self) -> None:
        self._look_at_files(again=True)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """All but the one that listens run for ever: one that fails takes the daemon with it."""
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failure = failure
            self.stop()

    async def _end(self) -> None:
        self._collector.stop()
        await self._listening.close()
        if self._holders is not None:
            self._holders.close()
        await asyncio.to_thread(self._collector.join, 2.5)
        if not self._restart:
            self._recorder.remove()

    # --- files ------------------------------------------------------------------------------------------
    async def _follow(self, changes: Changes) -> None:
        while True:
            changes.set_paths([*self._driver.paths, *self._counters.paths])
            self._look_at_files()
            await changes.wait()
            await asyncio.sleep(0.02)  # files that change together are looked at once

    def _look_at_files(self, *, again: bool = False) -> None:
        """The gate, the driver behind it, and the counters."""
        self._driver.look()
        was_released, self._is_released = self._is_released, bool(self._driver.waiting or self._driver.paused)
        if self._is_released:
            self._reader.release()
        else:
            self._reader.resume()
        is_back = was_released and not self._is_released
        if self._counters.read(again=again) or is_back:
            self._collector.use(self._fields())  # at once, not only when the next look is due
        self._say()

    def _fields(self) -> list[Field]:
        """Those of the CSV, our own, and the two that what pods use is measured by."""
        return [*self._counters.counters.fields, *own_fields(), field_of(FB_USED), field_of(GPU_UTIL)]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(min(TICK_S, self._settings.interval_s))
            if self._driver.has_changed:
                self._look_at_files()
            self._listening.renew()
            if self._is_overdue() and not self._is_stale:
                self._make_page()
            self._say()

    # --- looks at the GPUs ------------------------------------------------------------------------------
    def _tell(self, collection: Collection) -> None:
        """Called in the collector's thread."""
        try:
            self._loop.call_soon_threadsafe(self._take, collection)
        except RuntimeError:
            pass  # the loop is closed: we are ending

    def _look_failed(self, exc: Exception) -> None:
        """Called in the collector's thread, for what NVML alone cannot cause."""
        log.error("a look at the GPUs failed", error=type(exc).__name__, reason=str(exc))

    def _take(self, collection: Collection) -> None:
        if self._reader.outdated:
            self._restart = True
            self.stop()
        self._collection, self._collected_at = collection, time.monotonic()
        self._counted = replace(self._counted, collections=self._counted.collections + 1)
        missing = numbers_missing(collection, self._selection)
        if missing and missing != self._missing:
            log.warning("devices that are asked for are not there", numbers=missing)
        self._missing = missing
        self._counters.compare(collection)
        self._wants_page = True
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make_pages())
            self._making.add_done_callback(self._task_ended)

    async def _make_pages(self) -> None:
        """One for each collection; for two that come together, one of the second."""
        while self._wants_page:
            self._wants_page = False
            if self._holders is not None:
                await self._ask_kubelet(self._holders)
                self._known = await asyncio.to_thread(self._know_pods, self._collection or Collection())
            self._make_page()
            self._say()

    async def _ask_kubelet(self, holders: Holders) -> None:
        """At most one question at a time, and not much of a page's time for its answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(holders.ask())
            self._asking.add_done_callback(self._task_ended)
            await asyncio.wait([self._asking], timeout=min(KUBELET_S, self._settings.interval_s / 2))

    def _know_pods(self, collection: Collection) -> Known:
        by_uid = pods.pods_by_uid(self._host)
        pids = [process.pid for process in collection.processes]
        extra: dict[pods.PodKey, Pairs] = {}
        if self._settings.pod_uid:
            extra = {pod: (("pod_uid", uid),) for pod, uid in pods.uids_of(by_uid, self._host).items()}
        if self._pod_labels is not None:
            for pod, labels in self._pod_labels.labels().items():
                extra[pod] = extra.get(pod, ()) + pods.label_pairs(labels, self._allowed)
        return Known(pods.pods_of(self._host, pids, by_uid), extra)

    # --- the page ---------------------------------------------------------------------------------------
    def _make_page(self) -> None:
        started = time.monotonic()
        self._is_stale = self._is_overdue()
        collection = self._collection or Collection(
            problem=self._driver.waiting or "nothing was looked at yet"
        )
        if self._is_stale:
            collection = without_samples(collection)
        if self._settings.mig_repeat_gpu_fields:
            collection = repeated(collection)
        style = self._style()
        collection = selected(collection, self._selection, style.labels)
        self._counted = replace(
            self._counted,
            holdings=self._holders.now if self._holders else None,
            rejected_lines=self._counters.counters.rejected,
            reloads=self._counters.reloads,
        )
        families = families_of(
            collection,
            self._known,
            style,
            self._counted,
            started,
            resource_names=self._settings.resource_names,
            claims=self._settings.dra,
        )
        self._page = Page(families, like=self._page)
        took = time.monotonic() - started
        self._counted = replace(self._counted, series=self._page.series, render_s=took)

    def _style(self) -> Style:
        settings = self._settings
        listed: dict[int, list[Listed]] = {}
        labels: dict[int, str] = {}
        for row in self._counters.counters.rows:
            if row.kind == "label":
                labels[row.field.id] = row.name
            else:
                listed.setdefault(row.field.id, []).append(Listed(row.name, row.kind, row.help))
        return Style(
            listed=listed,
            labels=labels,
            hostname="" if settings.no_hostname else _machine(settings),
            hostname_label=settings.hostname_label,
            view=settings.view,
            old_names=settings.old_namespace,
            replace_blanks=settings.replace_blanks,
            jobs=jobs.read_jobs(self._root.join(settings.hpc_job_dir)) if settings.hpc_job_dir else {},
        )

    # --- what we say of ourselves -----------------------------------------------------------------------
    def _is_overdue(self) -> bool:
        return self._age_s() > 2 * self._settings.interval_s + 1

    def _age_s(self) -> float:
        return time.monotonic() - self._collected_at

    def _health_now(self) -> Health:
        return judge(
            Facts(
                listening=self._listening.problem,
                waiting=self._driver.waiting,
                paused=self._driver.paused,
                counters=self._counters.trouble,
                kept=self._counters.kept,
                rejected=self._counters.rejected_lines,
                untold=tuple(map(str, self._counters.untold)),
                collection=self._collection,
                age_s=self._age_s(),
                interval_s=self._settings.interval_s + 0.5,
                pods=self._holders.now.problem if self._holders else "",
            )
        )

    def _say(self) -> None:
        """The record, and one line when something else is the matter than before."""
        before, self._health = self._health, self._health_now()
        if before.reason != self._health.reason:
            say = log.info if self._health.serves else log.warning
            say(
                "health",
                reason=self._health.reason,
                why=self._health.message,
                next_step=self._health.next_step,
            )
        self._recorder.write(self._health, may_make=self._driver.is_wanted)


def _holders(settings: Settings, root: Root) -> Holders:
    wanted = partial(may_be_gpu, resource_names=settings.resource_names)
    return Holders(root.join(settings.kubelet_socket), keep_s=settings.mapping_max_s, wanted=wanted)


def _machine(settings: Settings) -> str:
    """Whose GPUs these are."""
    return settings.engine_host or settings.node_name or socket.gethostname()
