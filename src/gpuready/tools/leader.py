"""Whether an operator works, by the Lease that all of them renew while they do. Pure."""

from __future__ import annotations

from gpuready.kube.lease import LONGEST_S, Record
from gpuready.tools.snapshot import Object, seconds_between

# Whoever works renews every two seconds. The rest is for clocks that differ: renewTime is of the holder's.
CLOCKS_S = 45.0


def why_nobody_works(lease: Object | None, now: str) -> str:
    """ "" while somebody renews it, and where there is none. now: RFC 3339."""
    if lease is None:
        return ""
    record = Record(lease)
    renewed = str(record.spec.get("renewTime") or "")
    ago_s = seconds_between(renewed, now)
    if ago_s <= min(record.duration_s, LONGEST_S) + CLOCKS_S:
        return ""
    when = f"last renewed {_in_words(ago_s)} ago" if ago_s < float("inf") else "never renewed"
    whose = f"held by {record.holder}" if record.holder else "held by nobody"
    return f"no operator is working: the Lease {_name(lease)} is {whose} and was {when}"


def next_step(lease: Object) -> str:
    return (
        f"see that the operator's pods run (kubectl get pods -n {lease['metadata']['namespace']}); what they "
        "wait for stands in their log and at /readyz"
    )


def _name(lease: Object) -> str:
    return f"{lease['metadata']['namespace']}/{lease['metadata']['name']}"


def _in_words(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
