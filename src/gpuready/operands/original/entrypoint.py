"""The script that starts a program of the original's images, in a ConfigMap of its own. Pure.

It waits until the driver is there, exports what `driver-ready` says of it, and becomes the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.original.containers import ROOT_ONLY, config_map, config_volume, mount
from gpuready.operands.original.scripts import VALIDATIONS, wait_for

SCRIPT, PLACE = "entrypoint.sh", "/bin/entrypoint.sh"


@dataclass(frozen=True)
class Entrypoint:
    """
    name     of the ConfigMap, and of the volume that it is in the pod
    program  what the script becomes
    before   lines of shell before that
    """

    name: str
    program: str
    before: str = ""

    @property
    def text(self) -> str:
        gate = f"{VALIDATIONS}/driver-ready"
        lines = ["#!/bin/sh", "set -u", wait_for(gate, "the driver"), "set -a", f". {gate}", "set +a"]
        return "\n".join([*lines, *([self.before] if self.before else []), f'exec {self.program} "$@"', ""])

    def config(self, view: ClusterView, app: str) -> KubeObject:
        return config_map(self.name, {SCRIPT: self.text}, view, {"app": app})

    def volume(self) -> KubeObject:
        return config_volume(self.name, self.name, mode=ROOT_ONLY)

    def mount(self) -> KubeObject:
        return mount(self.name, PLACE, read_only=True, key=SCRIPT)

    def started(self, args: Sequence[str]) -> dict[str, list[str]]:
        """Command and args of the container.

        The original puts the policy's args in the place of the script, where the shell takes them for a
        command and the container ends. Here they reach the program.
        """
        if not args:
            return {"command": ["/bin/sh", "-c"], "args": [PLACE]}
        return {"command": ["/bin/sh", PLACE], "args": list(args)}
