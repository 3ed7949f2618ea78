"""The driver as its files on the node show it: where it is, and why it is not to be held."""

from __future__ import annotations

from pathlib import Path

from gpuready import names
from gpuready.gpu.nvml import short_pci_address
from gpuready.gpu.tree import Tree
from gpuready.node import driver_place
from gpuready.node.driver_gate import Gate, read_gate
from gpuready.node.files import read_regular
from gpuready.node.root import Root
from gpuready.operands.exporter.settings import Settings


class DriverWatch:
    """look() whenever something may have changed; the rest is as of then, save `paused`."""

    def __init__(self, settings: Settings, root: Root, boot: str) -> None:
        self._root, self._host, self._boot = root, root.host(), boot
        self._named_root = settings.driver_root
        self._gates = root.join(settings.gates_dir) if settings.gates_dir else None
        self._gate = Gate(waiting="not looked yet") if self._gates else Gate()
        self._driver = driver_place.find_driver(self._host, None)
        self._module_stamp = b""

    def look(self) -> None:
        self._module_stamp = driver_place.module_stamp(self._host)
        self._gate = read_gate(self._gates, self._boot, self._gate)
        named = self._named_root or self._gate.driver_root
        self._driver = driver_place.find_driver(self._host, named)

    @property
    def tree(self) -> Tree:
        return self._driver.tree

    @property
    def has_changed(self) -> bool:
        """Whether another kernel module is loaded, which nothing announces."""
        return driver_place.module_stamp(self._host) != self._module_stamp

    @property
    def waiting(self) -> str:
        """Why the driver is not to be held: the gate, or that it is being changed under us.

        A kernel module that somebody holds cannot be replaced, so nobody may wait for the other.
        """
        library, module = self._driver.version, self._driver.module
        if self._gate.waiting or not (library and module) or library == module:
            return self._gate.waiting
        return f"the driver's library is {library} and its module {module}: it is let go until both agree"

    @property
    def paused(self) -> str:
        """Why the driver must be let go for a while, as whoever is about to change the GPUs wrote it."""
        try:
            text = read_regular(self._root.join(names.PAUSE_FILE)).decode(errors="replace")
        except OSError:
            return ""
        return text.strip()[:200] or "nothing was said"

    @property
    def is_wanted(self) -> bool:
        """False once an uninstall has taken the gate away."""
        return self._gates is None or (self._gates / names.DRIVER_READY).exists()

    @property
    def paths(self) -> list[Path]:
        """What changes when the driver does."""
        named = self._named_root or self._gate.driver_root
        return [
            *([self._gates / names.DRIVER_READY] if self._gates else []),
            *driver_place.watched_paths(self._host, named),
            self._root.join(names.PAUSE_FILE),
        ]

    def is_removed(self, bus_id: str) -> bool:
        """Whether the kernel module no longer has this GPU. Called in the collector's thread."""
        return not driver_place.is_bound(self._host, short_pci_address(bus_id))
