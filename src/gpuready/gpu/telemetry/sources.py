"""How a field is read, as data: which NVML call or GPM metric, what is taken out of it, in which unit.

`fields.py` gives each field its source, or several that are tried in order; `device_reader.py` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WHOLE_GPU = 0xFFFFFFFF
# Scope of a field value that is asked for all links of a GPU together, and that NVLink 5 insists on.
# Source: DCGM v4.6.0, dcgmlib/src/DcgmCacheManager.cpp:6583, 8691.

LINK = "link"  # stands for the number of the link that is read


@dataclass(frozen=True, slots=True)
class Unit:
    """value = raw * times / per, rounded down where `whole`; a raw value above `limit` is no reading."""

    times: int = 1
    per: int = 1
    whole: bool = True
    limit: int | None = None


PLAIN = Unit()


@dataclass(frozen=True, slots=True)
class Getter:
    """An NVML function of a device.

    args   after the handle; LINK is replaced
    pick   attribute or position of the value in the answer; None when the answer is the value
    words  text for the numbers of an enumeration
    """

    call: str
    args: tuple[int | str, ...] = ()
    pick: str | int | None = None
    unit: Unit = PLAIN
    words: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class FieldValue:
    """An entry of nvmlDeviceGetFieldValues; all of a GPU are asked in one call."""

    id: int
    scope: int | str = 0
    unit: Unit = PLAIN


@dataclass(frozen=True, slots=True)
class Rate:
    """Sum of counters' growth for each second since the last look. counters: (field value id, scope)."""

    counters: tuple[tuple[int, int | str], ...]
    unit: Unit = PLAIN


@dataclass(frozen=True, slots=True)
class Gpm:
    """A GPM metric over the time since the last look.

    times  0.01 makes a share of GPM's percents, 2**20 bytes of its MiB
    """

    metric: int
    times: float


@dataclass(frozen=True, slots=True)
class Fact:
    """What the reader knows anyway: "uuid", "name", "pci_bus_id", "driver_version", ..."""

    name: str


@dataclass(frozen=True, slots=True)
class Derived:
    """Computed from several looks or from events: `derived.py`."""

    name: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Not to be had. `reason`: a clause after "the field is left out: "."""

    reason: str


Source = Getter | FieldValue | Rate | Gpm | Fact | Derived | Missing
