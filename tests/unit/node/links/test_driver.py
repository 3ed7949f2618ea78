"""Facts about the driver from files, and NVML asked by a child that may hang or crash."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.unit.operands.node_agent.machine import FakeChild, Machine, address_of, inventory, mismatch

from gpuready.chain.driver import ListedGpu, Probe
from gpuready.gpu.inventory import Failure
from gpuready.gpu.tree import Tree
from gpuready.node.links import driver
from gpuready.node.links.driver import DriverLink, NvmlChild

GPUS = (address_of(0), address_of(1))


def program(text: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", text)


async def ask(text: str, deadline_s: float = 5.0) -> driver.Answer:
    return await NvmlChild(deadline_s=deadline_s, command=program(text)).ask(Path("/"), Path("/"))


def test_files_of_a_host_driver_are_found_and_named_as_the_host_names_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.install_driver("570.86.10")
    machine.load_module("570.81")

    found = driver.look(Tree(machine.host), GPUS).facts

    assert found.host.library == "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.10"
    assert (found.host.version, found.module_version) == ("570.86.10", "570.81")
    assert found.host.smi == "/usr/bin/nvidia-smi"
    assert found.module_loaded
    assert not found.container.is_present


def test_files_of_a_driver_container_are_named_below_its_directory(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.install_driver(root="run/nvidia/driver")
    machine.write("run/nvidia/nvidia-driver.pid", "1")

    found = driver.look(Tree(machine.host), GPUS).facts

    assert found.container.library.startswith("/run/nvidia/driver/usr/lib/")
    assert found.container_evidence == ("/run/nvidia/nvidia-driver.pid",)
    assert found.container.searched[0] == "/run/nvidia/driver/usr/lib64"
    assert not found.host.is_present


def test_absolute_links_of_the_host_stay_inside_the_host(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.install_driver()
    (machine.host / "lib64").symlink_to("/usr/lib/x86_64-linux-gnu")

    assert driver.look(Tree(machine.host), GPUS).facts.host.version == "570.86.10"


async def test_a_child_that_hangs_is_killed_at_the_deadline() -> None:
    answer = await ask("import time; time.sleep(60)", deadline_s=0.3)

    assert answer.nvml.probe is Probe.TIMED_OUT
    assert answer.nvml.waited_s == 0.3


async def test_a_child_that_crashes_takes_nobody_with_it() -> None:
    answer = await ask("import os; os.kill(os.getpid(), 11)")

    assert answer.nvml.probe is Probe.FAILED
    assert "signal 11" in answer.nvml.text


async def test_the_childs_error_keeps_nvmls_code() -> None:
    row = {
        "inventory": None,
        "error": {"code": 18, "message": "nvmlInit answered DriverLibraryMismatch (18)"},
    }

    answer = await ask(f"print({json.dumps(json.dumps(row))})")

    assert (answer.nvml.probe, answer.nvml.code) == (Probe.FAILED, 18)


async def test_a_silent_gpu_is_listed_beside_those_that_answer() -> None:
    lost = Failure(1, 15, "GpuIsLost", "nvmlDeviceGetUUID answered GpuIsLost (15)", address_of(1))
    row = json.dumps({"inventory": inventory(1, failures=(lost,)).to_json(), "error": None})

    answer = await ask(f"print({json.dumps(row)})")

    assert answer.nvml.gpus == (
        ListedGpu(0, "GPU-0", address_of(0)),
        ListedGpu(1, "", address_of(1), problem=lost.message, code=15, answers=False),
    )
    assert answer.inventory is not None
    assert answer.inventory.gpus[0].product == "NVIDIA A100-SXM4-40GB"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_whole_driver_is_asked_once_and_again_when_something_changed(
    tmp_path: Path, clock: Clock
) -> None:
    machine = Machine(tmp_path)
    machine.install_driver()
    machine.load_module()
    child = FakeChild(inventory())
    link = DriverLink(Tree(machine.host), child, clock=clock)
    await link.ask(link.look(GPUS))

    clock.now += 86400
    assert not link.wants_asking(link.look(GPUS))

    machine.write("dev/nvidia7", "")
    seen = link.look(GPUS)
    assert link.wants_asking(seen)
    assert link.facts(seen, None).nvml.probe is Probe.ANSWERED  # stands until the new one is there
    machine.install_driver("570.124.06")
    assert link.facts(link.look(GPUS), None).nvml.probe is Probe.NOT_RUN


async def test_a_broken_driver_is_asked_again_less_and_less_often(tmp_path: Path, clock: Clock) -> None:
    machine = Machine(tmp_path)
    machine.install_driver()
    machine.load_module()
    link = DriverLink(
        Tree(machine.host), FakeChild(mismatch()), clock=clock, first_wait_s=1, longest_wait_s=4
    )
    waits = []
    for _ in range(4):
        await link.ask(link.look(GPUS))
        waits.append(link.asks_again_at - clock.now)
        clock.now = link.asks_again_at

    assert waits == [1, 2, 4, 4]


async def test_a_child_stuck_in_the_driver_gets_no_company() -> None:
    child = NvmlChild(deadline_s=0.2, command=program("import time; time.sleep(60)"))
    process = await asyncio.create_subprocess_exec(*program("import time; time.sleep(60)"))
    child._stuck = process
    try:
        answer = await child.ask(Path("/"), Path("/"))
    finally:
        process.kill()
        await process.wait()

    assert answer.nvml.probe is Probe.TIMED_OUT
