"""What the running daemon knows, by its own answer. Pure.

The files may have changed since it started: only this tells whether a handler can be used now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuready.node.cri import RuntimeAnswer
from gpuready.operands.toolkit.plan import Wanted


@dataclass(frozen=True)
class Running:
    """handlers  name -> program behind it, "" = it does not say which
    cdi       it injects CDI devices; None = it does not say
    spec_dirs where it looks for their specs; None = it does not say
    """

    name: str
    version: str
    handlers: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    cdi: bool | None = None
    spec_dirs: tuple[str, ...] | None = None


def running_of(answer: RuntimeAnswer) -> Running:
    """Source: containerd's CRI Status with verbose: its whole CRI configuration as JSON, since 1.6."""
    containerd = _object(answer.config.get("containerd"))
    tables = _object(containerd.get("runtimes"))
    handlers = {name: _binary_of(table) for name, table in sorted(tables.items())}
    cdi, spec_dirs = answer.config.get("enableCDI"), answer.config.get("cdiSpecDirs")
    return Running(
        answer.name,
        answer.version,
        handlers or dict.fromkeys(answer.handlers, ""),
        str(containerd.get("defaultRuntimeName") or ""),
        cdi if isinstance(cdi, bool) else None,
        tuple(map(str, spec_dirs)) if isinstance(spec_dirs, list) else None,
    )


def missing(running: Running, wanted: Wanted) -> list[str]:
    """What the daemon does not know yet, one phrase each; [] = everything."""
    return list(_missing(running, wanted))


def _missing(running: Running, wanted: Wanted) -> Iterator[str]:
    for handler in wanted.handlers:
        binary = running.handlers.get(handler)
        if binary is None:
            yield f'no runtime handler "{handler}"'
        elif binary and binary != wanted.binary:
            yield f'handler "{handler}" running {binary}, not {wanted.binary}'
    if wanted.cdi and running.cdi is False:
        yield "CDI switched off (enable_cdi = false)"
    if wanted.cdi and running.spec_dirs is not None and not _reads(running.spec_dirs, wanted.spec_dir):
        yield f"no CDI spec of {wanted.spec_dir} (cdi_spec_dirs = {list(running.spec_dirs)})"
    if wanted.as_default and running.default and running.default != wanted.handlers[0]:
        yield f'"{running.default}" for its default runtime, not "{wanted.handlers[0]}"'


def _reads(folders: tuple[str, ...], folder: str) -> bool:
    """/var/run is a link to /run."""
    same = {folder, folder.removeprefix("/var")}
    return any(each.rstrip("/") in same for each in folders)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _binary_of(table: Any) -> str:
    options = table.get("options") if isinstance(table, Mapping) else None
    return str(options.get("BinaryName") or "") if isinstance(options, Mapping) else ""
