"""The files between the daemons of one node."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuready.chain.verdict import Link, State, Verdict
from gpuready.node import desired, gates
from gpuready.node.desired import Desired, Source

OK = Verdict(Link.DRIVER, State.OK, "DriverReady", "570.86.10")
BROKEN = Verdict(Link.DRIVER, State.BROKEN, "DriverLibraryMismatch", "library 570.86.10, module 570.81")


def open_driver_gate(directory: Path, *, boot_id: str = "boot-1", time: str = "t1") -> bool:
    return gates.open_gate(
        directory, "driver-ready", OK, content="A=b\n", boot_id=boot_id, driver_version="570.86.10", time=time
    )


def close_driver_gate(directory: Path) -> bool:
    return gates.close_gate(
        directory, "driver-ready", BROKEN, boot_id="boot-1", driver_version="570.86.10", time="t2"
    )


def test_a_gate_of_this_boot_is_open_and_a_second_writing_changes_nothing(tmp_path: Path) -> None:
    assert open_driver_gate(tmp_path)
    assert gates.state_of(tmp_path, "driver-ready", "boot-1").is_open

    assert not open_driver_gate(tmp_path, time="later")
    assert (gates.read_record(tmp_path, "driver-ready") or {})["time"] == "t1"


def test_a_gate_of_another_boot_is_stale_and_says_so(tmp_path: Path) -> None:
    open_driver_gate(tmp_path, boot_id="boot-0")

    found = gates.state_of(tmp_path, "driver-ready", "boot-1")

    assert not found.is_open
    assert "stale" in found.why
    assert str(tmp_path) not in found.why, "others know this directory by another path"
    assert "boot-0" in found.why


def test_a_gate_without_a_record_is_the_originals_and_open(tmp_path: Path) -> None:
    (tmp_path / "toolkit-ready").touch()

    assert gates.state_of(tmp_path, "toolkit-ready", "boot-1").is_open


def test_a_closed_gate_leaves_its_reason_for_those_who_wait(tmp_path: Path) -> None:
    open_driver_gate(tmp_path)
    assert close_driver_gate(tmp_path)
    assert not close_driver_gate(tmp_path)

    found = gates.state_of(tmp_path, "driver-ready", "boot-1")

    assert not found.is_open
    assert "DriverLibraryMismatch" in found.why


def test_a_gate_nobody_judged_says_that(tmp_path: Path) -> None:
    assert "nobody has judged" in gates.state_of(tmp_path, "plugin-ready", "boot-1").why


@pytest.mark.parametrize(
    ("host_driver", "has_own_dev", "lines"),
    [
        pytest.param(True, False, "true / /host / /host", id="host driver"),
        pytest.param(False, False, "false /run/nvidia/driver /driver-root / /host", id="container driver"),
        pytest.param(
            False,
            True,
            "false /run/nvidia/driver /driver-root /run/nvidia/driver /driver-root",
            id="container driver with its own dev",
        ),
    ],
)
def test_driver_ready_is_sourced_by_shells(host_driver: bool, has_own_dev: bool, lines: str) -> None:
    content = gates.driver_ready(host_driver=host_driver, has_own_dev=has_own_dev)

    keys = [line.partition("=")[0] for line in content.splitlines()]
    assert keys == [
        "IS_HOST_DRIVER",
        "NVIDIA_DRIVER_ROOT",
        "DRIVER_ROOT_CTR_PATH",
        "NVIDIA_DEV_ROOT",
        "DEV_ROOT_CTR_PATH",
    ]
    assert [line.partition("=")[2] for line in content.splitlines()] == lines.split()


def test_a_wish_survives_its_file(tmp_path: Path) -> None:
    wish = Desired("device-plugin", "boot-1", 3, Source.API, {"version": "v1"}, None, "two", "abc")

    assert desired.write(tmp_path, wish)
    assert not desired.write(tmp_path, wish)
    assert desired.find(tmp_path, "device-plugin", "boot-1") == wish
    assert desired.find(tmp_path, "device-plugin", "boot-2") is None
    assert desired.find(tmp_path, "device-plugin") == wish


def test_a_half_written_wish_counts_as_absent(tmp_path: Path) -> None:
    desired.path_of(tmp_path, "device-plugin").write_text('{"operand": ')

    assert desired.find(tmp_path, "device-plugin") is None
