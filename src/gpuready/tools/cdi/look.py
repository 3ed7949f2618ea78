"""`gpuready cdi list | check | resolve`: what lies on the node, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.gpu.cdi.advice import cause_of, known_names
from gpuready.gpu.cdi.installed import File, Installed, read_installed
from gpuready.gpu.cdi.model import Edits, host_paths_of
from gpuready.gpu.cdi.qualified import find_name
from gpuready.node.cdi.files import Kept, file_of, read_record
from gpuready.node.root import Root
from gpuready.tools.terminal import joined
from gpuready.yaml_text import dump_yaml

FINE, FOUND_SOMETHING = 0, 1
_MOST_NAMES = 20
_MOST_PATHS = 5
_MOST_WORDS = 6


def host_tree(host_root: str | None) -> Root:
    return Root(Path(host_root)) if host_root else Root.from_env().host()


def list_devices(host_root: str | None, output: str) -> int:
    installed = _read(host_tree(host_root))
    rows = [
        {"name": name, "file": file.path, "version": file.version} for name, file in installed.devices.items()
    ]
    if output != "table":
        _print({"devices": rows}, output)
    elif rows:
        width = max(len(row["name"]) for row in rows)
        _say(f"{row['name']:{width}}  {row['file']}" for row in rows)
    else:
        sys.stderr.write("no device: there is no usable spec in /etc/cdi or /var/run/cdi\n")
    return FINE


def check(host_root: str | None, output: str) -> int:
    """Print one row for each file; 1 when something is wrong with any."""
    host = host_tree(host_root)
    installed = _read(host)
    record = _record_of(host)
    rows = [_checked(host, file, installed, record) for file in installed.files]
    count = sum(len(row["problems"]) for row in rows)
    if output != "table":
        _print({"files": rows, "problems": count}, output)
    else:
        _say(_check_text(rows, count))
    return FOUND_SOMETHING if count else FINE


def resolve(host_root: str | None, output: str, wanted: Sequence[str]) -> int:
    host = host_tree(host_root)
    installed = _read(host)
    rows = [_resolved(host, name, installed) for name in wanted]
    if output != "table":
        _print({"names": rows}, output)
    else:
        for row in rows:
            _say(_resolve_text(row))
    return FINE if all(row["resolves"] for row in rows) else FOUND_SOMETHING


def _read(host: Root) -> Installed:
    installed = read_installed(host)
    if installed.unread:
        directory, reason = installed.unread[0]
        raise GPUReadyError(
            f"cannot read {directory}", why=reason, next_step="run this as root, on the node itself"
        )
    return installed


def _record_of(host: Root) -> dict[str, Kept]:
    return {kept.file: kept for kept in read_record(host.join("/run/gpuready/records/cdi.json")).values()}


def _checked(host: Root, file: File, installed: Installed, record: dict[str, Kept]) -> dict[str, Any]:
    problems = [_problem(text, "correct or remove the file") for text in file.problems]
    missing = [path for path in file.host_paths if not host.exists(path)]
    if missing:
        is_ours = file.path == file_of(file.kind)
        shown = ", ".join(missing[:_MOST_PATHS])
        more = f" and {len(missing) - _MOST_PATHS} more" if len(missing) > _MOST_PATHS else ""
        problems.append(
            _problem(
                f"not on the host: {shown}{more}",
                "write the spec anew (gpuready cdi generate --write), or remove the file"
                if is_ours
                else "correct or remove the file",
            )
        )
    problems += list(_crossed(file, installed))
    if (kept := record.get(file.path)) and kept.stale:
        problems.append(_problem(f"it is of an earlier state: {kept.reason}", "see gpuready doctor"))
    return {
        "file": file.path,
        "kind": file.kind,
        "version": file.version,
        "devices": len(file.devices),
        "problems": problems,
    }


def _crossed(file: File, installed: Installed) -> Iterator[dict[str, str]]:
    """One finding for each other file, however many names the two share."""
    shared: dict[str, list[str]] = {}
    for name, paths in installed.conflicts.items():
        if file.path in paths:
            for other in paths:
                if other != file.path:
                    shared.setdefault(other, []).append(name)
    for other, found in shared.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield _problem(
            f"{other} defines {found[0]}{more} too, and then no runtime knows it",
            "remove one of the two files",
        )


def _problem(why: str, next_step: str) -> dict[str, str]:
    return {"why": why, "nextStep": next_step}


def _check_text(rows: Sequence[dict[str, Any]], count: int) -> Iterator[str]:
    width = max((len(row["file"]) for row in rows), default=0)
    for row in rows:
        if not row["problems"]:
            devices = f"{row['devices']} device{'s' if row['devices'] != 1 else ''}"
            yield f"ok    {row['file']:{width}}  {row['kind']}, {devices}, CDI {row['version']}"
            continue
        yield f"FAIL  {row['file']:{width}}".rstrip()
        for problem in row["problems"]:
            yield f"      why   {problem['why']}"
            yield f"      next  {problem['nextStep']}"
    if not rows:
        yield "no spec in /etc/cdi or /var/run/cdi"
    elif count:
        yield f"{count} problem{'s' if count != 1 else ''}"


def _resolved(host: Root, name: str, installed: Installed) -> dict[str, Any]:
    file = installed.devices.get(name)
    row: dict[str, Any]
    if file is None:
        why = _withheld(host, name) or cause_of(name, installed)
        known = known_names(name, installed, _MOST_NAMES)
        row = {"name": name, "resolves": False, "why": why, "known": known[:_MOST_NAMES]}
        return row | ({"moreKnown": len(known) - _MOST_NAMES} if len(known) > _MOST_NAMES else {})
    parsed = find_name(name)
    assert parsed is not None  # the loader takes no other names
    edits = [file.edits, file.devices[parsed.device]]
    missing = [path for each in edits for path in host_paths_of(each) if not host.exists(path)]
    row = {
        "name": name,
        "resolves": not missing,
        "file": file.path,
        "env": _all_of(edits, "env"),
        "deviceNodes": [node["path"] for node in _all_of(edits, "deviceNodes")],
        "mounts": len(_all_of(edits, "mounts")),
        "hooks": [_hook_text(hook) for hook in _all_of(edits, "hooks")],
    }
    if missing:
        row["why"] = f"no container can start with it: not on the host: {', '.join(missing[:_MOST_PATHS])}"
    return row


def _withheld(host: Root, text: str) -> str:
    """Why the toolkit has no spec of this kind at all, "" where it has one."""
    name = find_name(text)
    kept = _record_of(host).get(file_of(name.kind)) if name else None
    if name is None or kept is None or not kept.reason or kept.digest:
        return ""
    return f"the toolkit makes no spec of {name.kind}: {kept.reason}"


def _all_of(edits: Sequence[Edits], field: str) -> list[Any]:
    return [entry for each in edits for entry in each.get(field) or ()]


def _hook_text(hook: Edits) -> str:
    words = [hook["path"], *(hook.get("args") or ())[1:]]
    return " ".join(words[:_MOST_WORDS]) + (" …" if len(words) > _MOST_WORDS else "")


def _resolve_text(row: dict[str, Any]) -> Iterator[str]:
    yield f"{'ok  ' if row['resolves'] else 'FAIL'}  {row['name']}"
    if "file" in row:
        yield f"      file   {row['file']}"
        yield f"      nodes  {' '.join(row['deviceNodes'])}"
        yield f"      mounts {row['mounts']}"
        for text in row["hooks"]:
            yield f"      hook   {text}"
    if "why" in row:
        yield f"      why    {row['why']}"
    if row.get("known"):
        more = f" and {row['moreKnown']} more" if "moreKnown" in row else ""
        yield f"      known  {', '.join(row['known'])}{more}"


def _print(value: Any, output: str) -> None:
    if output == "json":
        sys.stdout.write(json.dumps(value, indent=1) + "\n")  # all of it in ASCII
        return
    readable = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    sys.stdout.write(dump_yaml(readable))


def _say(lines: Iterable[str]) -> None:
    text = joined(lines)
    if text:
        sys.stdout.write(_writable(text) + "\n")


def _writable(text: str) -> str:
    """Names of files and what stands in them may be no text at all."""
    return text.encode(errors="backslashreplace").decode()
