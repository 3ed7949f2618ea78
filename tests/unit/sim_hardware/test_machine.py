"""Machines as files: what a node's root holds before, with and after a driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuready_sim.errors import DriverInUseError, HardwareStateError, UnknownModelError
from gpuready_sim.hardware import machine
from gpuready_sim.hardware.catalogue import MODELS, find_model
from gpuready_sim.hardware.machine import MachineSpec
from gpuready_sim.hardware.record import uuid_of
from gpuready_sim.hardware.state import GpuState

LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.fixture
def node(tmp_path):
    """node(*gpus, name=...) -> a node directory, no driver installed."""

    def build(*gpus: tuple[str, int], name: str = "gpu-1") -> Path:
        machine.build_node_root(tmp_path / name, MachineSpec(name, gpus))
        return tmp_path / name

    return build


def text(node_dir: Path, path: str) -> str:
    return (node_dir / "root" / path).read_text().strip()


def test_an_unknown_model_names_the_known_ones():
    with pytest.raises(UnknownModelError) as caught:
        find_model("V100")

    assert str(caught.value) == (
        "unknown GPU model 'V100'; because the catalogue does not have it; "
        "next: use one of: A100-SXM4-40GB, H100-SXM5-80GB, L4, T4, RTX-4090"
    )


def test_a_machine_shows_its_cards_on_the_pci_bus_without_a_driver(node):
    node_dir = node(("H100-SXM5-80GB", 1), ("RTX-4090", 1))

    devices = sorted(os.listdir(node_dir / "root/sys/bus/pci/devices"))
    assert devices == ["0000:1a:00.0", "0000:1b:00.0"]
    first, second = (f"sys/bus/pci/devices/{address}" for address in devices)
    assert [text(node_dir, f"{first}/{name}") for name in ("vendor", "device", "class", "numa_node")] == [
        "0x10de",
        "0x2330",
        "0x030200",
        "0",
    ]
    assert [text(node_dir, f"{second}/{name}") for name in ("device", "class")] == ["0x2684", "0x030000"]
    assert list((node_dir / "root/dev").iterdir()) == []
    assert not (node_dir / "root/sys/module/nvidia").exists()
    assert "nvidia" not in text(node_dir, "proc/modules") + text(node_dir, "proc/devices")


def test_a_machine_has_an_identity(node):
    node_dir = node()

    assert text(node_dir, "proc/sys/kernel/osrelease") == "5.15.0-113-generic"
    assert 'ID=ubuntu\nVERSION_ID="22.04"' in text(node_dir, "etc/os-release")
    assert text(node_dir, "etc/hostname") == "gpu-1"
    assert os.readlink(node_dir / "root/var/run") == "../run"
    with machine.gpu_state(node_dir) as state:
        assert state.gpus() == []
        assert state.boot_id == text(node_dir, "proc/sys/kernel/random/boot_id")


def test_uuids_depend_on_the_node_and_the_index_alone(node):
    with machine.gpu_state(node(("L4", 2), name="a")) as state:
        first = [gpu.uuid for gpu in state.gpus()]
    with machine.gpu_state(node(("RTX-4090", 2), name="b")) as state:
        second = [gpu.uuid for gpu in state.gpus()]

    assert first == [uuid_of("a", 0), uuid_of("a", 1)]
    assert len({*first, *second}) == 4


def test_a_machine_takes_at_most_32_gpus(node):
    with pytest.raises(
        HardwareStateError, match="gpu-1 has 33 GPUs; because a simulated node holds at most 32"
    ):
        node(("L4", 33))


def test_sixteen_gpus_have_sixteen_addresses(node):
    with machine.gpu_state(node(("L4", 16))) as state:
        addresses = [gpu.pci_address for gpu in state.gpus()]

    assert len(set(addresses)) == 16
    assert addresses == sorted(addresses)


def test_an_installed_driver_is_real_libraries_and_links_by_soname(tmp_path):
    machine.install_driver(tmp_path, "550.163.01")

    libraries = tmp_path / LIBRARIES
    assert machine.installed_version(tmp_path) == "550.163.01"
    assert os.readlink(libraries / "libnvidia-ml.so.1") == "libnvidia-ml.so.550.163.01"
    assert os.readlink(libraries / "libcuda.so") == "libcuda.so.1"
    assert os.readlink(libraries / "libnvidia-nvvm.so.4") == "libnvidia-nvvm.so.550.163.01"
    assert (libraries / "libnvidia-ml.so.1").read_bytes()[:4] == b"\x7fELF"
    assert os.access(tmp_path / "usr/bin/nvidia-smi", os.X_OK)


def test_an_update_moves_every_link_and_leaves_no_file_of_the_old_version(tmp_path):
    machine.install_driver(tmp_path, "550.163.01")

    machine.update_driver(tmp_path, "570.86.10")

    assert machine.installed_version(tmp_path) == "570.86.10"
    assert [path for path in tmp_path.rglob("*") if "550.163.01" in path.name] == []
    links = [path for path in (tmp_path / LIBRARIES).iterdir() if path.is_symlink()]
    assert links
    assert all(link.exists() for link in links)


def test_a_second_version_is_not_installed_over_the_first(tmp_path):
    machine.install_driver(tmp_path, "550.163.01")

    with pytest.raises(HardwareStateError, match=r"already holds driver 550\.163\.01"):
        machine.install_driver(tmp_path, "570.86.10")


def test_a_removed_driver_leaves_no_library(tmp_path):
    machine.install_driver(tmp_path, "550.163.01")

    machine.remove_driver(tmp_path)

    assert machine.installed_version(tmp_path) is None
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_loaded_driver_is_in_proc_sys_and_dev(node):
    node_dir = node(("A100-SXM4-40GB", 2))

    machine.load_driver(node_dir, "550.163.01")

    assert machine.loaded_version(node_dir) == "550.163.01"
    assert text(node_dir, "proc/driver/nvidia/version").startswith(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  "
    )
    assert text(node_dir, "sys/module/nvidia/version") == "550.163.01"
    assert text(node_dir, "sys/module/nvidia/refcnt") == "2"
    assert "195 nvidia\n" in text(node_dir, "proc/devices")
    assert text(node_dir, "proc/modules").startswith("nvidia 56000000 2 nvidia_uvm,nvidia_modeset, Live")
    assert sorted(os.listdir(node_dir / "root/dev")) == [
        "nvidia-modeset",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia0",
        "nvidia1",
        "nvidiactl",
    ]
    information = text(node_dir, "proc/driver/nvidia/gpus/0000:1b:00.0/information")
    assert f"GPU UUID: \t {uuid_of('gpu-1', 1)}" in information


def test_loading_twice_is_nothing_and_another_version_is_refused(node):
    node_dir = node(("L4", 1))
    machine.load_driver(node_dir, "550.163.01")

    machine.load_driver(node_dir, "550.163.01")

    with pytest.raises(HardwareStateError, match=r"module 550\.163\.01 is loaded"):
        machine.load_driver(node_dir, "570.86.10")


def test_a_machine_without_gpus_cannot_load_the_driver(node):
    with pytest.raises(HardwareStateError, match="the machine has no NVIDIA GPU"):
        machine.load_driver(node(), "550.163.01")


def test_an_unloaded_driver_leaves_nothing_in_proc_sys_and_dev(node):
    node_dir = node(("L4", 1))
    before = sorted(str(path) for path in (node_dir / "root").rglob("*"))
    machine.load_driver(node_dir, "550.163.01")

    machine.unload_driver(node_dir)

    assert machine.loaded_version(node_dir) is None
    assert set(before) >= {str(path) for path in (node_dir / "root").rglob("*") if path.is_file()}


def test_a_driver_in_use_is_not_unloaded_and_the_holders_are_named(node):
    node_dir = node(("L4", 1))
    machine.install_driver(node_dir / "root", "550.163.01")
    machine.load_driver(node_dir, "550.163.01")
    env = {
        **os.environ,
        "NVSIM_STATE": str(node_dir / "gpus.state"),
        "LD_LIBRARY_PATH": str(node_dir / "root" / LIBRARIES),
    }
    program = 'from pynvml import *; nvmlInit(); print("ready", flush=True); input()'
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        with pytest.raises(DriverInUseError) as caught:
            machine.unload_driver(node_dir)

        assert [pid for pid, _ in caught.value.holders] == [holder.pid]
        assert f"these processes hold NVML: {holder.pid} ({sys.executable} -c from pynvml" in str(
            caught.value
        )
        assert machine.loaded_version(node_dir) == "550.163.01"
        holder.kill()
    machine.unload_driver(node_dir)
    assert machine.loaded_version(node_dir) is None


def test_a_reboot_brings_a_new_boot_id_an_empty_run_and_no_module(node):
    node_dir = node(("L4", 1))
    machine.install_driver(node_dir / "root", "550.163.01")
    machine.load_driver(node_dir, "550.163.01")
    before = text(node_dir, "proc/sys/kernel/random/boot_id")
    for path in ("run/nvidia/validations/driver-ready", "var/lib/gpuready/kept"):
        (node_dir / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        (node_dir / "root" / path).touch()

    boot_id = machine.reboot(node_dir)

    assert text(node_dir, "proc/sys/kernel/random/boot_id") == boot_id != before
    assert list((node_dir / "root/run").iterdir()) == []
    assert (node_dir / "root/var/lib/gpuready/kept").exists()
    assert machine.loaded_version(node_dir) is None
    assert machine.installed_version(node_dir / "root") == "550.163.01"
    with machine.gpu_state(node_dir) as state:
        assert state.boot_id == boot_id


def test_a_lost_gpu_survives_a_reset_and_comes_back_with_a_reboot(node):
    node_dir = node(("A100-SXM4-40GB", 1))
    with machine.gpu_state(node_dir) as state:
        state.raise_xid(0, 79)
        assert state.gpus()[0].lost

        assert state.reset(0) is False
        assert state.gpus()[0].lost

        machine.reboot(node_dir)
        assert not state.gpus()[0].lost
        assert state.gpus()[0].recovery_action == 0


def test_an_index_that_is_not_there_is_refused(node):
    with (
        machine.gpu_state(node(("L4", 2))) as state,
        pytest.raises(
            HardwareStateError, match="there is no GPU 2; because the node has 2; next: use an index"
        ),
    ):
        state.raise_xid(2, 31)


def test_a_file_of_another_size_is_no_state_file(tmp_path):
    (tmp_path / "gpus.state").write_bytes(b"x")

    with pytest.raises(
        HardwareStateError, match="is no GPU state file of this version; because it has 1 bytes"
    ):
        GpuState(tmp_path / "gpus.state")


@pytest.mark.parametrize("key", list(MODELS))
def test_every_catalogue_entry_is_plausible(key):
    model = MODELS[key]

    assert model.key == key
    assert model.name.startswith(("NVIDIA ", "Tesla "))
    assert model.memory_reserved_mib < model.memory_mib
    assert model.power_min_w <= model.power_limit_w <= model.power_max_w
    assert bool(model.nvlinks) == bool(model.nvlink_version) == bool(model.nvlink_mbps)
