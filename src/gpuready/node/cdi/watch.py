"""Keep the node's CDI specs true while driver, devices, MIG and mounts come and go.

Files and devices tell by inotify, mounts by poll() on mountinfo. /proc and /sys tell nothing: a stamp of what
matters there is compared once a second, by whoever has that second (`tick`).
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpuready.gpu.cdi.build import Built, build
from gpuready.gpu.cdi.capabilities import CAPABILITIES_DIR
from gpuready.gpu.driver_files import (
    LIBRARY_DIRS,
    MODULE_VERSION_FILES,
    OTHER_LIBRARY_DIRS,
    find_nvml_library,
)
from gpuready.gpu.ld_cache import CACHE_FILE
from gpuready.gpu.tree import Tree
from gpuready.node.cdi.files import Outcome, SpecFiles
from gpuready.node.cdi.place import Settings, place_of, tree_at
from gpuready.node.inotify import Changes
from gpuready.node.links.driver import NvmlChild
from gpuready.node.root import Root

_DEVICE_DIRS = ("/dev", "/dev/dri", "/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels", "/dev/infiniband")
_SOCKET_DIRS = ("/run/nvidia-persistenced", "/run/nvidia-fabricmanager")
TICK_S = 1.0


class CdiKeeper:
    """`await keeper.run()` until cancelled; `refresh()` for one pass.

    host   the host's tree
    files  where specs go
    tell   called with each outcome that differs from the one before
    """

    def __init__(
        self,
        host: Root,
        files: SpecFiles,
        settings: Settings | None = None,
        *,
        child: NvmlChild | None = None,
        tell: Callable[[Outcome], None] = lambda outcome: None,
        tick_s: float = TICK_S,
    ) -> None:
        self._host = host
        self._files = files
        self._settings = settings or Settings()
        self._child = child or NvmlChild()
        self._tell = tell
        self._tick_s = tick_s
        self._told: Outcome | None = None
        self._answered = True
        self._try_again = False

    async def refresh(self) -> Outcome:
        """Look at everything, ask NVML, bring the files up to date."""
        outcome = self._files.bring_up_to_date(await self._built())
        self._try_again = outcome.is_unwritten or not self._answered
        if self._told is None or outcome.changed or outcome.kinds != self._told.kinds:
            self._told = outcome
            self._tell(outcome)
        return outcome

    async def run(self) -> None:
        changes = Changes(self._watched())
        mounts = Mounts(self._host)
        folder = Changes([self._files.folder])
        self._told = None  # who runs us again wants to hear how it is
        try:
            while True:
                stamp = kernel_stamp(self._host)
                await self.refresh()
                if changes.set_paths(self._watched()):
                    continue
                await self._something(changes, mounts, folder, stamp)
                await self._quiet(changes)
        finally:
            mounts.close()
            folder.close()
            changes.close()

    async def _built(self) -> Sequence[Built]:
        place = place_of(self._host, self._settings)
        library = find_nvml_library(place.driver, place.library_dirs)
        if library is None:
            self._answered = True  # nobody to ask; a library that comes is seen
            return build(place, None, self._settings.wishes)
        answer = await self._child.ask(place.driver.base, self._host.base)
        self._answered = answer.inventory is not None
        gpus = answer.inventory.gpus if answer.inventory else None
        return build(place, gpus, self._settings.wishes, answer.nvml.text)

    async def _something(
        self, changes: Changes, mounts: Mounts, folder: Changes, stamp: tuple[Any, ...]
    ) -> None:
        """Return when another look is worthwhile."""
        waits = [
            asyncio.ensure_future(self._disturbed(folder)),
            asyncio.ensure_future(changes.wait()),
            asyncio.ensure_future(mounts.changed()),
            asyncio.ensure_future(self._kernel_differs(stamp)),
        ]
        retry = self._settings.retry_s if self._try_again else None
        try:
            await asyncio.wait(waits, timeout=retry, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _disturbed(self, folder: Changes) -> None:
        """Specs of single claims come and go there all day: nobody is asked for these."""
        while True:
            await folder.wait()
            if self._files.is_disturbed():
                return

    async def _kernel_differs(self, stamp: tuple[Any, ...]) -> None:
        while kernel_stamp(self._host) == stamp:
            await asyncio.sleep(self._tick_s)

    async def _quiet(self, changes: Changes) -> None:
        while await changes.wait(self._settings.settle_s):
            pass

    def _watched(self) -> list[Path]:
        roots = dict.fromkeys(
            (self._settings.driver_root,) if self._settings.driver_root else (self._settings.install_dir, "/")
        )
        trees = [tree_at(self._host, root) for root in roots]
        folders = self._settings.library_dirs or (*LIBRARY_DIRS, *(each for each, _ in OTHER_LIBRARY_DIRS))
        found = [
            tree.resolve_if_possible(path) for tree in trees for path in (*folders, CACHE_FILE, *_DEVICE_DIRS)
        ]
        found += [self._host.resolve_if_possible(path) for path in (*_DEVICE_DIRS, *_SOCKET_DIRS)]
        found += [self._host.resolve_if_possible(path) for path in self._settings.hooks]
        return list(dict.fromkeys(found))


class Mounts:
    """Wakes when something was mounted or unmounted in our view: a driver's container coming and going."""

    def __init__(self, host: Root) -> None:
        self._epoll = select.epoll()
        self._file: int | None = None
        try:
            self._file = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
            # The file is always readable; what changes is its "exceptional condition".
            self._epoll.register(self._file, select.EPOLLPRI | select.EPOLLERR | select.EPOLLET)
            self._epoll.poll(0)
        except OSError:
            pass  # no /proc: then nothing tells, and a change of files still does

    async def changed(self) -> None:
        loop = asyncio.get_running_loop()
        seen = asyncio.Event()
        loop.add_reader(self._epoll.fileno(), seen.set)
        try:
            await seen.wait()
            self._epoll.poll(0)
        finally:
            loop.remove_reader(self._epoll.fileno())

    def close(self) -> None:
        self._epoll.close()
        if self._file is not None:
            os.close(self._file)


def kernel_stamp(host: Tree) -> tuple[Any, ...]:
    """What /proc says of module and MIG, unparsed."""
    base = str(host.base).rstrip("/")
    versions = tuple(_bytes_of(f"{base}{path}") for path in MODULE_VERSION_FILES)
    return versions, tuple(_below(f"{base}{CAPABILITIES_DIR}", 4))


def _below(folder: str, levels: int) -> list[str]:
    """gpu0/mig/gi1/ci0: instances appear and vanish as directories."""
    try:
        names_here = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [f"{folder}/{name}" for name in names_here]
    if levels > 1:
        for path in list(found):
            found += _below(path, levels - 1)
    return found


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(4096)
    except OSError:
        return b""
