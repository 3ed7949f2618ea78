"""Whether an operator works, by the Lease that all of them renew while they do. Pure.

Without a Lease it is asked whether one could work at all: an operator beside its cluster needs none.
"""

from __future__ import annotations

from gpuready import names
from gpuready.kube.lease import LONGEST_S, Record
from gpuready.tools.snapshot import Object, Snapshot, seconds_between

# Whoever works renews every two seconds. The rest is for clocks that differ: renewTime is of the holder's.
CLOCKS_S = 45.0
# A holder whose clock is this far ahead may have ended long ago: nobody could tell.
AHEAD_S = 3600.0


def why_nobody_works(seen: Snapshot) -> str:
    """ "" while somebody renews it, and where there is none and nothing else says that nobody works."""
    lease, now = seen.lease, seen.taken_at
    if lease is None:
        why = _why_without_lease(seen.place or {})
        return f"no operator is working: {why}" if why else ""
    record = Record(lease)
    renewed = str(record.spec.get("renewTime") or "")
    ago_s = seconds_between(renewed, now)
    whose = f"held by {record.holder}" if record.holder else "held by nobody"
    if ago_s < -AHEAD_S:
        when = f"was renewed {_in_words(-ago_s)} from now by its holder's clock, {renewed}"
        return f"whether an operator works cannot be told: the Lease {_name(lease)} is {whose} and {when}"
    if ago_s <= min(record.duration_s, LONGEST_S) + CLOCKS_S:
        return ""
    when = f"last renewed {_in_words(ago_s)} ago" if ago_s < float("inf") else "never renewed"
    return f"no operator is working: the Lease {_name(lease)} is {whose} and was {when}"


def next_step(seen: Snapshot) -> str:
    """Where nobody works."""
    place = seen.place or {}
    if place.get("gone"):
        return "install the operator again, as in docs/guides/install.md"
    first = (seen.lease or {}).get("metadata") or place["deployments"][0]
    return (
        f"see that the operator's pods run (kubectl get pods -n {first['namespace']}); what they "
        "wait for stands in their log and at /readyz"
    )


def line_of(seen: Snapshot) -> str:
    """Both in one line; "" while somebody works."""
    why = why_nobody_works(seen)
    return f"{why}; next: {next_step(seen)}" if why else ""


def _why_without_lease(place: Object) -> str:
    if place.get("gone"):
        return f"the namespace {place.get('namespace')}, from where it answered the policy, is gone"
    deployments = place.get("deployments") or ()
    if not deployments or any(each.get("ready") for each in deployments):
        return ""  # it runs beside the cluster, if at all; or without an election
    first = deployments[0]
    name = f"{first['namespace']}/{first['name']}"
    return f"no pod of its Deployment {name} is ready, and there is no Lease {names.LEADER_LEASE}"


def _name(lease: Object) -> str:
    return f"{lease['metadata']['namespace']}/{lease['metadata']['name']}"


def _in_words(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
