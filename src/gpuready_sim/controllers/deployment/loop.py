"""Runs the decisions for Deployments: keeps one ReplicaSet a template and moves their numbers."""

from __future__ import annotations

from gpuready_sim.client import (
    DEPLOYMENTS,
    REPLICA_SETS,
    AlreadyExists,
    NotFound,
    Object,
    Resource,
    SimClient,
    key_of,
)
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.deployment import rollout
from gpuready_sim.controllers.events import now_text
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.controllers.owned import controller_of, is_deleting, is_owned_by, reference_to


class DeploymentController:
    def __init__(self, client: SimClient, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._loop = KeyedLoop("deployment controller", self._sync)
        caches.deployments.add_handler(lambda old, new: self._loop.mark(key_of(new or old or {})))
        caches.replica_sets.add_handler(self._replica_set_changed)
        caches.pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        await self._loop.run()

    def _replica_set_changed(self, old: Object | None, new: Object | None) -> None:
        replica_set = new or old or {}
        owner = controller_of(replica_set)
        if owner and owner["kind"] == "Deployment":
            self._loop.mark(f"{replica_set['metadata']['namespace']}/{owner['name']}")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """The last old pod of a Recreate is gone."""
        if new is not None or old is None:
            return
        owner = controller_of(old)
        if owner and owner["kind"] == "ReplicaSet":
            namespace = old["metadata"]["namespace"]
            self._replica_set_changed(None, self._caches.replica_sets.get(owner["name"], namespace) or old)

    async def _sync(self, key: str) -> float | None:
        deployment = self._caches.deployments.objects.get(key)
        if deployment is None or is_deleting(deployment):
            return None
        view = self._view(deployment)
        if view.new is None:
            await self._create(deployment, view)
            return None  # the watch brings it
        await self._keep_revision(deployment, view, view.new)
        for name, count in rollout.scaled(view).items():
            patch = {"spec": {"replicas": count}}
            await self._client.merge_patch(REPLICA_SETS, name, patch, deployment["metadata"]["namespace"])
        for each in rollout.surplus(view):
            await self._client.delete(REPLICA_SETS, rollout.name_of(each), each["metadata"]["namespace"])
        await self._report(deployment, view)
        return None

    def _view(self, deployment: Object) -> rollout.View:
        uid = deployment["metadata"]["uid"]
        own = [each for each in self._caches.replica_sets.objects.values() if is_owned_by(each, uid)]
        pods = sum(
            is_owned_by(pod, each["metadata"]["uid"])
            for pod in self._caches.pods.objects.values()
            for each in own
        )
        return rollout.View(deployment, own, pods)

    async def _create(self, deployment: Object, view: rollout.View) -> None:
        made = rollout.new_replica_set(view, rollout.next_revision(view))
        made["metadata"]["ownerReferences"] = [reference_to("apps/v1", "Deployment", deployment)]
        try:
            await self._client.create(REPLICA_SETS, made)
        except AlreadyExists:
            pass  # the cache has not seen it yet

    async def _keep_revision(self, deployment: Object, view: rollout.View, new: rollout.Object) -> None:
        """An older template that is back becomes the newest revision, as after `kubectl rollout undo`."""
        namespace = deployment["metadata"]["namespace"]
        revision = rollout.revision_of(new)
        if any(rollout.revision_of(each) > revision for each in view.old):
            revision = rollout.next_revision(view)
            await self._annotate(REPLICA_SETS, new, revision, namespace)
        if rollout.revision_of(deployment) != revision:
            await self._annotate(DEPLOYMENTS, deployment, revision, namespace)

    async def _annotate(self, resource: Resource, obj: rollout.Object, revision: int, namespace: str) -> None:
        patch = {"metadata": {"annotations": {rollout.REVISION: str(revision)}}}
        await self._client.merge_patch(resource, rollout.name_of(obj), patch, namespace)

    async def _report(self, deployment: Object, view: rollout.View) -> None:
        wanted, have = rollout.status_of(view, now_text()), deployment.get("status") or {}
        if all(have.get(name) == value for name, value in wanted.items()):
            return
        meta = deployment["metadata"]
        try:
            await self._client.merge_patch(
                DEPLOYMENTS, meta["name"], {"status": wanted}, meta["namespace"], subresource="status"
            )
        except NotFound:
            pass  # deleted meanwhile
