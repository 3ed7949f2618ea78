"""`gpuready cdi`: what is typed, what is printed, what is left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.gpu.cdi.trees import driver_tree, gpu, partition, with_mig

from gpuready.commands import run
from gpuready.gpu.cdi.build import Place, build
from gpuready.node.cdi.files import SpecFiles


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The node of case C11: two GPUs, the second with MIG on and two partitions; its specs are written."""
    gpus = [gpu(0), gpu(1, mig_enabled=True, partitions=(partition(0), partition(1)))]
    tree = driver_tree(tmp_path, gpus=2)
    with_mig(tmp_path, 1, [1, 2])
    (tmp_path / "run").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "run/cdi").mkdir()
    files = SpecFiles(tree, tmp_path / "run/cdi", tmp_path / "run/gpuready/records/cdi.json")
    files.bring_up_to_date(build(Place(tree, tree), gpus))
    return tmp_path


def cdi(host: Path, *words: str) -> int:
    return run(["cdi", *words, "--host-root", str(host)])


def put(host: Path, path: str, content: Any) -> None:
    file = host / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def spec_of(*names: str, kind: str = "nvidia.com/gpu") -> dict[str, Any]:
    edits = {"deviceNodes": [{"path": "/dev/nvidiactl"}]}
    devices = [{"name": name, "containerEdits": edits} for name in names]
    return {"cdiVersion": "0.5.0", "kind": kind, "devices": devices}


