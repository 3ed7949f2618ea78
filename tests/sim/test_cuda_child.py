"""The short-lived process that runs a program on each GPU, on a simulated node."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sim.plugin_node import VERSION, PluginNode

from gpuready.gpu.cuda_child import share_device_nodes
from gpuready.gpu.tree import Tree
from gpuready_sim.hardware import call_faults, driver_tree, machine, mig, work


@pytest.fixture
async def node(tmp_path: Path) -> PluginNode:
    return PluginNode(tmp_path, gpus=8)


@pytest.fixture
async def ready(node: PluginNode) -> PluginNode:
    node.install()
    return node


def run(node: PluginNode, *uuids: str, **env: str) -> dict[str, Any]:
    """What is printed, with the proofs by uuid."""
    words = [
        "-m",
        "gpuready.gpu.cuda_child",
        "--driver-root",
        str(node.container / "host"),
        "--deadline-s",
        "0.5",
    ]
    done = subprocess.run(
        [sys.executable, *words, *uuids],
        env={**node.env(), **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    row: dict[str, Any] = json.loads(done.stdout)
    assert [proof["uuid"] for proof in row["proofs"]] in ([], list(uuids))
    return {**row, "proofs": {proof.pop("uuid"): proof for proof in row["proofs"]}}


def test_a_program_runs_on_each_gpu_and_nothing_of_it_stays(ready: PluginNode) -> None:
    uuids = ready.uuids()

    row = run(ready, *uuids)

    assert row == {"library": VERSION, "searched": [], "proofs": {uuid: {"outcome": "ok"} for uuid in uuids}}
    with ready.gpus() as state:
        assert state.holders() == []
        assert not any(work.contexts(state, index) for index in range(8))


def test_each_gpu_is_told_by_itself(ready: PluginNode) -> None:
    """One that fails, computes wrong or hangs takes nobody with it; the call that hangs is named."""
    uuids = ready.uuids()
    with ready.gpus() as state:
        call_faults.fail(state, "cuInit", 802, 1)
        call_faults.fail(state, "result", 999, 2)
        call_faults.hang(state, "cuLaunchKernel", 60, 3)
        call_faults.fail(state, "cuMemAlloc_v2", 2, 4)
        state.set_lost(5)
        begun = time.monotonic()

        proofs = run(ready, *uuids)["proofs"]

    assert time.monotonic() - begun < 10
    assert [proofs[uuid]["outcome"] for uuid in uuids] == [
        *("ok", "failed", "wrong", "timed-out", "failed", "failed", "ok", "ok")
    ]
    assert proofs[uuids[1]] == {
        "outcome": "failed",
        "call": "cuInit",
        "code": 802,
        "name": "CUDA_ERROR_SYSTEM_NOT_READY",
        "text": "system not yet initialized",
    }
    assert proofs[uuids[2]]["text"].startswith("its answer is wrong in 1 of 4096 numbers; number 0 is ")
    assert proofs[uuids[3]] == {
        "outcome": "timed-out",
        "call": "cuLaunchKernel",
        "text": "it did not return within 0.5 s",
    }
    assert (proofs[uuids[4]]["call"], proofs[uuids[4]]["code"]) == ("cuMemAlloc_v2", 2)


def test_a_partition_is_proved_and_its_gpu_cannot_be(ready: PluginNode) -> None:
    gpu = ready.uuids()[0]
    with ready.gpus() as state:
        mig.enable(state, 0)
        parts = [mig.add(state, 0, "1g.5gb"), mig.add(state, 0, "3g.20gb")]

    proofs = run(ready, *parts, gpu)["proofs"]

    assert [proofs[part] for part in parts] == [{"outcome": "ok"}] * 2
    assert proofs[gpu]["name"] == "CUDA_ERROR_NO_DEVICE"


def test_the_callers_own_wishes_about_cuda_do_not_count(ready: PluginNode) -> None:
    first, last = ready.uuids()[0], ready.uuids()[-1]

    assert run(ready, first, last, CUDA_VISIBLE_DEVICES=first)["proofs"][last] == {"outcome": "ok"}


def test_who_is_there_already_is_left_alone(ready: PluginNode) -> None:
    full, exclusive, forbidden = ready.uuids()[:3]
    with ready.gpus() as state:
        state.set_utilization(0, used_mib=40000)
        state.set_utilization(1, used_mib=500)
        with state.changing(1) as gpu:
            gpu.compute_mode = 3
        with state.changing(2) as gpu:
            gpu.compute_mode = 2

        proofs = run(ready, full, exclusive, forbidden)["proofs"]

    assert proofs[full] == {"outcome": "in-use", "text": "384 MiB of its memory are free"}
    assert proofs[exclusive] == {"outcome": "in-use", "text": "one process has it for itself"}
    assert (proofs[forbidden]["outcome"], proofs[forbidden]["name"]) == ("failed", "Prohibited")


def test_a_process_in_the_driver_holds_nothing_of_its_parents_open(ready: PluginNode) -> None:
    """One that not even a kill ends would keep whoever reads the answer waiting for its end."""
    [uuid] = ready.uuids()[:1]
    words = ["--driver-root", str(ready.container / "host"), "--deadline-s", "20", uuid]
    with ready.gpus() as state:
        call_faults.hang(state, "cuInit", 60, 0)
        child = subprocess.Popen(
            [sys.executable, "-m", "gpuready.gpu.cuda_child", *words],
            env=ready.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            prover = Path("/proc") / _first_child(child.pid)
            until(lambda: "libcuda" in (prover / "maps").read_text())
            assert [os.readlink(prover / f"fd/{number}") for number in (0, 1, 2)] == ["/dev/null"] * 3
        finally:
            child.kill()
            child.communicate()


def test_one_that_is_ended_early_leaves_no_process_behind(ready: PluginNode) -> None:
    """The node agent is process 1 of its container: whoever is orphaned there stays a zombie for good."""
    [uuid] = ready.uuids()[:1]
    words = ["--driver-root", str(ready.container / "host"), "--deadline-s", "20", uuid]
    with ready.gpus() as state:
        call_faults.hang(state, "cuInit", 60, 0)
        program = f"import ctypes; ctypes.CDLL(None).prctl({_SUBREAPER}, 1); {_START_AND_END}"
        done = subprocess.run(
            [sys.executable, "-c", program, sys.executable, "-m", "gpuready.gpu.cuda_child", *words],
            env=ready.env(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout == "none is left\n"


_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans below it become its children, as below process 1
_START_AND_END = """
import os, subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
provers = f"/proc/{child.pid}/task/{child.pid}/children"
while not (found := open(provers).read().split()):
    time.sleep(0.01)
