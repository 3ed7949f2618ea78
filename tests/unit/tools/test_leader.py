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
from gpuready.tools.snapshot import Snapshot, find_operator
from gpuready.tools.status.command import JsonScreen, PlainScreen, text_of


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
    assert why_nobody_works(Snapshot(lease=found, taken_at=NOW)) == told


STALE = replace(cluster(node("cpu-1")), lease=lease("evil", "2026-01-01T00:50:00Z"))


def test_a_renewal_that_lies_hours_ahead_tells_nothing_of_now() -> None:
    """Whose clock was wrong may have ended long ago, and its Lease would look fresh until then."""
    seen = Snapshot(lease=lease(renewed="2999-01-01T00:00:00Z"), taken_at=NOW)

    told = why_nobody_works(seen)

    assert told.startswith(
        "whether an operator works cannot be told: the Lease gpus/53822513.nvidia.com is held"
    )
    assert told.endswith("d from now by its holder's clock, 2999-01-01T00:00:00Z")


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


PLACE = {"namespace": "gpus", "gone": False, "deployments": []}
STARTING = {**PLACE, "deployments": [{"namespace": "gpus", "name": "gpuready-operator", "ready": 0}]}


@pytest.mark.parametrize(
    ("place", "why", "step"),
    [
        pytest.param(None, "", "", id="nothing was looked at"),
        pytest.param(PLACE, "", "", id="beside the cluster, if at all"),
        pytest.param(
            {**STARTING, "deployments": [{**STARTING["deployments"][0], "ready": 1}]},
            "",
            "",
            id="about to elect, or told not to",
        ),
        pytest.param(
            STARTING,
            "no pod of its Deployment gpus/gpuready-operator is ready, and there is no Lease",
            "kubectl get pods -n gpus",
            id="its pods do not come up",
        ),
        pytest.param(
            {**PLACE, "gone": True},
            "the namespace gpus, from where it answered the policy, is gone",
            "install the operator again",
            id="its namespace was deleted",
        ),
    ],
)
def test_without_a_lease_nobody_works_where_nobody_could(place: Any, why: str, step: str) -> None:
    seen = replace(cluster(node("cpu-1")), place=place)

    lines = text.report_text(
        report_of(Snapshot.from_json(json.loads(json.dumps(seen.to_json()))))
    ).splitlines()

    told = text_of(seen, "table").splitlines()[0]
    assert (f"no operator is working: {why}" in told) == bool(why)
    assert (f"FAIL  cluster  no operator is working: {why}" in lines[0]) == bool(why)
    if why:
        assert f"; next: {step}" in told or f"({step})" in told
        assert step in lines[1]


def test_who_watches_is_told_once_that_nobody_works_and_once_that_somebody_does_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    works = replace(STALE, lease=lease())
    plain, as_json = PlainScreen(), JsonScreen()
    for seen in (works, works, STALE, replace(STALE, taken_at="2026-01-01T01:10:00Z"), works):
        plain.show(seen)
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert lines[0].startswith("no operator is working: the Lease gpus/")
    assert lines[1] == "an operator is working again"

    for seen in (works, STALE, replace(STALE, taken_at="2026-01-01T01:10:00Z"), works):
        as_json.show(seen)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["operator" in row for row in rows] == [False, True, False]


class Server:
    """One list a kind; an error instead is raised."""

    def __init__(self, **lists: Any) -> None:
        self.lists, self.asked = lists, []  # type: ignore[var-annotated]

    async def list(self, resource: Any, namespace: str | None = None, **selectors: str) -> Any:
        self.asked.append(f"{resource.plural} {namespace or '*'} {''.join(selectors.values())}")
        found = self.lists.get(resource.plural, [])
        if isinstance(found, Exception):
            raise found
        return found, "1"

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> Any:
        raise error_of(404, {"message": f"{name} not found"})


async def test_one_request_where_the_operator_lives_finds_it() -> None:
    server: Any = Server(leases=[lease()])

    assert await find_operator(server, [policy(), policy(namespace="gpus")]) == (lease(), None, "")
    assert server.asked == [f"leases gpus metadata.name={names.LEADER_LEASE}"]


async def test_where_nobody_has_answered_a_policy_it_is_looked_for_everywhere() -> None:
    older = lease(renewed="2025-01-01T00:00:00Z")
    server: Any = Server(leases=[older, lease()])

    assert await find_operator(server, []) == (lease(), None, "")
    assert server.asked == [f"leases * metadata.name={names.LEADER_LEASE}"]


async def test_without_a_lease_the_charts_deployment_and_the_namespace_are_looked_at() -> None:
    made = {"metadata": {"namespace": "gpus", "name": "gpuready-operator"}, "status": {"replicas": 1}}

    found = await find_operator(Server(deployments=[made]), [policy(namespace="gpus")])  # type: ignore[arg-type]
    gone = await find_operator(Server(), [policy(namespace="gpus")])  # type: ignore[arg-type]

    assert found == (None, STARTING, "")
    assert gone == (None, {**PLACE, "gone": True}, "")


@pytest.mark.parametrize("kind", ["leases", "deployments"])
async def test_without_the_right_to_read_it_doctor_says_that_it_was_not_looked_at(kind: str) -> None:
    server: Any = Server(**{kind: error_of(403, {"message": f"{kind} is forbidden"})})

    found, place, unseen = await find_operator(server, [policy(namespace="gpus")])

    assert (found, place) == (None, None)
    report = report_of(replace(cluster(node("cpu-1")), lease_unseen=unseen))
    assert not report.findings
    assert f"-     whether an operator works was not looked at: {kind} is forbidden" in text.report_text(
        report
    )