# --- files that nobody should write ---
def test_a_link_in_a_circle_is_a_file_that_cannot_be_read(
    host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (host / "run/cdi/x.json").symlink_to("x.json")

    assert cdi(host, "check") == 1
    assert "FAIL  /var/run/cdi/x.json" in capsys.readouterr().out
    assert cdi(host, "resolve", "nvidia.com/gpu=0") == 0


@pytest.mark.parametrize("path", ["/dev/a\0b", "/dev/a\ud800"])
@pytest.mark.parametrize("command", [["check"], ["check", "-o", "yaml"], ["resolve", "x.y/z=0"]])
def test_a_path_that_can_be_none_is_told_and_ends_nothing(
    host: Path, path: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"cdiVersion": "0.5.0", "kind": "x.y/z", "devices": [{"name": "0"}]}
    odd["devices"] = [{"name": "0", "containerEdits": {"deviceNodes": [{"path": path}]}}]
    put(host, "run/cdi/odd.json", odd)

    assert cdi(host, *command) == 1
    assert "odd.json" in (said := capsys.readouterr().out) or "x.y/z=0" in said


# --- resolve (case C11) -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu=0",
        "nvidia.com/gpu=GPU-c0",
        "nvidia.com/gpu=all",
        "nvidia.com/gpu=1:0",
        "nvidia.com/gpu=MIG-m1",
        "management.nvidia.com/gpu=all",
        "management.nvidia.com/gpu=GPU-c0",
    ],
)
def test_names_that_everybody_asks_for_resolve(
    host: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cdi(host, "resolve", name, "-o", "json") == 0

    [row] = json.loads(capsys.readouterr().out)["names"]
    assert row["resolves"]
    assert {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= set(row["deviceNodes"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nvidia.com/gpu=2", "index 2 does not exist, 2 GPUs present"),
        ("nvidia.com/gpu=GPU-zz", "UUID unknown: GPU replaced, MIG switched on, or another node's?"),
        ("nvidia.com/gpu=MIG-zz", "UUID unknown: the MIG partitions were made anew, or it is another node's"),
        ("nvidia.com/gpu=1", "GPU 1 has MIG on and is offered by its partitions: 1:0, 1:1"),
        ("nvidia.com/gpu=1:7", "GPU 1 has the partitions 1:0, 1:1"),
        ("nvidia.com/gpu=0:0", "GPU 0 has MIG off: ask for it as 0"),
        ("nvidia.com/gpus=0", "no spec is of the kind nvidia.com/gpus; perhaps nvidia.com/gpu is meant"),
        ("0", "it is not vendor/class=device; perhaps nvidia.com/gpu=0 is meant"),
        ("/dev/nvidia0", "it is not of the form vendor/class=device"),
    ],
)
def test_an_unknown_name_is_answered_with_the_cause_and_the_known_names(
    host: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cdi(host, "resolve", name) == 1

    said = capsys.readouterr().out
    assert said.startswith(f"FAIL  {name}\n      why    {why}\n      known  ")
    assert "nvidia.com/gpu=0, nvidia.com/gpu=1:0, nvidia.com/gpu=1:1" in said


def test_of_very_many_names_a_few_are_told_and_the_nearest_first(
    host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(host, "run/cdi/many.json", spec_of(*(f"dev{n}" for n in range(500)), kind="x.y/z"))

    assert cdi(host, "resolve", "x.y/z=deV407") == 1
    known = capsys.readouterr().out.splitlines()[-1]
    assert known.startswith("      known  x.y/z=dev407, ")
    assert known.count("x.y/z=") == 20
    assert known.endswith(" and 480 more")

    cdi(host, "resolve", "x.y/z=deV407", "-o", "json")
    [row] = json.loads(capsys.readouterr().out)["names"]
    assert (len(row["known"]), row["moreKnown"]) == (20, 480)


def test_a_kind_whose_every_name_stands_in_two_files_says_so(
    host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        put(host, f"run/cdi/{name}.json", spec_of("0", kind="x.y/z"))

    assert cdi(host, "resolve", "x.y/z=7") == 1

    said = capsys.readouterr().out
    assert "/var/run/cdi/a.json and /var/run/cdi/b.json both define every name of x.y/z" in said


def test_yaml_of_hostile_size_is_not_read_and_named(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(host, "run/cdi/huge.yaml", "# " + "x" * 2**20)

    assert cdi(host, "check") == 1

    said = capsys.readouterr().out
    assert "FAIL  /var/run/cdi/huge.yaml" in said
    assert "it is YAML of more than 1 MiB" in said


def test_a_name_that_resolves_shows_what_a_container_gets(
    host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cdi(host, "resolve", "nvidia.com/gpu=MIG-m0") == 0
    assert capsys.readouterr().out == (
        "ok    nvidia.com/gpu=MIG-m0\n"
        "      file   /var/run/cdi/nvidia.com-gpu.json\n"
        "      nodes  /dev/nvidia-modeset /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidiactl /dev/nvidia1"
        " /dev/nvidia-caps/nvidia-cap3 /dev/nvidia-caps/nvidia-cap4\n"
        "      mounts 5\n"
    )


def test_a_name_whose_files_are_gone_does_not_resolve(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (host / "usr/bin/nvidia-smi").unlink()

    assert cdi(host, "resolve", "nvidia.com/gpu=0") == 1
    assert "no container can start with it: not on the host: /usr/bin/nvidia-smi" in capsys.readouterr().out


def test_on_a_node_without_specs_the_cause_is_their_absence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cdi(tmp_path, "resolve", "nvidia.com/gpu=0") == 1
    assert "there is no CDI spec on this node: its toolkit has not run yet" in capsys.readouterr().out


# --- list, check ------------------------------------------------------------------------------------------
def test_list_names_every_device_and_its_file(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cdi(host, "list") == 0
    lines = capsys.readouterr().out.splitlines()

    assert len(lines) == 10
    assert "nvidia.com/gpu=1:1                /var/run/cdi/nvidia.com-gpu.json" in lines
    assert cdi(host, "list", "-o", "yaml") == 0
    rows = yaml.safe_load(capsys.readouterr().out)["devices"]
    assert {
        "name": "nvidia.com/gpu=0",
        "file": "/var/run/cdi/nvidia.com-gpu.json",
        "version": "0.5.0",
    } in rows


def test_check_of_a_whole_node_finds_nothing(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cdi(host, "check") == 0
    assert capsys.readouterr().out == (
        "ok    /var/run/cdi/management.nvidia.com-gpu.yaml  management.nvidia.com/gpu, 3 devices, CDI 0.3.0\n"
        "ok    /var/run/cdi/nvidia.com-gpu.json             nvidia.com/gpu, 7 devices, CDI 0.5.0\n"
    )


def test_check_finds_paths_that_are_gone(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (host / "dev/nvidia0").unlink()

    assert cdi(host, "check") == 1
    said = capsys.readouterr().out
    assert "FAIL  /var/run/cdi/nvidia.com-gpu.json\n      why   not on the host: /dev/nvidia0\n" in said
    assert said.endswith("2 problems\n")


def test_check_names_both_files_of_a_conflict(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(host, "run/cdi/nvidia.yaml", spec_of("0", "GPU-c0", "all"))

    assert cdi(host, "check") == 1
    said = capsys.readouterr().out
    assert (
        "      why   /var/run/cdi/nvidia.yaml defines nvidia.com/gpu=0 and 2 more too, and then no "
        "runtime knows it\n      next  remove one of the two files\n"
    ) in said
    assert cdi(host, "resolve", "nvidia.com/gpu=0") == 1
    assert "both define it, and then none counts" in capsys.readouterr().out


def test_the_administrators_spec_is_no_conflict_with_ours(
    host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(host, "etc/cdi/nvidia.yaml", spec_of("0"))

    assert cdi(host, "check") == 0
    capsys.readouterr()
    assert cdi(host, "resolve", "nvidia.com/gpu=0") == 0
    assert (
        "file   /var/run/cdi/nvidia.com-gpu.json" in capsys.readouterr().out
    )  # of one name the later counts


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("{", "the spec line 2, column 1", id="no JSON"),
        pytest.param("\x00", "the spec", id="no text"),
        pytest.param({**spec_of("0"), "hooks": []}, "hooks: CDI knows no such field", id="unknown field"),
        pytest.param({**spec_of("0"), "cdiVersion": "0.3.0"}, "it needs 0.5.0", id="version too old"),
    ],
)
def test_check_says_why_a_runtime_refuses_a_file(
    host: Path, content: Any, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(host, "etc/cdi/hand-made.json", content)

    assert cdi(host, "check") == 1
    assert says in capsys.readouterr().out


def test_hostile_names_do_not_reach_the_terminal(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(host, "run/cdi/\x1b[2Jevil.json", "{")
    put(
        host,
        "run/cdi/mounts.json",
        {
            **spec_of("x", kind="evil.com/gpu"),
            "containerEdits": {
                "mounts": [{"hostPath": "/a\n\x1b[31mok    all is well", "containerPath": "/b"}]
            },
        },
    )

    assert cdi(host, "check") == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "/a\\n\\x1b[31mok    all is well" in said


def test_a_spec_that_is_no_file_is_told_not_waited_for(
    host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(host / "run/cdi/pipe.json")

    assert cdi(host, "check") == 1
    assert "it cannot be read: it is no ordinary file" in capsys.readouterr().out


def test_a_directory_that_cannot_be_read_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "etc/cdi", "a file where a directory should be")

    assert cdi(tmp_path, "check") == 2
    assert "error: cannot read /etc/cdi" in capsys.readouterr().err


# --- generate ---------------------------------------------------------------------------------------------
def test_generate_on_a_node_without_driver_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cdi(tmp_path, "generate", "--explain") == 2

    said = capsys.readouterr().err
    assert "  /usr/lib64  no such folder  (usual place)\n" in said
    assert (
        "error: no spec of the kind nvidia.com/gpu can be made\n  why   no driver library below /\n" in said
    )


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("generate", "list", "check", "resolve"):
        assert run(["cdi", command, "--help"]) == 0
        assert f"gpuready cdi {command}" in capsys.readouterr().out
    assert run(["--help"]) == 0
    assert "cdi " in capsys.readouterr().out
