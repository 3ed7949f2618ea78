"""Looks through the simulated libdcgm: the same GPUs, what an engine refuses, and what is too old."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuready.gpu.dcgm import Dcgm, DcgmError, Group, HostEngine
from gpuready.gpu.telemetry.dcgm_looks import DcgmLook
from gpuready.gpu.telemetry.dcgm_reader import DcgmThread
from gpuready.gpu.telemetry.engines import Engines
from gpuready.gpu.telemetry.fields import find_field
from gpuready.gpu.telemetry.turns import Order
from gpuready.gpu.tree import Tree
from gpuready_sim.dcgm import host_engine
from gpuready_sim.hardware import call_faults, machine, mig, work
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.dcgm_package import install_dcgm
from gpuready_sim.hardware.driver_tree import native_dir
from gpuready_sim.hardware.state import GpuState

H100, A100 = "H100-SXM5-80GB", "A100-SXM4-40GB"
VERSION = "570.86.10"
INTERVAL_S = 0.05
DEADLINE_S = 30.0


@dataclass
class Clock:
    """Monotonic time that a test moves on."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()


@dataclass
class Node:
    """`look` takes one session's next look, in this thread."""

    state: GpuState
    session: Dcgm
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.thread = DcgmThread(self, self.clock, lambda: None)
        self._number = 0

    def open(self) -> Dcgm:
        return self.session

    def look(self, *names: str) -> DcgmLook:
        fields = sorted((find_field(f"DCGM_FI_{name}") for name in names), key=lambda of: of.id)
        self._number += 1
        return self.thread.look(self.session, Order(self._number, 0.0, tuple(fields), INTERVAL_S))

    def until(self, what: Callable[[DcgmLook], bool], *names: str) -> DcgmLook:
        deadline = time.monotonic() + DEADLINE_S
        while not what(found := self.look(*names)):
            assert time.monotonic() < deadline, found
            time.sleep(INTERVAL_S / 2)
        return found


Build = Callable[..., Node]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """node((model, count), ..., engine=None): with the driver loaded and a session open."""
    made: list[Node] = []

    def build(*gpus: tuple[str, int], engine: HostEngine | None = None) -> Node:
        folder = tmp_path / "node"
        machine.build_node_root(folder, machine.MachineSpec("gpu-1", gpus))
        machine.load_driver(folder, VERSION)
        monkeypatch.setenv("NVSIM_STATE", str(folder / "gpus.state"))
        monkeypatch.setenv("NVSIM_DEV", str(folder / "root/dev"))
        session = Dcgm(native_dir() / "libdcgm.so", engine)
        made.append(Node(machine.gpu_state(folder), session))
        return made[-1]

    yield build
    for each in made:
        call_faults.mend(each.state)
        each.session.close()
        each.state.close()


def values(look: DcgmLook, name: str) -> list[object]:
    return [each.value for each in look.samples if each.field.name == f"DCGM_FI_{name}"]


def reasons(look: DcgmLook, name: str) -> list[tuple[str, bool]]:
    return [(each.reason, each.supported) for each in look.absent if each.field.name == f"DCGM_FI_{name}"]


def test_an_engine_in_this_process_tells_who_the_gpus_are_and_what_was_asked(node: Build) -> None:
    gpus = node((H100, 2))
    found = gpus.look("DRIVER_VERSION", "DEV_GPU_TEMP", "DEV_FB_TOTAL", "DEV_FAN_SPEED", "DEV_XID_ERRORS")
    info = gpus.state.gpus()
    assert [(each.uuid, each.index, each.minor, each.model) for each in found.devices] == [
        (each.uuid, number, number, "NVIDIA H100 80GB HBM3") for number, each in enumerate(info)
    ]
    assert found.devices[0].pci_bus_id == f"0000{info[0].pci_address}".upper()
    assert values(found, "DRIVER_VERSION") == [VERSION]
    assert values(found, "DEV_FB_TOTAL") == [81559, 81559]
    assert values(found, "DEV_XID_ERRORS") == [0, 0]
    assert reasons(found, "DEV_FAN_SPEED") == 2 * [("DCGM has no value: the GPU does not support it", False)]
    assert (found.version, found.error, found.silent) == ("4.5.3", "", ())


