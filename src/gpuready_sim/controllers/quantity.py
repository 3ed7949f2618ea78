"""Kubernetes quantities and what a pod asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}

Amounts = dict[str, Decimal]


def parse_quantity(text: object) -> Decimal:
    """`500m` -> 0.5, `1Gi` -> 1073741824, `1e3` -> 1000.

    raises  ValueError when it is no quantity
    """
    raw = str(text).strip()
    for suffix in (raw[-2:], raw[-1:]):
        if suffix in _SUFFIXES and len(raw) > len(suffix):
            return _number(raw[: -len(suffix)], raw) * _SUFFIXES[suffix]
    return _number(raw, raw)


def _number(digits: str, whole: str) -> Decimal:
    try:
        return Decimal(digits)
    except ArithmeticError as exc:
        raise ValueError(f"{whole!r} is no quantity") from exc


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    return {name: parse_quantity(value) for name, value in (resources or {}).items()}


def requests_of(pod: Mapping[str, Any]) -> Amounts:
    """What the scheduler must reserve for a pod: the larger of its containers' sum and its init phase.

    Restartable init containers (sidecars) count with the main containers and with every init container
    that comes after them. Limits stand in where a request is missing.
    Source: kubernetes, component-helpers/resource/helpers.go, PodRequests.
    """
    spec = pod["spec"]
    total = _sum(_container_requests(c) for c in spec.get("containers") or [])
    sidecars: Amounts = {}
    initial: Amounts = {}
    for container in spec.get("initContainers") or []:
        asked = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, asked))
            initial = _largest(initial, sidecars)
        else:
            initial = _largest(initial, _sum((sidecars, asked)))
    return _sum((_largest(_sum((total, sidecars)), initial), amounts(spec.get("overhead"))))


def _container_requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, Decimal(0)) + value
    return total


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {
        name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0)))
        for name in one.keys() | other.keys()
    }
