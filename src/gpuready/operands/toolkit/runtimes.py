"""The container runtimes of a node, as a transaction needs them: plan, ask, restart. Thin."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket as sockets
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.node import cri
from gpuready.node.cri import RuntimeSilent
from gpuready.node.inotify import Changes
from gpuready.node.kubelet.sockets import Directory
from gpuready.operands.toolkit import (
    crio,
    crio_api,
    docker,
    docker_api,
    dump,
    generated,
    host_files,
    json_file,
    toml_file,
)
from gpuready.operands.toolkit.containerd import plan as containerd
from gpuready.operands.toolkit.containerd.merge import merge
from gpuready.operands.toolkit.containerd.rules import Rules, rules_of
from gpuready.operands.toolkit.host_exec import Host, HostProgramError
from gpuready.operands.toolkit.layouts import ITSELF, Layout
from gpuready.operands.toolkit.plan import Plan, RefusedPlan, SettingChange, Wanted, differences
from gpuready.operands.toolkit.running import Running, missing, running_of
from gpuready.operands.toolkit.settings import CONTAINERD, CRIO, DOCKER, NONE, SIGNAL, SYSTEMD

DUMP_DEADLINE_S = 10.0
RESTART_DEADLINE_S = 30.0
_RELEASE = re.compile(r"\bv?\d+\.\d+\S*")
_LOOK_AGAIN_S = 0.5  # between two questions to a daemon that is starting: its socket is there before its CRI


@dataclass(frozen=True)
class Goal:
    """wanted   what it should know
    gone    True: it should know nothing of it any more (an uninstall)
    ours    what may differ in an uninstall: handlers that were somebody's before go back to what they were
    """

    wanted: Wanted
    gone: bool = False
    ours: Wanted | None = None

    def lacks(self, running: Running) -> list[str]:
        if not self.gone:
            return missing(running, self.wanted)
        return [
            f'handler "{name}" is still there' for name in self.wanted.handlers if name in running.handlers
        ]


class NodeRuntime:
    """One runtime with one goal; `version` as the running daemon told last."""

    def __init__(
        self, host: Host, layout: Layout, goal: Goal, *, restart_s: float, version: str = ""
    ) -> None:
        self.layout, self.goal = layout, goal
        self._host, self._restart_s = host, restart_s
        self.version = version
        self._dump: Mapping[str, Any] | None = None
        self._writes = False

    # --- reading and planning -----------------------------------------------------------------------------

    def parse(self, text: str, path: str) -> dict[str, Any]:
        if toml_file.is_template(path):
            return {}
        return json_file.parse(text, path) if json_file.is_json(path) else toml_file.parse(text, path)

    def files(self) -> dict[str, str]:
        """Path -> text of everything that decides. raises HostFileError"""
        tree, layout = self._host.tree, self.layout
        if layout.runtime == CONTAINERD:
            texts = host_files.with_imports(tree, layout.config, layout.drop_in)
            source = self._source(texts)
            told = host_files.read(tree, source.path) if source else None
            return {**texts, source.path: told} if source and told is not None else texts
        paths = [layout.config]
        if layout.drop_in:
            paths += host_files.below(tree, os.path.dirname(layout.drop_in))
        read = {path: host_files.read(tree, path) for path in paths}
        return {path: text for path, text in read.items() if text is not None}

    def plan(self, texts: Mapping[str, str]) -> Plan:
        """raises  RefusedPlan, ConfigFileError"""
        layout, wanted = self.layout, self.goal.wanted
        if layout.runtime == DOCKER:
            return docker.plan(layout.config, texts.get(layout.config), wanted)
        if layout.runtime == CRIO:
            self._refuse_signals()
            return crio.plan(crio.Files(layout.config, layout.drop_in, texts), wanted)
        source = self._source(texts)
        if source:
            return generated.plan(source, layout.config, texts, wanted, self.rules())
        return containerd.plan(containerd.Files(layout.config, layout.drop_in, texts), wanted, self.rules())

    def _refuse_signals(self) -> None:
        if self.layout.restart_mode != SIGNAL:
            return
        raise RefusedPlan(
            "CRI-O cannot be made to know new handlers by a signal",
            why="after SIGHUP it names them and starts no pod with them; ended by SIGTERM, it is not started "
            "again (its unit has Restart=on-failure)",
            next_step="set RUNTIME_RESTART_MODE to systemd, or to none and restart CRI-O yourself",
        )

    def is_generated(self, texts: Mapping[str, str]) -> bool:
        """The root says what the distribution made of it at its last start, not what it will make next."""
        source = self._source(texts)
        return source is not None and not source.read

    def _source(self, texts: Mapping[str, str]) -> generated.Source | None:
        """Where the distribution takes the root from; None where it is no distribution's."""
        rules = rules_of(self.version)
        if rules is None or self.layout.runtime != CONTAINERD:
            return None
        layout = self.layout
        text = texts.get(layout.config, "")
        return generated.source_of(layout.name, layout.config, text, layout.drop_in, rules)

    def settings_between(
        self, before: Mapping[str, str], after: Mapping[str, str]
    ) -> tuple[SettingChange, ...]:
        """Settings in force that differ between two states of the files. raises ConfigFileError"""
        layout = self.layout
        if layout.runtime == CONTAINERD:
            rules = self.rules()
            old, new = (merge(layout.config, texts, rules) for texts in (before, after))
            return containerd.changed_settings(old, new, rules)
        return tuple(differences(self._told(before), self._told(after)))

    def _told(self, texts: Mapping[str, str]) -> dict[str, Any]:
        layout = self.layout
        if layout.runtime == CRIO:
            return crio.merged(crio.Files(layout.config, layout.drop_in, texts))
        return json_file.parse(texts.get(layout.config, ""), layout.config)

    def rules(self) -> Rules:
        """raises  RefusedPlan while nobody knows the version"""
        found = rules_of(self.version)
        if found is None:
            raise RefusedPlan(
                "the version of containerd is not known",
                why=f"it calls itself {self.version!r}"
                if self.version
                else f"neither the daemon nor {' or '.join(self.layout.programs)} tells it",
                next_step="check that containerd runs on this node",
            )
        return found

    async def learn_version(self) -> None:
        """From the program, where the daemon does not answer."""
        if self.version or self.layout.runtime != CONTAINERD:
            return
        program = self._program()
        if program:
            printed = await self._host.run([program, "--version"], deadline_s=DUMP_DEADLINE_S)
            found = _RELEASE.search(printed.decode(errors="replace"))
            self.version = found[0] if found else ""

    # --- asking the program -------------------------------------------------------------------------------

    async def prepare(self) -> None:
        self._writes = True
        self._dump = await self.dump()

    async def objections(self) -> list[str]:
        """raises  HostProgramError: it cannot read the files, or hangs over them"""
        if self.layout.runtime == CRIO:
            return await self._objections_of_crio()
        source = self._source(self.files())
        if source and not source.read:
            return []  # the files that it reads are not made yet
        after = await self.dump()
        if after is None:
            return []
        if self.goal.gone:
            return list(dump.lost(self._dump or {}, after, self.goal.ours or self.goal.wanted))
        return dump.problems(self._dump, after, self.goal.wanted)

    async def _objections_of_crio(self) -> list[str]:
        """`crio config` reads the files as the daemon will, and fails where that would not start."""
        program = self._program()
        if program:
            folder = os.path.dirname(self.layout.drop_in)
            root = ["--config", self.layout.config] if self._host.tree.exists(self.layout.config) else []
            argv = [program, *root, "--config-dir", folder, "config"]
            await self._host.run(argv, deadline_s=DUMP_DEADLINE_S)
        return []

    async def dump(self) -> Mapping[str, Any] | None:
        """Every setting as containerd reads it from its files; None where there is no such program."""
        program = self._program() if self.layout.runtime == CONTAINERD else ""
        if not program:
            return None
        argv = [program, "--config", self.layout.config, "config", self.rules().dump]
        printed = await self._host.run(argv, deadline_s=DUMP_DEADLINE_S)
        return toml_file.parse(printed.decode(errors="replace"), f"what {' '.join(argv)} prints")

    def _program(self) -> str:
        return next((path for path in self.layout.programs if self._host.tree.exists(path)), "")

    # --- the running daemon -------------------------------------------------------------------------------

    async def running(self) -> Running:
        """raises  RuntimeSilent"""
        path = self.socket_path()
        if self.layout.runtime == DOCKER:
            return await docker_api.ask(path)
        if self.layout.runtime == CRIO:
            return await crio_api.ask(path)
        found = running_of(await cri.ask(path))
        self.version = found.version or self.version
        return found

    def as_its_files_say(self) -> Running | None:
        """What CRI-O, which does not answer, would know; None of others, which the files tell less of."""
        if self.layout.runtime != CRIO:
            return None
        return crio.running_of(self._told(self.files()))

    async def knows(self) -> list[str]:
        return self.goal.lacks(await self.running())

    async def wait_until_it_knows(self) -> list[str]:
        return await self._wait(self.knows)

    async def wait_until_it_answers(self) -> bool:
        async def answers() -> list[str]:
            await self.running()
            return []

        return not await self._wait(answers)

    async def _wait(self, look: Callable[[], Any]) -> list[str]:
        """[] as soon as `look` gives that, else its last word when the time is over."""
        changes = Changes([self.socket_path()])
        last: list[str] = []
        try:
            async with asyncio.timeout(self._restart_s):
                while True:
                    try:
                        last = await look()
                    except RuntimeSilent as exc:
                        last = [f"{exc.what} ({exc.why})" if exc.why else exc.what]
                    if not last:
                        return []
                    await changes.wait(_LOOK_AGAIN_S)
        except TimeoutError:
            return [*last, f"waited {self._restart_s:g} s"]
        finally:
            changes.close()

    def socket_path(self) -> Path:
        return self._host.tree.resolve(self.layout.socket)

    # --- restarting ---------------------------------------------------------------------------------------

    async def restart(self) -> bool:
        """raises  HostProgramError, RuntimeSilent"""
        mode = self.layout.restart_mode
        if mode == NONE:
            return False
        if mode == ITSELF and self._writes and self._source(self.files()):
            return True  # it has seen the files change
        if mode in (SYSTEMD, ITSELF):
            await self._host.run(
                ["/usr/bin/systemctl", "restart", self.layout.service], deadline_s=RESTART_DEADLINE_S
            )
            return True
        self._signal()
        return True

    def _signal(self) -> None:
        """containerd ends, in order, and its supervisor starts it again; dockerd reads its file again.

        containerd knows no signal for reading its files anew: SIGHUP kills it as well, only not in order
        (real-parts.md §2).
        """
        number = signal.SIGHUP if self.layout.runtime == DOCKER else signal.SIGTERM
        pid = peer_of(self.socket_path())
        try:
            os.kill(pid, number)
        except OSError as exc:
            raise HostProgramError(
                f"the process behind {self.layout.socket} cannot be signalled",
                why=exc.strerror or str(exc),
                next_step="run the toolkit's pod with hostPID, or set RUNTIME_RESTART_MODE=systemd",
            ) from exc


