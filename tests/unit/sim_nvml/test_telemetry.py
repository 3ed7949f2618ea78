"""What monitors read of a GPU over time: loads, counters, throttling, errors, processes, old drivers."""

from __future__ import annotations

import pytest

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware import work
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.work import Context

COUNTERS = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
    def field(number, scope=None):
        value = nvmlDeviceGetFieldValues(gpu, [number if scope is None else (number, scope)])[0]
        return value.value.ullVal if value.nvmlReturn == 0 else {"error": value.nvmlReturn}
    rates = nvmlDeviceGetUtilizationRates(gpu)
    answer = {"gpu": rates.gpu, "energy": nvmlDeviceGetTotalEnergyConsumption(gpu), "energy_field": field(83),
              "power": nvmlDeviceGetPowerUsage(gpu), "clock": nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_SM),
              "reasons": nvmlDeviceGetCurrentClocksEventReasons(gpu), "nvlink": field(138, 0xffffffff),
              "power_violation": field(74), "thermal_violation": field(75), "hw_thermal": field(270),
              "violation": nvmlDeviceGetViolationStatus(gpu, NVML_PERF_POLICY_THERMAL).violationTime}
"""


def still(build, *gpus, **options):
    """A machine whose clock only moves when told to."""
    node = build(*gpus, **options)
    node.state.stop_clock()
    return node


def test_a_load_is_followed_by_power_clocks_energy_and_links(build):
    node = still(build)
    work.set_load(node.state, 0, Course.steps([(0, 50), (10, 100)]))

    first = node.run(COUNTERS)
    node.state.advance_clock(10)
    second = node.run(COUNTERS)
    node.state.advance_clock(1000)
    third = node.run(COUNTERS)

    assert [first["gpu"], second["gpu"], third["gpu"]] == [50, 100, 100]
    assert second["energy"] - first["energy"] == 10 * first["power"]  # mJ are mW times seconds
    assert third["energy"] - second["energy"] == 1000 * second["power"]
    assert second["energy"] == second["energy_field"]
    assert (third["nvlink"] - second["nvlink"]) // (second["nvlink"] - first["nvlink"]) == 200
    assert first["reasons"] == 0


@pytest.mark.parametrize(
    "words", ["sine 10 90 7", "ramp 5 95 3", "steps 0:10,2:90,5:0 every 9", "steps 0:10,2:90", "constant 33"]
)
def test_a_changed_load_does_not_let_counters_jump(build, words):
    """The writer settles with the same arithmetic with which the library reads."""
    node = still(build)
    work.set_load(node.state, 0, Course.parse(words.split()))
    node.state.advance_clock(12.3)
    before = node.run(COUNTERS)

    work.set_load(node.state, 0, Course.constant(3))
    node.state.set_utilization(0, temperature_c=50)
    after = node.run(COUNTERS)

    assert abs(after["energy"] - before["energy"]) <= 1
    assert abs(after["nvlink"] - before["nvlink"]) <= 1


def test_throttling_slows_the_clocks_and_its_time_adds_up_while_it_lasts(build):
    node = still(build, ("H100-SXM5-80GB", 1), version="570.86.10")
    node.state.set_utilization(0, gpu=100)
    work.throttle(node.state, 0, ["hw-thermal", "hw-slowdown"])
    node.state.advance_clock(5)
    hot = node.run(COUNTERS)
    work.throttle(node.state, 0, [])
    node.state.advance_clock(5)
    cool = node.run(COUNTERS)

    assert (hot["reasons"], hot["clock"]) == (0x48, 1188)
    assert hot["thermal_violation"] == hot["violation"] == hot["hw_thermal"] == 5_000_000_000
    assert hot["power_violation"] == 0
    assert (cool["reasons"], cool["clock"]) == (0, 1980)
    assert cool["thermal_violation"] == 5_000_000_000


def test_an_unknown_reason_to_throttle_names_the_known_ones(build):
    with pytest.raises(
        HardwareStateError, match="'hot' is no reason to hold clocks back; because there are idle"
    ):
        work.throttle(build().state, 0, ["hot"])


def test_loading_the_module_again_starts_the_counters_anew(build):
    from gpuready_sim.hardware import machine

    node = still(build)
    node.state.advance_clock(100)
    machine.unload_driver(node.node_dir)
    machine.load_driver(node.node_dir, "550.163.01")

    assert node.run(COUNTERS)["energy"] == 0


ERRORS = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
    def field(number):
        value = nvmlDeviceGetFieldValues(gpu, [number])[0]
        return value.value.ullVal & 0xffffffff if value.nvmlReturn == 0 else -value.nvmlReturn
    answer = {number: field(number) for number in
              (3, 5, 4, 6, 94, 173, 38, 45, 52, 59, 32, 142, 143, 144, 145, 29, 30, 31)}
    answer["replays"] = nvmlDeviceGetPcieReplayCounter(gpu)
"""


