"""Who leads: what one candidate does next about a Lease, judged from what it knows. Pure.

What a candidate knows is one value, `Standing`. `next_step` reads it; `answered`, `seen` and `stepped_down`
make the next one. All times are seconds on this machine's own clock. The times in a Lease are of other clocks
and for people: they are written and never read, so a clock that jumps changes nothing.

Why no two lead at once: a leader leads until `renew_s` after it *started* the last request that was granted.
Another takes the Lease when it has seen one version of it for as long as its holder promised, counted from
when that version *arrived*, and only over that very version (resourceVersion); a promise is believed up to
`LONGEST_S`. The grant lies between the two moments, so the old leader has stopped at least
`lease_s - renew_s` before a new one can begin.

Source of the protocol: client-go v0.36, tools/leaderelection/leaderelection.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from gpuready.errors import UsageError

ALWAYS, NEVER = float("-inf"), float("inf")

# Nobody is believed to be at work for longer than this after the last word of him. The original operator's
# longest Lease is of 65 s (--leader-lease-renew-deadline 60s). Without a bound, one write of a Lease with the
# largest leaseDurationSeconds there is would end all work for 68 years.
LONGEST_S = 120.0
_MOST_TRANSITIONS = 2**31 - 1  # the API's int32: one more would be refused, and the Lease never be had


@dataclass(frozen=True)
class Timing:
    """How long a Lease is good for, how long its leader trusts it, and the pace of its requests.

    lease_s  what the leader promises the others, in whole seconds as the API has it
    renew_s  when it stops by itself, counted from the start of its last granted request
    retry_s  between two renewals, and between two attempts
    """

    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0

    def check(self) -> Timing:
        """Itself; raises UsageError where two could lead, or one could not renew in time."""
        if not self.lease_s > self.renew_s > self.retry_s > 0:
            raise UsageError(
                f"leader election with lease duration {self.lease_s:g} s, renew deadline {self.renew_s:g} s "
                f"and retry period {self.retry_s:g} s cannot work",
                why="a leader must stop before its Lease can be taken, and try more than once until then",
                next_step="choose lease duration > renew deadline > retry period, for example 15s, 10s, 2s",
            )
        return self

    @classmethod
    def of(
        cls, lease_s: float | None = None, renew_s: float | None = None, retry_s: float | None = None
    ) -> Timing:
        """What is given, and for the rest what goes with it; raises UsageError as `check`.

        A renew deadline alone makes a Lease that lasts five seconds longer, as the original operator's does.
        """
        if lease_s is None:
            lease_s = cls.lease_s if renew_s is None else math.ceil(renew_s + 5)
        if lease_s != int(lease_s):
            raise UsageError(
                f"a Lease cannot last {lease_s:g} s",
                why="the API counts its duration in whole seconds",
                next_step="round the lease duration",
            )
        if renew_s is None:
            renew_s = lease_s * cls.renew_s / cls.lease_s
        if retry_s is None:
            retry_s = min(cls.retry_s, renew_s / 5)
        return cls(int(lease_s), renew_s, retry_s).check()

    @property
    def patience_s(self) -> float:
        """For one request: half of the deadline, so that one lost answer leaves time for another try."""
        return self.renew_s / 2


@dataclass(frozen=True)
class Record:
    """A Lease as the API server showed it."""

    lease: Mapping[str, Any]

    @property
    def version(self) -> str:
        return str(self.lease["metadata"].get("resourceVersion") or "")

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.lease.get("spec") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.lease["metadata"].get("annotations") or {}

    @property
    def holder(self) -> str:
        """ "" when nobody holds it."""
        return str(self.spec.get("holderIdentity") or "")

    @property
    def duration_s(self) -> float:
        """What its holder promised, by default what client-go does; how much of it counts: `believed_s`."""
        return float(self.spec.get("leaseDurationSeconds") or Timing.lease_s)


class Action(StrEnum):
    CREATE = "create"
    LOOK = "look"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"
    STEP_DOWN = "step down"


class Refusal(StrEnum):
    """What came instead of a Lease."""

    CONFLICT = "conflict"  # somebody else wrote first
    ABSENT = "absent"  # there is no Lease
    NO_ANSWER = "no answer"  # it may have been granted or not


@dataclass(frozen=True)
class Standing:
    """What one candidate knows of the Lease and of itself.

    record           the Lease as last seen; None before the first look and when there is none
    unchanged_since  when this version of it arrived
    vacant_from      with no record: when whoever held the Lease that vanished has stopped for certain
    in_doubt         a request of ours was not answered, or was refused for something we have not seen
    rests_until      no request before that, unless there is news
    led_from         start of the last granted request; None for who does not lead
    """

    me: str
    timing: Timing
    record: Record | None = None
    unchanged_since: float = ALWAYS
    vacant_from: float = ALWAYS
    in_doubt: bool = False
    rests_until: float = ALWAYS
    led_from: float | None = None

    @property
    def leads_until(self) -> float:
        return ALWAYS if self.led_from is None else self.led_from + self.timing.renew_s

    def leads(self, now: float) -> bool:
        return now < self.leads_until

    @property
    def holder(self) -> str:
        return self.record.holder if self.record else ""

    @property
    def may_be_taken_from(self) -> float:
        """When nobody can lead by what this candidate has seen."""
        if self.record is None:
            return self.vacant_from
        return self.unchanged_since + self.believed_s if self.holder else ALWAYS

    @property
    def longest_s(self) -> float:
        """The longest promise that is believed: our own is, as those of our settings are kept to it."""
        return max(LONGEST_S, self.timing.lease_s)

    @property
    def believed_s(self) -> float:
        """For how long the holder may be at work after the record arrived; 0 without a record."""
        return min(self.record.duration_s, self.longest_s) if self.record else 0.0


@dataclass(frozen=True)
class Step:
    """`until`: for WAIT and STEP_DOWN, when to ask again; news come before."""

    action: Action
    until: float


def next_step(standing: Standing, now: float) -> Step:
    action = next(action for when, action in STEPS if when(standing, now))
    return Step(action, _wakes_at(standing, now))


STEPS: tuple[tuple[Callable[[Standing, float], bool], Action], ...] = (
    # when                                                                then
    (lambda s, now: s.led_from is not None and not s.leads(now), Action.STEP_DOWN),
    (lambda s, now: s.led_from is not None and s.holder not in ("", s.me), Action.STEP_DOWN),
    (lambda s, now: now < s.rests_until, Action.WAIT),
    (lambda s, now: s.in_doubt, Action.LOOK),
    (lambda s, now: s.record is not None and s.holder == s.me, Action.RENEW),
    (lambda s, now: now < s.may_be_taken_from, Action.WAIT),
    (lambda s, now: s.record is None, Action.CREATE),
    (lambda s, now: True, Action.TAKE),
)


def _wakes_at(standing: Standing, now: float) -> float:
    if standing.led_from is not None:
        return min(standing.rests_until, standing.leads_until)
    if now < standing.rests_until or standing.in_doubt:
        return standing.rests_until
    return standing.may_be_taken_from


def asking(standing: Standing) -> Standing:
    """A write is on its way: whoever is stopped before the answer must look again."""
    return replace(standing, in_doubt=True)


def answered(
    standing: Standing, action: Action, answer: Record | Refusal, *, started: float, now: float
) -> Standing:
    """What is known after a request that was sent at `started` and answered, or given up, at `now`."""
    match answer:
        case Record() if action is Action.LOOK:
            return seen(standing, answer, now)
        case Record():
            rests_until = started + standing.timing.retry_s
            known = replace(standing, in_doubt=False, rests_until=rests_until, led_from=started)
            return replace(known, record=answer, unchanged_since=now)
        case Refusal.CONFLICT:
            return replace(standing, in_doubt=True, rests_until=now)
        case Refusal.ABSENT:
            return seen(standing, None, now)
        case _:
            rests_until = max(now, started + standing.timing.retry_s)
            return replace(standing, in_doubt=True, rests_until=rests_until)


def seen(standing: Standing, record: Record | None, now: float) -> Standing:
    """The Lease as it is now, None for gone: from a look or from the watch."""
    known = replace(standing, in_doubt=False, rests_until=now)
    if record is None:
        # Who held what somebody has deleted does not know it yet: his time must run out all the same.
        return replace(known, record=None, vacant_from=_vacant_from(standing))
    if standing.record is not None and standing.record.version == record.version:
        return known
    return replace(known, record=record, unchanged_since=now)


def _vacant_from(standing: Standing) -> float:
    """When whoever held what is deleted now has stopped.

    A promise that no operator makes has nobody behind it, and who deletes it wants to end the waiting.
    Whoever led before it was written lost the Lease by that, and stops as early as one of our own settings.
    """
    record = standing.record
    if record is None or standing.holder == standing.me:
        return standing.vacant_from
    if record.duration_s <= standing.longest_s:
        return standing.may_be_taken_from
    return standing.unchanged_since + standing.timing.lease_s


def stepped_down(standing: Standing, now: float) -> Standing:
    """A candidate like any other, who looks before anything else."""
    return replace(standing, led_from=None, in_doubt=True, rests_until=now)


def claimed(
    standing: Standing, metadata: Mapping[str, Any], annotations: Mapping[str, str], wall: datetime
) -> dict[str, Any]:
    """The Lease to write: ours from now on.

    metadata     name and namespace, for a Lease that is not there
    annotations  added to those it has
    wall         the time of day, for people
    """
    time = _micro_time(wall)
    spec: dict[str, Any] = {"acquireTime": time, "leaseTransitions": 0}
    if standing.record is not None:
        spec = dict(standing.record.spec)
        metadata = standing.record.lease["metadata"]
        if standing.holder != standing.me:
            spec["acquireTime"] = time
            spec["leaseTransitions"] = min(int(spec.get("leaseTransitions") or 0) + 1, _MOST_TRANSITIONS)
    spec |= {
        "holderIdentity": standing.me,
        "leaseDurationSeconds": standing.timing.lease_s,
        "renewTime": time,
    }
    merged = {**(metadata.get("annotations") or {}), **annotations}
    return _lease({**metadata, "annotations": merged}, spec)


def released(record: Record, wall: datetime) -> dict[str, Any]:
    """The Lease to write by who holds it and does nothing any more: nobody's.

    leaseDurationSeconds is 1, the least that the API takes, for candidates who wait it out all the same.
    """
    time = _micro_time(wall)
    spec = {**record.spec, "holderIdentity": "", "leaseDurationSeconds": 1}
    return _lease(record.lease["metadata"], {**spec, "renewTime": time, "acquireTime": time})


def _lease(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": kept, "spec": dict(spec)}


def _micro_time(wall: datetime) -> str:
    return wall.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
