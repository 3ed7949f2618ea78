"""When a CUDA program is run, and when not: its reasons, across restarts of the node agent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuready.chain.cuda import Target
from gpuready.gpu.inventory import GPU, Inventory
from gpuready.gpu.nvml import Partition
from gpuready.gpu.process_start import start_of
from gpuready.gpu.proofs import Outcome, Proof
from gpuready.gpu.tree import Tree
from gpuready.node.links.cuda import Answer, Asking, CudaChild, CudaLink, Subject, parse, subjects_of

pytestmark = pytest.mark.asyncio
DRIVER = ("570.86.10", "570.86.10")


class Child(CudaChild):
    """Every GPU is proved but those in `bad`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.bad: dict[str, Proof] = {}
        self.answer: Answer | None = None

    async def run(self, driver_root: Path, kernel_root: Path, uuids: Sequence[str]) -> Answer:
        self.asked.append(list(uuids))
        proofs = tuple(self.bad.get(uuid, Proof(uuid, Outcome.OK)) for uuid in uuids)
        return self.answer or Answer(proofs, DRIVER[0])


class Scene:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.child = Child()
        self.now = 1000.0
        self.link = self.restarted()

    def restarted(self, boot: str = "boot-1") -> CudaLink:
        record = self.directory / "records/cuda.json"
        self.link = CudaLink(Tree(self.directory), self.child, record, boot, lambda: self.now)
        return self.link

    async def run(self, asking: Asking) -> list[str]:
        """What a program was run on."""
        before = len(self.child.asked)
        if self.link.due(asking):
            await self.link.run(self.directory, asking)
        return [uuid for asked in self.child.asked[before:] for uuid in asked]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def asking(*uuids: str, driver: tuple[str, str] = DRIVER, asked: str = "", after: str = "") -> Asking:
    subjects = (Subject(Target(uuid, index), after) for index, uuid in enumerate(uuids))
    return Asking(tuple(subjects), driver, asked)


async def test_each_gpu_is_proved_once(scene: Scene) -> None:
    assert await scene.run(asking("a", "b")) == ["a", "b"]
    assert await scene.run(asking("a", "b")) == []
    assert scene.link.due_at == float("inf")


async def test_a_restart_of_the_agent_runs_nothing(scene: Scene) -> None:
    await scene.run(asking("a", "b"))

    scene.restarted()

    assert await scene.run(asking("a", "b")) == []
    assert set(scene.link.look(asking("a", "b"), gate=True).proofs) == {"a", "b"}


@pytest.mark.parametrize(
    ("changed", "ran"),
    [
        pytest.param(asking("a", "b", "c"), ["c"], id="another GPU"),
        pytest.param(asking("a", "b", driver=("580.1", "580.1")), ["a", "b"], id="another driver"),
        pytest.param(asking("a", "b", driver=(DRIVER[0], "570.1")), ["a", "b"], id="another module"),
        pytest.param(asking("a", "b", asked="now"), ["a", "b"], id="a person asks"),
        pytest.param(asking("a", "b", after="109 12:00"), ["a", "b"], id="an XID took it out of service"),
        pytest.param(asking("a"), [], id="a GPU less"),
    ],
)
async def test_what_has_changed_is_proved(scene: Scene, changed: Asking, ran: list[str]) -> None:
    await scene.run(asking("a", "b"))

    assert await scene.run(changed) == ran
    assert await scene.run(changed) == []
    scene.restarted()
    assert await scene.run(changed) == []


async def test_another_boot_begins_anew(scene: Scene) -> None:
    await scene.run(asking("a"))

    scene.restarted("boot-2")

    assert await scene.run(asking("a")) == ["a"]


async def test_a_request_that_is_taken_back_asks_for_nothing(scene: Scene) -> None:
    await scene.run(asking("a", asked="now"))

    assert await scene.run(asking("a")) == []


async def test_a_gpu_that_was_ill_is_proved_when_it_is_back(scene: Scene) -> None:
    await scene.run(asking("a", "b"))

    scene.link.forget_gone(asking("a").subjects)
    scene.restarted()

    assert await scene.run(asking("a", "b")) == ["b"]


async def test_a_failed_one_is_tried_again_after_a_wait_that_grows(scene: Scene) -> None:
    scene.child.bad["b"] = Proof("b", Outcome.FAILED, "cuInit", 802)
    assert await scene.run(asking("a", "b")) == ["a", "b"]
    waits = []
    for _ in range(9):
        assert await scene.run(asking("a", "b")) == []
        waits.append(scene.link.due_at - scene.now)
        scene.now = scene.link.due_at
        assert await scene.run(asking("a", "b")) == ["b"]

    assert waits[:4] == [5, 10, 20, 40]
    assert waits[-1] == 600
    scene.child.bad.clear()
    scene.now = scene.link.due_at
    assert await scene.run(asking("a", "b")) == ["b"]
    assert scene.link.due_at == float("inf")


