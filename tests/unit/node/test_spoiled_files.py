"""What lies where a daemon reads may be anything; no reader hangs, fills the memory or ends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.chain.driver import DriverFacts
from gpuready.node import desired, gates
from gpuready.node.files import find_object, read_regular, write_if_changed
from gpuready.node.links.device_plugin import RECORD, find_record_row, record_of
from gpuready.node.root import Root
from gpuready.operands.device_plugin import desired as plugin_wish
from gpuready.operands.device_plugin.config import Chosen
from gpuready.operands.device_plugin.ledger import Ledger
from gpuready.operands.device_plugin.recorder import Recorder
from gpuready.operands.device_plugin.settings import Settings
from gpuready.operands.node_agent import report, wishes
from gpuready.operands.node_agent.decision import View, judge, plugin_is_gone

Object = dict[str, Any]
BOOT = "boot-1"
XID = {"code": 79, "time": "2026-01-01T00:00:00.000Z", "action": "RebootNode"}
PROBLEM = {"reason": "NvmlFailing", "message": "XID 79: lost", "nextStep": "reboot", "evidence": ["a"]}
DEVICE: Object = {
    "uuid": "GPU-a",
    "index": 0,
    "minor": 0,
    "product": "NVIDIA L4",
    "memoryMib": 23034,
    "pciAddress": "0000:01:00.0",
    "numaNode": None,
    "health": "Unhealthy",
    "reason": "XidError",
    "message": "XID 79: lost",
    "recovery": "reboot",
    "lastXid": XID,
    "replicas": 1,
}
REPEATED = {"resource": "nvidia.com/gpu", "device": "GPU-a", "ids": ["a", "b"], "time": XID["time"]}
RECORD_ROW: Object = {
    "bootId": BOOT,
    "registered": True,
    "resources": [{"name": "nvidia.com/gpu", "devices": 1, "healthy": 0}],
    "devices": [DEVICE],
    "config": {"name": "a", "error": PROBLEM},
    "problem": PROBLEM,
    "cdi": {"driverVersion": "570.86.10"},
    "allocations": {"count": 1, "repeated": [REPEATED]},
}
WISH_ROW: Object = {
    "operand": "device-plugin",
    "bootId": BOOT,
    "generation": 1,
    "source": "api",
    "config": {"version": "v1"},
    "error": PROBLEM,
    "configName": "a",
    "digest": "d",
}
PLACES: list[Callable[[Path], object]] = [
    os.mkfifo,
    os.mkdir,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to(path),
    lambda path: os.truncate(path.open("w").name, 2**40),
    lambda path: path.write_text("[" * 200_000),
    lambda path: path.write_text('{"bootId": "boot-1", "devices": ' + "[" * 200_000),
    lambda path: path.write_text('{"bootId": "\\ud800", "operand": "\\ud800"}'),
]
IDS = ["a pipe", "a directory", "an endless device", "a circle", "a hole of 1 TiB", "depth", "deep devices"]


@pytest.mark.parametrize("put", PLACES, ids=[*IDS, "half a character"])
def test_whatever_lies_in_the_place_of_a_file_is_as_if_it_were_not_there(tmp_path, put):
    for name in (RECORD, "driver-ready.json", "driver-ready"):
        put(tmp_path / name)

    assert find_record_row(tmp_path, BOOT) is None
    assert desired.find(tmp_path, "device-plugin") is None
    assert gates.read_record(tmp_path, "driver-ready") in (None, {"bootId": "\ud800", "operand": "\ud800"})
    gates.state_of(tmp_path, "driver-ready", BOOT)
    recorder = Recorder(tmp_path / RECORD, BOOT, lambda: None)
    assert recorder.remember() == ([], {})
    assert recorder.remember_allocations() == {}


def test_a_pipe_in_the_place_of_a_file_gives_way_to_the_file(tmp_path):
    os.mkfifo(tmp_path / "gate", 0o777)

    assert write_if_changed(tmp_path / "gate", b"x")

    assert read_regular(tmp_path / "gate") == b"x"
    assert (tmp_path / "gate").stat().st_mode & 0o777 == 0o644


def mutations(row: Object) -> st.SearchStrategy[Object]:
    """`row` with one field, at any depth, replaced by something of another kind, or left out."""
    return st.builds(_replaced, st.just(row), st.sampled_from(_paths(row)), st.sampled_from(ODD))


ODD: list[Any] = [..., None, 7, -1.5, float("nan"), "x", "\ud800", True, [], {}, [7], {"a": 1}, [None], 2**70]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, inner in rows for found in ((*path, key), *_paths(inner, (*path, key)))]


def _replaced(row: Any, path: tuple[Any, ...], value: Any) -> Any:
    key, rest = path[0], path[1:]
    copy = row.copy()
    if rest:
        copy[key] = _replaced(row[key], rest, value)
    elif value is ...:
        del copy[key]
    else:
        copy[key] = value
    return copy


@given(row=mutations(RECORD_ROW))
def test_a_record_with_an_odd_field_stops_neither_agent_nor_plugin(tmp_path_factory, row):
    folder = tmp_path_factory.getbasetemp()
    (folder / RECORD).write_text(json.dumps(row))

    found = find_record_row(folder, BOOT)
    record_of(found)
    view = View(node_name="n", boot_id=BOOT, driver=DriverFacts(), record=found)
    status = report.status_of(view, judge(view), {}, generation=1, now="now")
    json.dumps(status, ensure_ascii=False).encode()
    plugin_is_gone(view)
    recorder = Recorder(folder / RECORD, BOOT, lambda: None)
    recorder.remember()
    Ledger(lambda: None).remember(recorder.remember_allocations())


@given(row=mutations(WISH_ROW))
def test_a_wish_with_an_odd_field_stops_neither_agent_nor_plugin(tmp_path_factory, row):
    folder = tmp_path_factory.getbasetemp()
    (folder / "device-plugin.json").write_text(json.dumps(row))

    wish = desired.find(folder, "device-plugin", BOOT)
    wishes.for_judgement(wishes.last_known(wish, boot_id=BOOT))
    if wish is not None:
        desired.write(folder, wish)
    plugin_wish.choose(Settings(desired_dir="/"), Root(folder), BOOT, Chosen())


def test_a_whole_record_is_read_as_it_stands(tmp_path):
    (tmp_path / RECORD).write_text(json.dumps(RECORD_ROW))

    assert find_record_row(tmp_path, BOOT) == RECORD_ROW
    assert find_object(tmp_path / RECORD, {"devices": str}) is None
