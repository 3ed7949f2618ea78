"""Read-only and full file systems under the toolkit: real mounts, one directory after the other.

Each time: the reason is clear, nothing is half-written, the daemon lives on, and heals when the disk does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.node.private_mounts import Full, ReadOnly, private_mounts
from tests.sim.toolkit_node import OURS, ROOT, ToolkitNode, toolkit_node
from tests.unit.gpu.cdi.trees import driver_tree, gpu

from gpuready.chain.cdi_specs import problems_of
from gpuready.chain.driver import NvmlAnswer, Probe
from gpuready.errors import GPUReadyError
from gpuready.gpu.inventory import Inventory
from gpuready.node.cdi import watch
from gpuready.node.links.cdi_specs import SpecLook
from gpuready.node.links.driver import Answer, NvmlChild
from gpuready.node.root import Root
from gpuready.operands.toolkit import daemon
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.settings import Settings

RECORDS, JOURNAL_DIR = "run/gpuready/records", "var/lib/gpuready/toolkit"
CONFIG_DIR, CONF_D, CDI = "etc/containerd", "etc/containerd/conf.d", "run/cdi"
RELEASE = "2.2.1"
DEADLINE_S = 60
FAULTS = {"read-only": ReadOnly, "full": Full}
Fault = type[ReadOnly] | type[Full]


@pytest.fixture(autouse=True)
def mounts() -> Iterator[None]:
    with private_mounts():
        yield


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> Fault:
    return FAULTS[request.param]


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolkitNode]:
    monkeypatch.setattr(daemon, "LOOK_AGAIN_S", 0.3)
    monkeypatch.setattr(watch, "NvmlChild", OneGpu)
    driver_tree(tmp_path, gpus=1)
    for folder in (RECORDS, JOURNAL_DIR, CDI):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "var/run").symlink_to("/run")
    async with toolkit_node(tmp_path, RELEASE) as running:
        yield running


class OneGpu(NvmlChild):
    async def ask(self, driver_root: Path, kernel_root: Path) -> Answer:
        return Answer(NvmlAnswer(Probe.ANSWERED), Inventory((gpu(0),)))


@asynccontextmanager
async def toolkit_on(node: ToolkitNode) -> AsyncIterator[daemon.Daemon]:
    root = Root(node.root)
    settings = Settings(records_dir=f"/{RECORDS}", health_port=0, restart_s=20.0)
    running = daemon.Daemon(settings, root, Host(root, enters=False))
    task = asyncio.create_task(running.run())
    try:
        yield running
        assert not task.done(), "it lives on"
    finally:
        running.stop()
        await asyncio.gather(task, return_exceptions=True)


def record(node: ToolkitNode) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((node.root / RECORDS / "toolkit.json").read_text())
    except OSError:
        return {}
    return found


def problem(node: ToolkitNode) -> dict[str, Any]:
    return record(node).get("problem") or {}


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.02)


def files_of(node: ToolkitNode) -> dict[str, bytes]:
    """What lies in the runtime's directories, but what stands for a full disk."""
    folder = node.root / CONFIG_DIR
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: content for name, content in found.items() if not name.endswith("filler")}


PLACES = {
    CONFIG_DIR: "cannot be written",
    CONF_D: f"/{OURS} cannot be written",
    JOURNAL_DIR: "the toolkit's journal cannot be written",
}


@pytest.mark.parametrize("place", PLACES)
async def test_no_runtime_file_is_half_written_and_it_heals_with_the_disk(
    node: ToolkitNode, fault: Fault, place: str
) -> None:
    before = files_of(node)
    tight = fault(node.root / place)

    async with toolkit_on(node):
        await until(lambda: problem(node))
        assert problem(node)["reason"] == "RuntimeConfigRefused"
        assert PLACES[place] in problem(node)["message"]
        assert problem(node)["message"].endswith(fault.reason)
        assert problem(node)["nextStep"].startswith("check the file system of /")
        assert files_of(node) == before
        assert node.restarts == 0

        tight.mend()
        await until(lambda: record(node).get("whole"))

    assert node.restarts == 1
    assert f"/{OURS}".rpartition("/")[2] in {Path(name).name for name in files_of(node)}


