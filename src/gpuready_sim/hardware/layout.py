"""The layout of gpus.state, read from the C header so that there is only one definition of it.

`nvml/state.h` keeps to a small subset of C (its comment says which); this module turns it into ctypes
structures of the same names and natural alignment.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib.resources import files
from typing import Any

_TYPES: dict[str, Any] = {
    "char": ctypes.c_char,
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "uint64_t": ctypes.c_uint64,
}
_DEFINE = re.compile(r"^#define (NVSIM_\w+) (0x[0-9a-f]+|\d+)$", re.MULTILINE)
_STRUCT = re.compile(r"^typedef struct \{\n(.*?)^\} (\w+);$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(\w+) (\w+)(?:\[(\w+)\])?;$", re.MULTILINE)


@cache
def constants() -> dict[str, int]:
    """The header's numbers: {"NVSIM_MAX_GPUS": 32, ...}."""
    return {name: int(value, 0) for name, value in _DEFINE.findall(_header())}


@cache
def structures() -> dict[str, type[ctypes.Structure]]:
    """The header's structures by name: nvsim_gpu, nvsim_holder, nvsim_event, nvsim_process, nvsim_state."""
    found: dict[str, type[ctypes.Structure]] = {}
    for body, name in _STRUCT.findall(_header()):
        fields = [_field(*match, known=found) for match in _FIELD.findall(body)]
        found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return found


def _field(
    kind: str, name: str, length: str, *, known: dict[str, type[ctypes.Structure]]
) -> tuple[str, type]:
    base = known.get(kind) or _TYPES[kind]
    if not length:
        return name, base
    return name, base * (int(length) if length.isdigit() else constants()[length])


def _header() -> str:
    return files("gpuready_sim.nvml").joinpath("state.h").read_text()
