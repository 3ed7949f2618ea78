"""The simulator's nvidia-smi: transcripts, texts and exit codes."""

from __future__ import annotations

import pytest

from gpuready_sim.hardware import machine


@pytest.fixture
def smi(build):
    """smi(*arguments, gpus=...) -> the finished program; `smi.node` is the machine."""

    class Smi:
        def __init__(self) -> None:
            self.node = build(("A100-SXM4-40GB", 2), ("RTX-4090", 1))

        def __call__(self, *arguments):
            return self.node.command(str(self.node.root / "usr/bin/nvidia-smi"), *arguments)

    return Smi()


def test_the_list_has_one_line_per_gpu(smi):
    shown = smi("-L")

    names = ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 4090"]
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == [
        f"GPU {gpu.index}: {name} (UUID: {gpu.uuid})"
        for gpu, name in zip(smi.node.state.gpus(), names, strict=True)
    ]


def test_the_table_is_as_wide_as_the_original_and_shows_each_gpu(smi):
    smi.node.state.set_utilization(0, gpu=100, used_mib=40000)

    lines = smi().stdout.splitlines()

    assert {len(line) for line in lines[1:] if line} == {91}
    assert (
        "| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.4     |" in lines
    )
    assert (
        "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:1A:00.0 Off |                    0 |" in lines
    )
    assert (
        "| N/A   68C    P0            365W /  400W |   40000MiB /  40960MiB |    100%      Default |" in lines
    )
    assert (
        "|  No running processes found                                                             |" in lines
    )


def test_a_query_prints_the_fields_that_were_asked_for(smi):
    fields = "--query-gpu=index,name,memory.total,mig.mode.current,fan.speed"

    assert smi(fields, "--format=csv").stdout.splitlines() == [
        "index, name, memory.total [MiB], mig.mode.current, fan.speed [%]",
        "0, NVIDIA A100-SXM4-40GB, 40960 MiB, Disabled, [N/A]",
        "1, NVIDIA A100-SXM4-40GB, 40960 MiB, Disabled, [N/A]",
        "2, NVIDIA GeForce RTX 4090, 24564 MiB, [N/A], 30 %",
    ]
    assert smi(fields, "--format=csv,noheader,nounits", "-i", "2").stdout == (
        "2, NVIDIA GeForce RTX 4090, 24564, [N/A], 30\n"
    )


def test_an_unknown_field_is_named(smi):
    shown = smi("--query-gpu=index,colour", "--format=csv")

    assert (shown.returncode, shown.stdout) == (2, 'Field "colour" is not a valid field to query.\n')


def test_a_corrupt_inforom_warns_after_the_table_with_14(smi):
    smi.node.state.set_inforom_corrupt(1)

    shown = smi()

    assert shown.returncode == 14
    assert shown.stdout.endswith("WARNING: infoROM is corrupted at gpu 0000:1B:00.0\n")


def test_a_lost_gpu_is_named_with_15_and_the_others_are_listed(smi):
    smi.node.state.raise_xid(1, 79)

    shown = smi("-L")

    assert shown.returncode == 15
    assert shown.stdout.splitlines()[1].startswith(
        "Unable to determine the device handle for GPU1: GPU is lost."
    )
    assert shown.stdout.splitlines()[2].startswith("GPU 2: NVIDIA GeForce RTX 4090")


def test_no_driver_is_9(smi):
    machine.unload_driver(smi.node.node_dir)

    shown = smi()

    assert shown.returncode == 9
    assert shown.stdout.startswith(
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    )


def test_a_mismatch_is_18_and_names_the_library(smi):
    machine.update_driver(smi.node.root, "570.86.10")

    shown = smi()

    assert (shown.returncode, shown.stdout) == (
        18,
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86\n",
    )


def test_without_visible_gpus_it_is_6(smi):
    for node in (smi.node.root / "dev").glob("nvidia[0-9]"):
        node.unlink()

    assert (smi().returncode, smi().stdout) == (6, "No devices were found\n")
