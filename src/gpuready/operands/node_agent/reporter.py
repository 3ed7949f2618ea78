"""Tells the API server: labels of the Node, GPUNode.status, the condition GPUReady, Events. Thin.

Each thing is written only when it differs from what the caches show, the status at most once a second, and
never twice over the same version of an object: the cache has to show the first writing before a second.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from gpuready import names
from gpuready.errors import ApiError
from gpuready.gpu.sharing import device_of
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import ApiStatusError, Conflict, NotFound, is_passing
from gpuready.kube.events import EventRecorder
from gpuready.kube.pace import Pace
from gpuready.kube.resources import GPU_NODES, NODES
from gpuready.kube.trimmed import Node
from gpuready.log import Logger
from gpuready.operands.node_agent import discovery, feature_labels, labels, report
from gpuready.operands.node_agent.decision import Judgement, View
from gpuready.operands.node_agent.events import Draft, events_between
from gpuready.operands.node_agent.holders import Holding
from gpuready.operands.node_agent.settings import LabelSource

STATUS_INTERVAL_S = 1.0
_BEHIND_S = 0.2  # after a conflict the cache needs a moment to show the newer version
_ECHO_S = 5.0  # how long a cache may take to show what we wrote
_YIELD_S = 5.0  # how long the controller's "AgentSilent" stands before we take the condition back
_STRATEGIC = "application/strategic-merge-patch+json"

FindHolders = Callable[[], Awaitable[list[Holding]]]


class Guard:
    """Whether a thing may be written now: not over a version that we have already written over."""

    def __init__(self) -> None:
        self._over: str | None = None
        self._at = float("-inf")

    def may_write(self, version: str, now: float) -> bool:
        return version != self._over or now - self._at >= _ECHO_S

    def wrote(self, version: str, now: float) -> None:
        self._over, self._at = version, now

    @property
    def wrote_at(self) -> float:
        return self._at


class Reporter:
    """`report` does one round and returns the seconds after which a new look is needed, 0 = none."""

    def __init__(
        self,
        client: KubeClient,
        events: EventRecorder,
        find_holders: FindHolders,
        *,
        clock: Callable[[], float],
        now: Callable[[], str],
        log: Logger,
    ) -> None:
        self._client = client
        self._events = events
        self._find_holders = find_holders
        self._clock, self._now = clock, now
        self._log = log
        self._labels, self._status, self._condition = Guard(), Guard(), Guard()
        self._pace = Pace(clock)  # the other two are told once a second at most
        self._silenced_at: float | None = None
        self._refused_at: float | None = None
        self._refusal = ""

    def find_refusal(self, patience_s: float) -> str:
        """Why what we see has not reached the GPUNode for so long, "" when it has or may soon."""
        if self._refused_at is None or self._clock() - self._refused_at < patience_s:
            return ""
        return self._refusal

    async def report(self, view: View, judgement: Judgement, gpu_node: Mapping[str, Any] | None) -> float:
        """One that fails does not keep the others from being told.

        raises  ApiError at the end; what was not told is told by the next round
        """
        node = view.node
        parts: list[Callable[[], Awaitable[float]]] = []
        if node is not None:
            parts.append(lambda: self._keep_labels(view, node))
        if gpu_node:
            parts.append(lambda: self._keep_status(view, judgement, gpu_node))
        if node is not None:
            parts.append(lambda: self._keep_condition(view, node, judgement))
        waits, failures = await _each_of(parts)
        if failures:
            raise failures[0] if len(failures) == 1 else _together(failures)
        return min((wait for wait in waits if wait > 0), default=0.0)

    async def report_uninstalled(self, view: View, gpu_node: Mapping[str, Any]) -> float:
        before = gpu_node.get("status") or {}
        generation = int(gpu_node["metadata"].get("generation") or 0)
        after = report.uninstalled_status(view, before, generation=generation)
        return await self._write_status(view.node_name, gpu_node, before, after)

    # --- labels ------------------------------------------------------------------------------------------

    async def _keep_labels(self, view: View, node: Node) -> float:
        meta = node.metadata
        mine = labels.ours(meta.labels, meta.annotations)
        by_agent = view.label_source is LabelSource.AGENT
        wanted = discovery.labels_of(view.machine) if by_agent else {}
        wanted |= feature_labels.labels_of(view, mine)
        of_others = discovery.labels_of_nfd(meta.annotations)
        patch = labels.metadata_patch(meta.labels, meta.annotations, wanted, of_others)
        if patch is None:
            return 0.0
        if not self._labels.may_write(meta.resource_version, self._clock()):
            return _ECHO_S
        if wait_s := self._pace.wait_s(meta.name):
            return wait_s
        patch["resourceVersion"] = meta.resource_version
        try:
            await self._client.merge_patch(NODES, meta.name, {"metadata": patch})
        except Conflict:
            return _BEHIND_S
        self._labels.wrote(meta.resource_version, self._clock())
        self._pace.wrote(meta.name)
        self._log.info("node labels written", changed=sorted(patch.get("labels", {})))
        return 0.0

    # --- GPUNode.status ----------------------------------------------------------------------------------

    async def _keep_status(self, view: View, judgement: Judgement, gpu_node: Mapping[str, Any]) -> float:
        before = gpu_node.get("status") or {}
        generation = int(gpu_node["metadata"].get("generation") or 0)
        after = report.status_of(view, judgement, before, generation=generation, now=self._now())
        return await self._write_status(view.node_name, gpu_node, before, after)

    async def _write_status(
        self, name: str, gpu_node: Mapping[str, Any], before: Mapping[str, Any], after: dict[str, Any]
    ) -> float:
        patch = report.status_patch(before, after)
        if patch is None:
            self._refused_at = None
            return 0.0
        version, now = str(gpu_node["metadata"].get("resourceVersion")), self._clock()
        if not self._status.may_write(version, now):
            return _ECHO_S
        if (left := self._status.wrote_at + STATUS_INTERVAL_S - now) > 0:
            return left
        try:
            await self._client.merge_patch(GPU_NODES, name, {"status": patch}, subresource="status")
        except NotFound:
            return 0.0
        except ApiStatusError as exc:
            if not is_passing(exc):
                self._refused_at, self._refusal = self._refused_at or now, str(exc)
            raise
        self._refused_at = None
        self._status.wrote(version, now)
        self._log.info("status written", reason=after.get("reason"), changed=sorted(patch))
        for draft in events_between(before, after):
            await self._tell(draft, name)
        return 0.0

    # --- condition ---------------------------------------------------------------------------------------

    async def _keep_condition(self, view: View, node: Node, judgement: Judgement) -> float:
        patch = report.condition_patch(view, judgement, self._now())
        if patch is None:
            self._silenced_at = None
            return 0.0
        if (left := self._yield_to_controller(node)) > 0:
            return left
        version, now = node.metadata.resource_version, self._clock()
        if not self._condition.may_write(version, now):
            return _ECHO_S
        if (left := self._condition.wrote_at + STATUS_INTERVAL_S - now) > 0:
            return left
        path = NODES.path(name=node.metadata.name, subresource="status")
        body = json.dumps({"status": {"conditions": [patch]}}).encode()
        # Strategic merge: conditions are a map by type, so the kubelet's own stay untouched.
        await self._client.raw("PATCH", path, body=body, content_type=_STRATEGIC, idempotent=True)
        self._condition.wrote(version, now)
        return 0.0

    def _yield_to_controller(self, node: Node) -> float:
        """The controller calls us silent while our pod or the node is not Ready: no quarrel about it."""
        there = node.condition(names.GPU_READY_CONDITION)
        if there is None or there.reason != "AgentSilent":
            self._silenced_at = None
            return 0.0
        if self._silenced_at is None or not node.ready:
            self._silenced_at = self._clock()
        return self._silenced_at + _YIELD_S - self._clock()

    # --- Events ------------------------------------------------------------------------------------------

    async def _tell(self, draft: Draft, node: str) -> None:
        holding = await self._find_holders() if draft.devices else []
        pods = [pod for pod in holding if any(device_of(id_) in draft.devices for id_ in pod.device_ids)]
        if draft.on_node or not pods:
            await self._events.event(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "uid": node}},
                draft.type,
                draft.reason,
                draft.message,
            )
        for pod in pods:
            await self._events.event(pod.reference, draft.type, draft.reason, draft.message)


async def _each_of(parts: Iterable[Callable[[], Awaitable[float]]]) -> tuple[list[float], list[ApiError]]:
    """What each in turn returned or failed with."""
    waits: list[float] = []
    failures: list[ApiError] = []
    for part in parts:
        try:
            waits.append(await part())
        except ApiError as exc:
            failures.append(exc)
    return waits, failures


def _together(failures: Sequence[ApiError]) -> ApiError:
    """The first that will not pass by itself, with the others' words."""
    first = next((exc for exc in failures if not is_passing(exc)), failures[0])
    others = [str(exc) for exc in failures if exc is not first]
    first.why = "; ".join([*([first.why] if first.why else []), *others])
    return first
