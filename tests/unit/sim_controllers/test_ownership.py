"""What the garbage collector does with an object, by what became of its owners."""

from __future__ import annotations

import pytest

from gpuready_sim.client import PODS
from gpuready_sim.controllers.garbage.graph import Action, Graph, Item, Owner, blocks, judge


def item(*owner_uids: str, uid: str = "me", deleting: bool = False, block: bool = True) -> Item:
    owners = tuple({"uid": u, "blockOwnerDeletion": block} for u in owner_uids)
    return Item(uid=uid, resource=PODS, namespace="ns", name=uid, owners=owners, deleting=deleting)


@pytest.mark.parametrize(
    ("owners", "dependents", "expected"),
    [
        pytest.param([], False, Action.KEEP, id="nobody owns it"),
        pytest.param([Owner.SOLID], False, Action.KEEP, id="its owner is there"),
        pytest.param([Owner.ABSENT], False, Action.DELETE, id="its owner is gone"),
        pytest.param([Owner.ABSENT, Owner.SOLID], False, Action.STRIP, id="one of two is gone"),
        pytest.param([Owner.WAITING], False, Action.DELETE, id="its owner waits for it"),
        pytest.param([Owner.WAITING], True, Action.DELETE_FOREGROUND, id="and others wait below it"),
        pytest.param([Owner.UNKNOWN], False, Action.KEEP, id="a kind that is not served"),
        pytest.param([Owner.UNKNOWN, Owner.ABSENT], False, Action.KEEP, id="any doubt keeps it"),
    ],
)
def test_the_fate_of_an_object_follows_its_owners(owners, dependents, expected):
    one = item(*(f"o{i}" for i in range(len(owners))))

    assert judge(one, owners, has_dependents=dependents) is expected


def test_an_object_that_is_being_deleted_is_left_alone():
    assert judge(item("o", deleting=True), [Owner.ABSENT], has_dependents=False) is Action.KEEP


def test_the_graph_forgets_references_that_were_removed():
    graph = Graph()
    graph.put(item("a", "b"))
    graph.put(item("b"))

    assert graph.dependents("a") == []
    assert [d.uid for d in graph.dependents("b")] == ["me"]
    graph.remove("me")
    assert graph.dependents("b") == []


def test_only_references_that_say_so_hold_up_a_foreground_deletion():
    assert blocks(item("a"), "a")
    assert not blocks(item("a", block=False), "a")
