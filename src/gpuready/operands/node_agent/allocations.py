"""How many replicas of each GPU pods hold, and which pod got one GPU more than once.

The kubelet is asked when the plugin's record tells of an Allocate, when a plugin is back that may have died
with one untold and, while something is held, every `RELEASE_S`, since nothing announces a release. A node on
which no pod has asked for a GPU asks nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.gpu.sharing import device_of
from gpuready.log import Logger
from gpuready.node.files import find_object, write_if_changed
from gpuready.operands.node_agent.events import SAME_GPU, WARNING, repeated_gpu
from gpuready.operands.node_agent.holders import Holding

RELEASE_S = 30.0
SOON_S = 0.3  # the kubelet lists a pod's devices a moment after Allocate has been answered
PAUSE_S = 5.0  # between two looks in a burst of pods
HURRY_S = 1.0  # the same while a pod is sought, which may be a short one
PATIENCE_S = 15.0  # a pod not found for so long has ended
RECORD = "node-agent.json"
NEVER = float("inf")

Row = Mapping[str, Any]
Tell = Callable[[Mapping[str, Any], str, str, str], Awaitable[None]]


class Allocations:
    """`see` each record, `run` beside it; `held` is the last answer, None while nothing was asked.

    list_holders  raises GPUReadyError when the kubelet does not answer
    told_in       file that says, across restarts, which repeated allocations were told
    on_change     `held` is another now
    """

    def __init__(
        self,
        node: str,
        list_holders: Callable[[], Awaitable[list[Holding]]],
        tell: Tell,
        told_in: Path,
        on_change: Callable[[], None],
        *,
        boot_id: str,
        clock: Callable[[], float],
        log: Logger,
    ) -> None:
        self.held: Mapping[str, int] | None = None
        self._node, self._boot_id = node, boot_id
        self._list_holders, self._tell, self._on_change = list_holders, tell, on_change
        self._told_in = told_in
        self._clock, self._log = clock, log
        self._count: int | None = None
        self._is_registered: bool | None = None  # None before any plugin was
        self._told = _read_told(told_in, boot_id)
        self._told_pods: set[tuple[str, str, str]] = set()
        self._sought: dict[str, tuple[Row, float]] = {}  # key -> (row of the record, give up at)
        self._looked_at = float("-inf")
        self._due_at = NEVER
        self._moved = asyncio.Event()
        self._is_deaf = False
        self._is_wanted = False

    def see(self, record: Row | None, devices: Sequence[Row]) -> None:
        """Is there a reason to ask? devices: rows of GPUNode.status as they were told."""
        self._is_wanted = True
        told = (record or {}).get("allocations") or {}
        count = int(told.get("count") or 0)
        self._seek(told.get("repeated") or ())
        known = bool(self.held and any(self.held.values()))
        if self._count is None:  # just started: what pods got before is in the status
            is_new = count > 0 or any(row.get("allocated") for row in devices)
        else:
            is_new = count != self._count
        self._count = count
        if is_new | self._is_back(bool((record or {}).get("registered"))):
            self._look_by(max(self._clock() + SOON_S, self._looked_at + self._pause_s()))
        elif known:
            self._look_by(self._looked_at + RELEASE_S)

    def _is_back(self, registered: bool) -> bool:
        before = self._is_registered
        if registered or before is not None:
            self._is_registered = registered
        return registered and before is False

    def forget(self) -> None:
        """Nothing is asked until `see` again."""
        self._is_wanted = False
        self._sought.clear()
        self._due_at = NEVER

    async def run(self) -> None:
        while True:
            await self._wait_until_due()
            self._due_at = NEVER
            await self._look()

    # --- when --------------------------------------------------------------------------------------------

    def _pause_s(self) -> float:
        return HURRY_S if self._sought else PAUSE_S

    def _look_by(self, at: float) -> None:
        if self._is_wanted and at < self._due_at:
            self._due_at = at
            self._moved.set()

    async def _wait_until_due(self) -> None:
        while (left := self._due_at - self._clock()) > 0:
            self._moved.clear()
            try:
                async with asyncio.timeout(None if left == NEVER else left):
                    await self._moved.wait()
            except TimeoutError:
                pass

    # --- looking -----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        self._looked_at = self._clock()
        try:
            holding = await self._list_holders()
        except GPUReadyError as exc:
            if not self._is_deaf:
                self._log.warning("holders not known", error=str(exc))
            self._is_deaf = True
            self._look_by(self._looked_at + (PAUSE_S if self._sought else RELEASE_S))
            return
        self._is_deaf = False
        held = Counter(device_of(id_) for pod in holding for id_ in pod.device_ids)
        changed, self.held = dict(held) != self.held, dict(held)
        await self._tell_of_repeated(holding)
        if self._sought:
            self._look_by(self._looked_at + HURRY_S)
        if held:
            self._look_by(self._looked_at + RELEASE_S)
        if changed:
            self._on_change()

    # --- one GPU more than once --------------------------------------------------------------------------

    def _seek(self, rows: Sequence[Row]) -> None:
        for row in rows:
            key = f"{row['time']} {' '.join(row['ids'])}"
            if key not in self._told and key not in self._sought:
                self._sought[key] = (row, self._clock() + PATIENCE_S)
                self._look_by(max(self._clock() + SOON_S, self._looked_at + HURRY_S))

    async def _tell_of_repeated(self, holding: Sequence[Holding]) -> None:
        self._told_pods &= {_identity(pod) for pod in holding}
        found = 0
        for key, (row, until) in list(self._sought.items()):
            pod = find_pod(holding, row["ids"])
            if pod is None and self._clock() < until:
                continue
            del self._sought[key]
            self._told.append(key)
            found += 1
            await self._say(pod, row)
        if found:
            self._keep_told()

    async def _say(self, pod: Holding | None, row: Row) -> None:
        said = repeated_gpu(str(row["resource"]), row["ids"])
        if pod is None:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node, "uid": self._node}}
            await self._tell(node, WARNING, SAME_GPU, f"a pod that has ended {said}")
        elif _identity(pod) not in self._told_pods:
            self._told_pods.add(_identity(pod))
            await self._tell(pod.reference, WARNING, SAME_GPU, said)

    def _keep_told(self) -> None:
        """Not where the directory is gone: an uninstall leaves nothing behind."""
        self._told = self._told[-_REMEMBERED:]
        row = {"operand": "node-agent", "bootId": self._boot_id, "repeatedTold": self._told}
        try:
            if self._told_in.parent.is_dir():
                write_if_changed(self._told_in, json.dumps(row, indent=1).encode())
        except OSError as exc:
            self._log.warning("record not written", file=self._told_in.name, reason=exc.strerror)


_REMEMBERED = 64  # more than a plugin's record lists


def find_pod(holding: Sequence[Holding], ids: Sequence[str]) -> Holding | None:
    """The pod one of whose containers holds all of `ids`."""
    wanted = set(ids)
    return next((pod for pod in holding if any(wanted <= set(got) for got in pod.by_container)), None)


def _identity(pod: Holding) -> tuple[str, str, str]:
    return pod.namespace, pod.name, pod.uid


def _read_told(path: Path, boot_id: str) -> list[str]:
    row = find_object(path, {"bootId": str, "repeatedTold": [str]}) or {}
    return list(row.get("repeatedTold") or ()) if row.get("bootId") == boot_id else []
