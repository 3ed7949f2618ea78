"""What several looks tell together, under a virtual clock (case C13 for the XIDs)."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready.gpu.telemetry.fields import find_field
from gpuready.gpu.telemetry.history import History, Windows
from gpuready.gpu.telemetry.looks import Look
from gpuready.gpu.telemetry.model import Device, Field, Value
from gpuready.gpu.xid import ACTIONS

GPU = Device("GPU-a", 0, 0, "00000000:07:00.0", "NVIDIA H100")
BOOT = 1_000_000.0  # what the clock shows when `at` is 0


@dataclass
class Story:
    """One GPU; times are seconds of the monotonic clock."""

    history: History = field(default_factory=lambda: History(Windows(xid_s=300, clock_s=300)))

    def xid(self, code: int, at: float, uuid: str = GPU.uuid) -> None:
        self.history.add_xid(uuid, code, at, BOOT + at)

    def look(self, at: float, look: Look | None = None) -> None:
        self.history.add_look(look or Look(GPU), at, BOOT + at)

    def told(self, name: str, at: float, look: Look | None = None) -> dict[str, Value]:
        """Values of a computed field by their labels."""
        found = self.history.samples(look or Look(GPU), [a_field(name)], at)
        return {" ".join(f"{key}={value}" for key, value in sample.labels): sample.value for sample in found}


def a_field(name: str) -> Field:
    found = find_field(name)
    assert found is not None
    return found


def test_every_xid_counts_and_the_last_one_expires_after_the_window() -> None:
    story = Story()
    sequence = [
        (10, 43),
        (20, 31),
        (30, 94),
        (40, 13),
        (60, 109),
        (120, 999),
        (200, 48),
        (400, 79),
        (410, 79),
    ]
    for at, code in sequence:
        story.xid(code, at)
    once = {f"xid={code}": 1 for code in (43, 31, 94, 13, 109, 999, 48)}
    assert story.told("gpuready_xid_errors_total", 410) == {**once, "xid=79": 2}
    assert story.told("gpuready_xid_last_time_seconds", 410)["xid=79"] == BOOT + 410
    last = {"err_code=79 err_msg=GPU has fallen off the bus": 79}
    assert story.told("DCGM_FI_DEV_XID_ERRORS", 709) == last
    assert story.told("DCGM_FI_DEV_XID_ERRORS", 711) == {"err_code=0 err_msg=No Error": 0}
    assert story.told("gpuready_xid_errors_total", 10_000)["xid=79"] == 2
    first = {count.code: (count.first_time, count.last_time) for count in story.history.xids()}
    assert first[79] == (BOOT + 400, BOOT + 410)


def test_xids_are_counted_from_zero_on_by_what_they_ask_for() -> None:
    story = Story()
    none = {f"action={action}": 0 for action in ACTIONS}
    assert set(none) > {"action=ResetGpu", "action=RebootNode", "action=CheckApplication"}
    assert story.told("gpuready_xids_total", 1) == none
    for at, code in enumerate((31, 13, 79, 119, 48, 4711)):
        story.xid(code, at)
    asked = {"CheckApplication": 2, "RebootNode": 1, "ResetGpu": 2, "Observe": 1}
    wanted = none | {f"action={action}": count for action, count in asked.items()}
    assert story.told("gpuready_xids_total", 10) == wanted


def test_xids_within_the_window_are_counted_as_the_original_shows_them() -> None:
    story = Story()
    assert story.told("DCGM_EXP_XID_ERRORS_COUNT", 0) == {"window_size_in_ms=300000": 0}
    for at in (1, 2, 3):
        story.xid(31, at)
    story.xid(79, 200)
    assert story.told("DCGM_EXP_XID_ERRORS_COUNT", 250) == {
        "window_size_in_ms=300000 xid=31": 3,
        "window_size_in_ms=300000 xid=79": 1,
    }
    assert story.told("DCGM_EXP_XID_ERRORS_COUNT", 400) == {"window_size_in_ms=300000 xid=79": 1}


def test_a_clock_that_jumps_moves_no_xid_out_of_the_window_or_into_it() -> None:
    history = History(Windows(xid_s=300))
    history.add_xid(GPU.uuid, 31, 10, BOOT)
    history.add_xid(GPU.uuid, 31, 20, BOOT - 86_400)
    [sample] = history.samples(Look(GPU), [a_field("DCGM_EXP_XID_ERRORS_COUNT")], 30)
    assert sample.value == 2


def test_a_storm_of_xids_fills_no_memory_and_loses_no_count() -> None:
    story = Story()
    for number in range(20_000):
        story.xid(31, number / 1000)
    assert story.told("gpuready_xid_errors_total", 21) == {"xid=31": 20_000}
    assert story.told("DCGM_EXP_XID_ERRORS_COUNT", 21) == {"window_size_in_ms=300000 xid=31": 1000}


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([13, 31, 79]), st.floats(0, 1000)), max_size=30))
def test_a_counter_of_xids_never_goes_back(raised: list[tuple[int, float]]) -> None:
    story, before = Story(), 0
    for code, at in sorted(raised, key=lambda one: one[1]):
        story.xid(code, at)
        total = sum(int(value) for value in story.told("gpuready_xid_errors_total", at).values())
        assert total == before + 1
        before = total


def test_xids_of_one_gpu_are_not_those_of_another() -> None:
    story = Story()
    story.xid(79, 1, uuid="GPU-b")
    assert story.told("gpuready_xid_errors_total", 2) == {}
    assert story.told("DCGM_FI_DEV_XID_ERRORS", 2) == {"err_code=0 err_msg=No Error": 0}


def test_a_gpu_is_idle_since_it_was_last_seen_busy() -> None:
    story = Story()
    story.look(10, Look(GPU, busy={None: False}))
    [never] = story.history.activity([GPU.uuid], 15)
    assert (never.busy_time, never.idle_s) == (None, 5)
    assert story.told("gpuready_last_busy_time_seconds", 10) == {}
    story.look(20, Look(GPU, busy={None: True}))
    story.look(30, Look(GPU, busy={None: False}))
    [idle] = story.history.activity([GPU.uuid], 30)
    assert (idle.busy_time, idle.idle_s) == (BOOT + 20, 10)
    assert story.told("gpuready_last_busy_time_seconds", 30) == {"": BOOT + 20}
    assert story.history.activity([], 30) == (), "of a GPU that does not answer nobody knows"


def test_a_clock_that_is_set_makes_nothing_idle_and_nothing_busy() -> None:
    history = History()
    for at, time in ((10, BOOT), (20, BOOT + 86_400), (30, BOOT - 86_400)):
        history.add_look(Look(GPU, busy={None: at == 10}), at, time)
    assert [each.idle_s for each in history.activity([GPU.uuid], 40)] == [30]


def test_instances_are_idle_each_by_itself_and_gone_with_their_gpu_s_partitions() -> None:
    story = Story()
    story.look(10, Look(GPU, busy={1: True, 2: False}))
    story.look(20, Look(GPU, busy={1: False, 2: True}))
    assert {each.gpu_instance_id: each.busy_time for each in story.history.activity([GPU.uuid], 20)} == {
        1: BOOT + 10,
        2: BOOT + 20,
    }
    story.look(30, Look(GPU, busy={None: False}))
    assert [each.gpu_instance_id for each in story.history.activity([GPU.uuid], 30)] == [None]


def test_clock_events_are_counted_by_look_within_the_window() -> None:
    story = Story()
    look = Look(GPU, clock_reasons=0x4 | 0x40)
    for at in (0, 100, 200):
        story.look(at, look)
    assert story.told("DCGM_EXP_CLOCK_EVENTS_COUNT", 200) == {
        "clock_event=hw_thermal window_size_in_ms=300000": 3,
        "clock_event=power_cap window_size_in_ms=300000": 3,
    }
    story.look(450, Look(GPU, clock_reasons=0))
    assert story.told("DCGM_EXP_CLOCK_EVENTS_COUNT", 450) == {
        "clock_event=hw_thermal window_size_in_ms=300000": 1,
        "clock_event=power_cap window_size_in_ms=300000": 1,
    }
    active = story.told("gpuready_clock_event_active", 200, look)
    assert {name for name, value in active.items() if value} == {"reason=power_cap", "reason=hw_thermal"}
    assert len(active) == 9


def test_health_is_judged_by_watch_with_the_gravest_incident() -> None:
    story = Story()
    fine = story.told("DCGM_EXP_GPU_HEALTH_STATUS", 0)
    assert set(fine.values()) == {0}
    assert "health_error_code= health_watch=MEM" in fine
    story.look(0, Look(GPU, held_ns={"thermal": 5}))
    story.look(30, Look(GPU, held_ns={"thermal": 6}))
    story.xid(79, 30)
    look = Look(GPU, health={"remap_pending": 1, "double_bit": 2, "recovery_action": 2})
    assert {
        name: value for name, value in story.told("DCGM_EXP_GPU_HEALTH_STATUS", 31, look).items() if value
    } == {
        "health_error_code=DCGM_FR_VOLATILE_DBE_DETECTED health_watch=MEM": 20,
        "health_error_code=DCGM_FR_CLOCKS_EVENT_THERMAL health_watch=THERMAL": 10,
        "health_error_code=DCGM_FR_GPU_RECOVERY_REBOOT health_watch=DRIVER": 20,
        "health_error_code=DCGM_FR_XID_ERROR health_watch=ALL": 20,
    }
    assert set(story.told("DCGM_EXP_GPU_HEALTH_STATUS", 1000).values()) <= {0, 10}
