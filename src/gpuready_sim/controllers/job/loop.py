"""Runs the decisions for Jobs."""

from __future__ import annotations

from datetime import UTC, datetime

from gpuready_sim.client import JOBS, Object, SimClient
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.job.decision import Plan, decide, is_finished
from gpuready_sim.controllers.pod_owner import PodOwner


class JobController(PodOwner):
    def __init__(self, client: SimClient, caches: Caches) -> None:
        super().__init__(client, caches, JOBS, caches.jobs, name="job-controller")

    async def sync(self, owner: Object) -> float | None:
        if is_finished(owner):
            return None
        plan = decide(owner, self.pods_of(owner), datetime.now(UTC))
        for _ in range(plan.create):
            await self.create_pod(owner, _labels_of(owner))
        for pod in plan.delete:
            await self.delete_pod(pod)
        if await self.report(owner, plan.status):
            self._tell_the_end(owner, plan)
        return plan.again_s

    def _tell_the_end(self, job: Object, plan: Plan) -> None:
        for row in plan.status.get("conditions") or ():
            if row["type"] == "Complete":
                self.say(job, "Normal", "Completed", "Job completed")
            elif row["type"] == "Failed":
                self.say(job, "Warning", row["reason"], row["message"])


def _labels_of(job: Object) -> dict[str, str]:
    meta = job["metadata"]
    return {
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
