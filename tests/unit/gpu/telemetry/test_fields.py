"""The table of fields: every spelling leads to the same field, and what cannot be read says why."""

from __future__ import annotations

import pytest

from gpuready.gpu.telemetry import fields
from gpuready.gpu.telemetry.fields import find_field, missing_reason, sources_of
from gpuready.gpu.telemetry.model import Kind, Scope
from gpuready.gpu.telemetry.sources import FieldValue, Gpm, Rate


@pytest.mark.parametrize(
    ("field_id", "spellings"),
    [
        (1, "DCGM_FI_DRIVER_VERSION DCGM_FI_SYSTEM_DRIVER_VERSION"),
        (112, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
        (150, "DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_GPU_TEMP_CELSIUS dcgm_gpu_temp"),
        (155, "DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_BOARD_POWER_WATTS dcgm_power_usage"),
        (203, "DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_GPU_UTIL_RATIO dcgm_gpu_utilization"),
        (395, "DCGM_FI_DEV_ROW_REMAP_FAILURE DCGM_FI_DEV_ROW_REMAP_FAILED"),
        (449, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL"),
        (1001, "DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
        (1523, "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION DCGM_FI_DEV_GPU_RECOVERY_ACTION"),
    ],
)
def test_every_spelling_of_a_field_leads_to_its_id(field_id: int, spellings: str) -> None:
    assert {find_field(name).id for name in spellings.split()} == {field_id}  # type: ignore[union-attr]


def test_no_spelling_means_two_fields_and_none_but_these_are_known() -> None:
    names = list(fields.all_names())
    assert len(names) == len(set(names)) > 1000
    assert find_field("DCGM_FI_DEV_GPU_TEMPERATURE") is None
    assert find_field("dcgm_fi_dev_gpu_temp") is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT", "NvSwitches are read by DCGM's switch module only"),
        ("DCGM_FI_DEV_CPU_UTIL_TOTAL", "CPUs are read by DCGM's CPU module only"),
        ("DCGM_FI_DEV_DIAG_PCIE_RESULT", "it is a result of DCGM's own diagnostics"),
        (
            "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL",
            "running totals of profiling are kept by DCGM only",
        ),
        ("DCGM_FI_DEV_CC_MODE", "gpuready does not read it from NVML"),
        ("DCGM_FI_DEV_GPU_TEMP", ""),
    ],
)
def test_a_field_that_only_dcgm_can_tell_says_why(name: str, reason: str) -> None:
    field = find_field(name)
    assert field is not None
    assert missing_reason(field) == reason


@pytest.mark.parametrize(
    ("field_id", "metric", "times"),
    [
        (1001, 1, 0.01),
        (1005, 10, 0.01),
        (1009, 20, 2**20),
        (1011, 61, 2**20),
        (1012, 60, 2**20),
        (1046, 69, 2**20),
        (1047, 68, 2**20),
        (1048, 71, 2**20),
        (1078, 101, 2**20),
        (1080, 160, 0.01),
    ],
)
def test_profiling_fields_are_gpm_metrics_in_the_right_unit(field_id: int, metric: int, times: float) -> None:
    """RX is first in GPM and TX in DCGM; link 3 and 4 are where DCGM 4.5.3 slipped; 1080 is a share."""
    assert sources_of(fields.field_of(field_id)) == (Gpm(metric, times),)
    assert fields.field_of(field_id).profiling


@pytest.mark.parametrize(
    ("field_id", "scope"),
    [
        pytest.param(252, Scope.INSTANCE, id="memory in use"),
        pytest.param(1001, Scope.INSTANCE, id="engine busy"),
        pytest.param(155, Scope.GPU, id="power"),
        pytest.param(1009, Scope.GPU, id="PCIe traffic"),
        pytest.param(1, Scope.NODE, id="driver version"),
        pytest.param(1527, Scope.LINK, id="replays of a link"),
    ],
)
def test_what_an_instance_has_of_its_own_is_not_read_of_the_whole_gpu(field_id: int, scope: Scope) -> None:
    assert fields.field_of(field_id).scope is scope


def test_violations_pair_one_to_one_with_the_performance_policies() -> None:
    assert [sources_of(fields.field_of(240 + n))[0] for n in range(8)] == [
        FieldValue(74 + n) for n in range(8)
    ]


def test_a_traffic_rate_is_a_gauge_and_our_totals_are_counters() -> None:
    rate = fields.field_of(449)
    assert rate.kind is Kind.GAUGE
    assert isinstance(sources_of(rate)[0], Rate)
    ours = {field.name: field.kind for field in fields.own_fields()}
    assert ours["gpuready_nvlink_transmit_bytes_total"] is Kind.COUNTER
    assert all((kind is Kind.COUNTER) == name.endswith("_total") for name, kind in ours.items())
