"""Brings the objects of a plan about and takes away what is no longer wanted; writes only what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gpuready import names
from gpuready.controller.caches import Caches
from gpuready.controller.echoes import Echoes
from gpuready.controller.policy.ahead import Ahead
from gpuready.controller.policy.left_behind import is_originals
from gpuready.controller.policy.plan import Plan, key_of
from gpuready.controller.policy.refusals import Refusals
from gpuready.controller.policy.setbacks import Setbacks
from gpuready.controller.policy.spared_pods import sparing
from gpuready.errors import ApiError, GPUReadyError, InternalError
from gpuready.kube.apply import ECHO_S, Applied, Applier, Change
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import Away, Forbidden, NotFound, Unreachable
from gpuready.kube.events import NORMAL, WARNING, EventRecorder
from gpuready.kube.resources import Resource, resource_of
from gpuready.log import Logger

Failures = dict[str, GPUReadyError]  # object "Kind/name" -> why it could not be written
Object = Mapping[str, Any]


class Objects:
    """
    come_again  somebody has to look again in so many seconds
    refusals    what the API server does not take as it is
    setbacks    what could not be written this time
    under_way   names of objects that the API server has not answered about yet
    """

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        events: EventRecorder,
        log: Logger,
        come_again: Callable[[float], None],
    ) -> None:
        self._client, self._caches, self._events, self._log = client, caches, events, log
        self._come_again = come_again
        self.under_way: set[str] = set()
        self.begin()

    def begin(self) -> None:
        """A term begins: others have written since the last."""
        self._applier = Applier(self._client, fit=sparing)
        self.forget_failures()
        self._echoes, self._ahead = Echoes(), Ahead()
        self._foreign: dict[str, Object | None] = {}
        self._originals: list[Object] | None = None  # the original operator's at this term's beginning

    def forget_failures(self) -> None:
        """What has failed may be tried again at once."""
        self.refusals, self.setbacks = Refusals(), Setbacks()

    def daemonsets(self) -> dict[str, Object]:
        """By name, as the cache shows them or as we know better."""
        cached = {obj["metadata"]["name"]: obj for obj in self._caches.owned["DaemonSet"].values()}
        return self._ahead.laid_over(cached)

    def hidden(self, kind: str) -> GPUReadyError | None:
        """Why what is there of this kind is not known: then it must not be written over again and again."""
        cache = self._caches.cache_of(kind)
        return None if cache.synced else cache.trouble or Unreachable(f"{kind}s were not listed yet")

    # --- apply -------------------------------------------------------------------------------------------

    async def apply(self, plan: Plan) -> Failures:
        """Operands side by side; an object that fails is named and does not stop the others.

        raises  Away: then no other would do better
        """
        failures: Failures = {}
        away: list[Away] = []

        async def apply_in_order(objects: Sequence[Object]) -> None:
            for obj in objects:
                if away:
                    return
                try:
                    if failure := await self._apply_or_why_not(obj):
                        failures[_name_of(obj)] = failure
                except Away as exc:
                    away.append(exc)

        await asyncio.gather(*map(apply_in_order, plan.batches))
        if away:
            raise away[0]
        return {name: failures[name] for name in map(_name_of, plan.objects) if name in failures}

    async def _apply_or_why_not(self, obj: Object) -> GPUReadyError | None:
        key = _name_of(obj)
        if known := self.refusals.find(key, obj) or self.setbacks.find(key, obj) or self.hidden(obj["kind"]):
            return known
        self.under_way.add(key)
        try:
            await self._apply_one(obj)
        except Away:
            raise
        except ApiError as exc:
            told = self.refusals.add(key, obj, exc)
            if key not in self.refusals:
                self.setbacks.add(key, obj, told)
            return told
        except Exception as exc:  # a mistake of ours with one object: the others are written
            self._log.exception("object not written", object=key)
            return InternalError.of(exc)
        finally:
            self.under_way.discard(key)
        return None

    async def _apply_one(self, obj: Object) -> None:
        kind, namespace, name = key_of(obj)
        live = self._caches.find_owned(kind, namespace, name)
        applied = await self._applier.apply(resource_of(obj), obj, live)
        if applied.changed:
            if kind == "DaemonSet":
                self._ahead.wrote(name, live, applied.object)
            await self._tell(kind, name, applied)
        if applied.awaits_echo:
            self._come_again(ECHO_S)
        if applied.again_in_s:
            self._come_again(applied.again_in_s)

    async def _tell(self, kind: str, name: str, applied: Applied) -> None:
        self._log.info("object applied", kind=kind, name=name, reason=str(applied.change))
        if applied.change is Change.REPAIRED:
            what = "; ".join(str(difference) for difference in applied.differences[:3])
            await self._events.event(applied.object, WARNING, "HandEditRepaired", f"{kind} {name}: {what}")
        if applied.change is Change.TAKEN_OVER:
            text = f"{kind} {name} was the original operator's and is gpuready's now"
            await self._events.event(applied.object, NORMAL, "TakenOver", text)

    # --- take away ---------------------------------------------------------------------------------------

    async def delete(self, objects: Sequence[Object]) -> Failures:
        """raises  Away"""
        failures: Failures = {}
        for obj in objects:
            kind, namespace, name = key_of(obj)
            uid = obj["metadata"]["uid"]
            if self._echoes.wait_s(uid, uid):
                continue  # deleted already, the cache is about to show it
            gone = {"deleted": uid}
            if known := self.setbacks.find(_name_of(obj), gone):
                failures[_name_of(obj)] = known
                continue
            try:
                await self._client.delete(
                    resource_of(obj), name, namespace or None, preconditions={"uid": uid}
                )
            except NotFound:
                continue
            except Away:
                raise
            except ApiError as exc:
                self.setbacks.add(_name_of(obj), gone, exc)
                failures[_name_of(obj)] = exc
                continue
            self._echoes.wrote(uid, uid)
            self._ahead.forget(name)
            self._log.info("object deleted", kind=kind, name=name, reason="no longer wanted")
        return failures

    async def find_foreign(self, resource: Resource, name: str) -> Object | None:
        """What stands under a name of ours before we have taken it over; asked once a term.

        The caches hold what is ours. Of the original's driver a plan has to know which nodes it serves.
        """
        key = f"{resource.plural}/{name}"
        if key not in self._foreign:
            try:
                self._foreign[key] = await self._client.get(resource, name, self._caches.namespace)
            except NotFound:
                self._foreign[key] = None
        return self._foreign[key]

    async def originals(self, policies: Collection[str]) -> list[Object]:
        """Of the original operator, for policies of these uids. What we may not see stays.

        Asked once a term: nobody makes such objects while we lead.
        """
        if self._originals is None:
            found: list[Object] = []
            for cache in self._caches.of_objects():
                resource = cache.resource
                namespace = self._caches.namespace if resource.namespaced else None
                with suppress(Forbidden):
                    found += await self._client.list_metadata(resource, namespace, f"!{names.OPERAND_LABEL}")
            self._originals = [obj for obj in found if is_originals(obj, policies)]
        return self._originals


def _name_of(obj: Object) -> str:
    """How the status calls it."""
    return f"{obj['kind']}/{obj['metadata']['name']}"
