"""The driver link against the simulated driver: a real child process, every fault by its name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuready.chain import driver
from gpuready.chain.driver import Owner
from gpuready.chain.verdict import State, Verdict
from gpuready.gpu.tree import Tree
from gpuready.node.links import discovery
from gpuready.node.links.driver import DriverLink, NvmlChild
from gpuready_sim.hardware import machine
from gpuready_sim.hardware.machine import MachineSpec

VERSION = "570.86.10"


class Node:
    """A machine with GPUs, as the agent looks at it."""

    def __init__(self, folder: Path, gpus: int = 3) -> None:
        self.folder = folder
        self.root = folder / "root"
        machine.build_node_root(folder, MachineSpec("g1", (("A100-SXM4-40GB", gpus),)))

    async def judge(self, *, deadline_s: float = 10.0, wanted: bool = True) -> Verdict:
        host = Tree(self.root)
        link = DriverLink(host, NvmlChild(deadline_s=deadline_s), clock=time.monotonic)
        seen = link.look(discovery.gather(host).pci_addresses)
        if link.wants_asking(seen):
            await link.ask(seen)
        facts = link.facts(seen, wanted)
        self.owner = driver.owner_of(facts)
        return driver.judge(facts)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    found = Node(tmp_path / "node")
    monkeypatch.setenv("NVSIM_STATE", str(found.folder / "gpus.state"))
    monkeypatch.setenv("NVSIM_DEV", str(found.root / "dev"))
    return found


def installed(node: Node) -> None:
    machine.install_driver(node.root, VERSION)
    machine.load_driver(node.folder, VERSION)


def updated(node: Node) -> None:
    installed(node)
    machine.update_driver(node.root, "570.133.20")


def not_loaded(node: Node) -> None:
    machine.install_driver(node.root, VERSION)


def lost(node: Node) -> None:
    installed(node)
    with machine.gpu_state(node.folder) as state:
        state.set_lost(1)


def unreadable(node: Node) -> None:
    installed(node)
    with machine.gpu_state(node.folder) as state:
        state.set_inforom_corrupt(2)


def in_container(node: Node) -> None:
    machine.install_driver(node.root / "run/nvidia/driver", VERSION)
    machine.load_driver(node.folder, VERSION)


@pytest.mark.parametrize(
    ("happened", "state", "reason", "must_mention", "owner"),
    [
        pytest.param(
            installed, State.OK, "DriverReady", [VERSION, "3 GPUs"], Owner.HOST, id="installed and loaded"
        ),
        pytest.param(
            updated,
            State.BROKEN,
            "DriverLibraryMismatch",
            ["library 570.133.20", f"module {VERSION}"],
            Owner.HOST,
            id="updated under a loaded module",
        ),
        pytest.param(not_loaded, State.BROKEN, "DriverNotLoaded", ["modprobe"], Owner.HOST, id="not loaded"),
        pytest.param(
            lost, State.DEGRADED, "GpuNotAnswering", ["GPU 1", "2 of 3"], Owner.HOST, id="one GPU off the bus"
        ),
        pytest.param(
            unreadable,
            State.DEGRADED,
            "InfoRomCorrupted",
            ["infoROM", "GPU 2"],
            Owner.HOST,
            id="C26: infoROM",
        ),
        pytest.param(
            in_container, State.OK, "DriverReady", [VERSION], Owner.CONTAINER, id="a driver container's"
        ),
        pytest.param(
            lambda node: None, State.WAITING, "DriverInstalling", [], Owner.CONTAINER, id="nothing there yet"
        ),
    ],
)
async def test_what_happened_to_the_driver_is_what_is_said(
    node: Node,
    happened: Callable[[Node], None],
    state: State,
    reason: str,
    must_mention: list[str],
    owner: Owner,
) -> None:
    happened(node)

    verdict = await node.judge()

    told = " ".join([verdict.message, *verdict.evidence, verdict.next_step])
    assert (verdict.state, verdict.reason) == (state, reason), told
    assert [words for words in must_mention if words not in told] == []
    assert node.owner is owner


async def test_a_hanging_nvml_is_named_and_leaves_no_process(node: Node) -> None:
    installed(node)
    with machine.gpu_state(node.folder) as state:
        state.set_hang_s(30)
        started = time.monotonic()

        verdict = await node.judge(deadline_s=1.0)

        assert (verdict.state, verdict.reason) == (State.BROKEN, "NvmlTimeout")
        assert time.monotonic() - started < 5
        assert state.holders() == []
        state.set_hang_s(0)

    assert (await node.judge()).state is State.OK
