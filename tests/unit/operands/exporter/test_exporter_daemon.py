"""When the daemon holds the driver, and when it looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuready.node.root import Root
from gpuready.operands.exporter.daemon import Daemon
from gpuready.operands.exporter.settings import Settings
from gpuready.operands.exporter.start import main, needs_tls
from gpuready.operands.exporter.web import Web


@pytest.mark.parametrize("argument", ["--bogus", "bogus", "--address"])
def test_a_wrong_argument_is_told_in_full_and_ends_the_program(argument, caplog):
    assert main({}, [argument]) == 2

    [said] = caplog.records
    assert said.message == "cannot start"
    assert set(said.fields) == {"what", "why", "next_step"}
    assert all(said.fields.values())


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        pytest.param(Settings(), False, id="a plain page"),
        pytest.param(Settings(web_config_file="/web.yaml"), True, id="a page by TLS, or behind a password"),
        pytest.param(Settings(pod_labels=True), True, id="the API server tells labels of pods"),
    ],
)
def test_openssl_is_loaded_for_those_who_need_it(settings, wanted):
    assert needs_tls(settings) is wanted


class Told:
    """Stands where the collector and its reader do, and notes what they are told."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def use(self, fields: object) -> None:
        self.words.append("look")

    def release(self) -> None:
        self.words.append("release")

    def resume(self) -> None:
        self.words.append("resume")


def daemon_in(folder: Path, told: Told) -> Daemon:
    made = Daemon(Settings(gates_dir="/gates", interval_ms=30_000), Root(folder), Web(None))
    made._collector = made._reader = told  # type: ignore[assignment]
    return made


async def test_it_looks_as_soon_as_the_gate_opens_and_not_when_the_next_look_is_due(tmp_path):
    told = Told()
    daemon = daemon_in(tmp_path, told)
    daemon._look_at_files()
    assert told.words == ["release", "look"], "the counters were read"
    told.words.clear()

    (tmp_path / "gates").mkdir()
    (tmp_path / "gates/driver-ready").write_text("IS_HOST_DRIVER=true\n")
    daemon._look_at_files()
    assert told.words == ["resume", "look"]

    daemon._look_at_files()
    assert told.words[2:] == ["resume"], "nothing new"


async def test_a_pause_lets_the_driver_go_and_its_end_looks_at_once(tmp_path):
    told = Told()
    daemon = daemon_in(tmp_path, told)
    (tmp_path / "gates").mkdir()
    (tmp_path / "gates/driver-ready").write_text("")
    daemon._look_at_files()
    told.words.clear()
    pause = tmp_path / "run/gpuready/desired/pause"
    pause.parent.mkdir(parents=True)

    pause.write_text("MIG")
    daemon._look_at_files()
    pause.unlink()
    daemon._look_at_files()

    assert told.words == ["release", "resume", "look"]


async def test_a_file_that_is_named_as_typed_lies_where_the_command_was_started(tmp_path, monkeypatch):
    """`gpuready exporter -f counters.csv`, as the help shows it and as `lint` takes it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counters.csv").write_text("DCGM_FI_DEV_GPU_TEMP, gauge, temperature\n")
    daemon = Daemon(Settings(collectors="counters.csv"), Root(Path("/")), Web(None))
    daemon._collector = daemon._reader = Told()  # type: ignore[assignment]

    daemon._look_at_files()

    assert tmp_path / "counters.csv" in daemon._counters.paths
    assert not daemon._counters.trouble
