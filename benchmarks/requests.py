"""What our programs asked of the API server, from its request log."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.request_log import RequestLine

OPERATOR, AGENT = "gpuready-operator", "gpuready-node-agent"
QUIET_S = 1.5  # longer than the second for which a status may wait for its turn
# Counts in a policy's status may come this long after the news.
DETAILS_S = 5.5
DEADLINE_S = 60.0


def asked(cluster: Cluster, since: datetime, client: str = OPERATOR) -> list[RequestLine]:
    """Without watches and the Lease: both go on whatever happens, and are no price of a change."""
    lines = [line for line in cluster.requests(since=since) if not line.is_lease]
    return [line for line in lines if line.fields["client"] == client and line.fields["verb"] != "watch"]


def by_kind(lines: Iterable[RequestLine], *, busiest: int = 3) -> str:
    """The busiest kinds of request, with their counts."""
    kinds = Counter(f"{line.fields['verb']} {line.what}" for line in lines)
    chosen = kinds.most_common(busiest)
    left = sum(kinds.values()) - sum(count for _, count in chosen)
    shown = [f"{kind} {count}" for kind, count in chosen]
    return ", ".join(shown + ([f"others {left}"] if left else []))


async def until_quiet(
    cluster: Cluster, quiet_s: float = QUIET_S, *, clients: Sequence[str] = (OPERATOR, AGENT)
) -> datetime:
    """Wait until none of these programs has asked anything for so long; the moment when that was so."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        start = datetime.now(UTC)
        await asyncio.sleep(quiet_s)
        if not any(asked(cluster, start, client) for client in clients):
            return datetime.now(UTC)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{', '.join(clients)} still ask the API server after {DEADLINE_S:g} s")