def test_profiling_comes_from_the_engine_which_measures_between_two_readings(node: Build) -> None:
    gpus = node((H100, 1))
    work.set_load(gpus.state, 0, Course.constant(80))
    names = ("PROF_GR_ENGINE_ACTIVE", "PROF_PCIE_TX_BYTES")
    first = gpus.look(*names)
    assert reasons(first, "PROF_GR_ENGINE_ACTIVE") == [("DCGM has no value: it is blank", True)]
    later = gpus.until(lambda look: len(look.samples) == 2, *names)
    assert values(later, "PROF_GR_ENGINE_ACTIVE") == [pytest.approx(0.8, abs=0.02)]
    assert float(str(values(later, "PROF_PCIE_TX_BYTES")[0])) > 2**20


def test_each_instance_of_a_mig_gpu_has_its_own_values_and_the_gpu_its_own(node: Build) -> None:
    gpus = node((H100, 1))
    mig.enable(gpus.state, 0)
    uuids = mig.layout(gpus.state, 0, ["3g.40gb", "1g.10gb"])
    found = gpus.look("DEV_FB_TOTAL", "DEV_GPU_TEMP", "DEV_GPU_UTIL")
    (device,) = found.devices
    assert device.mig_enabled
    assert [(each.profile, each.mig_uuids) for each in device.instances] == [
        ("3g.40gb", (uuids[0],)),
        ("1g.10gb", (uuids[1],)),
    ]
    totals = [(each.entity.instance, each.value) for each in found.samples if each.field.id == 250]
    assert totals == [(device.instances[0], 40448), (device.instances[1], 9984)]
    assert len(values(found, "DEV_GPU_TEMP")) == 1
    assert reasons(found, "DEV_GPU_UTIL") == [("DCGM has no value: the GPU does not support it", False)]


def test_instances_that_come_later_are_found(node: Build) -> None:
    gpus = node((H100, 1))
    assert values(gpus.look("DEV_FB_TOTAL"), "DEV_FB_TOTAL") == [81559]
    mig.enable(gpus.state, 0)
    mig.layout(gpus.state, 0, ["1g.10gb"])
    assert values(gpus.look("DEV_FB_TOTAL"), "DEV_FB_TOTAL") == [9984]


def test_what_an_engine_refuses_to_watch_costs_nothing_else(node: Build) -> None:
    """An A100 without the profiling module, beside an H100, and a field that this engine does not know."""
    gpus = node((A100, 1), (H100, 1))
    common = ("DEV_GPU_TEMP", "DEV_FB_USED")
    names = (*common, "PROF_SM_ACTIVE", "PROF_GR_ENGINE_ACTIVE", "DEV_FABRIC_MANAGER_STATUS")
    gpus.look(*names)
    found = gpus.until(lambda look: len(values(look, "PROF_SM_ACTIVE")) == 1, *names)
    assert len(values(found, "DEV_GPU_TEMP")) == len(values(found, "DEV_FB_USED")) == 2
    assert reasons(found, "PROF_SM_ACTIVE") == [("DCGM answers ProfilingNotSupported", False)]
    assert reasons(found, "PROF_GR_ENGINE_ACTIVE") == [("DCGM answers ProfilingNotSupported", False)]
    assert reasons(found, "DEV_FABRIC_MANAGER_STATUS") == 2 * [("DCGM answers UnknownField", False)]
    (told,) = (each for each in found.samples if each.field.id == 1002)
    assert told.entity.device == found.devices[1]


def test_a_lost_gpu_keeps_its_name_and_says_that_it_is_silent(node: Build) -> None:
    gpus = node((H100, 2))
    before = gpus.look("DEV_GPU_TEMP")
    gpus.state.set_lost(0)
    found = gpus.until(lambda look: bool(look.silent), "DEV_GPU_TEMP")
    assert sorted(each.index for each in found.devices) == [0, 1]
    lost = before.devices[0]
    assert [(each.uuid, each.index, each.reason) for each in found.silent] == [
        (lost.uuid, 0, "DCGM reaches it no more")
    ]
    assert len(values(found, "DEV_GPU_TEMP")) == 1


