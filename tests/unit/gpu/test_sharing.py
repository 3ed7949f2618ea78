"""Ids of shared devices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.errors import PolicyError
from gpuready.gpu.sharing import device_of, expand, is_replica, replica_of


def test_ids_are_grouped_by_device() -> None:
    assert expand(["GPU-a", "GPU-b"], 2) == ["GPU-a::0", "GPU-a::1", "GPU-b::0", "GPU-b::1"]


@given(st.lists(st.uuids().map(lambda u: f"GPU-{u}"), unique=True), st.integers(2, 20))
def test_every_id_leads_back_to_its_device(uuids: list[str], replicas: int) -> None:
    ids = expand(uuids, replicas)

    assert len(set(ids)) == len(uuids) * replicas
    assert [device_of(i) for i in ids] == [uuid for uuid in uuids for _ in range(replicas)]
    assert all(is_replica(i) and 0 <= replica_of(i) < replicas for i in ids)


def test_a_plain_uuid_is_no_share() -> None:
    assert (device_of("GPU-a"), replica_of("GPU-a"), is_replica("GPU-a")) == ("GPU-a", -1, False)


@pytest.mark.parametrize("replicas", [1, 0, -3])
def test_one_share_is_no_sharing(replicas: int) -> None:
    with pytest.raises(PolicyError, match="at least 2"):
        expand(["GPU-a"], replicas)
