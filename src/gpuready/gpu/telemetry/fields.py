"""The fields that a counters file may name: DCGM's by id and every spelling, and our own.

Names stand in dcgm_names.csv (id, then the spelling of DCGM 4.5, that of 4.6, that of exporter 1.x); what a
field is and how NVML tells it stands in `table.py`. A field of DCGM that is not there is known by name only,
and `missing_reason` says why it has no value without DCGM.

Source: DCGM v4.5.3 and v4.6.0, dcgmlib/dcgm_fields.h; go-dcgm, pkg/dcgm/const_fields.go.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from gpuready.gpu.telemetry.model import Field, Kind
from gpuready.gpu.telemetry.sources import Missing, Source
from gpuready.gpu.telemetry.table import Row, dcgm_rows, exporter_rows, own_rows, unread_row

FIRST_OF_OURS = 9001  # from here on the exporter computes, or has metrics of its own
_NOT_OF_GPUS = (range(700, 825), range(844, 879), range(1100, 1200), range(1300, 1400))
# NvSwitches, CPUs, network adapters. Source: DCGM v4.6.0, dcgmlib/dcgm_fields.h.


def find_field(name: str) -> Field | None:
    """The field of any spelling, exactly as written; also one that has no value without DCGM."""
    row = _by_name().get(name)
    return row.field if row else None


def field_of(field_id: int) -> Field:
    """raises KeyError when neither DCGM nor we have such an id"""
    return _by_id()[field_id].field


def sources_of(field: Field) -> tuple[Source, ...]:
    return _by_id()[field.id].sources


def missing_reason(field: Field, *, dcgm: bool = False) -> str:
    """Why no GPU can tell this field; "" when it can be read. dcgm: whether DCGM is asked, too."""
    only = sources_of(field)[0]
    if not isinstance(only, Missing):
        return ""
    if dcgm and field.id < FIRST_OF_OURS:
        return "" if is_dcgms(field) else "it is not of a GPU, and DCGM is asked of GPUs only"
    return only.reason


def is_dcgms(field: Field) -> bool:
    """Whether DCGM tells it of a GPU, of an instance, of an NVLink or of the node."""
    return field.id < FIRST_OF_OURS and not any(field.id in ids for ids in _NOT_OF_GPUS)


def own_fields() -> tuple[Field, ...]:
    """Those that DCGM does not have."""
    return tuple(row.field for row in own_rows())


def all_names() -> Iterable[str]:
    return _by_name().keys()


def is_text(field: Field) -> bool:
    """Whether its value is text, which only a label can hold."""
    return field.kind is Kind.LABEL


@cache
def _by_name() -> Mapping[str, Row]:
    return {name: row for row in _by_id().values() for name in row.field.names}


@cache
def _by_id() -> Mapping[int, Row]:
    names = _dcgm_names()
    rows = {row.field.id: row for row in [*dcgm_rows(names), *exporter_rows(), *own_rows()]}
    for field_id, spellings in names.items():
        rows.setdefault(field_id, unread_row(field_id, spellings))
    return rows


def _dcgm_names() -> Mapping[int, tuple[str, ...]]:
    text = Path(__file__).with_name("dcgm_names.csv").read_text()
    return {int(row["id"]): tuple(row["names"].split()) for row in csv.DictReader(text.splitlines())}