def peer_of(path: Path) -> int:
    """Process that listens on a unix socket, as our own /proc numbers it. raises RuntimeSilent"""
    try:
        with Directory(path.parent) as directory, sockets.socket(sockets.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(directory.short(path.name))
            raw = client.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, struct.calcsize("3i"))
    except OSError as exc:
        raise RuntimeSilent(f"nobody listens on {path.name}", why=exc.strerror or str(exc)) from exc
    pid: int = struct.unpack("3i", raw)[0]
    if pid <= 1:
        raise RuntimeSilent(
            f"the process behind {path.name} is not visible",
            why="this pod has a process namespace of its own",
        )
    return pid


def find_low_level(host: Host, candidates: tuple[str, ...]) -> str:
    """Path on the host of the first program that is there. raises GPUReadyError"""
    folders = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/bin", "/sbin", "/opt/bin")
    others = ("/usr/libexec/crio", "/var/lib/rancher/k3s/data/current/bin", "/var/lib/rancher/rke2/bin")
    more = ("/var/lib/k0s/bin", "/snap/microk8s/current/bin")
    for candidate in candidates:
        paths = (
            [candidate]
            if candidate.startswith("/")
            else [f"{f}/{candidate}" for f in (*folders, *others, *more)]
        )
        for path in paths:
            if host.tree.exists(path):
                return path
    raise GPUReadyError(
        "the node has no low-level runtime: " + ", ".join(candidates) + " not found",
        why="the handlers run it",
        next_step="install runc, or name the program's path in NVIDIA_CONTAINER_RUNTIME_RUNTIMES",
    )
