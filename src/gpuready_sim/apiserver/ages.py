"""How long ago, in the few characters that kubectl shows: 45s, 3m20s, 5d3h.

Source: kubernetes, apimachinery pkg/util/duration/duration.go.
"""

from __future__ import annotations

from datetime import datetime, timedelta


def since(timestamp: str | None, now: datetime) -> str:
    """The age of an RFC 3339 timestamp; "<unknown>" where there is none."""
    if not timestamp:
        return "<unknown>"
    return human(now - datetime.fromisoformat(timestamp))


def human(duration: timedelta) -> str:
    seconds = int(duration.total_seconds())
    if duration.total_seconds() < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
