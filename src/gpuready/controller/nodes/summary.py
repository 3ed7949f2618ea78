"""What the controller keeps of a GPUNode: the verdicts in short, the spec whole, nothing else.

The schema leaves parts of it free, and an older agent writes what it knows: a field of a wrong type is left
out and named in `ignored`. The object itself is always known to exist.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import fields, replace

from gpuready.chain.verdict import Link, State
from gpuready.kube.trimmed import Metadata, find_shared, shared

_WHOLE, _HOLDS_UP = (State.OK, State.DEGRADED), (State.BROKEN, State.WAITING)
_ORDER = {str(link): place for place, link in enumerate(Link)}


class LinkSummary(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    link: str
    state: str = ""
    reason: str = ""
    message: str = ""
    next_step: str = ""

    @property
    def is_whole(self) -> bool:
        return self.state in _WHOLE


class OperandSummary(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    state: str = ""
    reason: str = ""
    message: str = ""
    next_step: str = ""


class RequestSummary(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    kind: str = ""
    id: str = ""
    workloads: bool = True


class DriverSummary(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    owner: str = ""
    version: str = ""


class StatusSummary(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    chain: tuple[LinkSummary, ...] = ()
    operands: tuple[OperandSummary, ...] = ()
    driver: DriverSummary = msgspec.field(default_factory=DriverSummary)
    requests: tuple[RequestSummary, ...] = ()
    gpus: int = 0
    healthy: int = 0
    reason: str = ""
    uninstalled: bool = False
    observed_generation: int = 0


class GPUNodeSummary(msgspec.Struct, gc=False):
    """`spec` is one object for all nodes that have the same: nobody may change it.

    ignored   what could not be read of it, with why
    """

    metadata: Metadata
    spec: dict[str, Any] = {}
    status: StatusSummary = msgspec.field(default_factory=StatusSummary)
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """An agent is done with one spec; a policy that came back meanwhile has made another."""
        status = self.status
        if status.uninstalled and status.observed_generation < self.metadata.generation:
            status = replace(status, uninstalled=False)
        self.status = _shared_status(status)

    def find_link(self, link: Link) -> LinkSummary | None:
        for row in self.status.chain:  # asked for every node at every pass: no generator
            if row.link == link:
                return row
        return None

    def find_operand(self, name: str) -> OperandSummary | None:
        return next((row for row in self.status.operands if row.name == name), None)

    def is_whole(self, link: Link) -> bool:
        row = self.find_link(link)
        return row is not None and row.is_whole

    def first_broken(self) -> LinkSummary | None:
        rows = [row for row in self.status.chain if row.state in _HOLDS_UP]
        return min(rows, key=lambda row: _ORDER.get(row.link, len(_ORDER)), default=None)


class _Wire(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: StatusSummary = msgspec.field(default_factory=StatusSummary)


class _Loose(msgspec.Struct):
    metadata: Metadata
    spec: Any = msgspec.field(default_factory=dict)
    status: Any = None


_decode = msgspec.json.Decoder(_Wire).decode
_decode_loose = msgspec.json.Decoder(_Loose).decode
_decode_spec = msgspec.json.Decoder(dict[str, Any]).decode


def _shared_status(status: StatusSummary) -> StatusSummary:
    """Nodes that are well say the same, and where one is not, it shares the rows that are."""
    known = find_shared(status)
    if known is not None:
        return known
    chain, operands = (shared(tuple(map(shared, rows))) for rows in (status.chain, status.operands))
    return shared(replace(status, chain=chain, operands=operands, driver=shared(status.driver)))


_SPECS_LIMIT = 1_000
_specs: dict[bytes, dict[str, Any]] = {}


def decode_gpunode(raw: bytes) -> GPUNodeSummary:
    """raises  msgspec.DecodeError for what is no object with a name"""
    try:
        wire = _decode(raw)
        return GPUNodeSummary(wire.metadata, _shared_spec(bytes(wire.spec)), wire.status)
    except msgspec.ValidationError:
        return _what_can_be_read(_decode_loose(raw))


def _what_can_be_read(wire: _Loose) -> GPUNodeSummary:
    ignored: list[str] = []
    if not isinstance(wire.spec, dict):
        ignored.append("spec: it is no object")
    status = wire.status if isinstance(wire.status, dict) else {}
    found: dict[str, Any] = {}
    for field in fields(StatusSummary):
        if field.encode_name not in status:
            continue
        path, value = f"status.{field.encode_name}", status[field.encode_name]
        rows = field.type.__args__[0] if isinstance(value, list) and field.name in _LISTS else None
        if rows is None:
            kept = _converted(value, field.type, path, ignored)
        else:
            each = [_converted(row, rows, f"{path}[{at}]", ignored) for at, row in enumerate(value)]
            kept = tuple(row for row in each if row is not None)
        if kept is not None:
            found[field.name] = kept
    spec = wire.spec if isinstance(wire.spec, dict) else {}
    return GPUNodeSummary(wire.metadata, spec, StatusSummary(**found), tuple(ignored[:_MOST_IGNORED]))


_LISTS = ("chain", "operands", "requests")
_MOST_IGNORED = 5


def _converted(value: Any, type_: Any, path: str, ignored: list[str]) -> Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as exc:
        ignored.append(f"{path}: {exc}")
        return None


def _shared_spec(text: bytes) -> dict[str, Any]:
    """Parsed once for all nodes of which the same is wanted; forgetting them only costs memory."""
    known = _specs.get(text)
    if known is not None:
        return known
    if len(_specs) >= _SPECS_LIMIT:
        _specs.clear()
    return _specs.setdefault(text, _decode_spec(text))