def test_an_engine_that_reads_no_more_has_only_old_values_which_are_absent(node: Build) -> None:
    gpus = node((H100, 1))
    assert values(gpus.look("DEV_GPU_TEMP"), "DEV_GPU_TEMP")
    call_faults.hang(gpus.state, "nvmlDeviceGetTemperature", seconds=3600)
    gpus.until(lambda look: _stands_still(gpus), "DEV_GPU_TEMP")
    gpus.clock.now += 3 * INTERVAL_S
    found = gpus.look("DEV_GPU_TEMP")
    assert reasons(found, "DEV_GPU_TEMP") == [("DCGM has read it last more than two intervals ago", True)]
    assert [each.reason for each in found.silent] == ["DCGM has read it last more than two intervals ago"]


def test_a_session_ends_with_its_engine_and_is_not_tried_again_at_once(node: Build, tmp_path: Path) -> None:
    with host_engine.HostEngine() as engine:
        gpus = node((H100, 1), engine=HostEngine(engine.address))
        assert values(gpus.look("DEV_GPU_TEMP"), "DEV_GPU_TEMP")
    with pytest.raises(DcgmError, match="ConnectionNotValid"):
        gpus.look("DEV_GPU_TEMP")
    install_dcgm(tmp_path / "root")
    clock, tree = Clock(), Tree(tmp_path / "root")
    engines = Engines(HostEngine(engine.address), lambda: (tree,), lambda: tree, clock)
    for after_s, failed in ((0.0, 1), (0.5, 1), (0.6, 2), (1.5, 2), (0.6, 3)):
        clock.now += after_s
        with pytest.raises(DcgmError, match=r"dcgmConnect_v2 answered ConnectionNotValid \(-21\)"):
            engines.open()
        assert engines.failed == failed


def test_a_unix_socket_is_an_address_too(node: Build, tmp_path: Path) -> None:
    with host_engine.HostEngine(path=tmp_path / "engine") as engine:
        gpus = node((H100, 1), engine=HostEngine(engine.address.removeprefix("unix://"), is_socket=True))
        assert values(gpus.look("DEV_GPU_TEMP"), "DEV_GPU_TEMP")


def test_a_call_that_fails_for_one_gpu_is_its_reason(node: Build) -> None:
    gpus = node((H100, 1))
    assert values(gpus.look("DEV_GPU_TEMP"), "DEV_GPU_TEMP")
    call_faults.fail(gpus.state, "dcgmEntitiesGetLatestValues", code=18)
    found = gpus.look("DEV_GPU_TEMP")
    assert [(each.uuid, each.reason) for each in found.silent] == [
        (gpus.state.gpus()[0].uuid, "DCGM answers GpuIsLost")
    ]


def test_an_engine_that_goes_while_it_is_read_ends_the_session(node: Build) -> None:
    gpus = node((H100, 1))
    assert values(gpus.look("DEV_GPU_TEMP"), "DEV_GPU_TEMP")
    call_faults.fail(gpus.state, "dcgmEntitiesGetLatestValues", code=21)
    with pytest.raises(DcgmError, match=r"dcgmEntitiesGetLatestValues answered ConnectionNotValid"):
        gpus.look("DEV_GPU_TEMP")


def test_where_no_libdcgm_is_there_it_says_what_to_install(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with pytest.raises(DcgmError) as raised:
        Engines(None, lambda: (tree,), lambda: tree, Clock()).open()
    assert raised.value.name == "LibraryNotFound"
    assert "no libdcgm.so.4 or libdcgm.so.3 on the node" in raised.value.what
    assert "datacenter-gpu-manager-4" in raised.value.next_step


def _stands_still(gpus: Node) -> bool:
    """Whether the engine has read nothing new in the time of several readings."""
    gpu, temperature = (Group.GPU, 0), [150]
    before = gpus.session.read(gpu, temperature)
    time.sleep(4 * INTERVAL_S)
    return gpus.session.read(gpu, temperature) == before
