"""The node's CDI specs and the hook that they name, while they are wanted. Thin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpuready import names
from gpuready.errors import InternalError
from gpuready.gpu.cdi.build import Place
from gpuready.log import get_logger
from gpuready.node.cdi.files import RECORD_NAME, Outcome, SpecFiles
from gpuready.node.cdi.hook import install_hook, remove_hook
from gpuready.node.cdi.place import Settings
from gpuready.node.cdi.watch import CdiKeeper
from gpuready.node.root import Root, boot_id
from gpuready.operands.toolkit.settings import Settings as ToolkitSettings

RETRY_S = 5.0  # nothing tells that what was in the way has gone
log = get_logger("toolkit")


class Specs:
    """`keep()` as often as one likes: one task does the work; `remove()` ends it and undoes it."""

    def __init__(
        self, settings: ToolkitSettings, root: Root, changed: Callable[[], None] = lambda: None
    ) -> None:
        """changed  called when `problems` may be others: why the specs are not kept. How they are themselves
        stands in their record, `cdi.json`, and is judged by the chain.
        """
        self.problems: tuple[str, ...] = ()
        self._changed = changed
        self._host = root.host()
        self._hook = f"{settings.install_dir}/toolkit/nvidia-cdi-hook"
        folder = self._host.resolve(names.CDI_DIRS[-1])
        record = root.join(settings.records_dir or names.RECORDS_DIR) / RECORD_NAME
        self._files = SpecFiles(self._host, folder, record, boot_id=boot_id(root))
        wanted = Settings(
            driver_root=settings.driver_root,
            install_dir=settings.driver_install_dir,
            library_dirs=settings.library_dirs,
            hooks=(self._hook, *Place.hooks),
        )
        self._keeper = CdiKeeper(self._host, self._files, wanted, tell=self._tell)
        self._task: asyncio.Task[None] | None = None

    def keep(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """The specs stay: containers start while our pod is replaced."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def remove(self) -> None:
        await self.stop()
        self.problems = ()
        gone = self._files.remove_all()
        if remove_hook(self._host.resolve(self._hook)):
            gone.append(self._hook)
        if gone:
            log.info("CDI specs removed", files=gone)

    async def _run(self) -> None:
        if reason := install_hook(self._host.resolve(self._hook)):
            log.warning("CDI hook not installed", file=self._hook, reason=reason)
        while True:
            try:
                await self._keeper.run()
            except OSError as exc:
                self._cannot_follow(exc.strerror or str(exc))
            except Exception as exc:  # a mistake of ours: the runtime's configuration is kept all the same
                log.exception("CDI specs not followed")
                self._cannot_follow(InternalError.of(exc).what)
            await asyncio.sleep(RETRY_S)

    def _cannot_follow(self, reason: str) -> None:
        problems = (f"the CDI specs are not followed: {reason}",)
        if problems != self.problems:
            log.warning("CDI specs not followed", reason=reason, retry_in_s=RETRY_S)
        self.problems = problems
        self._changed()

    def _tell(self, outcome: Outcome) -> None:
        if outcome.changed:
            log.info("CDI specs written", files=list(outcome.changed))
        for problem in outcome.problems:
            log.warning("CDI spec not made anew", reason=problem)
        self.problems = ()
        self._changed()
