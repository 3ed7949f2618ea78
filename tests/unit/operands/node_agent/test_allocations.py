"""What pods hold: when the kubelet is asked, what the status says, which pod is warned and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operands.node_agent.machine import device_row

from gpuready.chain.driver import DriverFacts
from gpuready.log import get_logger
from gpuready.node.kubelet.pod_resources import PodResourcesUnavailable
from gpuready.operands.node_agent import allocations, report
from gpuready.operands.node_agent.allocations import Allocations
from gpuready.operands.node_agent.decision import View
from gpuready.operands.node_agent.events import repeated_gpu
from gpuready.operands.node_agent.holders import Holding

SHORT = {"RELEASE_S": 0.2, "SOON_S": 0.01, "PAUSE_S": 0.02, "HURRY_S": 0.02, "PATIENCE_S": 0.2}
TWICE = ("A::2", "A::3")
SAID = (
    "asked for 2 nvidia.com/gpu and got one GPU twice; shares of one GPU give no more memory or compute; "
    "set failRequestsGreaterThanOne: true to refuse, or ask for 1"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in SHORT.items():
        monkeypatch.setattr(allocations, name, seconds)


class Kubelet:
    """Lists `holding`; counts how often it was asked, and what was told of it."""

    def __init__(self, path: Path, *holding: Holding) -> None:
        self.holding = list(holding)
        self.path = path
        self.asked = 0
        self.deaf = False
        self.told: list[tuple[str, str, str]] = []
        self._changed = asyncio.Event()

    async def list(self) -> list[Holding]:
        self.asked += 1
        self._changed.set()
        if self.deaf:
            raise PodResourcesUnavailable("the kubelet does not list pod resources")
        return list(self.holding)

    async def tell(self, about: Mapping[str, Any], type_: str, reason: str, message: str) -> None:
        self.told.append((about["kind"], about["metadata"]["name"], message))
        self._changed.set()

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Allocations]:
        made = Allocations(
            "n1",
            self.list,
            self.tell,
            self.path / "node-agent.json",
            self._changed.set,
            boot_id="boot-1",
            clock=asyncio.get_running_loop().time,
            log=get_logger("test"),
        )
        task = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not what():
                self._changed.clear()
                await self._changed.wait()


def pod(name: str, *containers: tuple[str, ...]) -> Holding:
    return Holding("default", name, "", tuple(id_ for ids in containers for id_ in ids), containers)


def record(count: int, *repeated: tuple[str, ...]) -> dict[str, Any]:
    rows = [{"resource": "nvidia.com/gpu", "ids": list(ids), "time": "t1"} for ids in repeated]
    return {"allocations": {"count": count, "repeated": rows}}


def row(uuid: str, allocated: int = 0) -> dict[str, Any]:
    return {"uuid": uuid, "allocated": allocated}


# --- when the kubelet is asked ----------------------------------------------------------------------------


async def test_while_no_pod_asks_for_a_gpu_the_kubelet_is_not_asked(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path)
    async with kubelet.agent() as agent:
        for told in (None, {}, record(0)):
            agent.see(told, [row("A")])
        await asyncio.sleep(2 * SHORT["RELEASE_S"])  # nothing may happen

    assert kubelet.asked == 0
    assert agent.held is None


async def test_an_allocate_is_followed_by_one_look_and_a_release_is_found_by_the_slow_tick(
    tmp_path: Path,
) -> None:
    kubelet = Kubelet(tmp_path, pod("a", ("A::0",)), pod("b", ("A::1",), ("B::0",)))
    async with kubelet.agent() as agent:
        agent.see(record(0), [])
        agent.see(record(3), [])
        agent.see(record(3), [])
        await kubelet.until(lambda: agent.held == {"A": 2, "B": 1})
        assert kubelet.asked == 1

        kubelet.holding = []
        await kubelet.until(lambda: agent.held == {})
        assert kubelet.asked == 2
        await asyncio.sleep(2 * SHORT["RELEASE_S"])  # nothing is held: nothing may be asked

    assert kubelet.asked == 2


async def test_a_plugin_that_is_back_may_have_died_with_an_allocate_that_it_did_not_tell(
    tmp_path: Path,
) -> None:
    kubelet = Kubelet(tmp_path)
    registered, gone = {**record(0), "registered": True}, {**record(0), "registered": False}
    async with kubelet.agent() as agent:
        agent.see(registered, [])
        kubelet.holding = [pod("a", ("A::0",))]
        agent.see(gone, [])
        agent.see(registered, [])
        await kubelet.until(lambda: agent.held == {"A": 1})
        assert kubelet.asked == 1


async def test_after_a_restart_what_the_status_says_is_looked_at_again(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path, pod("a", ("A::0",)))
    async with kubelet.agent() as agent:
        agent.see(record(0), [row("A", allocated=1)])
        await kubelet.until(lambda: agent.held == {"A": 1})


async def test_a_kubelet_that_does_not_answer_changes_nothing_and_is_asked_again(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path, pod("a", ("A::0",)))
    async with kubelet.agent() as agent:
        agent.see(record(1), [])
        await kubelet.until(lambda: agent.held is not None)
        kubelet.deaf = True
        await kubelet.until(lambda: kubelet.asked == 3)
        assert agent.held == {"A": 1}
        kubelet.deaf, kubelet.holding = False, []
        await kubelet.until(lambda: agent.held == {})


async def test_after_an_uninstall_nothing_is_asked_or_written(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "gone", pod("a", TWICE))
    async with kubelet.agent() as agent:
        agent.see(record(1, TWICE), [])
        await kubelet.until(lambda: bool(kubelet.told))
        agent.forget()
        asked = kubelet.asked
        await asyncio.sleep(2 * SHORT["RELEASE_S"])  # nothing may happen

    assert kubelet.asked == asked
    assert not (tmp_path / "gone").exists()


# --- one GPU more than once -------------------------------------------------------------------------------


async def test_c17_ii_the_pod_that_got_one_gpu_twice_is_warned_once(tmp_path: Path) -> None:
    kubelet = Kubelet(
        tmp_path, pod("other", ("A::0",)), pod("greedy", TWICE), pod("two", ("A::4",), ("A::5",))
    )
    async with kubelet.agent() as agent:
        agent.see(record(4, TWICE), [])
        await kubelet.until(lambda: bool(kubelet.told))
        agent.see(record(5, TWICE), [])
        await kubelet.until(lambda: kubelet.asked >= 2)
    async with kubelet.agent() as agent:  # a restarted agent
        agent.see(record(5, TWICE), [])
        await kubelet.until(lambda: kubelet.asked >= 4)

    assert kubelet.told == [("Pod", "greedy", SAID)]


async def test_a_pod_that_the_kubelet_does_not_list_yet_is_waited_for(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path)
    async with kubelet.agent() as agent:
        agent.see(record(1, TWICE), [])
        await kubelet.until(lambda: kubelet.asked == 2)
        kubelet.holding = [pod("greedy", TWICE)]
        await kubelet.until(lambda: bool(kubelet.told))

    assert kubelet.told == [("Pod", "greedy", SAID)]


async def test_a_pod_that_has_ended_is_told_of_on_the_node(tmp_path: Path) -> None:
    # Other containers hold the two shares now: it was none of them.
    kubelet = Kubelet(tmp_path, pod("two", ("A::2",), ("A::3",)))
    async with kubelet.agent() as agent:
        agent.see(record(1, TWICE), [])
        await kubelet.until(lambda: bool(kubelet.told))

    assert kubelet.told == [("Node", "n1", f"a pod that has ended {SAID}")]


@pytest.mark.parametrize(
    ("ids", "got"),
    [
        pytest.param(TWICE, "asked for 2 nvidia.com/gpu and got one GPU twice;", id="twice"),
        pytest.param((*TWICE, "A::0"), "asked for 3 nvidia.com/gpu and got one GPU 3 times;", id="3 times"),
        pytest.param((*TWICE, "B::0"), "asked for 3 nvidia.com/gpu and got 2 GPUs, not 3;", id="and another"),
    ],
)
def test_what_was_got_is_said_in_words(ids: tuple[str, ...], got: str) -> None:
    assert repeated_gpu("nvidia.com/gpu", ids).startswith(got)


# --- the status -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "allocated"),
    [
        pytest.param(None, [2, 0], id="not asked: what was told stays"),
        pytest.param({"GPU-1": 1}, [0, 1], id="as the kubelet says"),
        pytest.param({}, [0, 0], id="all released"),
    ],
)
def test_the_status_counts_what_pods_hold(held: dict[str, int] | None, allocated: list[int]) -> None:
    recorded = {"devices": [device_row(0), device_row(1)]}
    view = View("n1", "boot-1", DriverFacts(), record=recorded, held=held)

    rows = report.devices_of(view, [row("GPU-0", allocated=2)])

    assert [found.get("allocated", 0) for found in rows] == allocated
