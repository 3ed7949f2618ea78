"""What of Allocate reaches the record, and when."""

from __future__ import annotations

import asyncio

import pytest

from gpuready.errors import AllocationError
from gpuready.gpu.topology.preferred import Topology
from gpuready.operands.device_plugin import ledger
from gpuready.operands.device_plugin.config import Effective
from gpuready.operands.device_plugin.ledger import Ledger, find_repeated
from gpuready.operands.device_plugin.offers import offers_of
from gpuready.operands.device_plugin.resources import Card, resources_of

CARDS = [Card(uuid, index, index, "NVIDIA L4", 23034) for index, uuid in enumerate(("A", "B"))]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_SOON_S", 0.02)


@pytest.mark.parametrize(
    ("ids", "device"),
    [
        pytest.param(["A"], "", id="an exclusive GPU"),
        pytest.param(["A::0", "B::0"], "", id="two GPUs"),
        pytest.param(["A::2", "A::3"], "A", id="one GPU twice"),
        pytest.param(["A::0", "B::1", "B::0"], "B", id="the second of two"),
    ],
)
def test_a_gpu_given_twice_is_seen(ids: list[str], device: str) -> None:
    assert find_repeated(ids) == device


async def test_c17_ii_the_call_notes_and_the_record_is_told_later_and_once_for_a_burst() -> None:
    told = asyncio.Queue[int]()
    book = Ledger(lambda: told.put_nowait(book.to_json()["count"]), now=lambda: 1_700_000_000.0)
    effective = Effective(replicas=4)
    [resource] = resources_of(CARDS, {}, effective)
    offer = offers_of([resource], effective, Topology([], []), {}, book.note)["nvidia.com/gpu"]

    offer.allocate(["A::0"])
    offer.allocate(["A::2", "A::3"])
    with pytest.raises(AllocationError):
        offer.allocate(["C::0"])
    assert told.empty()

    assert await asyncio.wait_for(told.get(), 2) == 2
    repeated = {
        "resource": "nvidia.com/gpu",
        "device": "A",
        "ids": ["A::2", "A::3"],
        "count": 2,
        "time": "2023-11-14T22:13:20.000Z",
    }
    assert book.to_json() == {"count": 2, "repeated": [repeated]}
    await asyncio.sleep(0.05)  # nothing may follow
    assert told.empty()


async def test_a_refused_second_share_is_not_noted() -> None:
    book = Ledger(lambda: None)
    effective = Effective(replicas=4, one_each=True)
    [resource] = resources_of(CARDS, {}, effective)
    offer = offers_of([resource], effective, Topology([], []), {}, book.note)["nvidia.com/gpu"]

    with pytest.raises(AllocationError):
        offer.allocate(["A::2", "A::3"])

    assert book.to_json() == {"count": 0, "repeated": []}


async def test_a_ledger_goes_on_where_the_last_process_stopped_keeps_few_and_is_silent_at_the_end() -> None:
    told: list[str] = []
    book = Ledger(lambda: told.append("told"))
    book.remember({"count": 40, "repeated": [{"ids": ["A::0", "A::1"]}]})
    for _ in range(20):
        book.note("nvidia.com/gpu", ["B::0", "B::1"])
    book.close()
    book.note("nvidia.com/gpu", ["A::0"])
    await asyncio.sleep(0.05)  # nothing may follow

    assert (book.to_json()["count"], len(book.to_json()["repeated"])) == (61, 16)
    assert told == []