def test_errors_are_counted_where_monitors_look(build):
    node = build()
    for number, kind in enumerate(work.ERRORS, start=1):
        work.count_error(node.state, 0, kind, number)
    work.set_flag(node.state, 0, "row-remap-pending")
    work.set_flag(node.state, 0, "row-remap-failed")

    found = node.run(ERRORS)

    assert [found[str(i)] for i in (3, 5, 4, 6)] == [1, 1, 2, 2]
    assert [found["94"], found["replays"], found["173"]] == [3, 3, 4]
    assert [found[str(i)] for i in (38, 45, 52, 59, 32)] == [5, 6, 7, 8, 5]
    assert [found[str(i)] for i in (142, 143, 144, 145)] == [9, 10, 1, 1]
    assert [found[str(i)] for i in (29, 30, 31)] == [
        -3,
        -3,
        -3,
    ]  # rows are remapped here, pages are not retired


def test_a_gpu_before_ampere_retires_pages_and_has_no_row_remapper(build):
    node = build(("T4", 1))
    work.count_error(node.state, 0, "page-retired-double", 2)
    work.set_flag(node.state, 0, "page-retirement-pending")

    found = node.run(ERRORS + "    answer['pages'] = len(nvmlDeviceGetRetiredPages(gpu, 1))\n")

    assert [found[str(i)] for i in (29, 30, 31)] == [0, 2, 1]
    assert found["pages"] == 2
    assert [found[str(i)] for i in (142, 143, 144, 145)] == [-3, -3, -3, -3]


PROCESSES = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
    def samples(since):
        try: return [[s.pid, s.smUtil] for s in nvmlDeviceGetProcessUtilization(gpu, since)]
        except NVMLError as error: return error.value
    newest = max([s.timeStamp for s in nvmlDeviceGetProcessUtilization(gpu, 0)])
    processes = nvmlDeviceGetComputeRunningProcesses_v3(gpu)
    answer = {"memory": [[p.pid, p.usedGpuMemory >> 20] for p in processes],
              "used": nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2).used >> 20,
              "since start": samples(0), "since newest": samples(newest)}
"""


def test_processes_share_the_gpu_and_old_samples_do_not_come_again(build):
    node = still(build)
    first, second = (node.start('print("ready", flush=True); input()') for _ in range(2))
    work.set_contexts(node.state, 0, [Context(first.pid, 300, sm_percent=60), Context(second.pid, 200)])
    node.state.set_utilization(0, gpu=90)

    found = node.run(PROCESSES)

    assert found["memory"] == [[first.pid, 300], [second.pid, 200]]
    assert found["used"] == 500
    assert found["since start"] == [[first.pid, 60], [second.pid, 30]]
    assert found["since newest"] == 6  # nothing new is "not found"


def test_samples_come_from_the_load_at_whole_periods_and_only_new_ones(build):
    node = still(build)
    work.set_load(node.state, 0, Course.ramp(0, 100, 10))
    node.state.advance_clock(10)

    answer = node.run("""
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
        kind, all = nvmlDeviceGetSamples(gpu, NVML_GPU_UTILIZATION_SAMPLES, 0)
        kind, new = nvmlDeviceGetSamples(gpu, NVML_GPU_UTILIZATION_SAMPLES, all[-4].timeStamp)
        values = [sample.sampleValue.uiVal for sample in all]
        answer = [kind, len(all), len(new), values[-1], values[-30]]
    """)

    assert answer[:3] == [1, 120, 3]
    assert answer[3] > 95
    assert answer[4] in range(45, 60)


# --- drivers of other times --------------------------------------------------------------------------------

OLD = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0); answer = {}
    def code(call):
        try: return call() and 0 or 0
        except NVMLError as error: return error.value
    answer["memory v2"] = code(lambda: nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2))
    answer["memory"] = code(lambda: nvmlDeviceGetMemoryInfo(gpu))
    answer["processes v3"] = code(lambda: nvmlDeviceGetComputeRunningProcesses_v3(gpu))
    answer["processes v2"] = code(lambda: nvmlDeviceGetComputeRunningProcesses_v2(gpu))
    answer["gpm"] = code(lambda: nvmlGpmQueryDeviceSupport(gpu))
    answer["reasons"] = code(lambda: nvmlDeviceGetCurrentClocksEventReasons(gpu))
    answer["old reasons"] = code(lambda: nvmlDeviceGetCurrentClocksThrottleReasons(gpu))
    answer["fields"] = [value.nvmlReturn for value in nvmlDeviceGetFieldValues(gpu, [83, 186, 270])]
"""


@pytest.mark.parametrize(
    ("version", "missing", "fields"),
    [
        pytest.param("470.256.02", ["memory v2", "processes v3", "gpm", "reasons"], [0, 3, 3], id="470"),
        pytest.param("525.147.05", ["reasons"], [0, 0, 3], id="525"),
        pytest.param("570.86.10", [], [0, 0, 0], id="570"),
    ],
)
def test_an_older_driver_lacks_functions_and_fields(build, version, missing, fields):
    answer = build(("A100-SXM4-40GB", 1), version=version).run(OLD)

    assert answer.pop("fields") == fields
    assert {name for name, code in answer.items() if code} == set(missing)
    assert {answer[name] for name in missing} <= {13}
