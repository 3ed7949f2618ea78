"""Which pod's name stands where."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operands.exporter.gpus import claimed, gpu, held, mig_gpu

from gpuready.gpu.telemetry.model import Entity
from gpuready.node.kubelet.pod_resources import Held
from gpuready.operands.exporter.attribution import (
    AMBIGUOUS_CLAIM,
    UNKNOWN_ID,
    Attribution,
    PodNames,
    attribute,
    may_be_gpu,
    view_of,
)
from gpuready.operands.exporter.settings import EXCLUSIVE, FIRST, NONE, POD_VIEWS, VIRTUAL_GPUS

MIXED = [gpu(0), mig_gpu(1, gi1="1g.10gb", gi2="3g.40gb"), mig_gpu(2, gi1="1g.10gb+me", gi2="1g.10gb")]
WHOLE = Entity(MIXED[0])


def rows(attribution: Attribution) -> list[tuple[str, str, int | None, str, str]]:
    return [(a.pod, a.uuid, a.key[1], a.replica, a.sharing) for a in attribution.allocations]


@pytest.mark.parametrize(
    ("each", "wanted"),
    [
        pytest.param(held("a", "GPU-0"), ("a", "GPU-0", None, "", "exclusive"), id="a whole GPU"),
        pytest.param(held("a", "GPU-0::3"), ("a", "GPU-0", None, "3", "shared"), id="a share"),
        pytest.param(
            held("a", "GPU-0::3", resource="nvidia.com/gpu.shared"),
            ("a", "GPU-0", None, "3", "shared"),
            id="a share under another name",
        ),
        pytest.param(
            held("a", "GPU-0", resource="example.com/big-gpu"),
            ("a", "GPU-0", None, "", "exclusive"),
            id="a resource of any name whose id is a GPU's",
        ),
        pytest.param(
            held("a", "MIG-1-2", resource="nvidia.com/mig-3g.40gb"),
            ("a", "GPU-1", 2, "", "mig"),
            id="a MIG device",
        ),
        pytest.param(held("a", "MIG-1-2::1"), ("a", "GPU-1", 2, "1", "shared"), id="a share of one"),
        pytest.param(held("a", "nvidia0"), ("a", "GPU-0", None, "", "exclusive"), id="a device name"),
        pytest.param(held("a", "nvidia1/gi2"), ("a", "GPU-1", 2, "", "mig"), id="an instance's device name"),
        pytest.param(held("a", "nvidia1/gi2/vgpu0"), ("a", "GPU-1", 2, "0", "shared"), id="a share of it"),
        pytest.param(claimed("a", "gpu-0"), ("a", "GPU-0", None, "", "dra"), id="a claim"),
        pytest.param(claimed("a", "gpu-1-mig-3g40gb-9-4"), ("a", "GPU-1", 2, "", "dra"), id="a claim of MIG"),
        pytest.param(
            claimed("a", "gpu-2-mig-1g10gb-me-20-0"), ("a", "GPU-2", 1, "", "dra"), id="with media engines"
        ),
    ],
)
def test_every_kind_of_id_leads_to_its_gpu(each: Held, wanted) -> None:
    found = attribute([each], MIXED)

    assert rows(found) == [wanted]
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        pytest.param(held("a", "GPU-gone"), UNKNOWN_ID, id="a GPU that is not here"),
        pytest.param(held("a", "MIG-gone::2"), UNKNOWN_ID, id="an instance that was removed"),
        pytest.param(held("a", "nvidia7"), UNKNOWN_ID, id="a minor number that is not here"),
        pytest.param(held("a", "nvidia1/gi9"), UNKNOWN_ID, id="an instance that is not here"),
        pytest.param(claimed("a", "gpu-7"), UNKNOWN_ID, id="a claim of a GPU that is not here"),
        pytest.param(claimed("a", "channel-0"), UNKNOWN_ID, id="a claim of something else"),
    ],
)
def test_what_names_no_gpu_is_told_with_its_reason(each: Held, reason: str) -> None:
    found = attribute([each], MIXED)

    assert found.allocations == ()
    assert [unknown.reason for unknown in found.unknown] == [reason]


def test_a_claim_that_may_mean_two_instances_names_none():
    twins = [mig_gpu(0, gi1="1g.10gb", gi2="1g.10gb")]

    [unknown] = attribute([claimed("a", "gpu-0-mig-1g10gb-19-0")], twins).unknown

    assert unknown.reason == AMBIGUOUS_CLAIM


def test_a_claim_names_the_instance_at_its_place_among_those_of_one_profile():
    twins = mig_gpu(0, gi1="1g.10gb", gi2="1g.10gb")
    first, second = (replace(each, start=start) for each, start in zip(twins.instances, (0, 4), strict=True))
    placed = [replace(twins, instances=(first, second))]
    claims = [claimed("a", "gpu-0-mig-1g10gb-19-4"), claimed("b", "gpu-0-mig-1g10gb-19-0")]

    found = attribute([*claims, claimed("c", "gpu-0-mig-1g10gb-19-6")], placed)

    assert rows(found) == [("a", "GPU-0", 2, "", "dra"), ("b", "GPU-0", 1, "", "dra")]
    assert [(each.holder.pod, each.reason) for each in found.unknown] == [("c", UNKNOWN_ID)]


def test_older_drivers_name_an_instance_by_the_number_of_its_profile_and_its_place():
    cut = mig_gpu(0, gi1="1g.10gb", gi2="2g.20gb")
    first, second = (replace(each, start=start) for each, start in zip(cut.instances, (6, 4), strict=True))
    claims = [claimed("a", "gpu-0-mig-14-4-2"), claimed("b", "gpu-0-mig-19-6-1")]

    found = attribute(claims, [replace(cut, instances=(first, second))])

    assert rows(found) == [("a", "GPU-0", 2, "", "dra"), ("b", "GPU-0", 1, "", "dra")]
    [unknown] = attribute(claims[:1], [cut]).unknown  # nobody told where they lie
    assert unknown.reason == AMBIGUOUS_CLAIM


def test_other_peoples_devices_are_nobodys_business():
    others = [held("a", "net1", resource="example.com/nic"), held("b", resource="cpu")]

    assert attribute(others, MIXED) == Attribution()


def test_a_resource_that_the_user_names_is_remarked_on():
    [unknown] = attribute(
        [held("a", "x", resource="example.com/g")], MIXED, resource_names=["example.com/g"]
    ).unknown

    assert (unknown.resource, unknown.device) == ("example.com/g", "x")


def test_three_pods_on_one_gpu_are_all_named():
    found = attribute([held(name, f"GPU-0::{n}") for n, name in enumerate("cab")], MIXED)

    assert [a.pod for a in found.holders_of(Entity(MIXED[0]))] == ["a", "b", "c"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            held,
            st.sampled_from(["a", "b", 'x"\n']),
            st.sampled_from(["GPU-0", "GPU-0::1", "MIG-1-1", "MIG-1-2::0", "GPU-gone", "nvidia0"]),
            st.sampled_from(["GPU-0::2", "GPU-1"]),
            container=st.sampled_from(["main", "side"]),
        ),
        max_size=6,
    ),
    st.randoms(),
)
def test_the_order_of_the_kubelets_answer_never_shows(answer: list[Held], chance: random.Random) -> None:
    shuffled = [
        Held(each.holder, dict(sorted(each.devices.items(), key=lambda _: chance.random())))
        for each in answer
    ]
    chance.shuffle(shuffled)
    one, other = attribute(answer, MIXED), attribute(shuffled, MIXED)

    assert one == other
    for view in POD_VIEWS:
        for entity in (Entity(MIXED[0]), Entity(MIXED[1], MIXED[1].instances[0])):
            told = [view_of(each.holders_of(entity), view, PodNames()) for each in (one, other)]
            assert told[0] == told[1]


def labels(view: str, *held_by: Held, entity: Entity = WHOLE) -> list[dict[str, str]]:
    found = attribute(held_by, MIXED)
    return [dict(pairs) for pairs in view_of(found.holders_of(entity), view, PodNames())]


A = {"pod": "a", "namespace": "team", "container": "main"}


@pytest.mark.parametrize(
    ("view", "held_by", "wanted"),
    [
        pytest.param(EXCLUSIVE, [], [{}], id="nobody"),
        pytest.param(EXCLUSIVE, [held("a", "GPU-0")], [A], id="one pod"),
        pytest.param(EXCLUSIVE, [held("a", "GPU-0::0")], [A], id="one pod on a shared GPU"),
        pytest.param(EXCLUSIVE, [held("a", "GPU-0::0"), held("b", "GPU-0::1")], [{}], id="two pods"),
        pytest.param(
            EXCLUSIVE,
            [held("a", "GPU-0::0"), held("a", "GPU-0::1", container="side")],
            [{"pod": "a", "namespace": "team"}],
            id="two containers of one pod",
        ),
        pytest.param(EXCLUSIVE, [held("a", "GPU-0::0", "GPU-0::1")], [A], id="two shares in one container"),
        pytest.param(FIRST, [held("b", "GPU-0::0"), held("a", "GPU-0::1")], [A], id="the first by name"),
        pytest.param(NONE, [held("a", "GPU-0")], [{}], id="switched off"),
        pytest.param(
            VIRTUAL_GPUS,
            [held("b", "GPU-0::0"), held("a", "GPU-0::1")],
            [{**A, "vgpu": "1"}, {**A, "pod": "b", "vgpu": "0"}],
            id="a copy for each",
        ),
    ],
)
def test_a_devices_own_series_name_pods_by_one_rule(view, held_by, wanted) -> None:
    assert labels(view, *held_by) == wanted


def test_who_holds_an_instance_does_not_hold_the_gpu_around_it():
    whole, part = Entity(MIXED[1]), Entity(MIXED[1], MIXED[1].instances[0])
    pod = held("a", "MIG-1-1", resource="nvidia.com/mig-1g.10gb")

    assert labels(EXCLUSIVE, pod, entity=whole) == [{}]
    assert labels(EXCLUSIVE, pod, entity=part) == [A]


def test_uid_and_labels_of_a_pod_stand_beside_its_name():
    names = PodNames(extra={("team", "a"): (("pod_uid", "u1"), ("app", "x"))})
    [pairs] = view_of(attribute([held("a", "GPU-0")], MIXED).holders_of(Entity(MIXED[0])), EXCLUSIVE, names)

    assert dict(pairs) == {**A, "pod_uid": "u1", "app": "x"}


@pytest.mark.parametrize(
    ("resource", "id_", "wanted"),
    [
        ("nvidia.com/gpu", "whatever", True),
        ("example.com/big-gpu", "GPU-0::3", True),
        ("example.com/slice", "MIG-1-2", True),
        ("google.com/gpu", "nvidia1/gi2", True),
        ("example.com/listed", "0000", True),
        ("example.com/nic", "eth0", False),
    ],
)
def test_devices_that_can_be_no_gpu_are_not_kept_in_memory(resource, id_, wanted):
    assert may_be_gpu(resource, id_, ["example.com/listed"]) is wanted