@pytest.mark.parametrize("place", PLACES)
async def test_a_repair_waits_for_the_disk_and_the_runtime_goes_on(
    node: ToolkitNode, fault: Fault, place: str
) -> None:
    """Somebody takes our drop-in away, and then nothing can be written."""
    async with toolkit_on(node):
        await until(lambda: record(node).get("whole"))
        (node.root / OURS).unlink()
        tight = fault(node.root / place)
        await until(lambda: problem(node) or record(node).get("repaired"))
        if problem(node):  # else it was faster than the disk
            assert problem(node)["message"].endswith(fault.reason)
        tight.mend()
        await until(lambda: record(node).get("whole") and (node.root / OURS).exists())


@pytest.mark.parametrize(
    ("fault", "place"),
    [(ReadOnly, CONFIG_DIR), (ReadOnly, CONF_D), (ReadOnly, JOURNAL_DIR), (Full, JOURNAL_DIR)],
)
async def test_an_uninstall_is_refused_whole_and_can_be_done_later(
    node: ToolkitNode, fault: Fault, place: str
) -> None:
    before = node.config.read_bytes()
    await node.install()
    installed = files_of(node)
    tight = fault(node.root / place)

    with pytest.raises((GPUReadyError, OSError), match=fault.reason) as refused:
        await node.engine().uninstall()

    assert refused.value
    assert files_of(node) == installed
    tight.mend()
    await node.engine().uninstall()
    assert node.config.read_bytes() == before
    assert not (node.root / OURS).exists()


async def test_an_uninstall_that_only_removes_needs_no_room(node: ToolkitNode) -> None:
    before = node.config.read_bytes()
    await node.install()
    Full(node.root / CONFIG_DIR)

    await node.engine().uninstall()

    assert node.config.read_bytes() == before
    assert not (node.root / OURS).exists()


async def test_the_specs_wait_for_their_disk_and_the_link_says_so(node: ToolkitNode, fault: Fault) -> None:
    tight = fault(node.root / CDI)
    looking = SpecLook(Root(node.root), node.root / RECORDS)

    async with toolkit_on(node):
        await until(lambda: problems_of(looking.look()))
        found = [each.problem for each in problems_of(looking.look())]
        assert {each.reason for each in found} == {"CdiSpecNotWritten"}
        assert f"cannot write /var/run/cdi/nvidia.com-gpu.json: {fault.reason}" in found[0].message
        assert "file system of /var/run/cdi" in found[0].next_step
        assert [path.name for path in (node.root / CDI).iterdir() if path.name != "filler"] == []
        await until(lambda: record(node).get("whole"))

        tight.mend()
        await until(lambda: not problems_of(looking.look()))

    assert {path.name for path in (node.root / CDI).iterdir()} == {
        "management.nvidia.com-gpu.yaml",
        "nvidia.com-gpu.json",
    }


async def test_a_spec_of_before_stays_whole_on_a_disk_that_takes_nothing(
    node: ToolkitNode, fault: Fault
) -> None:
    looking = SpecLook(Root(node.root), node.root / RECORDS)
    ours = node.root / CDI / "nvidia.com-gpu.json"
    async with toolkit_on(node):
        await until(lambda: ours.exists() and record(node).get("whole"))
        before = ours.read_bytes()
        tight = fault(node.root / CDI)
        (node.root / "usr/bin/nvidia-smi").unlink()  # a spec without it is due
        (node.root / "usr/lib/x86_64-linux-gnu/libnew.so.550.163.01").touch()
        await until(lambda: problems_of(looking.look()))
        assert ours.read_bytes() == before

        tight.mend()
        await until(lambda: b"libnew" in ours.read_bytes() and not problems_of(looking.look()))


async def test_records_that_cannot_be_written_stop_nothing(node: ToolkitNode, fault: Fault) -> None:
    tight = fault(node.root / RECORDS)

    async with toolkit_on(node):
        await until(lambda: node.restarts == 1)
        assert (node.root / ROOT).read_text().count("conf.d") >= 1
        tight.mend()
        await until(lambda: record(node).get("whole"))
