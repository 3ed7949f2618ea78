"""Times as Kubernetes objects carry them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(seconds: float | None = None) -> str:
    """ "2027-01-31T12:00:00Z"; now without an argument."""
    return f"{_at(seconds):%Y-%m-%dT%H:%M:%SZ}"


def micro_timestamp() -> str:
    return f"{_at(None):%Y-%m-%dT%H:%M:%S.%fZ}"


def _at(seconds: float | None) -> datetime:
    return datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
