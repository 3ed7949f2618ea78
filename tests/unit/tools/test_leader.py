"""Whether an operator works: what status and doctor say of the Lease."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tools.cluster import NOW, cluster, node, policy

from gpuready import names
from gpuready.kube.errors import error_of
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.leader import why_nobody_works
from gpuready.tools.snapshot import Snapshot, find_lease
from gpuready.tools.status.command import text_of


def lease(
    holder: str = "gpuready-1", renewed: str = "2026-01-01T00:59:58.000000Z", duration_s: int = 15
) -> Any:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration_s}
    return {"metadata": {"name": names.LEADER_LEASE, "namespace": "gpus"}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(None, "", id="no Lease: an operator may work without one"),
        pytest.param(lease(), "", id="renewed two seconds ago"),
        pytest.param(lease(renewed="2026-01-01T01:05:00Z"), "", id="renewed by a clock that is ahead"),
        pytest.param(
            lease(renewed="2026-01-01T00:20:00.000000Z"),
            "held by gpuready-1 and was last renewed 40 min ago",
            id="not renewed",
        ),
        pytest.param(
            lease("evil", "2026-01-01T00:50:00.000000Z", 2**31 - 1),
            "held by evil and was last renewed 10 min ago",
            id="a promise that no operator makes",
        ),
        pytest.param(lease("evil", "", 15), "held by evil and was never renewed", id="made by hand"),
        pytest.param(
            lease("", "2026-01-01T00:58:30Z", 1),
            "held by nobody and was last renewed 90 s ago",
            id="given back",
        ),
    ],
)
def test_nobody_works_when_the_lease_is_not_renewed(found: Any, why: str) -> None:
    told = f"no operator is working: the Lease gpus/{names.LEADER_LEASE} is {why}" if why else ""
    assert why_nobody_works(found, NOW) == told


STALE = replace(cluster(node("cpu-1")), lease=lease("evil", "2026-01-01T00:50:00Z"))


def test_status_says_it_before_the_policys_own_word() -> None:
    first, second = text_of(STALE, "table").splitlines()[:2]

    assert first.startswith("no operator is working: the Lease gpus/53822513.nvidia.com is held by evil")
    assert "; next: see that the operator's pods run (kubectl get pods -n gpus)" in first
    assert second == "policy cluster-policy: ready"
    assert json.loads(text_of(STALE, "json"))["operator"].startswith("no operator is working")
    assert "operator" not in json.loads(text_of(replace(STALE, lease=lease()), "json"))


def test_doctor_finds_it_also_in_a_bundle() -> None:
    for seen in (STALE, Snapshot.from_json(json.loads(json.dumps(STALE.to_json())))):
        lines = text.report_text(report_of(seen)).splitlines()
        assert lines[0].startswith("FAIL  cluster  no operator is working: the Lease gpus/")
        assert lines[1].startswith("      next  see that the operator's pods run")


class Leases:
    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, []  # type: ignore[var-annotated]

    async def get(self, resource: Any, name: str, namespace: str) -> Any:
        self.asked.append(f"{resource.plural} {namespace}/{name}")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_one_request_where_the_operator_lives_finds_it() -> None:
    server: Any = Leases(lease())

    assert await find_lease(server, [policy(), policy(namespace="gpus")]) == (lease(), "")
    assert server.asked == [f"leases gpus/{names.LEADER_LEASE}"]


async def test_without_the_right_to_read_it_doctor_says_that_it_was_not_looked_at() -> None:
    server: Any = Leases(error_of(403, {"message": "leases is forbidden"}))

    found, unseen = await find_lease(server, [policy(namespace="gpus")])

    assert found is None
    report = report_of(replace(cluster(node("cpu-1")), lease_unseen=unseen))
    assert not report.findings
    assert "-     whether an operator works was not looked at: leases is forbidden" in text.report_text(
        report
    )
