"""Which ClusterPolicy counts: the oldest, ties by name; the others wait for their turn.

Pure. A policy with problems is still the active one: it freezes what runs instead of removing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.api.policy import find_problems, parse_policy
from gpuready.api.validation import PolicyProblem
from gpuready.errors import PolicyError


@dataclass(frozen=True)
class ActivePolicy:
    """The policy in force.

    policy     None when `problems` forbid to act on it: everything that runs is left alone
    outdated   the problems are the cluster's CRDs, not the policy's: what it asks for may not have arrived
    """

    name: str
    uid: str
    generation: int
    raw: Mapping[str, Any]
    policy: ClusterPolicy | None
    problems: tuple[PolicyProblem, ...] = ()
    outdated: bool = False

    @property
    def is_frozen(self) -> bool:
        return self.policy is None


def active_of(objects: Iterable[Mapping[str, Any]]) -> ActivePolicy | None:
    """None when there is no policy, or every one is being deleted.

    Source of the order: gpu-operator v26.7.0 (26.3.3 keeps the first it happens to see).
    """
    candidates = sorted(_living(objects), key=_age)
    return read(candidates[0]) if candidates else None


def under_outdated_schemas(active: ActivePolicy, problems: tuple[PolicyProblem, ...]) -> ActivePolicy:
    """The same policy, frozen: a field that the API server dropped looks like one that was never set."""
    return replace(active, policy=None, problems=problems, outdated=True)


def ignored_of(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(_living(objects), key=_age)[1:]


def read(raw: Mapping[str, Any]) -> ActivePolicy:
    metadata = raw["metadata"]
    problems = tuple(find_problems(raw))
    policy = None if problems else _parsed(raw)
    return ActivePolicy(
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        raw=raw,
        policy=policy,
        problems=problems,
    )


def _parsed(raw: Mapping[str, Any]) -> ClusterPolicy | None:
    try:
        return parse_policy(dict(raw))
    except PolicyError:
        return None


def _living(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [obj for obj in objects if not obj["metadata"].get("deletionTimestamp")]


def _age(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]
