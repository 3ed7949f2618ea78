"""What has added up on a GPU since its record was last settled: the writer's half of nvml/course.c.

Whoever changes what drives a counter (a load, power, what holds the clocks back, MIG) settles first, so that
counters go on from where they were.
"""

from __future__ import annotations

from typing import Any

from gpuready_sim.hardware.course import Course

REASONS = {
    "idle": 0x1,
    "app-clocks": 0x2,
    "power-cap": 0x4,
    "hw-slowdown": 0x8,
    "sync-boost": 0x10,
    "sw-thermal": 0x20,
    "hw-thermal": 0x40,
    "power-brake": 0x80,
}
# index of violation_ns -> the reasons that let it grow (nvml/course.h)
_VIOLATIONS = {
    0: 0x4 | 0x80,
    1: 0x20 | 0x40,
    2: 0x10,
    10: 0x2,
    12: 0x20,
    13: 0x40,
    14: 0x80,
}


def settle(gpu: Any, now_us: int) -> None:
    """Bring an `nvsim_gpu`'s counters up to now; a clock that went back adds nothing."""
    passed_us = max(0, now_us - gpu.settled_us) if gpu.settled_us else 0
    busy = _busy_since_settled(gpu, now_us) if passed_us else 0
    gpu.busy += busy
    if gpu.power_mw:
        gpu.energy_nj += gpu.power_mw * passed_us
    else:
        range_mw = (gpu.power_limit_mw - gpu.power_idle_mw) * 9 // 10
        gpu.energy_nj += gpu.power_idle_mw * passed_us + range_mw * busy // 100
    for index, reasons in _VIOLATIONS.items():
        if gpu.clocks_reasons & reasons:
            gpu.violation_ns[index] += passed_us * 1000
    gpu.settled_us = now_us


def restart(gpu: Any, now_us: int) -> None:
    """All counters at 0, as after the module was loaded."""
    gpu.busy = gpu.energy_nj = 0
    for index in range(len(gpu.violation_ns)):
        gpu.violation_ns[index] = 0
    for instance in gpu.instances:
        instance.busy = 0
    gpu.settled_us = now_us


def write_course(load: Any, course: Course, now_us: int) -> None:
    """Let an `nvsim_load` run this course from now on."""
    load.count = 0
    for place, (at_ms, percent) in enumerate(course.points):
        load.points[place].at_ms, load.points[place].percent = at_ms, percent
    load.period_ms = course.period_ms
    load.started_us = now_us
    load.count = len(course.points)


def read_course(load: Any) -> Course:
    points = tuple((load.points[i].at_ms, load.points[i].percent) for i in range(load.count))
    return Course(points, load.period_ms)


def _busy_since_settled(gpu: Any, now_us: int) -> int:
    if not gpu.mig_enabled:
        return _between(gpu.load, gpu.settled_us, now_us)
    total = 0
    for instance in gpu.instances:
        if instance.present:
            added = _between(instance.load, gpu.settled_us, now_us)
            instance.busy += added
            total += added * gpu.profiles[instance.kind].slices
    return int(total // max(gpu.profiles[i].slices for i in range(gpu.profile_count)))


def _between(load: Any, begin_us: int, end_us: int) -> int:
    course = read_course(load)
    return round(course.area(end_us - load.started_us) - course.area(begin_us - load.started_us))
