"""Brings the cluster's objects to what the policy in force asks for, and says in its status how far it is.

observe (caches) -> plan (pure) -> apply and prune (only what differs) -> report (at most once a second).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.caches import Caches, Existing
from gpuready.controller.conditional import replacing
from gpuready.controller.current import CurrentPolicy
from gpuready.controller.echoes import Echoes
from gpuready.controller.loop import Loop, Postponed
from gpuready.controller.nodes.condition import is_unknown
from gpuready.controller.nodes.loop import NodesLoop
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.policy import pruning
from gpuready.controller.policy.active import ActivePolicy
from gpuready.controller.policy.left_behind import left_behind
from gpuready.controller.policy.namespace import Patch, given_back, labelled
from gpuready.controller.policy.node_views import NodeViews
from gpuready.controller.policy.objects import Failures, Objects
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.operand_rows import some
from gpuready.controller.policy.overtaken import unless_overtaken
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.controller.policy.status import (
    headline,
    ignored_status,
    new_problem,
    status_of,
    status_of_bug,
    status_while_applying,
)
from gpuready.controller.policy.view import facts_of, named_configs, view_of
from gpuready.errors import ApiError, GPUReadyError, InternalError
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import ApiStatusError, Away, NotFound, is_passing
from gpuready.kube.events import WARNING, EventRecorder
from gpuready.kube.resources import CLUSTER_POLICIES, DAEMONSETS, NAMESPACES
from gpuready.kube.trimmed import Node
from gpuready.operands.contract import ClusterView
from gpuready.operands.driver.pools import BASE_NAME
from gpuready.operands.node_agent import manifest as node_agent

KEY = "policy"
STATUS_INTERVAL_S = 1.0
# While only counts and messages move (a rollout, a hundred nodes that join), this often is enough.
DETAILS_INTERVAL_S = 5.0
# A pass reads every node and compares every object. While nodes join or report by the hundred, it rests
# between two passes ten times as long as one worked, so that deciding for single nodes hardly waits for it.
REST_PER_WORK = 10.0
LONGEST_REST_S = 3.0  # 5,000 nodes: a pass of 0.3 s, in which no single node is decided on


class PolicyLoop(Loop):
    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        current: CurrentPolicy,
        nodes: NodesLoop,
        events: EventRecorder,
        own_image: str,
        images: Mapping[str, str] | None = None,
        *,
        others: Sequence[Loop] = (),
    ) -> None:
        """What it needs beside client and caches.

        images   the operator's environment, for images that the policy leaves open
        others   the loops whose troubles the status tells too
        """
        super().__init__("policy")
        self._client = client
        self._caches = caches
        self._current = current
        self._nodes = nodes
        self._node_views = NodeViews(caches, nodes.silence_of)
        self._events = events
        self._own_image = own_image
        self._images = images or {}
        self._others = others
        self._objects = Objects(
            client, caches, events, self._log, lambda wait_s: self.queue.add_after(KEY, wait_s)
        )
        self._failing: set[str] = set()  # objects that the last pass could not write
        self._told: dict[str, str] = {}
        self._bugs: dict[str, str] = {}
        self._written: dict[str, float] = {}
        self._echoes = Echoes()
        self._foreign_driver: Mapping[str, Any] | None = None
        self._overtaken = asyncio.Event()  # a newer text has come since the pass began
        self._referred_to: Collection[str] = ()  # names in the last plan's pods
        self._worked_s = self._rested_at = 0.0
        self.last_ready: float | None = None
        self.state = ""
        self._listen()

    def begin(self) -> None:
        self._objects.begin()
        self._failing, self._told, self._bugs = set(), {}, {}
        self._written, self._echoes, self._rested_at = {}, Echoes(), 0.0
        self.queue.add(KEY)

    async def reconcile(self, key: str) -> None:
        self._worked_s = 0.0
        try:
            await self._pass()
        except GPUReadyError:
            raise
        except Exception as exc:
            await self._tell_bug(InternalError.of(exc))
            raise
        finally:
            self._rested_at = time.monotonic() + min(LONGEST_REST_S, REST_PER_WORK * self._worked_s)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Around what goes through all nodes without letting anybody else have a turn."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._worked_s += time.thread_time() - began

    async def _pass(self) -> None:
        active = self._current.active
        if active is None:
            if self._current.is_absent:
                await self._remove_everything()
            return
        self._overtaken.clear()
        failures: Failures = {}
        plan = None
        if not self._caches.nodes.synced:
            pass  # what suits a cluster that we may not see cannot be planned
        elif active.policy is not None:
            self._foreign_driver = await self._objects.find_foreign(DAEMONSETS, BASE_NAME)
            plan = self._plan(active, active.policy)
            bringing = self._bring_about(plan, active.policy)
            found = await unless_overtaken(bringing, self._overtaken, self._tell_applying)
            if found is None:
                return  # the newer text is in the queue
            failures, active = found, self._current.active or active  # the status may be newer by now
        elif self._current.effective is not None:
            # Nothing is applied, but what runs is still told.
            plan = self._plan(active, self._current.effective)
        await self._report(active, plan, self._worth_telling(failures))
        self._retry_each(failures)
        self._come_again({key: exc for key, exc in failures.items() if key not in self._objects.refusals})

    async def _bring_about(self, plan: Plan, policy: ClusterPolicy) -> Failures:
        """Every write that a text of the policy leads to."""
        found = await self._change_namespace(lambda meta: labelled(policy, meta), "spec.psa.enabled")
        failures = await self._objects.apply(plan)
        failures.update(found)
        surplus = pruning.surplus(self._caches.all_owned(), plan.keys, plan.refused)
        failures.update(await self._objects.delete(surplus))
        failures.update(await self._remove_left_behind(policy, plan))
        return failures

    def _worth_telling(self, failures: Failures) -> dict[str, str]:
        """What may pass by itself is worth a word when it happens twice."""
        told = {
            key: str(exc)
            for key, exc in failures.items()
            if self._is_lasting(key) or key in self._objects.refusals or not is_passing(exc)
        }
        for key, why in told.items():
            if self._told.get(key) != why:
                self._log.warning("object not written", object=key, error=why)
        self._failing, self._told = set(failures), told
        return told

    def _is_lasting(self, key: str) -> bool:
        """A pass that comes too early for another try is none."""
        times = self._objects.setbacks.times(key)
        return times > 1 if times else key in self._failing

    def _retry_each(self, failures: Failures) -> None:
        """What failed for the first time does not wait as long as what fails all day."""
        for failing in (self._objects.refusals, self._objects.setbacks):
            failing.keep(failures)
            if (wait_s := failing.next_retry_s()) is not None:
                self.queue.add_after(KEY, wait_s)

    def _come_again(self, failures: Failures) -> None:
        if failures:
            postponed = Postponed(
                f"{len(failures)} objects could not be written", why="; ".join(map(str, failures.values()))
            )
            asked = [exc.retry_after or 0 for exc in failures.values() if isinstance(exc, ApiStatusError)]
            postponed.retry_after = max(asked, default=None)
            raise postponed

    # --- observe -----------------------------------------------------------------------------------------

    def _plan(self, active: ActivePolicy, policy: ClusterPolicy) -> Plan:
        with self._at_work():
            plan = plan_of(active, policy, self._view(), self._current.ignored())
        self._referred_to = plan.referred_to
        self._nodes.hold_back(plan.refusals)
        self._log_bugs(plan)
        return plan

    def _log_bugs(self, plan: Plan) -> None:
        """With the traceback, which the status cannot hold, once for each."""
        found = {name: repr(bug) for name, bug in plan.bugs}
        for name, bug in plan.bugs:
            if self._bugs.get(name) != found[name]:
                self._log.error("operand not planned", operand=name, exc_info=bug)
        self._bugs = found

    def _view(self) -> ClusterView:
        namespace = self._caches.namespace
        return view_of(
            self._caches.nodes.values(),
            namespace=namespace,
            own_image=self._own_image,
            base_driver=self._caches.find_owned("DaemonSet", namespace, BASE_NAME) or self._foreign_driver,
            configs=self._caches.configmaps.values(),
            existing=self._caches.existing(),
            service_monitors=self._caches.serves_service_monitors,
            nfd_may_run=self._caches.nfd_may_run,
            images=self._images,
            leaving=pruning.leaving(self._caches.gpu_nodes.values()),
        )

    def _observed(self, failures: Mapping[str, str]) -> Observed:
        return Observed(
            nodes=self._node_views.all(),
            gpu_nodes={summary.metadata.name: summary for summary in self._caches.gpu_nodes.values()},
            daemonsets=self._objects.daemonsets(),
            failures=failures,
            troubles=self._troubles(),
            agent_name=node_agent.DAEMONSET,
            own_image=self._own_image,
        )

    def _troubles(self) -> list[str]:
        return [*self._caches.troubles, *(text for loop in self._others for text in loop.troubles.texts())]

    # --- take away ---------------------------------------------------------------------------------

    async def _remove_everything(self) -> None:
        """No policy: the operands' objects at once, the node agent when every node is clean."""
        keep_agent = not self._nodes.uninstaller.is_clean()
        failures: Failures = {}
        if not keep_agent:  # before the agent goes, for which whoever uninstalls waits
            failures.update(await self._change_namespace(given_back, "no policy is left"))
        leftovers = pruning.leftovers(self._caches.all_owned(), keep_agent=keep_agent)
        failures.update(await self._objects.delete(leftovers))
        hidden = {kind: exc for kind in self._caches.owned if (exc := self._objects.hidden(kind))}
        self._worth_telling(failures | hidden)  # there is no status to tell it: the log does
        self._retry_each(failures)
        self._come_again(failures)

    async def _remove_left_behind(self, policy: ClusterPolicy, plan: Plan) -> Failures:
        """What the original operator made and nobody wants; after `_apply`, which takes over the rest."""
        uids = {each["metadata"]["uid"] for each in self._caches.policies.values()}
        try:
            originals = await self._objects.originals(uids)
        except Away:
            raise
        except ApiError as exc:
            return {"objects of the original operator": exc}
        if not originals:
            return {}
        found = left_behind(originals, uids, policy, self._view(), plan)
        return await self._objects.delete([obj for _, obj in found])

    async def _change_namespace(
        self, change: Callable[[Mapping[str, Any]], Patch | None], reason: str
    ) -> Failures:
        """Not an object of ours: it is never pruned, and nothing else of it is touched."""
        name = self._caches.namespace
        found = self._caches.own_namespace.get(name)
        patch = change(found["metadata"]) if found else None
        if patch is None:
            return {}
        try:
            await self._client.merge_patch(NAMESPACES, name, {"metadata": patch})
        except NotFound:
            return {}  # gone meanwhile
        except Away:
            raise
        except ApiError as exc:
            return {f"Namespace/{name}": exc}
        changed = sorted(patch.get("labels", {}))
        self._log.info("namespace labelled", name=name, changed=changed, reason=reason)
        return {}

    # --- report ------------------------------------------------------------------------------------------

    async def _report(self, active: ActivePolicy, plan: Plan | None, failures: Mapping[str, str]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._at_work():
            status = status_of(active, plan, self._observed(failures), self._caches.namespace, now)
        await self._write_status(active.raw, status)
        for waiting in self._current.ignored():
            row = ignored_status(waiting, active.name, self._caches.namespace, now)
            await self._write_status(waiting, row)
        self.state = status["state"]
        if status["state"] == "ready":
            self.last_ready = time.time()

    async def _tell_applying(self) -> None:
        """The status speaks of the text before, and the API server takes its time with this one."""
        active = self._current.active
        if active is None or (active.raw.get("status") or {}).get("observedGeneration") == active.generation:
            return
        waited_for = some(self._objects.under_way) or "an object"
        self._log.info("waiting for the API server", generation=active.generation, object=waited_for)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = status_while_applying(active, self._caches.namespace, waited_for, now)
        with suppress(ApiError):  # the pass tells all of it at its end
            await self._write_status(active.raw, status)

    async def _tell_bug(self, error: InternalError) -> None:
        """A pass that came to no end has no status of its own: the last one stands, and says so."""
        active = self._current.active
        if active is not None:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            status = status_of_bug(active, self._caches.namespace, str(error), now)
            self.state = status["state"]
            await self._write_status(active.raw, status)

    async def _write_status(self, raw: Mapping[str, Any], status: dict[str, Any]) -> None:
        if (raw.get("status") or {}) == status:
            return
        name = raw["metadata"]["name"]
        version = raw["metadata"]["resourceVersion"]
        news = headline(status) != headline(raw.get("status") or {})
        interval_s = STATUS_INTERVAL_S if news else DETAILS_INTERVAL_S
        left_s = interval_s - (time.monotonic() - self._written.get(name, float("-inf")))
        if wait_s := max(left_s, self._echoes.wait_s(name, version), 0.0):
            self.queue.add_after(KEY, wait_s)
            return
        operations = replacing(version, "/status", status)
        try:
            await self._client.json_patch(CLUSTER_POLICIES, name, operations, subresource="status")
        except NotFound:
            return
        self._written[name] = time.monotonic()
        self._echoes.wrote(name, version)
        if (raw.get("status") or {}).get("state") != status["state"]:
            self._log.info("policy state changed", policy=name, state=status["state"])
        problem = new_problem(raw.get("status") or {}, status)
        if problem:
            await self._events.event(raw, WARNING, problem["reason"], problem["message"])

    # --- what wakes it -----------------------------------------------------------------------------------

    def look_again(self) -> None:
        self._wake()

    def _listen(self) -> None:
        self._caches.contact.on_change = self._wake
        self._nodes.uninstaller.on_given_up = self._wake
        for loop in self._others:
            loop.troubles.on_change = self._wake
        caches = self._caches
        self._current.on_change(self._on_policy)
        caches.policies.add_handler(lambda old, new: self._wake())
        caches.nodes.add_handler(self._on_node)
        caches.gpu_nodes.add_handler(self._on_gpu_node)
        caches.own_pods.add_handler(lambda old, new: self._wake())
        others = (caches.service_monitors, caches.service_monitor_crd)
        for cache in (*caches.owned.values(), *others):
            cache.add_handler(lambda old, new: self._wake())
        caches.own_namespace.add_handler(self._on_namespace)
        for nfd in caches.nfd:
            nfd.add_handler(self._on_nfd)
        caches.configmaps.add_handler(self._on_config)
        for named in (caches.secrets, caches.priority_classes):
            named.add_handler(self._on_existing)

    def _on_policy(self) -> None:
        """A new text is followed at once."""
        self._overtaken.set()
        self.queue.add(KEY)

    def _wake(self) -> None:
        self.queue.add_after(KEY, max(0.0, self._rested_at - time.monotonic()))

    def _on_config(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Files that the policy names become mounts, and some renew the pods that cannot read them anew."""
        policy = self._current.effective
        name = ((new or old) or {}).get("metadata", {}).get("name", "")
        if policy is not None and (name in named_configs(policy) or name in self._referred_to):
            self._wake()

    def _on_namespace(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """A new one takes what the old one, or none, has refused."""
        if old is None and new is not None:
            self._objects.forget_failures()
            self.queue.forget(KEY)
        self._wake()

    def _on_nfd(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Where it may run counts, not how far a roll-out of it is."""
        if old is None or new is None or old["spec"] != new["spec"]:
            self._wake()

    def _on_existing(self, old: Existing | None, new: Existing | None) -> None:
        """Of what pods refer to, only coming and going counts."""
        came_or_went = new if old is None else old if new is None else None
        if came_or_went is not None and came_or_went.metadata.name in self._referred_to:
            self._wake()

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _matters(old, new):
            self._wake()

    def _on_gpu_node(self, old: GPUNodeSummary | None, new: GPUNodeSummary | None) -> None:
        if old is None or new is None or old.status != new.status:
            self._wake()


def _matters(old: Node, new: Node) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or old.spec.taints != new.spec.taints
        or old.ready != new.ready
        or old.spec.unschedulable != new.spec.unschedulable
        or is_unknown(old) != is_unknown(new)
        or facts_of(old) != facts_of(new)
    )
