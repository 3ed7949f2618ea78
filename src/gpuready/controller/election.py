"""Which operator works: all of them wait for one Lease, the one that the original operator uses too.

So there is never a second operator at work, be it ours or the original: whoever holds the Lease leads, the
others keep their caches warm and report. Which of both holds it is told from an annotation that ours write.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from gpuready import names
from gpuready.controller.current import CurrentPolicy
from gpuready.kube.client import KubeClient
from gpuready.kube.election import Elector
from gpuready.kube.events import NORMAL, WARNING, EventRecorder
from gpuready.kube.fence import Fence
from gpuready.kube.lease import Record, Timing
from gpuready.log import get_logger

log = get_logger("operator")


def elects_by_default(env: Mapping[str, str], kubeconfig: str | None) -> bool:
    """In a pod, where a Deployment may well run two; not beside a cluster, where somebody tries something."""
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and not (kubeconfig or env.get("KUBECONFIG"))


def identity(env: Mapping[str, str]) -> str:
    """Under which name this operator holds the Lease.

    In a pod, the pod's: a container that ends is surely gone when the next one of the pod starts, and two at
    once cannot be, for the ports are bound first. So who is started anew goes on at once, and waits for
    nobody's time. Elsewhere the process's own.
    """
    return f"{socket.gethostname()}_{env.get(names.POD_UID_ENV) or uuid.uuid4()}"


def is_originals(record: Record) -> bool:
    """Held by an original operator, which leaves our annotation as it was."""
    return bool(record.holder) and record.annotations.get(names.LEADER_ANNOTATION) != record.holder


class Leadership:
    """This operator's part in it.

    client   without a fence, for the Lease and what is said about it
    worker   behind the fence, for the work
    current  the policy in force: its reader is told who leads, if it is none of ours
    me       see `identity`
    """

    def __init__(
        self,
        client: KubeClient,
        worker: KubeClient,
        fence: Fence,
        namespace: str,
        timing: Timing,
        current: CurrentPolicy,
        me: str,
    ) -> None:
        self._elector = Elector(
            client,
            namespace,
            names.LEADER_LEASE,
            me,
            timing,
            fence,
            annotations={names.LEADER_ANNOTATION: me},
            sever=worker.sever,
        )
        self._events = EventRecorder(client, "gpuready-operator", instance=socket.gethostname())
        self._current = current

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until cancelled: `lead` whenever, and only as long as, this operator leads."""
        async with asyncio.TaskGroup() as telling:

            async def term() -> None:
                telling.create_task(self._tell_leading())
                await lead()

            def standing_by(record: Record) -> None:
                telling.create_task(self._tell_standing_by(record))

            await self._elector.run(term, standing_by=standing_by)

    def readiness(self) -> tuple[bool, str]:
        """For /readyz: a candidate is ready, whoever cannot get at the Lease is not, and says why."""
        elector, record = self._elector, self._elector.record
        if elector.leads:
            return self._leaders_readiness()
        if elector.trouble:
            return False, f"standing by, but the Lease {self._lease} cannot be had: {elector.trouble}"
        return True, f"ok, standing by: {self._who_holds_it(record)}"

    def _who_holds_it(self, record: Record | None) -> str:
        free_in = f"{self._elector.free_in_s:.0f} s"
        if record is not None and record.holder:
            return (
                f"{record.holder} holds the Lease {self._lease}, "
                f"which is free in {free_in} unless it is renewed"
            )
        if record is None and self._elector.free_in_s:
            return f"the Lease {self._lease} was deleted; its last holder's time ends in {free_in}"
        return f"nobody holds the Lease {self._lease}, asking for it"

    def _leaders_readiness(self) -> tuple[bool, str]:
        elector = self._elector
        late_s = elector.unrenewed_s
        if late_s < elector.timing.patience_s:
            return True, f"ok, leading by the Lease {self._lease}"
        left_s = elector.timing.renew_s - late_s
        why = elector.trouble or "no answer yet"
        return False, (
            f"leading, but the Lease {self._lease} was last renewed {late_s:.1f} s ago: {why}; "
            f"without a renewal all work stops in {left_s:.1f} s"
        )

    @property
    def _lease(self) -> str:
        return f"{self._elector.namespace}/{self._elector.name}"

    async def _tell_leading(self) -> None:
        record = self._elector.record
        if record is not None:
            text = f"{self._elector.me} became leader"
            await self._events.event(record.lease, NORMAL, "LeaderElection", text)

    async def _tell_standing_by(self, record: Record) -> None:
        believed_s = self._elector.believed_s
        if record.duration_s > believed_s:
            log.warning(
                "the holder of the lease promises more than any operator does",
                lease=self._lease,
                holder=record.holder,
                promised_s=record.duration_s,
                retry_in_s=believed_s,
                next_step=f"if no such operator runs: kubectl delete lease -n {self._elector.namespace} "
                f"{self._elector.name}",
            )
        if not is_originals(record):
            log.info("standing by", lease=self._lease, holder=record.holder)
            return
        why = f"the original GPU operator leads: {record.holder} holds the Lease {self._lease}"
        step = "scale the original's Deployment to 0; gpuready takes over once the Lease is not renewed"
        log.warning("only watching", reason=why, next_step=step)
        policy = self._current.active
        if policy is not None:
            text = f"gpuready only watches: {why}; next: {step} for {believed_s:.0f} s"
            await self._events.event(policy.raw, WARNING, "OriginalOperatorLeads", text)
