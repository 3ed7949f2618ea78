"""Runs the DaemonSet decisions: reads caches, creates and deletes pods, keeps revisions and status."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpuready_sim.client import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    PODS,
    AlreadyExists,
    NotFound,
    Object,
    SimClient,
    key_of,
)
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.daemonset import placement, rollout
from gpuready_sim.controllers.events import Events
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.controllers.selectors import matches_labels

# A created pod counts as there until the watch shows it, at most this long.
EXPECTED_S = 10
FAILED_POD_BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
PARALLEL = 16


class DaemonSetController:
    def __init__(self, client: SimClient, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._events = Events(client, "daemonset-controller")
        self._loop = KeyedLoop("daemonset controller", self._sync)
        self._expected: dict[str, tuple[float, Object]] = {}  # pod uid -> until, pod
        self._expected_gone: dict[str, float] = {}  # pod uid -> until
        self._ended: dict[
            tuple[str, str], tuple[int, float]
        ] = {}  # (DaemonSet uid, node) -> times, not before
        caches.daemon_sets.add_handler(lambda old, new: self._loop.mark(key_of(new or old or {})))
        caches.pods.add_handler(self._pod_changed)
        caches.nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        await self._loop.run()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old or {}
        self._expected.pop(pod["metadata"].get("uid", ""), None)
        if new is None:
            self._expected_gone.pop(pod["metadata"].get("uid", ""), None)
        owner = _controller_of(pod)
        if owner and owner["kind"] == "DaemonSet":
            self._loop.mark(f"{pod['metadata']['namespace']}/{owner['name']}")
        elif owner is None:
            self._mark_all()  # an orphan may match a selector

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _placement_facts(old) != _placement_facts(new):
            self._mark_all()

    def _mark_all(self) -> None:
        for key in self._caches.daemon_sets.objects:
            self._loop.mark(key)

    async def _sync(self, key: str) -> float | None:
        daemon_set = self._caches.daemon_sets.objects.get(key)
        if daemon_set is None or rollout.is_deleting(daemon_set):
            return None
        await self._claim(daemon_set)
        revision_hash = await self._revision(daemon_set)
        view = self._view(daemon_set, revision_hash)
        plan = rollout.manage(view)
        again_s = self._hold_back(daemon_set, plan.finished)
        changed = await self._act(daemon_set, plan, revision_hash)
        if not changed:
            changed = await self._act(daemon_set, rollout.roll(view), revision_hash)
        status = rollout.status_of(self._view(daemon_set, revision_hash))
        await self._report(daemon_set, status)
        return _soonest(again_s, status.next_check_s)

    def _view(self, daemon_set: Object, revision_hash: str) -> rollout.View:
        return rollout.View(
            daemon_set=daemon_set,
            nodes=list(self._caches.nodes.objects.values()),
            pods=[p for p in self._pods(daemon_set) if not _is_over(p)],
            revision_hash=revision_hash,
            now=datetime.now(UTC),
        )

    def _pods(self, daemon_set: Object) -> list[Object]:
        """Its pods in the cache, with those just created and without those just deleted."""
        uid, now = daemon_set["metadata"]["uid"], time.monotonic()
        _forget_old(self._expected, lambda entry: entry[0] < now)
        _forget_old(self._expected_gone, lambda until: until < now)
        seen = {p["metadata"]["uid"]: p for p in self._caches.pods.objects.values() if _owned_by(p, uid)}
        expected = {u: pod for u, (_, pod) in self._expected.items() if _owned_by(pod, uid)}
        return [_as_expected(p, u in self._expected_gone) for u, p in (expected | seen).items()]

    async def _claim(self, daemon_set: Object) -> None:
        """Adopt matching pods without a controller, as after `kubectl delete --cascade=orphan`."""
        namespace, selector = daemon_set["metadata"]["namespace"], daemon_set["spec"]["selector"]
        for pod in list(self._caches.pods.objects.values()):
            meta = pod["metadata"]
            free = meta["namespace"] == namespace and _controller_of(pod) is None
            if free and not rollout.is_deleting(pod) and matches_labels(selector, meta.get("labels") or {}):
                others = meta.get("ownerReferences") or []
                owners = [*others, placement.owner_reference(daemon_set)]
                patch = {"metadata": {"uid": meta["uid"], "ownerReferences": owners}}
                await self._client.merge_patch(PODS, meta["name"], patch, namespace)

    async def _revision(self, daemon_set: Object) -> str:
        """The hash of the current template; its ControllerRevision is made the newest."""
        word = placement.template_hash(daemon_set)
        meta = daemon_set["metadata"]
        owned = [r for r in self._caches.revisions.objects.values() if _owned_by(r, meta["uid"])]
        newest = max((r["revision"] for r in owned), default=0)
        current = self._caches.revisions.get(f"{meta['name']}-{word}", meta["namespace"])
        if current is None:
            await self._create_revision(daemon_set, word, newest + 1)
        elif current["revision"] < newest:
            await self._patch_revision(current, {"revision": newest + 1})
        elif _controller_of(current) is None:
            owners = {"ownerReferences": [placement.owner_reference(daemon_set)]}
            await self._patch_revision(current, {"metadata": owners})  # left by --cascade=orphan
        await self._trim_history(daemon_set, owned, word)
        return word

    async def _create_revision(self, daemon_set: Object, word: str, number: int) -> None:
        meta = daemon_set["metadata"]
        labels = (daemon_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
        revision = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{meta['name']}-{word}",
                "namespace": meta["namespace"],
                "labels": {**labels, placement.HASH_LABEL: word},
                "ownerReferences": [placement.owner_reference(daemon_set)],
            },
            "data": {"spec": {"template": {**daemon_set["spec"]["template"], "$patch": "replace"}}},
            "revision": number,
        }
        try:
            await self._client.create(CONTROLLER_REVISIONS, revision)
        except AlreadyExists:
            pass  # the cache has not seen it yet

    async def _patch_revision(self, revision: Object, patch: Object) -> None:
        meta = revision["metadata"]
        await self._client.merge_patch(CONTROLLER_REVISIONS, meta["name"], patch, meta["namespace"])

    async def _trim_history(self, daemon_set: Object, owned: list[Object], current: str) -> None:
        limit = daemon_set["spec"].get("revisionHistoryLimit", 10)
        live = {(p["metadata"].get("labels") or {}).get(placement.HASH_LABEL) for p in self._pods(daemon_set)}
        old = [r for r in owned if r["metadata"]["labels"].get(placement.HASH_LABEL) not in live | {current}]
        for revision in sorted(old, key=lambda r: int(r["revision"]))[: max(0, len(old) - limit)]:
            meta = revision["metadata"]
            await self._client.delete(CONTROLLER_REVISIONS, meta["name"], meta["namespace"])

    def _hold_back(self, daemon_set: Object, finished: Iterable[Mapping[str, Any]]) -> float | None:
        """Tell of ended pods; seconds until the last of them may be replaced."""
        waits = [self._until_replaced(daemon_set, pod) for pod in finished]
        return max(waits, default=0.0) or None

    def _until_replaced(self, daemon_set: Object, pod: Mapping[str, Any]) -> float:
        key = (daemon_set["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        times, not_before = self._ended.get(key, (0, 0.0))
        return max(0.0, not_before - time.monotonic()) if times else 0.0

    async def _act(self, daemon_set: Object, plan: rollout.Plan, revision_hash: str) -> bool:
        finished = [p for p in plan.finished if not self._until_replaced(daemon_set, p)]
        for pod in finished:
            self._note_ended(daemon_set, pod)
        await _side_by_side(
            [
                *(lambda name=name: self._create(daemon_set, name, revision_hash) for name in plan.create),
                *(lambda pod=pod: self._delete(daemon_set, pod) for pod in (*plan.delete, *finished)),
            ]
        )
        return bool(plan.create or plan.delete or finished)

    def _note_ended(self, daemon_set: Object, pod: Mapping[str, Any]) -> None:
        key = (daemon_set["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        times, not_before = self._ended.get(key, (0, 0.0))
        if time.monotonic() > not_before + FAILED_POD_BACKOFF_S[-1]:
            times = 0
        delay = FAILED_POD_BACKOFF_S[min(times, len(FAILED_POD_BACKOFF_S) - 1)]
        self._ended[key] = (times + 1, time.monotonic() + delay)
        failed = pod["status"]["phase"] == "Failed"
        what, verb = ("failed", "kill") if failed else ("succeeded", "delete")
        message = f"Found {what} daemon pod {key_of(pod)} on node {key[1]}, will try to {verb} it"
        kind, reason = ("Warning", "FailedDaemonPod") if failed else ("Normal", "SucceededDaemonPod")
        self._events.say(_typed(daemon_set), kind, reason, message)

    async def _create(self, daemon_set: Object, node_name: str, revision_hash: str) -> None:
        pod = await self._client.create(PODS, placement.new_pod(daemon_set, node_name, revision_hash))
        if key_of(pod) not in self._caches.pods.objects:
            self._expected[pod["metadata"]["uid"]] = (time.monotonic() + EXPECTED_S, pod)
        message = f"Created pod: {pod['metadata']['name']}"
        self._events.say(_typed(daemon_set), "Normal", "SuccessfulCreate", message)

    async def _delete(self, daemon_set: Object, pod: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        self._expected_gone[meta["uid"]] = time.monotonic() + EXPECTED_S
        await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        message = f"Deleted pod: {meta['name']}"
        self._events.say(_typed(daemon_set), "Normal", "SuccessfulDelete", message)

    async def _report(self, daemon_set: Object, status: rollout.Status) -> None:
        wanted = status.to_json()
        have = daemon_set.get("status") or {}
        if all(have.get(name) == value for name, value in wanted.items()):
            return
        meta = daemon_set["metadata"]
        try:
            await self._client.merge_patch(
                DAEMON_SETS, meta["name"], {"status": wanted}, meta["namespace"], subresource="status"
            )
        except NotFound:
            pass  # deleted meanwhile


async def _side_by_side(actions: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """All of them, a few at a time; the first error is raised after the rest are done."""
    gate = asyncio.Semaphore(PARALLEL)

    async def one(action: Callable[[], Awaitable[None]]) -> None:
        async with gate:
            await action()

    for outcome in await asyncio.gather(*(one(a) for a in actions), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _placement_facts(node: Object) -> tuple[Any, Any]:
    return node["metadata"].get("labels"), node.get("spec", {}).get("taints")


def _controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def _owned_by(obj: Object, uid: str) -> bool:
    owner = _controller_of(obj)
    return owner is not None and owner["uid"] == uid


def _is_over(pod: Object) -> bool:
    return rollout.is_deleting(pod) and pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def _as_expected(pod: Object, leaving: bool) -> Object:
    """A pod whose deletion we asked for counts as deleting before the watch says so."""
    if not leaving or rollout.is_deleting(pod):
        return pod
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "pending"}}


def _forget_old(entries: dict[str, Any], is_old: Callable[[Any], bool]) -> None:
    for key in [key for key, value in entries.items() if is_old(value)]:
        del entries[key]


def _typed(daemon_set: Object) -> Object:
    return {**daemon_set, "apiVersion": "apps/v1", "kind": "DaemonSet"}


def _soonest(*times: float | None) -> float | None:
    known = [t for t in times if t is not None]
    return min(known) if known else None
