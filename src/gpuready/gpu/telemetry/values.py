"""The values of one look at one GPU: each field from the first of its sources that answers.

A refusal of one value loses that value only (`Nothing`); a GPU that is lost or a driver that is gone ends the
look (`NvmlError`). Nothing is asked twice in a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuready.gpu.nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, Handle, NvmlError
from gpuready.gpu.nvml_telemetry import NEVER, Memory, Number, TelemetryNvml
from gpuready.gpu.telemetry.fields import missing_reason, sources_of
from gpuready.gpu.telemetry.gpm import NO_GPM, Profiler
from gpuready.gpu.telemetry.model import Absent, Device, Entity, Field, Sample, Scope, Value
from gpuready.gpu.telemetry.sources import (
    LINK,
    Derived,
    Fact,
    FieldValue,
    Getter,
    Gpm,
    Rate,
    Source,
    Unit,
)

_UNINITIALIZED = 1
_ENDS_LOOK = frozenset({GPU_IS_LOST, DRIVER_NOT_LOADED, _UNINITIALIZED})
_FIRST_LOOK = "it grows from look to look, and this is the first"
_MEMORY = "memory"  # the one question that is no pynvml function

FieldKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No value. `supported`: there may be one at the next look."""

    reason: str
    supported: bool = False


def refusal(exc: NvmlError) -> Nothing:
    """raises  exc when it means that nothing else will be answered either"""
    if exc.code in _ENDS_LOOK:
        raise exc
    return Nothing(f"NVML answers {exc.name}", supported=exc.code not in NEVER)


@dataclass
class Gpu:
    """A GPU as its reader knows it.

    handles   of its instances, by id: any MIG device of the instance
    links     numbers of its active NVLinks
    counters  what growing field values were, and when
    """

    nvml: TelemetryNvml
    handle: Handle
    device: Device
    profiler: Profiler
    handles: Mapping[int, Handle] = field(default_factory=dict)
    links: tuple[int, ...] = ()
    counters: dict[FieldKey, tuple[Number, float]] = field(default_factory=dict)

    def entities(self, of: Field) -> Sequence[Entity]:
        """What the field has a value of; none for a fact of the node."""
        if of.scope is Scope.NODE:
            return ()
        if of.scope is Scope.INSTANCE and self.device.instances:
            return [Entity(self.device, each) for each in self.device.instances]
        if of.scope is Scope.LINK:
            return [Entity(self.device, link=link) for link in self.links]
        return [Entity(self.device)]