while "libcuda" not in open(f"/proc/{found[0]}/maps").read():
    time.sleep(0.01)
child.terminate()
child.wait()
try:
    print("left:", os.waitpid(-1, 0))
except ChildProcessError:
    print("none is left")
"""


def _first_child(pid: int) -> str:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until(lambda: children.read_text().split())
    return children.read_text().split()[0]


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_libraries_of_another_version_are_told_by_cuda(ready: PluginNode) -> None:
    machine.update_driver(ready.root, "570.86.10")
    [uuid] = ready.uuids()[:1]

    row = run(ready, uuid)

    assert row["library"] == "570.86.10"
    assert (row["proofs"][uuid]["call"], row["proofs"][uuid]["code"]) == ("cuInit", 803)


def test_a_driver_without_libcuda_says_where_it_was_searched(node: PluginNode) -> None:
    row = run(node, "GPU-0")

    assert (row["library"], row["proofs"]) == (None, {})
    assert "/usr/lib64" in row["searched"]


def test_a_libcuda_that_is_no_library_is_told_in_the_loaders_words(ready: PluginNode) -> None:
    library = ready.root / driver_tree.LIBRARY_DIR / f"libcuda.so.{VERSION}"
    library.unlink()
    library.write_text("no library")
    [uuid] = ready.uuids()[:1]

    proof = run(ready, uuid)["proofs"][uuid]

    assert (proof["call"], proof["code"], proof["name"]) == ("dlopen", -1, "CannotBeLoaded")
    assert proof["text"].startswith(f"libcuda.so.{VERSION}: ")


def test_a_container_gets_the_device_nodes_that_came_after_it(tmp_path: Path) -> None:
    """NVIDIA's only; what is there stays as it is."""
    (tmp_path / "nvidia0").touch()
    made: dict[str, os.stat_result] = {}

    names = share_device_nodes(
        [_Devices(tmp_path)], tmp_path, lambda place, info: made.update({place.name: info})
    )

    assert names == ["nvidia-uvm", "nvidia-caps/nvidia-cap1"]
    assert all(stat.S_ISCHR(info.st_mode) for info in made.values())


def test_what_is_no_device_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "host/dev").mkdir(parents=True)
    (tmp_path / "host/dev/nvidia0").write_text("a file")

    assert share_device_nodes([Tree(tmp_path / "host")], tmp_path / "own") == []


class _Devices(Tree):
    """A tree whose /dev has /dev/null under NVIDIA's names."""

    def names_in(self, path: str | Path) -> list[str]:
        return ["nvidia-cap1"] if str(path).endswith("nvidia-caps") else ["null", "nvidia-uvm", "nvidia0"]

    def resolve(self, path: str | Path) -> Path:
        return Path("/dev/null")
