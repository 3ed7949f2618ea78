"""Runs the decisions for Jobs."""

from __future__ import annotations

from datetime import UTC, datetime

from gpuready_sim.client import JOBS, PODS, NotFound, Object, SimClient, key_of
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.events import Events
from gpuready_sim.controllers.job.decision import Plan, decide, is_finished
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.controllers.owned import Expected, controller_of, is_deleting, pod_from, reference_to


class JobController:
    def __init__(self, client: SimClient, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._events = Events(client, "job-controller")
        self._expected = Expected()
        self._loop = KeyedLoop("job controller", self._sync)
        caches.jobs.add_handler(lambda old, new: self._loop.mark(key_of(new or old or {})))
        caches.pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        await self._loop.run()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        self._expected.seen(old, new)
        pod = new or old or {}
        owner = controller_of(pod)
        if owner and owner["kind"] == "Job":
            self._loop.mark(f"{pod['metadata']['namespace']}/{owner['name']}")

    async def _sync(self, key: str) -> float | None:
        job = self._caches.jobs.objects.get(key)
        if job is None or is_deleting(job) or is_finished(job):
            return None
        pods = self._expected.of(job["metadata"]["uid"], self._caches.pods.objects.values())
        plan = decide(job, pods, datetime.now(UTC))
        for _ in range(plan.create):
            await self._create(job)
        for pod in plan.delete:
            meta = pod["metadata"]
            self._expected.deleted(pod)
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        await self._report(job, plan)
        return plan.again_s

    async def _create(self, job: Object) -> None:
        meta = job["metadata"]
        labels = {
            "batch.kubernetes.io/controller-uid": meta["uid"],
            "batch.kubernetes.io/job-name": meta["name"],
            "controller-uid": meta["uid"],
            "job-name": meta["name"],
        }
        reference = reference_to("batch/v1", "Job", job)
        pod = await self._client.create(PODS, pod_from(job["spec"]["template"], job, reference, labels))
        if key_of(pod) not in self._caches.pods.objects:
            self._expected.created(pod)
        self._say(job, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    async def _report(self, job: Object, plan: Plan) -> None:
        meta, have = job["metadata"], job.get("status") or {}
        if all(have.get(name) == value for name, value in plan.status.items()):
            return
        try:
            await self._client.merge_patch(
                JOBS, meta["name"], {"status": plan.status}, meta["namespace"], subresource="status"
            )
        except NotFound:
            return  # deleted meanwhile
        for row in plan.status.get("conditions") or ():
            if row["type"] == "Complete":
                self._say(job, "Normal", "Completed", "Job completed")
            elif row["type"] == "Failed":
                self._say(job, "Warning", row["reason"], row["message"])

    def _say(self, job: Object, kind: str, reason: str, message: str) -> None:
        self._events.say({**job, "apiVersion": "batch/v1", "kind": "Job"}, kind, reason, message)
