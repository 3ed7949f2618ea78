"""NVML's look and DCGM's as one collection."""

from __future__ import annotations

from dataclasses import replace

from gpuready.gpu.telemetry.dcgm_looks import DcgmLook
from gpuready.gpu.telemetry.fields import find_field
from gpuready.gpu.telemetry.model import (
    Absent,
    Collection,
    Device,
    Engine,
    Entity,
    Field,
    Instance,
    Sample,
    Silent,
    Value,
)
from gpuready.gpu.telemetry.two_sources import merged

BESIDE, ALONE = Engine("dcgm:5555"), Engine("dcgm:5555", alone=True)


def gpu(index: int = 0, *instances: Instance) -> Device:
    bus = f"00000000:{index:02X}:00.0"
    return Device(f"GPU-{index}", index, index, bus, "H100", bool(instances), instances)


def field(name: str) -> Field:
    found = find_field(name if name.startswith("gpuready") else f"DCGM_FI_{name}")
    assert found
    return found


def sample(name: str, value: Value, device: Device | None, instance: Instance | None = None) -> Sample:
    return Sample(field(name), Entity(device, instance), value, 1.0)


def nvml(*samples: Sample, devices: tuple[Device, ...] = (gpu(),), **more) -> Collection:
    return Collection(devices=devices, samples=samples, driver_version="570.1", **more)


def dcgm(*samples: Sample, devices: tuple[Device, ...] = (gpu(),), **more) -> DcgmLook:
    return DcgmLook(devices, samples, **more)


def values(found: Collection) -> list[tuple[str, Value]]:
    return [(each.field.name.removeprefix("DCGM_FI_"), each.value) for each in found.samples]


def test_dcgms_value_counts_and_nvmls_stands_where_it_has_none():
    blank = Absent(field("DEV_PCIE_TX_THROUGHPUT"), Entity(gpu()), "DCGM has no value", supported=False)
    seen = nvml(sample("DEV_GPU_TEMP", 50, gpu()), sample("DEV_PCIE_TX_THROUGHPUT", 7, gpu()))
    told = dcgm(sample("DEV_GPU_TEMP", 51, gpu()), absent=(blank,))
    found = merged(seen, told, BESIDE, ())
    assert values(found) == [("DEV_GPU_TEMP", 51), ("DEV_PCIE_TX_THROUGHPUT", 7)]
    assert found.absent == ()
    assert found.engine
    assert found.engine.samples == 1


def test_what_neither_has_is_absent_with_dcgms_reason():
    at = Entity(gpu())
    ours = Absent(field("DEV_FAN_SPEED"), at, "NVML answers NotSupported")
    theirs = Absent(field("DEV_FAN_SPEED"), at, "DCGM has no value: the GPU does not support it")
    found = merged(nvml(absent=(ours,)), dcgm(absent=(theirs,)), BESIDE, ())
    assert found.absent == (theirs,)


def test_one_gpu_is_one_device_and_carries_the_ids_that_the_kubelet_knows():
    known, plain = Instance(3, "1g.10gb", ("MIG-a",)), Instance(3, "1g.10gb")
    seen = nvml(devices=(gpu(0, known),))
    told = dcgm(sample("DEV_FB_USED", 5, gpu(0, plain), plain), devices=(gpu(0, plain),))
    found = merged(seen, told, ALONE, ())
    assert found.devices == (gpu(0, known),)
    assert found.samples[0].entity == Entity(gpu(0, known), known)


def test_samples_come_node_first_then_by_device_and_field():
    seen = nvml(sample("gpuready_energy_joules_total", 1.5, gpu(0)), devices=(gpu(0), gpu(1)))
    told = dcgm(
        sample("DEV_POWER_USAGE", 2.0, gpu(1)),
        sample("DEV_GPU_TEMP", 3, gpu(0)),
        sample("DRIVER_VERSION", "570.1", None),
        devices=(gpu(1), gpu(0)),
    )
    assert values(merged(seen, told, ALONE, ())) == [
        ("DRIVER_VERSION", "570.1"),
        ("DEV_GPU_TEMP", 3),
        ("gpuready_energy_joules_total", 1.5),
        ("DEV_POWER_USAGE", 2.0),
    ]


def test_without_dcgm_the_values_are_nvmls_and_what_nobody_tells_says_why():
    wanted = (field("DEV_GPU_TEMP"), field("DEV_FAN_SPEED"))
    engine = replace(BESIDE, problem="dcgmConnect_v2 answered ConnectionNotValid (-21)")
    found = merged(nvml(sample("DEV_GPU_TEMP", 50, gpu())), None, engine, wanted)
    assert values(found) == [("DEV_GPU_TEMP", 50)]
    assert [(each.field, each.reason, each.supported) for each in found.absent] == [
        (wanted[1], engine.problem, True)
    ]
    assert found.problem == ""


def test_dcgm_alone_is_enough_where_nvml_does_not_answer():
    found = merged(
        Collection(problem="no libnvidia-ml.so.1"),
        dcgm(sample("DRIVER_VERSION", "570.1", None), sample("DEV_GPU_TEMP", 3, gpu())),
        ALONE,
        (),
    )
    assert (found.problem, found.devices, found.driver_version) == ("", (gpu(),), "570.1")
    assert found.engine
    assert found.engine.nvml_problem == "no libnvidia-ml.so.1"


def test_a_gpu_that_was_taken_out_is_not_missed_for_dcgms_sake():
    gone = Silent("GPU-1", 1, "DCGM reaches it no more", 0.0)
    told = dcgm(sample("DEV_GPU_TEMP", 3, gpu(0)), devices=(gpu(0), gpu(1)), silent=(gone,))
    found = merged(nvml(devices=(gpu(0),)), told, BESIDE, ())
    assert (found.devices, found.silent) == ((gpu(0),), ())
    assert merged(nvml(devices=(gpu(0),)), told, ALONE, ()).silent == (gone,)


def test_a_gpu_is_silent_only_where_nobody_tells_of_it():
    lost = Silent("GPU-0", 0, "NVML answers GpuIsLost", 0.0)
    unnamed = Silent("", 1, "DCGM does not tell its UUID", 0.0)
    seen = nvml(devices=(gpu(0), gpu(1)), silent=(lost,))
    told = dcgm(sample("DEV_GPU_TEMP", 3, gpu(0)), silent=(unnamed,))
    assert merged(seen, told, BESIDE, ()).silent == ()
    assert merged(seen, told, ALONE, ()).silent == (unnamed,)
    assert merged(seen, dcgm(), BESIDE, ()).silent == (lost,)
