"""What `gpuready-sim gpu` and the GPU faults ask of a machine, seen through its NVML."""

from __future__ import annotations

import pytest

from gpuready_sim.cluster.gpu_commands import GPU_COMMANDS
from gpuready_sim.cluster.machines import MachineError
from gpuready_sim.hardware import work
from gpuready_sim.hardware.work import Context

LOOK = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
    rates = nvmlDeviceGetUtilizationRates(gpu)
    answer = [rates.gpu, nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2).used >> 20,
              nvmlDeviceGetCurrentClocksEventReasons(gpu), nvmlDeviceGetPcieReplayCounter(gpu),
              nvmlDeviceGetRemappedRows(gpu)[2]]
"""


def test_load_throttle_errors_and_flags_show_on_the_gpu(build):
    node = build()
    for command, args in (
        ("gpu load", {"words": ["constant", "70"], "usedMib": 900}),
        ("fault throttle", {"reasons": ["power-cap"]}),
        ("fault error", {"kind": "pcie-replay", "number": 5}),
        ("fault flag", {"flag": "row-remap-pending"}),
    ):
        GPU_COMMANDS[command](node.state, 0, args)

    assert node.run(LOOK) == [70, 900, 4, 5, 1]


def test_a_call_fails_until_it_is_mended(build):
    node = build()
    GPU_COMMANDS["fault call"](node.state, 0, {"function": "nvmlDeviceGetPcieReplayCounter", "code": 999})
    assert node.run(LOOK) == {"error": 999}

    assert GPU_COMMANDS["fault call"](node.state, 0, {"function": ""}) == {"mended": 1}
    assert node.run(LOOK) == [0, 0, 1, 0, 0]


def test_mig_is_made_and_taken_away_but_not_under_a_process(build):
    state = build().state
    made = GPU_COMMANDS["gpu mig"](state, 0, {"profiles": ["3g.20gb", "4g.20gb"]})
    assert len(made["devices"]) == 2
    assert GPU_COMMANDS["gpu mig"](state, 0, {"profiles": []}) == {"devices": []}

    work.set_contexts(state, 0, [Context(1, 100)])
    with pytest.raises(MachineError, match="MIG cannot be changed on GPU 0; because processes are on it: 1"):
        GPU_COMMANDS["gpu mig"](state, 0, {"profiles": ["7g.40gb"]})
