"""The node's CDI specs stay true, and say so when they cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.gpu.cdi.trees import LIBS, driver_tree, gpu, link, node, partition, touch, with_mig

from gpuready.chain.driver import NvmlAnswer, Probe
from gpuready.gpu.inventory import GPU, Inventory
from gpuready.node.cdi.files import Outcome, SpecFiles, read_record
from gpuready.node.cdi.place import Settings
from gpuready.node.cdi.watch import CdiKeeper
from gpuready.node.links.driver import Answer, NvmlChild
from gpuready.node.root import Root

DEADLINE_S = 30
GPUS, MANAGEMENT = "nvidia.com/gpu", "management.nvidia.com/gpu"


class Nvml(NvmlChild):
    """Answers what the test says."""

    def __init__(self, gpus: list[GPU] | None) -> None:
        super().__init__()
        self.gpus = gpus
        self.asked = 0
        self.news = asyncio.Event()

    async def ask(self, driver_root: Path, kernel_root: Path) -> Answer:
        self.asked += 1
        self.news.set()
        if self.gpus is None:
            return Answer(NvmlAnswer(Probe.FAILED, text="Driver Not Loaded"))
        return Answer(NvmlAnswer(Probe.ANSWERED), Inventory(tuple(self.gpus)))


class Node:
    """One host with a driver and one GPU, and a keeper of its specs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        driver_tree(root, gpus=1)
        (root / "run/cdi").mkdir(parents=True)
        (root / "var").mkdir()
        (root / "var/run").symlink_to("/run")
        self.folder = root / "run/cdi"
        self.record = root / "run/gpuready/records/cdi.json"
        self.nvml = Nvml([gpu(0)])
        self.told: list[Outcome] = []
        self.news = asyncio.Event()
        self.keeper = self.new_keeper()

    def new_keeper(self) -> CdiKeeper:
        host = Root(self.root)
        files = SpecFiles(host, self.folder, self.record, boot_id="b1")
        settings = Settings(settle_s=0.02, retry_s=0.1)
        return CdiKeeper(host, files, settings, child=self.nvml, tell=self._tell, tick_s=0.02)

    def _tell(self, outcome: Outcome) -> None:
        self.told.append(outcome)
        self.news.set()

    def spec(self, name: str = "nvidia.com-gpu.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text())
        return found

    def names(self) -> list[str]:
        return [device["name"] for device in self.spec()["devices"]]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def host(tmp_path: Path) -> Node:
    return Node(tmp_path)


@asynccontextmanager
async def running(host: Node) -> AsyncIterator[None]:
    task = asyncio.create_task(host.keeper.run())
    try:
        await host.until(lambda: len(host.told) > 0)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def update_driver(host: Node, version: str) -> None:
    """As a package does: new files, the links moved over, the old files gone; the module is loaded anew."""
    for name in ("libnvidia-ml", "libcuda"):
        touch(host.root, f"{LIBS}/{name}.so.{version}")
        fresh = host.root / f"{LIBS.lstrip('/')}/.new"
        fresh.symlink_to(f"{name}.so.{version}")
        fresh.replace(host.root / f"{LIBS.lstrip('/')}/{name}.so.1")
        (host.root / f"{LIBS.lstrip('/')}/{name}.so.550.163.01").unlink()
    touch(host.root, "/proc/driver/nvidia/version", f"NVRM version: NVIDIA Module  {version}\n")


# --- one pass ---------------------------------------------------------------------------------------------
async def test_both_specs_are_written_and_a_second_look_writes_nothing(host: Node) -> None:
    first = await host.keeper.refresh()
    stamps = {path: path.stat().st_mtime_ns for path in [*host.folder.iterdir(), host.record]}
    second = await host.keeper.refresh()

    assert sorted(path.name for path in host.folder.iterdir()) == [
        "management.nvidia.com-gpu.yaml",
        "nvidia.com-gpu.json",
    ]
    assert first.changed == (
        "/var/run/cdi/nvidia.com-gpu.json",
        "/var/run/cdi/management.nvidia.com-gpu.yaml",
    )
    assert second.changed == ()
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert (host.folder / "nvidia.com-gpu.json").stat().st_mode & 0o777 == 0o644
    assert len(host.told) == 1


async def test_when_nvml_does_not_answer_the_last_spec_stays_and_is_marked_stale(host: Node) -> None:
    await host.keeper.refresh()
    before = host.spec()
    host.nvml.gpus = None
    await host.keeper.refresh()

    assert host.spec() == before
    kept = read_record(host.record)[GPUS]
    assert kept.stale
    assert kept.reason == "NVML does not answer: Driver Not Loaded"
    assert json.loads(host.record.read_text())["kinds"][GPUS]["stale"] is True

    host.nvml.gpus = [gpu(0)]
    await host.keeper.refresh()
    assert not read_record(host.record)[GPUS].stale


async def test_a_half_updated_driver_does_not_replace_a_good_spec(host: Node) -> None:
    await host.keeper.refresh()
    touch(host.root, "/proc/driver/nvidia/version", "NVRM version: NVIDIA Module  570.86.10\n")
    outcome = await host.keeper.refresh()

    reason = "the driver's library is 550.163.01 and its module 570.86.10"
    assert outcome.kinds[GPUS].reason == outcome.kinds[MANAGEMENT].reason == reason
    assert outcome.kinds[GPUS].stale
    assert host.names() == ["0", "GPU-c0", "all"]


async def test_a_node_that_never_had_a_driver_has_a_reason_and_no_stale_file(tmp_path: Path) -> None:
    host = Node(tmp_path / "n")
    (host.root / f"{LIBS.lstrip('/')}/libnvidia-ml.so.1").unlink()
    outcome = await host.keeper.refresh()

    assert outcome.kinds[GPUS].reason == "no driver library below /"
    assert not outcome.kinds[GPUS].stale
    assert list(host.folder.iterdir()) == []
    assert host.nvml.asked == 0


async def test_a_directory_that_cannot_be_written_to_is_told_and_ends_nothing(host: Node) -> None:
    host.folder.rmdir()
    host.folder.write_text("a file where the directory should be")
    outcome = await host.keeper.refresh()

    assert outcome.kinds[GPUS].reason == "cannot write /var/run/cdi/nvidia.com-gpu.json: File exists"


def of_others(*devices: str) -> str:
    """A spec that another program has put beside ours."""
    edits = {"deviceNodes": [{"path": "/dev/nvidia0"}]}
    rows = [{"name": name, "containerEdits": edits} for name in devices]
    return json.dumps({"cdiVersion": "0.5.0", "kind": GPUS, "devices": rows})


async def test_one_name_that_another_program_defines_takes_no_other_away(host: Node) -> None:
    await host.keeper.refresh()
    (host.folder / "nvidia.yaml").write_text(of_others("0"))
    outcome = await host.keeper.refresh()

    assert host.names() == ["GPU-c0", "all"]
    assert outcome.kinds[GPUS].reason == (
        "/var/run/cdi/nvidia.yaml defines the same names, and of two none would count: "
        "1 of 3 names are left to it"
    )


async def test_names_that_another_program_defines_are_not_defined_twice(host: Node) -> None:
    await host.keeper.refresh()
    (host.folder / "nvidia.yaml").write_text(of_others("0", "GPU-c0", "all"))
    outcome = await host.keeper.refresh()

    assert not (host.folder / "nvidia.com-gpu.json").exists()
    assert outcome.kinds[GPUS].reason == (
        "/var/run/cdi/nvidia.yaml defines the same names, and of two none would count"
    )
    (host.folder / "nvidia.yaml").unlink()
    await host.keeper.refresh()
    assert host.names() == ["0", "GPU-c0", "all"]


async def test_the_record_names_every_file_that_defines_our_names(host: Node) -> None:
    (host.folder / "nvidia.yaml").write_text(of_others("0"))
    (host.folder / "other.json").write_text(of_others("GPU-c0"))
    await host.keeper.refresh()
    kept = read_record(host.record)[GPUS]

    assert (kept.cause, kept.others) == (
        "NamesTaken",
        ("/var/run/cdi/nvidia.yaml", "/var/run/cdi/other.json"),
    )
    assert kept.reason.startswith(
        "/var/run/cdi/nvidia.yaml and /var/run/cdi/other.json define the same names"
    )


async def test_a_link_in_a_circle_beside_our_spec_takes_nothing_away(host: Node) -> None:
    ours = host.folder / "nvidia.com-gpu.json"
    async with running(host):
        (host.folder / "x.json").symlink_to("x.json")
        ours.unlink()
        await host.until(ours.exists)


async def test_a_class_that_vanished_takes_its_spec_along(host: Node) -> None:
    node(host.root, "/dev/gdrdrv", 240, 0)
    await host.keeper.refresh()
    assert (host.folder / "nvidia.com-gdrcopy.json").exists()

    (host.root / "dev/gdrdrv").unlink()
    outcome = await host.keeper.refresh()
    assert outcome.changed == ("/var/run/cdi/nvidia.com-gdrcopy.json",)
    assert not (host.folder / "nvidia.com-gdrcopy.json").exists()


async def test_uninstall_removes_what_is_ours_and_leaves_what_somebody_changed(host: Node) -> None:
    await host.keeper.refresh()
    (host.folder / "management.nvidia.com-gpu.yaml").write_text("# another toolkit wrote this\n")
    files = SpecFiles(Root(host.root), host.folder, host.record)

    assert files.remove_all() == ["/var/run/cdi/nvidia.com-gpu.json"]
    assert [path.name for path in host.folder.iterdir()] == ["management.nvidia.com-gpu.yaml"]
    assert not host.record.exists()


async def test_a_spoiled_record_is_no_record(host: Node) -> None:
    touch(host.root, "/run/gpuready/records/cdi.json", '{"kinds": {"nvidia.com/gpu": {"file": 3}}}')

    assert (await host.keeper.refresh()).kinds[GPUS].digest


async def test_after_a_restart_what_is_there_is_known_and_not_written_again(host: Node) -> None:
    await host.keeper.refresh()

    assert (await host.new_keeper().refresh()).changed == ()


# --- watching ---------------------------------------------------------------------------------------------
async def test_a_new_driver_version_is_in_the_spec_by_itself(host: Node) -> None:
    async with running(host):
        update_driver(host, "570.86.10")
        await host.until(lambda: "libcuda.so.570.86.10" in json.dumps(host.spec()))

    assert "550.163.01" not in json.dumps(host.spec())


async def test_new_partitions_are_in_the_spec_by_themselves(host: Node) -> None:
    async with running(host):
        host.nvml.gpus = [gpu(0, mig_enabled=True, partitions=(partition(0),))]
        with_mig(host.root, 0, [1])
        await host.until(lambda: host.names() == ["0:0", "MIG-m0", "all"])


async def test_an_instance_that_only_proc_tells_of_is_seen(host: Node) -> None:
    """No inotify event comes from /proc: only its stamp differs."""
    touch(host.root, "/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "DeviceFileMinor: 12\n")
    async with running(host):
        asked = host.nvml.asked
        host.nvml.gpus = [gpu(0), gpu(1)]
        node(host.root, "/nowhere/nvidia1", 195, 1)
        touch(host.root, "/proc/driver/nvidia/capabilities/gpu0/mig/gi2/access", "DeviceFileMinor: 14\n")
        await host.until(lambda: bool(host.told[-1].kinds[GPUS].left_out))

    assert host.nvml.asked > asked


async def test_a_node_file_that_comes_late_is_seen(host: Node) -> None:
    host.nvml.gpus = [gpu(0), gpu(1)]
    async with running(host):
        assert host.names() == ["0", "GPU-c0", "all"]
        node(host.root, "/dev/nvidia1", 195, 1)
        await host.until(lambda: host.names() == ["0", "1", "GPU-c0", "GPU-c1", "all"])


async def test_a_spec_that_somebody_removes_or_changes_is_back_at_once(host: Node) -> None:
    async with running(host):
        file = host.folder / "nvidia.com-gpu.json"
        file.unlink()
        await host.until(lambda: file.exists())
        whole = file.read_bytes()
        file.write_text("{}")
        await host.until(lambda: file.read_bytes() == whole)


async def test_a_program_that_defines_our_names_later_finds_them_free(host: Node) -> None:
    ours = host.folder / "nvidia.com-gpu.json"
    async with running(host):
        (host.folder / "nvidia.yaml").write_text(of_others("all"))
        await host.until(lambda: host.names() == ["0", "GPU-c0"])

        ours.unlink()  # what is left of it is kept all the same
        await host.until(ours.exists)
        assert host.names() == ["0", "GPU-c0"]


async def test_a_full_disk_is_tried_again_in_its_time_and_not_at_once(host: Node) -> None:
    """A directory where the file should be stands for a disk that takes nothing."""
    (host.folder / "nvidia.com-gpu.json").mkdir()
    async with running(host):
        assert host.told[-1].kinds[GPUS].reason.startswith("cannot write /var/run/cdi/nvidia.com-gpu.json: ")
        before = asyncio.get_running_loop().time()
        asked = host.nvml.asked
        async with asyncio.timeout(DEADLINE_S):
            while host.nvml.asked < asked + 3:
                host.nvml.news.clear()
                await host.nvml.news.wait()
        assert asyncio.get_running_loop().time() - before > 0.2  # retry_s is 0.1
        (host.folder / "nvidia.com-gpu.json").rmdir()
        await host.until(lambda: (host.folder / "nvidia.com-gpu.json").is_file())


async def test_specs_of_others_come_and_go_and_nobody_is_asked(host: Node) -> None:
    edits = {"deviceNodes": [{"path": "/dev/nvidia0"}]}
    claim = {
        "cdiVersion": "0.3.0",
        "kind": "k8s.gpu.nvidia.com/claim",
        "devices": [{"name": "a", "containerEdits": edits}],
    }
    async with running(host):
        asked = host.nvml.asked
        for number in range(5):
            (host.folder / f"claim-{number}.json").write_text(json.dumps(claim))
        (host.folder / "nvidia.com-gpu.json").unlink()  # something that is answered, behind them
        await host.until(lambda: (host.folder / "nvidia.com-gpu.json").exists())

    assert host.nvml.asked == asked + 1


async def test_a_driver_container_that_comes_up_takes_over(host: Node) -> None:
    async with running(host):
        inside = host.root / "run/nvidia/driver"
        driver_tree(inside, gpus=1, version="570.86.10")
        touch(host.root, "/proc/driver/nvidia/version", "NVRM version: NVIDIA Module  570.86.10\n")
        await host.until(lambda: "/run/nvidia/driver" in json.dumps(host.spec()))

    assert "/run/nvidia/driver/dev/nvidia0" in json.dumps(host.spec())


async def test_while_nvml_does_not_answer_it_is_asked_again(host: Node) -> None:
    host.nvml.gpus = None
    async with running(host):
        assert not (host.folder / "nvidia.com-gpu.json").exists()
        host.nvml.gpus = [gpu(0)]
        await host.until(lambda: (host.folder / "nvidia.com-gpu.json").exists())


async def test_a_driver_that_is_removed_leaves_a_spec_that_says_it_is_stale(host: Node) -> None:
    async with running(host):
        for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
            (host.root / f"{LIBS.lstrip('/')}/{name}").unlink()
        await host.until(lambda: host.told[-1].kinds[GPUS].stale)

    assert host.told[-1].kinds[GPUS].reason == "no driver library below /"
    link(host.root, f"{LIBS}/libnvidia-ml.so.1", "libnvidia-ml.so.550.163.01")
    link(host.root, f"{LIBS}/libcuda.so.1", "libcuda.so.550.163.01")
    assert not (await host.keeper.refresh()).kinds[GPUS].stale
