"""The policy in force, parsed once per change, and who wants to know.

A policy with problems freezes: nodes go on under the last good text of the same policy, and if there is
none nothing is written at all. So does a policy that came through a CRD older than this program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.policy.active import ActivePolicy, active_of, ignored_of, under_outdated_schemas
from gpuready.controller.schemas import ServedSchemas
from gpuready.kube.cache import WatchCache
from gpuready.log import get_logger

log = get_logger("controller.policy")


class CurrentPolicy:
    def __init__(self, policies: WatchCache[dict[str, Any]], schemas: ServedSchemas) -> None:
        self._policies = policies
        self._schemas = schemas
        self._listeners: list[Callable[[], None]] = []
        self._seen: tuple[object, ...] = ()
        self._last_good: tuple[str, ClusterPolicy] | None = None
        self.active: ActivePolicy | None = None
        policies.add_handler(lambda old, new: self._refresh())
        schemas.on_change(self._refresh)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    @property
    def known(self) -> bool:
        """False until the policies were listed: before that "no policy" must not be believed."""
        return self._policies.synced

    @property
    def effective(self) -> ClusterPolicy | None:
        """What the nodes follow: the policy, or the last good text of a policy that has problems now."""
        if self.active is None:
            return None
        if self.active.policy is not None:
            return self.active.policy
        if self._last_good and self._last_good[0] == self.active.uid:
            return self._last_good[1]
        return None

    @property
    def is_absent(self) -> bool:
        """True when nothing of ours should be in the cluster."""
        return self.known and self.active is None

    def ignored(self) -> list[Mapping[str, Any]]:
        return ignored_of(self._policies.values())

    def _refresh(self) -> None:
        self.active = active_of(self._policies.values())
        if self.active is not None and (outdated := self._schemas.problems):
            self.active = under_outdated_schemas(self.active, outdated)
        if self.active is not None and self.active.policy is not None:
            self._last_good = (self.active.uid, self.active.policy)
        found = self.active
        now = (found.uid, found.generation, found.outdated and found.problems) if found else ()
        if now != self._seen:
            self._seen = now
            self._say()
            for listener in self._listeners:
                listener()

    def _say(self) -> None:
        if self.active is None:
            log.info("no policy in force")
            return
        problems = [problem.message for problem in self.active.problems]
        if problems:
            log.warning("policy has problems", policy=self.active.name, problems=problems)
        else:
            log.info("policy in force", policy=self.active.name, generation=self.active.generation)
