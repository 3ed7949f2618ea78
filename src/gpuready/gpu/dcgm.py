"""DCGM's library through ctypes: a session with a host engine elsewhere, or with one in this process.

The only module that touches libdcgm. A session is used from one thread, and each call takes as long as the
engine likes: whoever cannot wait asks from a thread of its own. Errors are `DcgmError`.

What is declared here has the same layout in all of DCGM 3.1 to 4.6, so that either soname will do.

Source: DCGM v3.1.8, v3.3.9, v4.0.0 and v4.6.0, dcgmlib/dcgm_agent.h, dcgm_structs.h and dcgm_fields.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    POINTER,
    Array,
    Structure,
    Union,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_longlong,
    c_size_t,
    c_uint,
    c_ushort,
)
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpuready.errors import HardwareError

SONAMES = ("libdcgm.so.4", "libdcgm.so.3")
EMBEDDED = "embedded"
MOST_FIELDS = 128  # of one field group, and of one question

NO_DATA, NO_PERMISSION, NOT_SUPPORTED = -14, -17, -6
MODULE_NOT_LOADED, PROFILING_NOT_SUPPORTED = -33, -36
GROUP_INCOMPATIBLE, CONNECTION_NOT_VALID, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = -23, -21, -25, -20
_UNINITIALIZED, _TIMEOUT = -10, -11

CODE_NAMES = {
    -1: "BadParam", -3: "GenericError", -4: "Memory", -5: "NotConfigured", -6: "NotSupported",
    -7: "InitError", -8: "NvmlError", -9: "Pending", -10: "Uninitialized", -11: "Timeout",
    -12: "VersionMismatch", -13: "UnknownField", -14: "NoData", -15: "StaleData", -16: "NotWatched",
    -17: "NoPermission", -18: "GpuIsLost", -19: "ResetRequired", -20: "FunctionNotFound",
    -21: "ConnectionNotValid", -22: "GpuNotSupported", -23: "GroupIncompatible", -24: "MaxLimit",
    -25: "LibraryNotFound", -29: "RequiresRoot", -31: "InsufficientSize", -32: "FieldUnsupportedByApi",
    -33: "ModuleNotLoaded", -34: "InUse", -35: "GroupIsEmpty", -36: "ProfilingNotSupported",
    -37: "ProfilingLibraryError", -38: "ProfilingMultiPass", -44: "InsufficientDriverVersion",
    -45: "InstanceNotFound", -46: "ComputeInstanceNotFound", -49: "InsufficientResources", -54: "Paused",
    -56: "NvmlNotLoaded", -57: "NvmlDriverTimeout", -67: "GpusDetached",
}  # fmt: skip
_NEXT_STEPS = {
    CONNECTION_NOT_VALID: "is nv-hostengine up, and does it listen at this address?",
    LIBRARY_NOT_FOUND: "install datacenter-gpu-manager-4 on the node, or leave DCGM out",
    -12: "library and engine must be of the same major version of DCGM",
    -17: "profiling needs CAP_SYS_ADMIN, or a driver that lets everybody profile",
    -33: "the engine lacks this module: install datacenter-gpu-manager-4-proprietary on its node",
}


class Group(IntEnum):
    """Kinds of entities."""

    GPU = 1
    GPU_INSTANCE = 4
    COMPUTE_INSTANCE = 5
    LINK = 6


Pair = tuple[Group, int]  # an entity: its kind, and the engine's own number
Value = int | float | str


class DcgmError(HardwareError):
    """DCGM's answer to one call: `code` as in dcgm_structs.h and its name."""

    def __init__(self, code: int, call: str, detail: str = "") -> None:
        self.code = code
        self.name = name_of(code)
        what = f"{call} answered {self.name} ({code})" + (f": {detail}" if detail else "")
        super().__init__(what, next_step=_NEXT_STEPS.get(code, ""))

    @property
    def ends_session(self) -> bool:
        return self.code in (CONNECTION_NOT_VALID, _UNINITIALIZED, _TIMEOUT)


