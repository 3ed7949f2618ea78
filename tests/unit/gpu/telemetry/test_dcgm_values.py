"""Readings of DCGM: what is a value, what is one of its blanks, and since when it stands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready.gpu.dcgm import Reading
from gpuready.gpu.telemetry.dcgm_values import Ages, find_blank, told
from gpuready.gpu.telemetry.fields import find_field
from gpuready.gpu.telemetry.model import Absent, Entity, Sample

INT64, INT32, FLOAT = 0x7FFFFFFFFFFFFFF0, 0x7FFFFFF0, 140737488355328.0
NOT_SUPPORTED = "DCGM has no value: the GPU does not support it"


def tell(name: str, value, status: int = 0) -> Sample | Absent:
    field = find_field(f"DCGM_FI_{name}")
    assert field
    return told(field, Entity(), Reading(field.id, value, status, 1), 5.0)


@pytest.mark.parametrize(
    ("value", "reason", "supported"),
    [
        pytest.param(INT64 + 2, NOT_SUPPORTED, False, id="whole number, not supported"),
        pytest.param(FLOAT + 2, NOT_SUPPORTED, False, id="fraction, not supported"),
        pytest.param("<<<NOT_SUPPORTED>>>", NOT_SUPPORTED, False, id="text, not supported"),
        pytest.param(INT32 + 2, NOT_SUPPORTED, False, id="a short blank that was widened"),
        pytest.param(INT64 + 1, "DCGM has no value: it was not found", True, id="not found"),
        pytest.param("<<<NOT_FOUND>>>", "DCGM has no value: it was not found", True, id="text, not found"),
        pytest.param(FLOAT + 3, "DCGM has no value: permission is lacking", False, id="not permitted"),
        pytest.param(
            "<<<NOT_PERM>>>", "DCGM has no value: permission is lacking", False, id="text, not permitted"
        ),
        pytest.param(INT64, "DCGM has no value: it is blank", True, id="blank"),
        pytest.param("<<<NULL>>>", "DCGM has no value: it is blank", True, id="text, blank"),
        pytest.param(INT64 + 9, "DCGM has no value: it is blank", True, id="a blank that is not known"),
        pytest.param(float("nan"), "DCGM gives no number", True, id="not a number"),
        pytest.param(None, "DCGM gives bytes, no number", False, id="bytes"),
    ],
)
def test_a_blank_is_absent_and_says_which_it_was(value, reason, supported):
    result = tell("DEV_POWER_USAGE", value)
    assert isinstance(result, Absent)
    assert (result.reason, result.supported) == (reason, supported)


@pytest.mark.parametrize(
    ("status", "reason", "supported"),
    [
        (-6, "DCGM answers NotSupported", False),
        (-14, "DCGM answers NoData", True),
        (-18, "DCGM answers GpuIsLost", True),
        (-36, "DCGM answers ProfilingNotSupported", False),
    ],
)
def test_a_status_is_the_reason_whatever_stands_in_the_value(status, reason, supported):
    result = tell("DEV_GPU_TEMP", 0, status)
    assert isinstance(result, Absent)
    assert (result.reason, result.supported) == (reason, supported)


@settings(max_examples=50)
@given(
    st.integers(-(2**63), INT64 - 1).filter(lambda each: not 0 <= each - INT32 < 4) | st.floats(-1e14, 1e14)
)
def test_whatever_is_no_blank_is_told_as_it_is(value):
    assert find_blank(value) is None
    result = tell("DEV_POWER_USAGE", value)
    assert isinstance(result, Sample)
    assert (result.value, result.taken_at) == (value, 5.0)


def test_a_gpu_without_xids_says_zero_and_one_with_them_what_they_mean():
    none, some = tell("DEV_XID_ERRORS", 0, -14), tell("DEV_XID_ERRORS", 79)
    assert isinstance(none, Sample)
    assert isinstance(some, Sample)
    assert (none.value, none.labels) == (0, (("err_code", "0"), ("err_msg", "No Error")))
    assert (some.value, some.labels[0]) == (79, ("err_code", "79"))


def test_shares_of_a_cache_are_ratios_also_where_dcgm_makes_bytes_of_them():
    before, now = tell("PROF_HOSTMEM_CACHE_HIT", 50 * 2**20), tell("PROF_HOSTMEM_CACHE_HIT", 50)
    assert isinstance(before, Sample)
    assert isinstance(now, Sample)
    assert before.value == now.value == 0.5


def test_a_value_is_as_old_as_its_time_at_the_engine_has_stood_still_here():
    ages = Ages()
    assert ages.since("temp", 1_000, now=10.0) == 10.0
    assert ages.since("temp", 1_000, now=11.0) == 10.0
    assert ages.since("temp", 500, now=12.0) == 12.0  # the engine's clock went back: it is a new reading
    assert ages.since("power", 500, now=13.0) == 13.0
