"""MIG devices as NVML shows them, and performance monitoring of GPUs and of their instances."""

from __future__ import annotations

import json
import textwrap

import pytest

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware import mig, work
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.state import GpuState
from gpuready_sim.hardware.work import Context

DEVICES = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0); answer = []
    for index in range(nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try: part = nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except NVMLError_NotFound: continue
        attributes = nvmlDeviceGetAttributes_v2(part)
        parent = nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)
        memory = nvmlDeviceGetMemoryInfo(part, version=nvmlMemory_v2)
        assert nvmlDeviceIsMigDeviceHandle(part) and nvmlDeviceGetUUID(parent) == nvmlDeviceGetUUID(gpu)
        found = nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(part))
        assert nvmlDeviceGetUUID(found) == nvmlDeviceGetUUID(part)
        answer.append({"name": nvmlDeviceGetName(part), "uuid": nvmlDeviceGetUUID(part),
                       "gi": nvmlDeviceGetGpuInstanceId(part), "ci": nvmlDeviceGetComputeInstanceId(part),
                       "sms": attributes.multiprocessorCount, "mib": attributes.memorySizeMB,
                       "total": memory.total >> 20, "used": memory.used >> 20,
                       "pids": [p.pid for p in nvmlDeviceGetComputeRunningProcesses_v3(part)]})
"""


def test_mig_devices_are_found_with_their_memory_and_processes(build):
    node = build()
    client = node.start('print("ready", flush=True); input()')
    made = mig.layout(node.state, 0, ["1g.5gb", "3g.20gb", "2g.10gb"])
    by_name = {row["name"].rpartition(" ")[2]: row for row in node.run(DEVICES)}
    small = by_name["1g.5gb"]
    work.set_contexts(node.state, 0, [Context(client.pid, 700, gpu_instance=small["gi"])])

    found = {row["name"].rpartition(" ")[2]: row for row in node.run(DEVICES)}

    assert [found[name]["uuid"] for name in ("1g.5gb", "3g.20gb", "2g.10gb")] == made
    assert {(row["sms"], row["mib"], row["total"]) for row in found.values()} == {
        (14, 4864, 4864),
        (42, 19968, 19968),
        (28, 9856, 9856),
    }
    assert found["1g.5gb"]["name"] == "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    assert (found["1g.5gb"]["pids"], found["1g.5gb"]["used"]) == ([client.pid], 700)
    assert (found["3g.20gb"]["pids"], found["3g.20gb"]["used"]) == ([], 0)


@pytest.mark.parametrize(
    ("profiles", "said"),
    [
        (["9g.1gb"], "GPU 0 has no profile '9g.1gb'"),
        (["banana"], "GPU 0 has no profile 'banana'"),
        (["3g.20gb"] * 3, "there is no room for 3g.20gb on GPU 0"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_in_words_and_changes_nothing(build, profiles, said):
    node = build()
    before = mig.layout(node.state, 0, ["1g.5gb", "2g.10gb"])
    path = node.state.path

    with pytest.raises(HardwareStateError) as refused, GpuState(path) as gpus:
        mig.layout(gpus, 0, profiles)

    assert str(refused.value).startswith(said)
    assert refused.value.next_step
    assert sorted(row["uuid"] for row in node.run(DEVICES)) == sorted(before)


def test_with_mig_on_nobody_knows_the_utilisation_and_a_mig_handle_has_no_power(build):
    node = build()
    mig.layout(node.state, 0, ["7g.40gb"])

    assert node.run("""
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0); part = nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
        answer = [nvmlDeviceGetMigMode(gpu)]
        for call, handle in ((nvmlDeviceGetUtilizationRates, gpu), (nvmlDeviceGetEncoderUtilization, gpu),
                             (nvmlDeviceGetUtilizationRates, part), (nvmlDeviceGetPowerUsage, part)):
            try: call(handle); answer.append(0)
            except NVMLError as error: answer.append(error.value)
    """) == [[1, 1], 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        pytest.param(["1g.5gb"] * 7, True, id="seven of the smallest"),
        pytest.param(["3g.20gb", "3g.20gb"], True, id="two of three slices fill the memory"),
        pytest.param(["3g.20gb", "3g.20gb", "1g.5gb"], False, id="and leave no memory for a small one"),
        pytest.param(["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"], True, id="the balanced layout"),
        pytest.param(["4g.20gb", "3g.20gb"], True, id="four and three"),
        pytest.param(["4g.20gb", "4g.20gb"], False, id="four only once"),
        pytest.param(["1g.5gb+me", "1g.5gb+me"], False, id="media engines only once"),
    ],
)
def test_only_layouts_that_the_hardware_can_hold_are_made(build, wanted, fits):
    state = build(("A100-SXM4-40GB", 1)).state
    if fits:
        assert len(set(mig.layout(state, 0, wanted))) == len(wanted)
    else:
        with pytest.raises(HardwareStateError, match="there is no room for"):
            mig.layout(state, 0, wanted)


def test_a_profile_of_another_model_names_those_of_this_one(build):
    with pytest.raises(
        HardwareStateError, match=r"no profile '1g.5gb'; because it has 1g\.10gb, 1g\.10gb\+me"
    ):
        mig.layout(build(("H100-SXM5-80GB", 1)).state, 0, ["1g.5gb"])


def test_a_reboot_takes_instances_away_and_on_hopper_the_mode_too(build):
    ampere, hopper = build(("A100-SXM4-40GB", 1)), build(("H100-SXM5-80GB", 1))
    mode = "nvmlInit(); answer = nvmlDeviceGetMigMode(nvmlDeviceGetHandleByIndex(0))"
    for node, name in ((ampere, "7g.40gb"), (hopper, "7g.80gb")):
        mig.layout(node.state, 0, [name])
        node.state.reboot("x")
        node.state.load_module("550.163.01")

    assert [ampere.run(mode), hopper.run(mode)] == [[1, 1], [0, 0]]
    assert ampere.run(DEVICES) == hopper.run(DEVICES) == []


GPM = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
    first, second = nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()
    def ask(ids):
        question = c_nvmlGpmMetricsGet_t(version=NVML_GPM_METRICS_GET_VERSION, numMetrics=len(ids),
                                         sample1=first, sample2=second)
        for place, number in enumerate(ids): question.metrics[place].metricId = number
        nvmlGpmMetricsGet(question)
        found = question.metrics[:len(ids)]
        return [round(m.value, 3) if m.nvmlReturn == 0 else -m.nvmlReturn for m in found]
"""


