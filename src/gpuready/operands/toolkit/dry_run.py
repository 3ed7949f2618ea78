"""What `gpuready toolkit --dry-run` prints: the files as a diff, and the settings that change by it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuready.operands.toolkit.engine import Look
from gpuready.operands.toolkit.layouts import Layout
from gpuready.operands.toolkit.plan import ABSENT, Plan, SettingChange
from gpuready.operands.toolkit.toml_file import dotted


def text_of(layout: Layout, look: Look, plan: Plan) -> str:
    return "".join(f"{line}\n" for line in _lines(layout, look, plan))


def json_of(layout: Layout, look: Look, plan: Plan) -> dict[str, Any]:
    return {
        "runtime": layout.runtime,
        "layout": layout.name,
        "version": look.version,
        "files": [
            {"path": each.path, "before": each.before, "after": each.after, "diff": each.diff()}
            for each in plan.files
        ],
        "settings": [
            {"keys": list(each.keys), "before": _json(each.before), "after": _json(each.after)}
            for each in plan.settings
        ],
        "answers": look.silent is None,
        "restart": look.silent is None and _restarts(look, plan),
        "notes": list(plan.notes),
    }


def _lines(layout: Layout, look: Look, plan: Plan) -> Iterator[str]:
    version = f" {look.version}" if look.version else ""
    yield f"{layout.name}{version}, {layout.config}"
    if look.silent:
        yield f"note  {look.silent.what}: {look.silent.why}"
    for note in plan.notes:
        yield f"note  {note}"
    if not plan.changes_anything:
        yield "no file would change"
    for change in plan.files:
        yield ""
        yield change.diff().rstrip("\n")
    if plan.settings:
        yield ""
        yield "settings in force"
        yield from (f"  {_told(each)}" for each in plan.settings)
    yield ""
    yield _restart_line(layout, look, plan)


def _told(change: SettingChange) -> str:
    name = dotted(change.keys)
    if change.before is ABSENT:
        return f"+ {name} = {change.after!r}"
    if change.after is ABSENT:
        return f"- {name} = {change.before!r}"
    return f"~ {name} = {change.before!r} -> {change.after!r}"


def _restarts(look: Look, plan: Plan) -> bool:
    return bool(plan.settings or look.lacks)


def _restart_line(layout: Layout, look: Look, plan: Plan) -> str:
    if look.silent:
        return "no restart: the runtime does not answer, and until it does nothing is changed"
    if not _restarts(look, plan):
        return "no restart: the running daemon knows all of it"
    ways = {
        "none": "by its administrator (restart mode none)",
        "systemd": f"systemctl restart {layout.service}",
        "itself": f"by {layout.name} itself, when it sees the file",
    }
    return f"restart: {ways.get(layout.restart_mode, f'a signal to the process behind {layout.socket}')}"


def _json(value: Any) -> Any:
    return None if value is ABSENT else value
