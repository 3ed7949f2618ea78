"""How a GPU's memory and time are shared out among pods."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operands.exporter.gpus import gpu, held, mig_gpu

from gpuready.gpu.telemetry.model import ProcessUse
from gpuready.operands.exporter.attribution import Attribution, attribute
from gpuready.operands.exporter.usage import pod_uid_of, shared_out

UID = "0a1b2c3d-1111-2222-3333-444455556666"
WHOLE = ("GPU-0", None)
PODS = {1: ("team", "a"), 2: ("team", "b"), 3: ("team", "a")}
TWO = attribute([held("a", "GPU-0::0"), held("b", "GPU-0::1")], [gpu()])


def process(pid: int, uuid: str = "GPU-0", instance: int | None = None) -> ProcessUse:
    return ProcessUse(uuid, instance, pid, None)


@pytest.mark.parametrize(
    ("cgroup", "uid"),
    [
        pytest.param(f"0::/kubepods/burstable/pod{UID}/abc", UID, id="cgroupfs"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-abc.scope",
            UID,
            id="systemd",
        ),
        pytest.param(f"12:memory:/kubepods/pod{UID}/abc\n1:name=systemd:/x", UID, id="version 1"),
        pytest.param(f"0::/kubepods/pod{'a' * 32}/abc", "a" * 32, id="a static pod"),
        pytest.param(f"0::/kubelet/kubepods/pod{UID}", UID, id="below a cgroup root"),
        pytest.param("0::/user.slice/session-1.scope", "", id="a login"),
        pytest.param("", "", id="a process that has ended"),
    ],
)
def test_a_process_belongs_to_the_pod_in_its_cgroup(cgroup: str, uid: str) -> None:
    assert pod_uid_of(cgroup) == uid


def test_each_pod_gets_the_sum_of_its_processes_and_nobody_the_rest():
    amounts = [(process(1), 10.0), (process(3), 5.0), (process(2), 20.0), (process(99), 7.0)]

    use = shared_out(amounts, PODS, TWO, {WHOLE: 50.0})

    assert [(row.pod, row.container, row.amount) for row in use.by_pod] == [
        ("a", "main", 15),
        ("b", "main", 20),
    ]
    assert use.remainder == {WHOLE: 15.0}


def test_a_pod_without_a_process_uses_nothing():
    use = shared_out([(process(1), 10.0)], PODS, TWO, {WHOLE: 50.0})

    assert [(row.pod, row.amount) for row in use.by_pod] == [("a", 10), ("b", 0)]


def test_a_pod_that_uses_what_it_does_not_hold_is_named():
    use = shared_out([(process(2), 10.0)], PODS, Attribution(), {WHOLE: 50.0})

    assert [(row.pod, row.container, row.amount) for row in use.by_pod] == [("b", "", 10)]


def test_of_a_pod_with_a_process_that_nothing_is_known_of_nothing_is_told():
    use = shared_out([(process(1), 10.0), (process(3), None), (process(2), 5.0)], PODS, TWO, {WHOLE: 50.0})

    assert [row.pod for row in use.by_pod] == ["b"]


def test_without_the_devices_own_value_there_is_no_rest():
    use = shared_out([(process(1), 10.0)], PODS, TWO, {})

    assert [(row.pod, row.amount) for row in use.by_pod] == [("a", 10)]
    assert use.remainder == {}


def test_instances_are_counted_apart():
    device = mig_gpu(0, gi1="1g.10gb", gi2="1g.10gb")
    found = attribute([held("a", "MIG-0-1"), held("b", "MIG-0-2")], [device])
    amounts = [(process(1, instance=1), 3.0), (process(2, instance=2), 4.0)]

    use = shared_out(amounts, PODS, found, {("GPU-0", 1): 10.0, ("GPU-0", 2): 10.0})

    assert [(row.key, row.pod, row.amount) for row in use.by_pod] == [
        (("GPU-0", 1), "a", 3),
        (("GPU-0", 2), "b", 4),
    ]
    assert use.remainder == {("GPU-0", 1): 7.0, ("GPU-0", 2): 6.0}


# Bytes or per cent: what is too small for a float's full precision is rounded as no relative bound allows.
AMOUNTS = st.floats(0, 1e12, allow_subnormal=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, 2, 3, 99]), AMOUNTS), max_size=6), AMOUNTS)
def test_pods_and_the_rest_together_are_never_more_than_the_device(amounts, value) -> None:
    use = shared_out([(process(pid), amount) for pid, amount in amounts], PODS, TWO, {WHOLE: value})

    total = sum(row.amount for row in use.by_pod)
    assert total <= value * (1 + 1e-9)
    assert total + use.remainder[WHOLE] <= value * (1 + 1e-9)
    assert all(row.amount >= 0 for row in use.by_pod)