def test_gpm_gives_what_happened_between_two_samples(build):
    node = build(("H100-SXM5-80GB", 1))
    node.state.stop_clock()
    work.set_load(node.state, 0, Course.steps([(0, 20), (5, 80)]))
    asking = textwrap.dedent(GPM) + textwrap.dedent("""
        nvmlGpmSampleGet(gpu, first); print("ready", flush=True); input()
        nvmlGpmSampleGet(gpu, second); print(ask([1, 2, 5, 20, 61, 63, 99]))
        nvmlGpmSampleGet(gpu, first)
        try: ask([1])
        except NVMLError as error: print(error.value)
    """)
    client = node.start(asking)
    node.state.advance_clock(10)

    values, without_time = client.communicate("\n", timeout=20)[0].splitlines()

    busy, sm, tensor, pcie, nvlink, link, unknown = json.loads(values)
    assert (busy, sm, tensor) == (50, 45, 20)
    assert without_time == "2"  # two samples of one moment are an invalid argument
    assert pcie > 0
    assert nvlink == pytest.approx(18 * link, rel=0.001)
    assert unknown == -3


def test_gpm_of_an_instance_knows_its_own_load_and_no_links(build):
    node = build(("H100-SXM5-80GB", 1))
    mig.layout(node.state, 0, ["3g.40gb", "3g.40gb"])
    mig.set_load(node.state, 0, 1, Course.constant(60))

    answer = node.run(
        GPM
        + """
    import time
    nvmlGpmMigSampleGet(gpu, 1, first); time.sleep(0.02); nvmlGpmMigSampleGet(gpu, 1, second)
    answer = [ask([1, 60])]
    nvmlGpmMigSampleGet(gpu, 2, first); time.sleep(0.02); nvmlGpmMigSampleGet(gpu, 2, second)
    answer.append(ask([1]))
    nvmlGpmSampleGet(gpu, first); time.sleep(0.02); nvmlGpmSampleGet(gpu, second)
    answer.append(ask([1]))
"""
    )

    assert answer[0] == [pytest.approx(60, abs=0.1), -3]
    assert answer[1] == [0]
    assert answer[2] == [pytest.approx(60 * 3 / 7, abs=0.5)]


def test_before_hopper_gpm_is_not_supported(build):
    assert build(("A100-SXM4-40GB", 1)).run("""
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
        answer = [nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice]
        try: nvmlGpmSampleGet(gpu, nvmlGpmSampleAlloc())
        except NVMLError as error: answer.append(error.value)
    """) == [0, 3]


def test_an_xid_of_an_instance_says_which(build):
    node = build()
    client = node.start("""
        nvmlInit(); events = nvmlEventSetCreate()
        nvmlDeviceRegisterEvents(nvmlDeviceGetHandleByIndex(0), nvmlEventTypeXidCriticalError, events)
        print("ready", flush=True); event = nvmlEventSetWait_v2(events, 10000)
        print(event.eventData, event.gpuInstanceId, event.computeInstanceId)
    """)

    node.state.raise_xid(0, 31, gpu_instance=5, compute_instance=0)

    assert client.communicate(timeout=20)[0] == "31 5 0\n"
