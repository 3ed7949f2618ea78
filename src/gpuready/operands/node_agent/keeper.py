"""Keeps the node's files as the judgement says: gates with their records, wishes for the other daemons.

Local only: works the same while the API server is away. Writing what is already there writes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from gpuready import names
from gpuready.chain import cuda, driver
from gpuready.chain.device_plugin import PAUSED
from gpuready.chain.driver import Owner
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.gpu.tree import Tree
from gpuready.log import Logger
from gpuready.node import desired, gates
from gpuready.node.files import read_regular, sweep, write_if_changed
from gpuready.operands.node_agent.decision import Judgement, View
from gpuready.operands.node_agent.observer import Observer
from gpuready.operands.node_agent.wishes import PLUGIN, TOOLKIT

RETRY_S = 5.0  # no event tells that a full file system has room again
GATES = {
    Link.DRIVER: names.DRIVER_READY,
    Link.TOOLKIT: names.TOOLKIT_READY,
    Link.DEVICE_PLUGIN: names.PLUGIN_READY,
    Link.CUDA: names.CUDA_READY,
}


def without_files(judgement: Judgement, exc: OSError, root: str) -> Judgement:
    """The judgement of a node whose files cannot be kept: no daemon learns what is wanted of it.

    root  where we see "/", so that the path is named as the host does
    """
    path = str(exc.filename or "").removeprefix(root.rstrip("/")) or "the node's files"
    broken = Verdict(
        Link.DEVICE_PLUGIN,
        State.BROKEN,
        "HostFilesNotWritable",
        f"the node agent cannot write {path}: {exc.strerror}",
        next_step="check on the node that /run/gpuready, /run/nvidia and /var/lib/gpuready are directories "
        "on a writable file system with room left",
    )
    by_link = {**judgement.by_link, Link.DEVICE_PLUGIN: broken}
    return Judgement(tuple(by_link[verdict.link] for verdict in judgement.verdicts), judgement.owner, by_link)


class Keeper:
    def __init__(self, observer: Observer, host: Tree, install_dir: str, log: Logger) -> None:
        self._where = observer
        self._host, self._install_dir = host, install_dir
        self._log = log
        for folder in (observer.desired_dir, observer.records_dir, observer.last_known_dir):
            sweep(folder)

    def keep(self, view: View, judgement: Judgement, now: str) -> None:
        """Gates and wishes of a node in service."""
        if not view.machine.pci_addresses:
            return
        for link, gate in GATES.items():
            if view.wishes.gates:
                self._keep_gate(view, judgement, link, gate, now)
            elif view.wishes.gates is False:
                gates.disown(self._where.gates_dir, gate)
        self._keep_wish(view)
        self._keep_toolkit_wish(view)
        self._keep_pause(view)

    def retire(self, view: View) -> None:
        """Take away what we wrote: gates and wishes, last known ones too; the toolkit is told to go."""
        for gate in GATES.values():
            gates.remove(self._where.gates_dir, gate)
        shutil.rmtree(self._where.last_known_dir, ignore_errors=True)
        desired.remove(self._where.desired_dir, PLUGIN)
        self._wish_toolkit_away(view)
        if not view.toolkit_installed:
            shutil.rmtree(self._where.desired_dir, ignore_errors=True)

    def clean(self) -> None:
        """Take away what the device plugin left: its records and its CDI spec."""
        if self._where.cdi_file.exists() or self._where.records_dir.exists():
            self._log.info("node cleaned", reason="uninstall")
        for file in self._where.cdi_files:
            file.unlink(missing_ok=True)
        shutil.rmtree(self._where.records_dir, ignore_errors=True)

    def _keep_gate(self, view: View, judgement: Judgement, link: Link, gate: str, now: str) -> None:
        verdict = judgement.of(link)
        if link is Link.TOOLKIT and verdict.state is State.NOT_CHECKED:
            gates.remove(self._where.gates_dir, gate)  # nobody teaches the runtime anything here
            return
        version = view.driver.module_version or driver.tree_of(view.driver).version
        directory = self._where.gates_dir
        is_open = verdict.is_whole or verdict.reason == cuda.NOT_WANTED
        if is_open:
            changed = gates.open_gate(
                directory,
                gate,
                verdict,
                content=self._content_of(link, judgement.owner),
                boot_id=view.boot_id,
                driver_version=version,
                time=now,
            )
        else:
            changed = gates.close_gate(
                directory, gate, verdict, boot_id=view.boot_id, driver_version=version, time=now
            )
        if changed:
            self._log.info("gate kept", gate=gate, open=is_open, reason=verdict.reason)

    def _content_of(self, link: Link, owner: Owner) -> str:
        if link is not Link.DRIVER:
            return ""
        return gates.driver_ready(
            host_driver=owner is Owner.HOST,
            install_dir=self._install_dir,
            has_own_dev=self._host.exists(f"{self._install_dir}/dev"),
        )

    def _keep_wish(self, view: View) -> None:
        wish = view.wishes.plugin
        if wish is None or not view.wishes.plugin_enabled:
            desired.remove(self._where.desired_dir, PLUGIN)
            if wish is not None:
                desired.remove(self._where.last_known_dir, PLUGIN)
            return
        if desired.write(self._where.desired_dir, wish):
            self._log.info("wish written", operand=PLUGIN, config=wish.config_name, source=str(wish.source))
        if wish.source is desired.Source.API:
            desired.write(self._where.last_known_dir, wish)

    def _keep_toolkit_wish(self, view: View) -> None:
        """Without a word from the API server the file stays: taking it away undoes the toolkit's work."""
        if view.wishes.toolkit is not None:
            if desired.write(self._where.desired_dir, view.wishes.toolkit):
                self._log.info("wish written", operand=TOOLKIT)
        elif view.wishes.toolkit_wanted is False:
            self._wish_toolkit_away(view)

    def _wish_toolkit_away(self, view: View) -> None:
        """In words, for a toolkit that starts anew in the middle of its undoing."""
        if view.toolkit_installed:
            desired.write(
                self._where.desired_dir, desired.Desired(TOOLKIT, view.boot_id, config=desired.AWAY)
            )
        else:
            desired.remove(self._where.desired_dir, TOOLKIT)

    def _keep_pause(self, view: View) -> None:
        """A paused device plugin makes room for another driver: what else of ours holds it lets go too.

        The label takes the plugin's pod away; the exporter stays, and follows this file. One that somebody
        else has written is his to take away. Without a word from the API server it stays as it is.
        """
        if view.node is None:
            return
        file = self._where.desired_dir / Path(names.PAUSE_FILE).name
        why = _pause_of(view.node.metadata.labels)
        if why:
            if not file.exists() and write_if_changed(file, why.encode()):
                self._log.info("driver let go", reason=why)
        elif _is_our_pause(file):
            file.unlink(missing_ok=True)
            self._log.info("driver may be held again")


def _pause_of(labels: Mapping[str, str]) -> str:
    value = labels.get(names.DEPLOY_DEVICE_PLUGIN, "")
    return f"{_OUR_PAUSE}{value}" if value.startswith(PAUSED) else ""


def _is_our_pause(file: Path) -> bool:
    try:
        return read_regular(file).startswith(_OUR_PAUSE.encode())
    except OSError:
        return False


_OUR_PAUSE = f"node label {names.DEPLOY_DEVICE_PLUGIN}="
