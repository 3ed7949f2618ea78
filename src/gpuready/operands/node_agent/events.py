"""Which changes of GPUNode.status are worth an Event, and about whom.

Pure. Compared is what was told before with what is told now, so a restarted agent repeats nothing. GPUs that
change together for the same reason make one Event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready.chain import device_plugin
from gpuready.chain.verdict import State
from gpuready.gpu.sharing import device_of
from gpuready.gpu.xid import meaning_of, withdraws

Row = Mapping[str, Any]
NORMAL, WARNING = "Normal", "Warning"
UNHEALTHY, XID, RECOVERED = "GpuUnhealthy", "GpuXid", "GpuRecovered"
SAME_GPU = "SameGpuRepeated"
REPAIRED = "RuntimeConfigRepaired"
_MOST_KEYS = 3
_WORTH_A_WARNING = (State.BROKEN, State.DEGRADED)
_BACK_FROM = (State.BROKEN, State.DEGRADED, State.WAITING)


@dataclass(frozen=True)
class Draft:
    """An Event to be: about the Node, and about the pods that hold one of `devices` (uuids).

    on_node  False: about the pods only, and about the Node when no pod holds them
    """

    type: str
    reason: str
    message: str
    devices: tuple[str, ...] = ()
    on_node: bool = True


def events_between(before: Row, after: Row) -> list[Draft]:
    """Both are GPUNode.status."""
    verdicts = _verdict_events(before.get("chain") or (), after.get("chain") or ())
    repairs = _repair_events(before.get("runtime") or {}, after.get("runtime") or {})
    return [*verdicts, *repairs, *_device_events(before.get("devices") or (), after.get("devices") or ())]


def repeated_gpu(resource: str, ids: Sequence[str]) -> str:
    """What is said of a container that got several replicas of one GPU."""
    gpus = len({device_of(id_) for id_ in ids})
    times = "twice" if len(ids) == 2 else f"{len(ids)} times"
    got = f"one GPU {times}" if gpus == 1 else f"{gpus} GPUs, not {len(ids)}"
    return (
        f"asked for {len(ids)} {resource} and got {got}; shares of one GPU give no more memory or compute; "
        f"set failRequestsGreaterThanOne: true to refuse, or ask for {gpus}"
    )


def _verdict_events(before: Sequence[Row], after: Sequence[Row]) -> list[Draft]:
    told = {row.get("link"): row for row in before}
    drafts = []
    for row in after:
        was = told.get(row["link"]) or {}
        if (was.get("state"), was.get("reason")) == (row["state"], row["reason"]):
            continue
        if row["state"] in _WORTH_A_WARNING:
            drafts.append(Draft(WARNING, str(row["reason"]), _line(row)))
        elif row["state"] == State.OK and was.get("state") in _BACK_FROM:
            drafts.append(Draft(NORMAL, str(row["reason"]), _line(row)))
    return drafts


def _repair_events(before: Row, after: Row) -> list[Draft]:
    """What others did to the runtime's configuration, and that it is undone; told once."""
    repaired = after.get("repaired")
    if not repaired or repaired == before.get("repaired"):
        return []
    files = ", ".join(repaired["files"]) or "a file of the runtime"
    keys = ", ".join(repaired["keys"][:_MOST_KEYS])
    more = f" and {len(repaired['keys']) - _MOST_KEYS} more" if len(repaired["keys"]) > _MOST_KEYS else ""
    said = f"toolkit: {files} was changed by others and kept {keys}{more} from being in force; put right"
    return [Draft(WARNING, REPAIRED, said)]


def _line(row: Row) -> str:
    text = f"{row['link']}: {row['message']}"
    return f"{text}; next: {row['nextStep']}" if row.get("nextStep") else text


def _device_events(before: Sequence[Row], after: Sequence[Row]) -> list[Draft]:
    told = {row.get("uuid"): row for row in before}
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in after:
        for change in _changes_of(told.get(row["uuid"]) or {}, row):
            groups.setdefault(change, []).append(row)
    return [_draft(reason, said, rows) for (reason, said), rows in groups.items()]


def _changes_of(was: Row, row: Row) -> list[tuple[str, str]]:
    """(reason, what is said) of each change of one device."""
    xid = row.get("lastXid") or {}
    is_new = bool(xid) and xid != (was.get("lastXid") or {})
    advice = device_plugin.advice(str(xid.get("action") or ""), int(row["index"]))
    next_step = f"; next: {advice}" if is_new else ""
    if row["health"] == "Unhealthy" and was.get("health") != "Unhealthy":
        why = row.get("reason") or (f"XID {xid['code']}" if xid else "no reason given")
        return [(UNHEALTHY, f"unhealthy: {why}{next_step}")]
    if is_new and withdraws(str(xid.get("action") or "")) and was.get("health") != "Unhealthy":
        # It was over before the next report was due; nobody would hear of it otherwise.
        code = int(xid["code"])
        return [(UNHEALTHY, f"unhealthy for a moment: XID {code}: {meaning_of(code)}{next_step}")]
    if is_new:
        return [(XID, f"XID {xid.get('code')}{next_step}")]
    if row["health"] == "Healthy" and was.get("health") == "Unhealthy":
        return [(RECOVERED, "healthy again")]
    return []


def _draft(reason: str, said: str, rows: Sequence[Row]) -> Draft:
    only_application = reason == XID and all(row["health"] == "Healthy" for row in rows)
    return Draft(
        NORMAL if reason == RECOVERED else WARNING,
        reason,
        f"{_named(rows)}: {said}",
        devices=tuple(str(row["uuid"]) for row in rows),
        on_node=not only_application,
    )


def _named(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return f"GPU {rows[0]['index']} ({rows[0]['uuid']})"
    return f"GPUs {', '.join(str(row['index']) for row in rows)}"