def name_of(code: int) -> str:
    return CODE_NAMES.get(code, f"Code{code}")


@dataclass(frozen=True, slots=True)
class HostEngine:
    """Where an engine listens: "host", "host:port" or, `is_socket`, the path of a unix socket."""

    address: str
    is_socket: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """An instance of a MIG GPU as the engine numbers it. compute  whether it is a compute instance"""

    pair: Pair
    gpu: int
    instance_id: int
    compute: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest that the engine has of a field. `value`: as it stands there, perhaps one of its blanks.

    status  0, or a code of `CODE_NAMES`
    at_us   by the engine's clock, since 1970
    """

    field: int
    value: Value | None
    status: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Watch:
    """Numbers of a group of entities and one of fields, as the engine knows them."""

    entities: int
    fields: int


class Dcgm:
    """One session, open from the start on.

    engine     None: one within this process, which reads the GPUs through the libnvidia-ml that is loaded
    timeout_s  for the connection to be made
    raises     DcgmError
    """

    def __init__(self, library: Path, engine: HostEngine | None, timeout_s: float = 5.0) -> None:
        self._library = load(library)
        self._engine = engine
        self._names = (f"gpuready-{uuid4().hex[:8]}-{number}" for number in count(1))
        self._values: Array[FieldValue] | None = None
        self._call("dcgmInit")
        try:
            self._handle = self._connect(engine, timeout_s) if engine else self._start()
        except DcgmError:
            self._try("dcgmShutdown")
            raise

    def close(self) -> None:
        """With it goes all that this session has the engine watch."""
        self._try("dcgmDisconnect" if self._engine else "dcgmStopEmbedded", self._handle)
        self._try("dcgmShutdown")

    def version(self) -> str:
        """Of the engine: "4.5.3"; "" where it does not tell."""
        info = VersionInfo(version=_versioned(VersionInfo, 2))
        try:
            self._call("dcgmHostengineVersionInfo", self._handle, byref(info))
        except DcgmError as exc:
            if exc.ends_session:
                raise
            return ""
        text: str = info.text.decode(errors="replace")
        entries = dict(part.split(":", 1) for part in text.split(";") if ":" in part)
        return entries.get("version", "")

    # --- what there is ----------------------------------------------------------------------------------
    def entities(self, group: Group, *, active: bool = False) -> list[int]:
        """Their numbers. active: only those that DCGM supports, and that it can reach"""
        numbers, length = (c_uint * _MOST_ENTITIES)(), c_int(_MOST_ENTITIES)
        self._call("dcgmGetEntityGroupEntities", self._handle, group, numbers, byref(length), int(active))
        return list(numbers[: length.value])

    def parts(self) -> list[Part]:
        """GPU instances and compute instances of all MIG GPUs."""
        tree = MigHierarchy(version=_versioned(MigHierarchy, 2))
        try:
            self._call("dcgmGetGpuInstanceHierarchy", self._handle, byref(tree))
        except DcgmError as exc:
            if exc.code in (NOT_SUPPORTED, NO_DATA):
                return []
            raise
        found = [_part(each) for each in tree.entries[: tree.count]]
        parents = {part.pair: part.gpu for part in found if not part.compute}
        return [
            Part(part.pair, parents.get((Group.GPU_INSTANCE, part.gpu), 0), part.instance_id, True)
            if part.compute
            else part
            for part in found
        ]

    # --- values -----------------------------------------------------------------------------------------
    def watch(self, entities: Sequence[Pair], fields: Sequence[int], every_s: float, keep_s: float) -> Watch:
        """Have the engine read these, at once and from now on. fields: at most MOST_FIELDS.

        raises  DcgmError when it will not do so for all of them: then it does for none
        """
        names = next(self._names).encode()  # nobody else's: other clients of the engine have groups, too
        entity_group, field_group = c_size_t(), c_size_t()
        self._call("dcgmGroupCreate", self._handle, _EMPTY_GROUP, names, byref(entity_group))
        try:
            for group, number in entities:
                self._call("dcgmGroupAddEntity", self._handle, entity_group, group, number)
            ids = (c_ushort * len(fields))(*fields)
            self._call("dcgmFieldGroupCreate", self._handle, len(fields), ids, names, byref(field_group))
            every_us = max(1, round(every_s * 1e6))
            self._call("dcgmWatchFields", self._handle, entity_group, field_group, every_us, keep_s, 0)
        except DcgmError:
            self.unwatch(Watch(entity_group.value, field_group.value))
            raise
        return Watch(entity_group.value, field_group.value)

    def unwatch(self, watch: Watch) -> None:
        self._try("dcgmUnwatchFields", self._handle, watch.entities, watch.fields)
        self._try("dcgmFieldGroupDestroy", self._handle, watch.fields)
        self._try("dcgmGroupDestroy", self._handle, watch.entities)

    def read(self, entity: Pair, fields: Sequence[int]) -> list[Reading]:
        """The newest of each, in any order; all of them are watched."""
        if self._values is None:
            self._values = (FieldValue * MOST_FIELDS)()
        found = []
        pair = EntityPair(*entity)
        for start in range(0, len(fields), MOST_FIELDS):
            some = fields[start : start + MOST_FIELDS]
            ids = (c_ushort * len(some))(*some)
            self._call("dcgmEntitiesGetLatestValues", self._handle, pair, 1, ids, len(some), 0, self._values)
            found += [_reading(each) for each in self._values[: len(some)]]
        return found

    # --- inside -----------------------------------------------------------------------------------------
    def _connect(self, engine: HostEngine, timeout_s: float) -> c_size_t:
        handle = c_size_t()
        options = ConnectOptions(_versioned(ConnectOptions, 2), 0, round(timeout_s * 1000), engine.is_socket)
        self._call("dcgmConnect_v2", engine.address.encode(), byref(options), byref(handle))
        return handle

    def _start(self) -> c_size_t:
        options = EmbeddedOptions(version=_versioned(EmbeddedOptions, 1), mode=_AUTO)
        self._call("dcgmStartEmbedded_v2", byref(options))
        return c_size_t(options.handle)

    def _call(self, name: str, *args: Any) -> None:
        """raises  DcgmError"""
        try:
            function = getattr(self._library, name)
        except AttributeError as exc:
            raise DcgmError(FUNCTION_NOT_FOUND, name, "this libdcgm does not have it") from exc
        function.argtypes, function.restype = _CALLS[name], c_int
        code = function(*args)
        if code != 0:
            raise DcgmError(code, name)

    def _try(self, name: str, *args: Any) -> None:
        try:
            self._call(name, *args)
        except DcgmError:
            pass  # what is given up is gone either way


def load(library: Path) -> ctypes.CDLL:
    """raises  DcgmError"""
    try:
        return ctypes.CDLL(str(library))
    except OSError as exc:
        raise DcgmError(LIBRARY_NOT_FOUND, "dlopen", str(exc)) from exc


def _part(entry: MigEntry) -> Part:
    """`gpu` of a compute instance is the number of its GPU instance, for the caller to follow."""
    compute = entry.entity.group == Group.COMPUTE_INSTANCE
    group = Group.COMPUTE_INSTANCE if compute else Group.GPU_INSTANCE
    return Part((group, entry.entity.number), entry.parent.number, entry.info.instance_id, compute)


def _reading(value: FieldValue) -> Reading:
    told: Value | None = None
    match chr(value.type):
        case "i" | "t":
            told = value.value.i64
        case "d":
            told = value.value.dbl
        case "s":
            told = value.value.text.decode(errors="replace")
    return Reading(value.field, told, value.status, value.at_us)


# --- layouts --------------------------------------------------------------------------------------------


class ConnectOptions(Structure):
    """dcgmConnectV2Params_v2."""

    _fields_ = (
        ("version", c_uint),
        ("persists", c_uint),
        ("timeout_ms", c_uint),
        ("is_socket", c_uint),
    )


class EmbeddedOptions(Structure):
    """dcgmStartEmbeddedV2Params_v1."""

    _fields_ = (
        ("version", c_uint),
        ("mode", c_int),
        ("handle", c_size_t),
        ("log_file", c_char_p),
        ("severity", c_int),
        ("denied_count", c_uint),
        ("denied", c_uint * 10),
    )


class EntityPair(Structure):
    """dcgmGroupEntityPair_t."""

    _fields_ = (("group", c_int), ("number", c_uint))


class MigInfo(Structure):
    """dcgmMigEntityInfo_t."""

    _fields_ = (
        ("gpu_uuid", c_char * 128),
        ("gpu_index", c_uint),
        ("instance_id", c_uint),
        ("compute_instance_id", c_uint),
        ("profile_id", c_uint),
        ("slices", c_uint),
    )


class MigEntry(Structure):
    """dcgmMigHierarchyInfo_v2."""

    _fields_ = (("entity", EntityPair), ("parent", EntityPair), ("info", MigInfo))


class MigHierarchy(Structure):
    """dcgmMigHierarchy_v2: room for 14 instances of both kinds on each of 32 GPUs."""

    _fields_ = (("version", c_uint), ("count", c_uint), ("entries", MigEntry * (32 * 14)))


class Content(Union):
    _fields_ = (("i64", c_int64), ("dbl", c_double), ("text", c_char * 256), ("bytes", c_char * 4096))


class FieldValue(Structure):
    """dcgmFieldValue_v2."""

    _fields_ = (
        ("version", c_uint),
        ("group", c_int),
        ("number", c_uint),
        ("field", c_ushort),
        ("type", c_ushort),
        ("status", c_int),
        ("unused", c_uint),
        ("at_us", c_int64),
        ("value", Content),
    )


class VersionInfo(Structure):
    """dcgmVersionInfo_v2."""

    _fields_ = (("version", c_uint), ("text", c_char * 512))


def _versioned(layout: type[Structure], number: int) -> int:
    return ctypes.sizeof(layout) | number << 24


_AUTO = 1  # the engine reads by itself
_EMPTY_GROUP = 1
_MOST_ENTITIES = 1024
_HANDLE = c_size_t
_CALLS: dict[str, tuple[Any, ...]] = {
    "dcgmInit": (),
    "dcgmShutdown": (),
    "dcgmConnect_v2": (c_char_p, POINTER(ConnectOptions), POINTER(_HANDLE)),
    "dcgmDisconnect": (_HANDLE,),
    "dcgmStartEmbedded_v2": (POINTER(EmbeddedOptions),),
    "dcgmStopEmbedded": (_HANDLE,),
    "dcgmHostengineVersionInfo": (_HANDLE, POINTER(VersionInfo)),
    "dcgmGetEntityGroupEntities": (_HANDLE, c_int, POINTER(c_uint), POINTER(c_int), c_uint),
    "dcgmGetGpuInstanceHierarchy": (_HANDLE, POINTER(MigHierarchy)),
    "dcgmGroupCreate": (_HANDLE, c_int, c_char_p, POINTER(_HANDLE)),
    "dcgmGroupAddEntity": (_HANDLE, _HANDLE, c_int, c_uint),
    "dcgmGroupDestroy": (_HANDLE, _HANDLE),
    "dcgmFieldGroupCreate": (_HANDLE, c_int, POINTER(c_ushort), c_char_p, POINTER(_HANDLE)),
    "dcgmFieldGroupDestroy": (_HANDLE, _HANDLE),
    "dcgmWatchFields": (_HANDLE, _HANDLE, _HANDLE, c_longlong, c_double, c_int),
    "dcgmUnwatchFields": (_HANDLE, _HANDLE, _HANDLE),
    "dcgmEntitiesGetLatestValues": (
        *(_HANDLE, POINTER(EntityPair), c_uint),
        *(POINTER(c_ushort), c_uint, c_uint, POINTER(FieldValue)),
    ),
}
