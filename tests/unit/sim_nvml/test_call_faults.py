"""Single NVML calls that fail or hang, of one GPU or of all."""

from __future__ import annotations

import threading
import time

import pytest

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware import call_faults

READ = """
    nvmlInit(); answer = []
    for index in range(2):
        gpu = nvmlDeviceGetHandleByIndex(index)
        for call in (nvmlDeviceGetPowerUsage, nvmlDeviceGetUUID):
            try: call(gpu); answer.append(0)
            except NVMLError as error: answer.append(error.value)
"""


def test_a_call_can_fail_for_one_gpu_and_be_mended(build):
    node = build(("L4", 2))

    call_faults.fail(node.state, "nvmlDeviceGetPowerUsage", 999, gpu=1)
    assert node.run(READ) == [0, 0, 999, 0]
    assert [fault.call for fault in call_faults.call_faults(node.state)] == ["nvmlDeviceGetPowerUsage"]

    assert call_faults.mend(node.state) == 1
    assert node.run(READ) == [0, 0, 0, 0]


def test_a_call_that_names_no_gpu_can_fail_too(build):
    node = build(("L4", 1))

    call_faults.fail(node.state, "nvmlDeviceGetCount_v2", 4)

    assert node.run("nvmlInit(); answer = nvmlDeviceGetCount()") == {"error": 4}


def test_one_gpu_hangs_while_the_others_answer(build):
    node = build(("L4", 2))
    call_faults.hang(node.state, "*", 30, gpu=0)
    client = node.start("""
        nvmlInit(); print("ready", flush=True)
        print(nvmlDeviceGetPowerUsage(nvmlDeviceGetHandleByIndex(1)), flush=True)
        print(nvmlDeviceGetPowerUsage(nvmlDeviceGetHandleByIndex(0)), flush=True)
    """)

    assert client.stdout.readline() == "12000\n"
    began = time.monotonic()
    lift = threading.Timer(0.3, call_faults.mend, [node.state])
    lift.start()
    assert client.stdout.readline() == "12000\n"
    assert 0.2 < time.monotonic() - began < 5
    lift.join()


def test_a_fault_of_a_function_that_does_not_exist_is_refused(build):
    said = "neither NVML nor DCGM nor CUDA has a function 'nvmlDeviceGetPower'"
    with pytest.raises(HardwareStateError, match=said):
        call_faults.fail(build().state, "nvmlDeviceGetPower", 3)


def test_a_function_that_is_not_simulated_can_still_be_made_to_hang_or_fail(build):
    node = build(("L4", 1))
    call_faults.fail(node.state, "nvmlDeviceGetVgpuCapabilities", 999)

    assert node.run("""
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0); answer = nvmlDeviceGetVgpuCapabilities(gpu, 0)
    """) == {"error": 999}
