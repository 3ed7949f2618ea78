"""The device plugin link: what it says for everything that can keep GPUs from being scheduled."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpuready.chain import device_plugin
from gpuready.chain.device_plugin import (
    Desired,
    DeviceHealth,
    Offered,
    PluginFacts,
    PluginRecord,
    Problem,
)
from gpuready.chain.kept_away import kept_away
from gpuready.chain.verdict import Link, State, Verdict

GPU = "nvidia.com/gpu"
DRIVER_OK = Verdict(Link.DRIVER, State.OK, "DriverReady", "570.86.10")
DRIVER_BROKEN = Verdict(Link.DRIVER, State.BROKEN, "DriverLibraryMismatch", "two versions")
NO_GPUS = Verdict(Link.DRIVER, State.NOT_CHECKED, "NoGpus", "this node has no NVIDIA GPU")
BAD_KEY = Problem("ConfigKeyMissing", 'no key "four"; available: one, two', "set the label to one, two")

REFUSED = Problem(
    "EnvInvalid",
    "spec.devicePlugin.env or spec.mig: MIG_STRATEGY=banana",
    "correct the value",
)


def devices(count: int = 8, **unhealthy: Any) -> tuple[DeviceHealth, ...]:
    """`devices(8, gpu3=109)`: GPU 3 is unhealthy with that XID."""
    return tuple(
        DeviceHealth(f"GPU-{index}", index, healthy=False, reason="", xid=code, action="reset the GPU")
        if (code := unhealthy.get(f"gpu{index}"))
        else DeviceHealth(f"GPU-{index}", index, healthy=True)
        for index in range(count)
    )


def record(**changes: Any) -> PluginRecord:
    whole = PluginRecord(
        registered=True, resources=(Offered(GPU, 8, 8),), devices=devices(), cdi_driver_version="570.86.10"
    )
    return dataclasses.replace(whole, **changes)


def facts(**changes: Any) -> PluginFacts:
    whole = PluginFacts(
        driver=DRIVER_OK,
        desired=Desired(),
        record=record(),
        capacity={GPU: 8},
        allocatable={GPU: 8},
        driver_version="570.86.10",
    )
    return dataclasses.replace(whole, **changes)


NOTHING: dict[str, int] = {}


@pytest.mark.parametrize(
    ("given", "state", "reason", "must_mention"),
    [
        pytest.param(facts(), State.OK, "Registered", ["nvidia.com/gpu: 8 of 8"], id="whole"),
        pytest.param(facts(driver=NO_GPUS), State.NOT_CHECKED, "NoGpus", [], id="no GPUs"),
        pytest.param(
            facts(desired=Desired(enabled=False), allocatable={}),
            State.NOT_CHECKED,
            "Disabled",
            ["the policy does not want"],
            id="the policy wants none",
        ),
        pytest.param(
            facts(desired=Desired(enabled=False)),
            State.NOT_CHECKED,
            "OfferedByOthers",
            ["nvidia.com/gpu: 8"],
            id="the policy wants none, and another program offers the GPUs",
        ),
        pytest.param(
            facts(desired=Desired(enabled=False, original=True), record=None),
            State.OK,
            "Registered",
            ["NVIDIA's device plugin", "nvidia.com/gpu: 8"],
            id="NVIDIA's plugin has no record, and the kubelet shows what it offers",
        ),
        pytest.param(
            facts(desired=Desired(enabled=False, original=True), record=None, capacity={}, allocatable={}),
            State.WAITING,
            "PluginNotStarted",
            ["offers nothing yet"],
            id="NVIDIA's plugin is not there yet",
        ),
        pytest.param(
            facts(desired=Desired(enabled=False, original=True), record=None, allocatable={GPU: 0}),
            State.BROKEN,
            "NoHealthyDevices",
            ["nothing of it is allocatable"],
            id="NVIDIA's plugin calls every device unhealthy",
        ),
        pytest.param(
            facts(desired=Desired(enabled=False, refused=REFUSED), record=None),
            State.BROKEN,
            "EnvInvalid",
            ["MIG_STRATEGY=banana", "correct the value"],
            id="the operator does not run it with these settings",
        ),
        pytest.param(
            facts(desired=Desired(refused=REFUSED)),
            State.DEGRADED,
            "EnvInvalid",
            ["MIG_STRATEGY=banana", "stays as it is", "correct the value"],
            id="refused, and the plugin that runs already is left alone",
        ),
        pytest.param(
            facts(
                desired=Desired(enabled=False),
                deploy_label="",
                opted_out_by="nvidia.com/gpu.deploy.operands=false",
                allocatable={},
            ),
            State.NOT_CHECKED,
            "OptedOut",
            ["gpu.deploy.operands=false"],
            id="opted out of everything",
        ),
        pytest.param(
            facts(desired=Desired(enabled=False), deploy_label="false", allocatable={}),
            State.NOT_CHECKED,
            "OptedOut",
            ["deploy.device-plugin=false"],
            id="opted out",
        ),
        pytest.param(
            facts(deploy_label="paused-for-driver-upgrade"), State.WAITING, "Paused", ["paused"], id="paused"
        ),
        pytest.param(
            facts(driver=DRIVER_BROKEN),
            State.WAITING,
            "WaitingForDriver",
            ["DriverLibraryMismatch"],
            id="no driver",
        ),
        pytest.param(
            facts(desired=None, record=None), State.WAITING, "ConfigPending", [], id="no GPUNode yet"
        ),
        pytest.param(
            facts(desired=Desired(has_config=False, error=BAD_KEY), record=None),
            State.BROKEN,
            "ConfigKeyMissing",
            ['"four"', "one, two"],
            id="a wrong key and no last good configuration",
        ),
        pytest.param(
            facts(desired=Desired(error=BAD_KEY), record=record(config_name="two")),
            State.DEGRADED,
            "ConfigKeyMissing",
            ['"four"', 'configuration "two" stays in force'],
            id="a wrong key, the last good configuration stays",
        ),
        pytest.param(facts(record=None), State.WAITING, "PluginNotStarted", ["DaemonSet"], id="no record"),
        pytest.param(
            facts(
                record=record(
                    registered=False, problem=Problem("LibraryMissing", "no libnvidia-ml.so.1", "fix")
                )
            ),
            State.BROKEN,
            "LibraryMissing",
            ["no libnvidia-ml.so.1"],
            id="the plugin says why it cannot",
        ),
        pytest.param(
            facts(record=record(registered=False), settled=False),
            State.WAITING,
            "Registering",
            [],
            id="starting",
        ),
        pytest.param(
            facts(record=record(registered=False, problem=Problem("WaitingForNvml", "waiting for NVML"))),
            State.WAITING,
            "WaitingForNvml",
            [],
            id="the plugin waits itself",
        ),
        pytest.param(
            facts(
                record=record(
                    registered=True, problem=Problem("WaitingForDriver", "waiting for the driver: its gate")
                )
            ),
            State.WAITING,
            "WaitingForDriver",
            ["its gate"],
            id="the plugin was registered and waits for the driver again",
        ),
        pytest.param(
            facts(
                record=record(registered=False, problem=Problem("DriverNotLoaded", "not loaded")),
                settled=False,
            ),
            State.WAITING,
            "DriverNotLoaded",
            [],
            id="the driver has just come, and the plugin has not seen it yet",
        ),
        pytest.param(
            facts(
                record=record(registered=False, problem=Problem("RuntimeIgnoresCdi", "enable_cdi = false")),
                toolkit=Verdict(Link.TOOLKIT, State.OK, "HandlersKnown", "CDI is enabled"),
                settled=False,
            ),
            State.WAITING,
            "RuntimeIgnoresCdi",
            [],
            id="the toolkit has just enabled CDI, and the plugin has not asked the runtime since",
        ),
        pytest.param(
            facts(
                record=record(registered=False, problem=Problem("RuntimeIgnoresCdi", "enable_cdi = false")),
                toolkit=Verdict(Link.TOOLKIT, State.OK, "HandlersKnown", "CDI is enabled"),
            ),
            State.BROKEN,
            "RuntimeIgnoresCdi",
            ["enable_cdi"],
            id="the runtime still ignores CDI",
        ),
        pytest.param(
            facts(record=record(registered=False, problem=Problem("NotRegistered", "connection refused"))),
            State.BROKEN,
            "PluginNotRegistered",
            ["connection refused"],
            id="the plugin says why it is not registered",
        ),
        pytest.param(
            facts(
                record=record(
                    registered=False, problem=Problem("NotRegistered", "the plugin has been stopped")
                )
            ),
            State.BROKEN,
            "PluginNotRunning",
            ["is not running (it said last: the plugin has been stopped)", "pod of DaemonSet"],
            id="it was stopped, and nobody has started it since",
        ),
        pytest.param(
            facts(record=record(problem=Problem("NvmlNotAnswering", "NVML has not answered"))),
            State.DEGRADED,
            "NvmlNotAnswering",
            [],
            id="registered, with health that may be out of date",
        ),
        pytest.param(
            facts(
                record=record(
                    problem=Problem("CdiHostPathMissing", "no /usr/bin/nvidia-smi"),
                    devices=devices(1, gpu0=1),
                    resources=(Offered(GPU, 1, 0),),
                )
            ),
            State.BROKEN,
            "CdiHostPathMissing",
            [],
            id="registered, and a common reason keeps every device back",
        ),
        pytest.param(
            facts(record=record(registered=False)),
            State.BROKEN,
            "PluginNotRegistered",
            ["kubelet.sock"],
            id="not registered for good",
        ),
        pytest.param(
            facts(allocatable=NOTHING, settled=False),
            State.WAITING,
            "KubeletCatchingUp",
            [],
            id="just registered",
        ),
        pytest.param(
            facts(allocatable={GPU: 0}),
            State.BROKEN,
            "KubeletShowsNothing",
            ["capacity 8, allocatable 0"],
            id="registered, but the kubelet shows nothing",
        ),
        pytest.param(
            facts(record=record(cdi_driver_version="570.81"), settled=False),
            State.WAITING,
            "CdiSpecPending",
            [],
            id="the driver has just changed",
        ),
        pytest.param(
            facts(record=record(cdi_driver_version="570.81")),
            State.BROKEN,
            "CdiSpecStale",
            ["570.81", "570.86.10"],
            id="a CDI spec of another driver",
        ),
        pytest.param(
            facts(
                record=record(devices=devices(8, gpu3=109), resources=(Offered(GPU, 8, 7),)),
                allocatable={GPU: 7},
            ),
            State.DEGRADED,
            "UnhealthyDevices",
            ["1 of 8", "GPU 3 (GPU-3)", "XID 109", "reset the GPU"],
            id="one unhealthy device: which, XID, action",
        ),
        pytest.param(
            facts(
                record=record(devices=devices(2, gpu0=79, gpu1=79), resources=(Offered(GPU, 2, 0),)),
                allocatable={GPU: 0},
            ),
            State.BROKEN,
            "NoHealthyDevices",
            ["2 of 2", "XID 79"],
            id="none is healthy",
        ),
        pytest.param(
            facts(record=record(devices=(*devices(2), DeviceHealth("GPU-2", 2, True, mig_enabled=True)))),
            State.DEGRADED,
            "PartitionsNotOffered",
            ["GPU 2 is in MIG mode and offered whole", "nvidia-smi -i 2 -mig 0", "spec.devicePlugin"],
            id="a GPU that is cut into partitions",
        ),
        pytest.param(
            facts(record=record(devices=(), resources=())),
            State.BROKEN,
            "NoDevices",
            [],
            id="not a single device",
        ),
    ],
)
def test_every_way_a_device_plugin_can_be(
    given: PluginFacts, state: State, reason: str, must_mention: list[str]
) -> None:
    verdict = device_plugin.judge(given)

    told = " ".join([verdict.message, *verdict.evidence, verdict.next_step])
    assert (verdict.state, verdict.reason) == (state, reason), told
    assert [words for words in must_mention if words not in told] == []


def test_many_unhealthy_devices_are_counted_in_the_message_and_listed_in_the_evidence() -> None:
    lost = devices(8, **{f"gpu{index}": 79 for index in range(7)})

    verdict = device_plugin.judge(
        facts(record=record(devices=lost, resources=(Offered(GPU, 8, 1),)), allocatable={GPU: 1})
    )

    assert "3 more" in verdict.message
    assert len(verdict.evidence) == 3  # those that the message does not name


def test_the_record_file_of_the_plugin_is_understood() -> None:
    row = {
        "operand": "device-plugin",
        "registered": True,
        "resources": [{"name": GPU, "devices": 8, "healthy": 7}],
        "devices": [
            {
                "uuid": "GPU-3",
                "index": 3,
                "health": "Unhealthy",
                "reason": "XID 109",
                "recovery": "reset",
                "lastXid": {"code": 109, "time": "2026-01-01T00:00:00Z", "action": "ResetGpu"},
            }
        ],
        "config": {"name": "two", "error": {"reason": "Bad", "message": "bad", "nextStep": "fix"}},
        "problem": None,
        "cdi": {"driverVersion": "570.86.10"},
    }

    parsed = PluginRecord.from_json(row)

    assert parsed.resources == (Offered(GPU, 8, 7),)
    assert parsed.devices == (DeviceHealth("GPU-3", 3, False, "XID 109", 109, "ResetGpu"),)
    assert parsed.config_error == Problem("Bad", "bad", "fix")
    assert parsed.cdi_driver_version == "570.86.10"


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("ResetGpu", "nvidia-smi --gpu-reset -i 3"),
        ("RebootNode", "reboot the node"),
        ("CheckApplication", "the program that used GPU 3"),
        ("", "kernel log"),
        ("replace the card", "replace the card"),
    ],
)
def test_the_health_engines_word_becomes_something_to_do(action: str, said: str) -> None:
    assert said in device_plugin.advice(action, 3)


def test_a_plugin_that_a_taint_keeps_away_is_broken_unless_it_runs_already() -> None:
    taint = kept_away("device-plugin", "nvidia-device-plugin-daemonset", ["team=ml:NoSchedule"])
    desired = Desired(kept_away=taint)

    assert device_plugin.judge(facts(desired=desired, record=None)).reason == "OperandKeptAway"
    assert device_plugin.judge(facts(desired=desired, record=None)).state is State.BROKEN
    assert device_plugin.judge(facts(desired=desired)).state is State.OK
