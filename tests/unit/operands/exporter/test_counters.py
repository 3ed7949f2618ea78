"""The counters file as people write it (case C24): good lines are used, bad ones are told apart."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready.errors import UsageError
from gpuready.gpu.telemetry.fields import field_of
from gpuready.gpu.telemetry.model import Absent, Device, Entity
from gpuready.operands.exporter.counters import (
    SHIPPED,
    Counters,
    Problem,
    choose_key,
    parse,
    refuse,
    shipped,
    unsupported,
)

C24 = """\
# comment at column 0
   # indented comment
DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).
DCGM_FI_DEV_POWER_USAGE, gauge, Power draw, in watts
DCGM_FI_DEV_FB_USED, gauge, "Memory used, MiB"
DCGM_FI_DEV_NO_SUCH_FIELD, gauge, nope
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, needs profiling (not on this GPU)
DCGM_FI_DEV_GPU_TEMP, gauge, duplicate
DCGM_FI_DEV_XID_ERRORS, conter, typo in type
DCGM_FI_DRIVER_VERSION, label, Driver version

""".replace("\n", "\r\n")
GPU = Entity(Device("GPU-a", 0, 0, "00000000:07:00.0", "NVIDIA A100"))


def names(counters: Counters) -> list[str]:
    return [row.name.removeprefix("DCGM_FI_") for row in counters.rows]


def said(text: str | bytes) -> str:
    """What is said of the only problem of the text."""
    [problem] = parse(text).problems
    return str(problem)


def test_a_file_with_human_mistakes_gives_the_rest_of_its_lines_and_names_each_bad_one() -> None:
    counters = parse(C24.encode())
    assert names(counters) == ["DEV_GPU_TEMP", "DEV_FB_USED", "PROF_PIPE_TENSOR_ACTIVE", "DRIVER_VERSION"]
    assert counters.rows[1].help == "Memory used, MiB"
    lines = {problem.line: str(problem) for problem in counters.problems}
    assert list(lines) == [4, 6, 8, 9]
    assert lines[4] == (
        "line 4 (DCGM_FI_DEV_POWER_USAGE): it has 4 parts, not name, type and help; put the help in quotes: "
        'DCGM_FI_DEV_POWER_USAGE, gauge, "Power draw, in watts"'
    )
    assert lines[6].startswith("line 6 (DCGM_FI_DEV_NO_SUCH_FIELD): there is no such field")
    assert "DCGM_FI_DEV_NVSWITCH" not in lines[6]  # nothing is near: a guess leads astray
    assert lines[8] == "line 8 (DCGM_FI_DEV_GPU_TEMP): line 3 names it already; remove one of the two"
    assert lines[9] == (
        "line 9 (DCGM_FI_DEV_XID_ERRORS): 'conter' is no metric type; did you mean 'counter'?"
    )
    assert counters.rejected == 4


def test_a_field_that_this_node_has_not_is_told_with_its_line_once_the_gpus_were_looked_at() -> None:
    counters = parse(C24)
    absent = [Absent(field_of(1004), GPU, "the GPU has no GPM")]
    [problem] = unsupported(counters, absent, [field_of(150), field_of(252), field_of(1)])
    assert str(problem) == (
        "line 7 (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE): no GPU of this node tells it: the GPU has no GPM; "
        "remove the line, unless GPUs of other nodes tell it"
    )


def test_a_field_that_one_gpu_tells_or_may_tell_later_is_no_problem_of_the_line() -> None:
    counters = parse("DCGM_FI_PROF_SM_ACTIVE, gauge, x\nDCGM_FI_DEV_FB_USED, gauge, y")
    absent = [
        Absent(field_of(1002), GPU, "the GPU has no GPM"),
        Absent(field_of(252), GPU, "NVML answers GpuIsLost (15)", supported=True),
    ]
    assert unsupported(counters, absent, [field_of(1002)]) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("DCGM_FI_DEV_GPU_TMP, gauge, x", "did you mean DCGM_FI_DEV_GPU_TEMP?", id="typo"),
        pytest.param("dcgm_fi_dev_gpu_temp, gauge, x", "did you mean DCGM_FI_DEV_GPU_TEMP?", id="lower case"),
        pytest.param("“DCGM_FI_DEV_GPU_TEMP”, gauge, x", "write the name without quotes", id="quoted name"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP, Gauge, x", "did you mean 'gauge'?", id="type in upper case"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP, guage, x", "did you mean 'gauge'?", id="type misspelt"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP, , x", "use one of gauge, counter", id="no type"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP, gauge", "it has 2 of the three parts", id="no help"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP", "it has 1 of the three parts", id="name only"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP; gauge; x", "separate them by commas", id="semicolons"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP\tgauge\tx", "its parts are separated by tabs", id="tabs"),
        pytest.param('DCGM_FI_DEV_FB_USED, gauge, "a, b', "not closed on the same line", id="open quote"),
        pytest.param(
            "DCGM_FI_DEV_FB_USED, gauge, “a, b”",
            'DCGM_FI_DEV_FB_USED, gauge, "a, b"',
            id="typographic quotes",
        ),
        pytest.param("DCGM_FI_DRIVER_VERSION, gauge, x", "give it the type label", id="text as gauge"),
        pytest.param(
            "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, x",
            "NvSwitches are read by DCGM's",
            id="only DCGM",
        ),
        pytest.param(b"DCGM_FI_DEV_GPU_TEMP, gauge, \xff\xfe\x00", "bytes that are not UTF-8", id="binary"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP, gauge, a\x00b", "no text (U+0000)", id="nul"),
        pytest.param("\n\n# nothing\n", "the file: it names no metric", id="empty"),
        pytest.param(b"", "the file: it names no metric", id="no byte"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_what_to_do(text: str | bytes, what: str) -> None:
    assert what in said(text)
    assert parse(text).rows == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"\xef\xbb\xbfDCGM_FI_DEV_GPU_TEMP, gauge, x\n", id="byte order mark"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP,gauge,x\r\n", id="carriage returns"),
        pytest.param("DCGM_FI_DEV_GPU_TEMP,gauge,x\r", id="old Mac"),
        pytest.param("\t DCGM_FI_DEV_GPU_TEMP\t,\tgauge , x \t", id="tabs and blanks"),
        pytest.param("\u00a0DCGM_FI_DEV_GPU_TEMP\u200b,\u00a0gauge,\u3000x", id="blanks of another kind"),
        pytest.param('"DCGM_FI_DEV_GPU_TEMP","gauge","x"', id="all quoted"),
    ],
)
def test_a_line_is_read_whatever_editor_wrote_it(text: str | bytes) -> None:
    counters = parse(text)
    assert counters.problems == ()
    [row] = counters.rows
    assert (row.name, row.kind, row.help) == ("DCGM_FI_DEV_GPU_TEMP", "gauge", "x")


def test_a_file_in_utf16_is_read_and_remarked_on() -> None:
    counters = parse("DCGM_FI_DEV_GPU_TEMP, gauge, x\r\n".encode("utf-16"))
    assert names(counters) == ["DEV_GPU_TEMP"]
    assert [(str(problem), problem.rejected) for problem in counters.problems] == [
        ("the file: it is UTF-16, as some Windows programs write it; save it as UTF-8", False)
    ]


def test_fields_that_dcgm_alone_has_are_used_where_it_is_asked() -> None:
    text = (
        "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL, counter, cycles\n"
        "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, of a switch\n"
        "DCGM_EXP_P2P_STATUS, gauge, pairs\n"
    )
    without, with_dcgm = parse(text), parse(text, dcgm=True)
    assert [row.name for row in without.rows] == []
    assert [row.name for row in with_dcgm.rows] == ["DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL"]
    assert [(each.line, each.cause) for each in with_dcgm.problems] == [
        (2, "it has no value here: it is not of a GPU, and DCGM is asked of GPUs only"),
        (3, "it has no value here: gpuready does not compare GPUs in pairs"),
    ]


def test_both_spellings_of_a_field_are_two_metrics_of_one_field() -> None:
    counters = parse("DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_GPU_TEMP_CELSIUS, gauge, y\n")
    assert counters.problems == ()
    assert names(counters) == ["DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS"]
    assert [field.id for field in counters.fields] == [150]


def test_types_that_lie_are_used_and_remarked_on() -> None:
    counters = parse("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, x\nDCGM_FI_DEV_GPU_TEMP, histogram, y")
    assert [(row.kind, row.line) for row in counters.rows] == [("counter", 1), ("gauge", 2)]
    assert counters.rejected == 0
    assert [problem.cause for problem in counters.problems] == [
        "its value goes up and down, so that rate() and increase() of it mean nothing",
        "a histogram needs more than one value: it is exported as gauge",
    ]


def test_strict_refuses_a_file_with_any_rejected_line_and_lists_the_first() -> None:
    with pytest.raises(UsageError) as refused:
        refuse(parse("\n".join(f"BAD_{n}, gauge, x" for n in range(9))), "/etc/counters.csv")
    assert refused.value.what == "/etc/counters.csv has 9 lines that cannot be followed"
    assert "line 1 (BAD_0): there is no such field" in refused.value.why
    assert refused.value.why.endswith("and 4 more")
    refuse(parse("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, a remark is no mistake"), "x")


def test_the_only_key_of_a_configmap_is_taken_and_several_are_named() -> None:
    assert choose_key(["counters.csv"]) == "counters.csv"
    assert choose_key(["other", "metrics"]) == "metrics"
    with pytest.raises(UsageError, match=r"no key 'metrics'; because its keys are 'a.csv', 'b.csv'"):
        choose_key(["b.csv", "a.csv"])
    with pytest.raises(UsageError, match="it has no keys"):
        choose_key([])


@pytest.mark.parametrize("name", SHIPPED)
def test_the_files_that_come_with_us_hold_the_original_s_active_rows(name: str) -> None:
    counters = parse(shipped(name))
    assert counters.problems == ()
    assert names(counters) == [
        "DEV_SM_CLOCK", "DEV_MEM_CLOCK", "DEV_MEMORY_TEMP", "DEV_GPU_TEMP", "DEV_POWER_USAGE",
        "DEV_TOTAL_ENERGY_CONSUMPTION", "DEV_PCIE_REPLAY_COUNTER", "DEV_GPU_UTIL", "DEV_MEM_COPY_UTIL",
        "DEV_ENC_UTIL", "DEV_DEC_UTIL", "DEV_XID_ERRORS", "DEV_FB_FREE", "DEV_FB_USED", "DEV_FB_RESERVED",
        "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_FAILURE",
        "DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_VGPU_LICENSE_STATUS", "DRIVER_VERSION", "PROF_GR_ENGINE_ACTIVE",
        "PROF_PIPE_TENSOR_ACTIVE", "PROF_DRAM_ACTIVE", "PROF_PCIE_TX_BYTES", "PROF_PCIE_RX_BYTES",
    ]  # fmt: skip


def test_the_rows_that_are_off_in_the_default_file_are_right_once_their_mark_is_taken_away() -> None:
    off = [line[2:] for line in shipped().decode().splitlines() if line.startswith("# DCGM_")]
    counters = parse("\n".join(off))
    assert len(counters.rows) == len(off) == 33
    assert counters.problems == ()


def test_ten_thousand_bad_lines_are_told_in_a_blink() -> None:
    text = "\n".join(f"DCGM_FI_DEV_GPU_TMP_{n}, gauge, x" for n in range(10_000))
    began = time.process_time()
    counters = parse(text)
    assert time.process_time() - began < 3
    assert counters.rejected == 10_000
    assert counters.problems[0].suggestion == "did you mean DCGM_FI_DEV_GPU_TEMP?"


def test_binary_junk_is_told_line_by_line_and_its_text_is_fit_for_a_log() -> None:
    problems = parse(random.Random(24).randbytes(100_000)).problems
    assert len(problems) > 100
    assert all(str(problem).isprintable() and len(str(problem)) < 400 for problem in problems)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(["good", "bad", "comment", "blank"]), max_size=20),
    st.sampled_from(["\n", "\r\n"]),
)
def test_each_line_is_used_or_told_or_does_not_count(kinds: list[str], ending: str) -> None:
    texts = {"good": "DCGM_FI_PROF_NVLINK_L{}_TX_BYTES, gauge, n", "bad": "X,", "comment": "#", "blank": ""}
    counters = parse(ending.join(texts[kind].format(n % 18) for n, kind in enumerate(kinds)))
    used = {row.line for row in counters.rows}
    told = {problem.line for problem in counters.problems if problem.line}
    assert not used & told
    assert used | told == {n for n, kind in enumerate(kinds, start=1) if kind in ("good", "bad")}


@settings(max_examples=60)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300)))
def test_nothing_that_may_stand_in_a_file_breaks_the_reader(data: bytes | str) -> None:
    for problem in parse(data).problems:
        assert isinstance(problem, Problem)
        assert "\n" not in problem.subject
