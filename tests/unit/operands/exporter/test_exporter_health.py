"""What the exporter says of itself, and where it says it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.operands.exporter.gpus import gpu

from gpuready.chain.verdict import State
from gpuready.errors import GPUReadyError
from gpuready.gpu.telemetry.model import Collection, Engine, Silent
from gpuready.node.operand_records import EXPORTER, find_rows, path_of
from gpuready.node.root import Root
from gpuready.operands.exporter.counters_file import CountersFile
from gpuready.operands.exporter.health import Facts, Health, judge
from gpuready.operands.exporter.jobs import read_jobs
from gpuready.operands.exporter.recorder import Recorder
from gpuready.operands.exporter.settings import DEFAULT_COUNTERS, Settings
from gpuready.operands.exporter.web import Web

TWO = (gpu(0), gpu(1))
SILENT = Silent("GPU-1", 1, "no answer within 5 s", 0.0)
ENGINE = Engine("nvidia-dcgm:5555", "4.5.3", samples=40)
HANGS = "DCGM has not answered for 3 s"
AWAY = "dcgmConnect_v2 answered ConnectionNotValid (-21)"
TAKEN = GPUReadyError("cannot listen on port 9400", why="another program holds it", next_step="stop it")


@pytest.mark.parametrize(
    ("facts", "state", "reason", "words"),
    [
        pytest.param(Facts(collection=Collection(TWO)), State.OK, "Ready", "every GPU", id="all is well"),
        pytest.param(
            Facts(collection=Collection(TWO, engine=ENGINE)),
            State.OK,
            "Ready",
            "every GPU",
            id="DCGM answers",
        ),
        pytest.param(
            Facts(collection=Collection(TWO, engine=replace(ENGINE, samples=0, problem=AWAY))),
            State.DEGRADED,
            "DcgmUnavailable",
            f"DCGM (nvidia-dcgm:5555) does not answer, values are NVML's: {AWAY}",
            id="DCGM is away and NVML stands in",
        ),
        pytest.param(
            Facts(collection=Collection(TWO, engine=replace(ENGINE, problem=HANGS))),
            State.DEGRADED,
            "DcgmUnavailable",
            "its last ones are shown while they are new enough: DCGM has not answered",
            id="DCGM hangs since a moment",
        ),
        pytest.param(
            Facts(collection=Collection(TWO, engine=replace(ENGINE, alone=True, samples=0, problem=AWAY))),
            State.BROKEN,
            "DcgmUnavailable",
            f"does not answer, values are none, as DCGM is the only source: {AWAY}",
            id="DCGM is away and nothing may stand in",
        ),
        pytest.param(
            Facts(collection=Collection(TWO, engine=replace(ENGINE, nvml_problem="DriverNotLoaded"))),
            State.DEGRADED,
            "NvmlUnavailable",
            "so XIDs and what pods use are not known: DriverNotLoaded",
            id="DCGM answers and NVML does not",
        ),
        pytest.param(
            Facts(listening=TAKEN), State.BROKEN, "CannotListen", "another program", id="port taken"
        ),
        pytest.param(
            Facts(waiting="the gate driver-ready is not there"),
            State.WAITING,
            "WaitingForDriver",
            "driver-ready",
            id="no driver yet",
        ),
        pytest.param(Facts(), State.WAITING, "Collecting", "first look", id="just started"),
        pytest.param(
            Facts(counters="/x.csv: No such file"), State.BROKEN, "CountersNotUsable", "/x.csv", id="no CSV"
        ),
        pytest.param(
            Facts(collection=Collection(problem="DriverNotLoaded")),
            State.BROKEN,
            "NvmlUnavailable",
            "DriverNotLoaded",
            id="NVML is away",
        ),
        pytest.param(
            Facts(collection=Collection(TWO), age_s=61), State.BROKEN, "Stale", "two intervals", id="stale"
        ),
        pytest.param(
            Facts(collection=Collection(TWO, silent=(SILENT,))),
            State.DEGRADED,
            "GpuSilent",
            "GPU 1 (GPU-1): no answer within 5 s",
            id="one GPU is silent",
        ),
        pytest.param(
            Facts(collection=Collection(TWO[1:], silent=(SILENT,))),
            State.BROKEN,
            "GpusSilent",
            "no GPU answers",
            id="all are",
        ),
        pytest.param(
            Facts(collection=Collection(TWO[:1], silent=(replace(SILENT, uuid=""),))),
            State.DEGRADED,
            "GpuSilent",
            "1 of 2 GPUs do not answer",
            id="one was lost before it told its UUID",
        ),
        pytest.param(
            Facts(collection=Collection(TWO), kept="/c.csv: Is a directory"),
            State.DEGRADED,
            "CountersKept",
            "the last good one is used: /c.csv: Is a directory",
            id="older counters are used",
        ),
        pytest.param(
            Facts(collection=Collection(TWO), rejected=("line 4 (X): too many parts",)),
            State.DEGRADED,
            "CountersRejected",
            "1 line of the counters' CSV cannot be used",
            id="a bad line",
        ),
        pytest.param(
            Facts(collection=Collection(TWO), pods="Connection refused"),
            State.DEGRADED,
            "PodsNotKnown",
            "Connection refused",
            id="the kubelet is away",
        ),
    ],
)
def test_the_first_thing_that_is_the_matter_is_named(facts, state, reason, words):
    health = judge(facts)

    assert (health.state, health.reason) == (state, reason)
    assert words in health.text or words in health.message
    assert health.serves == (state in (State.OK, State.DEGRADED))
    assert state in (State.OK, State.WAITING) or health.next_step


def test_a_line_that_no_gpu_here_tells_is_named_beside_bad_ones_and_is_no_fault_by_itself():
    untold = ("line 7 (Y): no GPU of this node tells it: the GPU has no GPM; remove the line",)

    bad = judge(Facts(collection=Collection(TWO), rejected=("line 4 (X): too many parts",), untold=untold))

    assert bad.message == "1 line of the counters' CSV cannot be used"
    assert bad.details == ("line 4 (X): too many parts", *untold)
    assert judge(Facts(collection=Collection(TWO), untold=untold)).state is State.OK


def test_none_that_lacks_something_hides_another():
    away = replace(ENGINE, samples=0, problem=AWAY)
    seen = Collection(TWO, silent=(SILENT,), engine=away)

    health = judge(Facts(collection=seen, rejected=("line 4 (X): too many parts",), pods="refused"))

    assert health.reason == "DcgmUnavailable"
    assert health.details == (
        "1 of 2 GPUs do not answer, their values are absent",
        "GPU 1 (GPU-1): no answer within 5 s",
        "1 line of the counters' CSV cannot be used",
        "line 4 (X): too many parts",
        "the kubelet does not tell which pods hold GPUs: refused",
    )


# --- the record -------------------------------------------------------------------------------------------

SICK = Health(State.DEGRADED, "GpuSilent", "1 of 2", "reset it", ("GPU 1",))


def test_the_node_agent_reads_what_the_exporter_wrote(tmp_path):
    Recorder(path_of(tmp_path, EXPORTER), "b1").write(SICK, may_make=True)

    [row] = find_rows(tmp_path, "b1")

    assert row == {
        "name": EXPORTER,
        "state": "degraded",
        "reason": "GpuSilent",
        "message": "1 of 2",
        "details": ["GPU 1"],
        "nextStep": "reset it",
    }


def test_a_record_that_an_uninstall_took_away_is_not_made_again(tmp_path):
    path = path_of(tmp_path, EXPORTER)
    recorder = Recorder(path, "b1")
    recorder.write(SICK, may_make=True)
    path.unlink()

    recorder.write(SICK, may_make=False)
    assert not path.exists()

    recorder.write(SICK, may_make=True)
    assert path.exists(), "one that vanished for another reason is"


def test_nothing_new_writes_nothing(tmp_path):
    path = path_of(tmp_path, EXPORTER)
    recorder = Recorder(path, "b1")
    recorder.write(SICK, may_make=True)
    before = path.stat().st_ino

    recorder.write(SICK, may_make=True)

    assert path.stat().st_ino == before


def test_a_place_that_takes_no_record_is_told_once(tmp_path, caplog):
    (tmp_path / "records").write_text("a file where the directory should be")
    recorder = Recorder(tmp_path / "records/exporter.json", "b1")
    for _ in range(3):
        recorder.write(Health(State.OK, "Ready", "fine"), may_make=True)

    assert [record.message for record in caplog.records] == ["record not written"]


def test_who_stops_takes_its_own_record_along_and_no_successors(tmp_path):
    path = path_of(tmp_path, EXPORTER)
    first, second = Recorder(path, "b1"), Recorder(path, "b1")
    first.write(SICK, may_make=True)
    second.write(Health(State.OK, "Ready", "fine"), may_make=True)

    first.remove()
    assert json.loads(path.read_text())["reason"] == "Ready"

    second.remove()
    assert not path.exists()


# --- the counters' file -----------------------------------------------------------------------------------

GOOD = "DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature\n"


def followed(folder: Path, text: str | None, **more) -> CountersFile:
    if text is not None:
        (folder / "c.csv").write_text(text)
    return CountersFile(Settings(collectors="/c.csv", **more), Root(folder))


def names_of(file: CountersFile) -> list[str]:
    return [row.name for row in file.counters.rows]


def test_a_changed_file_is_taken_up_and_counted(tmp_path):
    file = followed(tmp_path, GOOD)
    assert file.read()
    assert not file.read()
    (tmp_path / "c.csv").write_text(GOOD + "DCGM_FI_DEV_GPU_UTIL, gauge, x\n")

    assert file.read()
    assert names_of(file) == ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL"]
    assert file.reloads == 1


def test_a_missing_file_is_never_replaced_by_another(tmp_path):
    file = followed(tmp_path, None)

    assert not file.read()
    assert names_of(file) == []
    assert file.trouble == "/c.csv: No such file or directory"


def test_a_file_that_vanishes_leaves_what_was_good(tmp_path):
    file = followed(tmp_path, GOOD)
    file.read()
    (tmp_path / "c.csv").unlink()

    assert not file.read()
    assert names_of(file) == ["DCGM_FI_DEV_GPU_TEMP"]
    assert file.trouble == ""
    assert file.kept == "/c.csv: No such file or directory"

    (tmp_path / "c.csv").write_text(GOOD)
    file.read()
    assert file.kept == ""


@pytest.mark.parametrize("junk", ["", "\0\1\2", "no,such\n"])
def test_a_file_without_one_usable_line_replaces_no_good_one(tmp_path, junk):
    file = followed(tmp_path, GOOD)
    file.read()
    (tmp_path / "c.csv").write_text(junk)

    assert not file.read()
    assert names_of(file) == ["DCGM_FI_DEV_GPU_TEMP"]
    assert "names no field that can be exported" in file.kept


def test_bad_lines_are_told_and_the_others_used(tmp_path):
    file = followed(tmp_path, GOOD + "DCGM_FI_NO, gauge, x\n")
    file.read()

    assert names_of(file) == ["DCGM_FI_DEV_GPU_TEMP"]
    [line] = file.rejected_lines
    assert line.startswith("line 2 (DCGM_FI_NO): there is no such field")


def test_strict_takes_a_file_whole_or_not_at_all(tmp_path):
    file = followed(tmp_path, GOOD + "DCGM_FI_NO, gauge, x\n", csv_strict=True)

    assert not file.read()
    assert names_of(file) == []
    assert "DCGM_FI_NO" in file.trouble


def test_a_counters_file_that_is_not_there_names_the_keys_that_are(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    (folder / "..data").mkdir(parents=True)
    (folder / "mine.csv").write_text("DCGM_FI_DEV_GPU_TEMP, gauge, x\n")
    file = CountersFile(Settings(collectors="/metrics/none.csv"), Root(tmp_path))

    file.read()

    assert file.trouble == "/metrics/none.csv: No such file or directory; beside it: mine.csv"


def test_a_mounted_config_map_with_a_single_key_is_taken(tmp_path):
    folder = tmp_path / "metrics"
    folder.mkdir()
    (folder / "any-name.csv").write_text(GOOD)
    (folder / "..data").mkdir()
    file = CountersFile(Settings(collectors="/metrics"), Root(tmp_path))

    assert file.read()
    (folder / "second.csv").write_text(GOOD)
    file.read(again=True)
    assert names_of(file) == ["DCGM_FI_DEV_GPU_TEMP"]


def test_the_files_of_the_originals_image_are_built_in(tmp_path):
    file = CountersFile(Settings(collectors=DEFAULT_COUNTERS), Root(tmp_path))

    assert file.read()
    assert "DCGM_FI_DEV_GPU_TEMP" in names_of(file)


# --- jobs and guards --------------------------------------------------------------------------------------


def test_jobs_are_read_by_gpu_and_instance(tmp_path):
    (tmp_path / "0").write_text("job-1\njob-2\n\n")
    (tmp_path / "1.3").write_text("job-3\n")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "2").mkdir()

    assert read_jobs(tmp_path) == {(0, None): ("job-1", "job-2"), (1, 3): ("job-3",)}
    assert read_jobs(tmp_path / "absent") == {}


def test_a_password_file_that_changes_is_taken_up_and_a_wrong_one_is_not(tmp_path):
    file = tmp_path / "web.yml"
    file.write_text("{}")
    web = Web.load(Settings(web_config_file="/web.yml"), Root(tmp_path))
    assert web.site(lambda: None, lambda: None).allows is None

    file.write_text("basic_auth_users: {a: $2y$05$abcdefghijklmnopqrstuu}")
    web.renew()
    assert web.site(lambda: None, lambda: None).allows is not None

    file.write_text("basic_auth_user: {}")
    web.renew()
    assert web.site(lambda: None, lambda: None).allows is not None, "the door stays shut"