async def test_a_trouble_of_our_own_is_told_and_tried_again(scene: Scene) -> None:
    scene.child.answer = Answer(trouble="its process ended with status 1")
    await scene.run(asking("a"))
    assert scene.link.look(asking("a"), gate=False).trouble == "its process ended with status 1"
    assert await scene.run(asking("a")) == []

    scene.child.answer, scene.now = None, scene.link.due_at

    assert await scene.run(asking("a")) == ["a"]
    assert scene.link.look(asking("a"), gate=False).trouble == ""


def hangs(pid: int, started: int) -> Proof:
    return Proof("a", Outcome.TIMED_OUT, "cuInit", pid=pid, started=started)


async def test_where_one_hangs_in_the_driver_no_second_is_sent_after_it(scene: Scene) -> None:
    scene.child.bad["a"] = hangs(os.getpid(), start_of(os.getpid()))
    await scene.run(asking("a"))
    scene.now += 10_000

    assert await scene.run(asking("a", "b", asked="now")) == ["b"]
    scene.restarted()
    assert await scene.run(asking("a", "b", asked="again")) == ["b"]


async def test_another_process_of_the_same_number_holds_up_nothing(scene: Scene) -> None:
    """An agent whose container is started anew has other processes under the old numbers."""
    scene.child.bad["a"] = hangs(os.getpid(), start_of(os.getpid()) - 1)
    await scene.run(asking("a"))

    assert await scene.run(asking("a", asked="now")) == ["a"]


def zombie() -> subprocess.Popen[bytes]:
    ended = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    return ended


async def test_one_that_has_ended_unnoticed_holds_up_nothing(scene: Scene) -> None:
    ended = zombie()
    scene.child.bad["a"] = hangs(ended.pid, start_of(ended.pid))
    await scene.run(asking("a"))
    scene.now = scene.link.due_at

    assert await scene.run(asking("a")) == ["a"]
    ended.communicate()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"bootId": "boot-1", "driver": [], "proofs": [{"uuid": 1, "outcome": "ok"}]}']
)
async def test_a_record_that_somebody_spoiled_counts_as_none(scene: Scene, text: str) -> None:
    await scene.run(asking("a"))
    (scene.directory / "records/cuda.json").write_text(text)

    scene.restarted()

    assert await scene.run(asking("a")) == ["a"]


async def test_a_record_of_a_newer_agent_is_read_as_far_as_it_is_understood(scene: Scene) -> None:
    await scene.run(asking("a", "b"))
    file = scene.directory / "records/cuda.json"
    row = json.loads(file.read_text())
    row["proofs"][0]["outcome"] = "half"
    file.write_text(json.dumps(row))

    scene.restarted()

    assert await scene.run(asking("a", "b")) == ["a"]


# --- of what ----------------------------------------------------------------------------------------------


def gpu(index: int, **changes: Any) -> GPU:
    return GPU(f"GPU-{index}", index, index, f"0000:0{index}:00.0", "NVIDIA A100", 40960, (8, 0), **changes)


async def test_gpus_that_the_health_engine_calls_ill_are_left_to_it() -> None:
    rows = [{"uuid": "GPU-1", "health": "Unhealthy"}]

    found = subjects_of(Inventory((gpu(0), gpu(1))), {"devices": rows})

    assert [each.target.uuid for each in found] == ["GPU-0"]


async def test_of_a_gpu_in_mig_mode_its_partitions_are_proved() -> None:
    part = Partition("MIG-a", 0, 1, 0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb")

    found = subjects_of(
        Inventory((gpu(0, mig_enabled=True, partitions=(part,)), gpu(1, mig_enabled=True))), None
    )

    assert [each.target for each in found] == [Target("MIG-a", 0, "1g.5gb")]


@pytest.mark.parametrize(("action", "after"), [("ResetGpu", "109 noon"), ("CheckApplication", "")])
async def test_only_an_xid_that_takes_a_gpu_away_makes_its_proof_void(action: str, after: str) -> None:
    xid = {"code": 109, "time": "noon", "action": action}

    [found] = subjects_of(
        Inventory((gpu(0),)), {"devices": [{"uuid": "GPU-0", "health": "Healthy", "lastXid": xid}]}
    )

    assert found.after == after


# --- the child --------------------------------------------------------------------------------------------


async def test_what_the_child_printed_becomes_proofs() -> None:
    printed = b'{"library": "570.86.10", "searched": [], "proofs": [{"uuid": "a", "outcome": "ok"}]}\n'

    assert parse(printed, b"", 0) == Answer((Proof("a", Outcome.OK),), "570.86.10")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "its process ended with status 1: MemoryError"),
        (-9, "its process ended with signal 9: MemoryError"),
    ],
)
async def test_a_child_that_died_is_told_with_its_last_words(status: int, words: str) -> None:
    assert parse(b"", b"Traceback\nMemoryError\n", status).trouble == words


async def test_a_child_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    absent = await CudaChild(command=("/no/such/program",)).run(tmp_path, tmp_path, ["a"])
    assert absent.trouble == "its process could not be started: No such file or directory"