class Values:
    """One look. `also`: field values that are wanted beside those of the fields."""

    def __init__(self, gpu: Gpu, fields: Sequence[Field], at: float, also: Iterable[int] = ()) -> None:
        """raises  NvmlError when the GPU does not answer at all"""
        self._gpu = gpu
        self._at = at
        self._answers: dict[tuple[Any, ...], Any] = {}
        wanted = [(value, 0) for value in also]
        for of in fields:
            for entity in gpu.entities(of):
                wanted += [key for source in sources_of(of) for key in _field_keys(source, entity)]
        self._values = gpu.nvml.field_values(gpu.handle, list(dict.fromkeys(wanted)))

    def number(self, field_value: int) -> Number | None:
        """A field value of `also`."""
        number = self._values[field_value, 0]
        if isinstance(number, NvmlError):
            refusal(number)
            return None
        return number

    def tell(self, of: Field, entity: Entity) -> Sample | Absent | None:
        """None for a field that is computed from several looks."""
        nothing: Nothing | None = None
        for source in sources_of(of):
            if isinstance(source, Derived):
                return None
            told, at = self._try(source, entity)
            if not isinstance(told, Nothing):
                return Sample(of, entity, told, at)
            if nothing is None or told.supported:
                nothing = told
        nothing = nothing or Nothing(missing_reason(of))
        return Absent(of, entity, nothing.reason, nothing.supported)

    def ask(self, call: str, *args: Any, handle: Handle = None) -> Any:
        """One answer of NVML; memory, utilisation and the like hold several values. raises  NvmlError"""
        of = self._gpu.handle if handle is None else handle
        key = (call, id(of), args)
        if key not in self._answers:
            try:
                asked = self._gpu.nvml
                self._answers[key] = asked.memory(of) if call == _MEMORY else asked.ask(call, of, *args)
            except NvmlError as exc:
                self._answers[key] = exc
        answer = self._answers[key]
        if isinstance(answer, NvmlError):
            raise answer
        return answer

    def keep_counters(self, fields: Iterable[Field]) -> None:
        """For the rates of the next look."""
        for of in fields:
            for source in sources_of(of):
                for entity in self._gpu.entities(of) if isinstance(source, Rate) else ():
                    self._keep(_field_keys(source, entity))

    def _keep(self, keys: Iterable[FieldKey]) -> None:
        for key in keys:
            number = self._values[key]
            if not isinstance(number, NvmlError):
                self._gpu.counters[key] = (number, self._at)

    # --- one source -------------------------------------------------------------------------------------
    def _try(self, source: Source, entity: Entity) -> tuple[Value | Nothing, float]:
        """A value, or why there is none; and when it was taken."""
        try:
            match source:
                case FieldValue():
                    return self._field_value(source, entity), self._at
                case Getter():
                    return self._getter(source, entity), self._at
                case Rate():
                    return self._rate(source, entity), self._at
                case Gpm():
                    return self._gpm(source, entity)
                case Fact():
                    return self._fact(source.name, entity), self._at
        except NvmlError as exc:
            return refusal(exc), self._at
        return Nothing(getattr(source, "reason", "")), self._at

    def _field_value(self, source: FieldValue, entity: Entity) -> Value | Nothing:
        number = self._values[source.id, _scope(source.scope, entity)]
        return refusal(number) if isinstance(number, NvmlError) else _in_unit(number, source.unit)

    def _getter(self, source: Getter, entity: Entity) -> Value | Nothing:
        args = [_scope(arg, entity) for arg in source.args]
        answer = self.ask(source.call, *args, handle=self._handle_of(entity))
        if isinstance(source.pick, str):
            answer = getattr(answer, source.pick)
        elif source.pick is not None:
            answer = answer[source.pick]
        if source.words is not None:
            return source.words.get(int(answer), str(int(answer)))
        if isinstance(answer, bytes):
            return answer.decode(errors="replace")
        return answer if isinstance(answer, str) else _in_unit(answer, source.unit)

    def _rate(self, source: Rate, entity: Entity) -> Value | Nothing:
        grown, seconds = 0.0, 0.0
        for key in _field_keys(source, entity):
            number = self._values[key]
            if isinstance(number, NvmlError):
                return refusal(number)
            if key not in self._gpu.counters:
                return Nothing(_FIRST_LOOK, supported=True)
            before, at = self._gpu.counters[key]
            if number < before or self._at <= at:
                return Nothing("the counter began anew", supported=True)
            grown += number - before
            seconds = self._at - at
        return _in_unit(grown / seconds, source.unit)

    def _gpm(self, source: Gpm, entity: Entity) -> tuple[Value | Nothing, float]:
        profiler = self._gpu.profiler
        if not profiler.supported:
            return Nothing(NO_GPM), self._at
        told, at = profiler.told(entity.instance.id if entity.instance else None, source.metric)
        if told is None:
            return Nothing(_FIRST_LOOK, supported=True), at
        return (refusal(told) if isinstance(told, NvmlError) else told * source.times), at

    def _fact(self, name: str, entity: Entity) -> Value | Nothing:
        if name.startswith("memory_"):
            return _memory_fact(name, self.ask(_MEMORY, handle=self._handle_of(entity)))
        gpu = self._gpu
        match name:
            case "name":
                return entity.instance.profile if entity.instance else gpu.device.model
            case "inforom_valid":
                valid = gpu.nvml.is_inforom_valid(gpu.handle)
                return Nothing("the GPU has no infoROM") if valid is None else int(valid)
            case "gpm_supported":
                return int(gpu.profiler.supported)
            case "fabric_state":
                return gpu.nvml.fabric_state(gpu.handle)
            case "vgpu_licensed":
                return int(gpu.nvml.is_vgpu_licensed(gpu.handle))
        value: Value = getattr(gpu.device, name)
        return value

    def _handle_of(self, entity: Entity) -> Handle:
        return self._gpu.handles[entity.instance.id] if entity.instance else self._gpu.handle


def _field_keys(source: Source, entity: Entity) -> list[FieldKey]:
    """The field values that a source needs."""
    if isinstance(source, FieldValue):
        return [(source.id, _scope(source.scope, entity))]
    if isinstance(source, Rate):
        return [(value, _scope(scope, entity)) for value, scope in source.counters]
    return []


def _scope(scope: int | str, entity: Entity) -> int:
    return (entity.link or 0) if scope == LINK else int(scope)


def _in_unit(raw: Number, unit: Unit) -> Value | Nothing:
    if unit.limit is not None and raw > unit.limit:
        return Nothing(f"the driver has no reading ({raw})", supported=True)
    if unit.times == unit.per:
        return int(raw) if unit.whole else raw
    value = raw * unit.times / unit.per
    return int(value) if unit.whole else value


def _memory_fact(name: str, memory: Memory) -> Value | Nothing:
    """MiB, or the share in use."""
    if name == "memory_used_ratio":
        usable = memory.total - (memory.reserved or 0)
        return memory.used / usable if usable > 0 else Nothing("the GPU has no memory of its own")
    if name == "memory_reserved" and memory.reserved is None:
        return Nothing("the driver counts it as used")
    part: int = getattr(memory, name.removeprefix("memory_"))
    return part // 2**20
