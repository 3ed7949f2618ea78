"""The kubelet's pure decisions: restarts, phases, admission, probes' verdicts, quantities."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpuready_sim.kubelet import admission, pod_status
from gpuready_sim.kubelet.backoff import RestartBackoff
from gpuready_sim.kubelet.pod_status import Record, waiting
from gpuready_sim.kubelet.probes import Rules, Tally
from gpuready_sim.kubelet.quantities import is_extended_resource_name, limits_of, parse_quantity, pod_requests

from .pods import container, pod

RUNNING: dict[str, Any] = {"running": {"startedAt": "2027-01-01T00:00:00Z"}}


def ended(code: int = 0) -> dict[str, Any]:
    return {"terminated": {"exitCode": code}}


def test_the_back_off_doubles_to_its_end_and_is_forgotten_after_a_long_run() -> None:
    backoff = RestartBackoff(base_s=10, max_s=300, reset_s=600)
    assert [backoff.after_run(1) for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert [backoff.after_run(s) for s in (600, 1)] == [0, 10]


@pytest.mark.parametrize(
    ("policy", "records", "phase"),
    [
        pytest.param("Always", [Record("a", "i", state=waiting("X"))], "Pending", id="nothing ran yet"),
        pytest.param("Always", [Record("a", "i", state=RUNNING)], "Running", id="all run"),
        pytest.param(
            "Always",
            [Record("a", "i", state=RUNNING), Record("b", "i", state=waiting("CreateContainerError"))],
            "Pending",
            id="one never started",
        ),
        pytest.param(
            "Always",
            [Record("a", "i", state=waiting("CrashLoopBackOff"), last_state=ended(1))],
            "Running",
            id="one backs off",
        ),
        pytest.param("Always", [Record("a", "i", state=ended())], "Running", id="ended, will start again"),
        pytest.param("OnFailure", [Record("a", "i", state=ended())], "Succeeded", id="done"),
        pytest.param("OnFailure", [Record("a", "i", state=ended(1))], "Running", id="failed, again"),
        pytest.param("Never", [Record("a", "i", state=ended(1))], "Failed", id="failed for good"),
        pytest.param(
            "Never",
            [Record("a", "i", state=ended(1)), Record("b", "i", state=RUNNING)],
            "Running",
            id="one left",
        ),
        pytest.param(
            "Never",
            [Record("i", "i", init=True, state=ended(1)), Record("a", "i", state=waiting("PodInitializing"))],
            "Failed",
            id="an init container failed for good",
        ),
        pytest.param(
            "Always",
            [Record("i", "i", init=True, state=RUNNING), Record("a", "i", state=waiting("PodInitializing"))],
            "Pending",
            id="an init container runs",
        ),
    ],
)
def test_the_phase_follows_from_the_containers(policy: str, records: list[Record], phase: str) -> None:
    assert pod_status.phase(pod(restartPolicy=policy), records) == phase


def test_conditions_keep_their_time_until_they_change() -> None:
    record = Record("main", "i", state=RUNNING)

    def status(now: str, previous: list[dict[str, Any]]) -> dict[str, Any]:
        built = pod_status.build(pod(), [record], address="", start_time="", now=now, previous=previous)
        return {c["type"]: c for c in built["conditions"]}

    first = status("t1", [])
    assert (first["Ready"]["status"], first["Ready"]["reason"]) == ("False", "ContainersNotReady")
    record.ready = True
    second = status("t2", list(first.values()))
    assert (second["Ready"]["status"], second["Ready"]["lastTransitionTime"]) == ("True", "t2")
    assert second["Initialized"]["lastTransitionTime"] == "t1"


def test_a_readiness_gate_holds_back_ready_but_not_containers_ready() -> None:
    record = Record("main", "i", state=RUNNING, ready=True)
    gated = pod(readinessGates=[{"conditionType": "x/ok"}])
    built = pod_status.build(gated, [record], address="", start_time="", now="t", previous=[])
    assert {c["type"]: c["status"] for c in built["conditions"]}["Ready"] == "False"
    met = [{"type": "x/ok", "status": "True"}]
    built = pod_status.build(gated, [record], address="", start_time="", now="t", previous=met)
    assert {c["type"]: c["status"] for c in built["conditions"]}["Ready"] == "True"


def test_a_pod_must_fit_beside_the_others() -> None:
    others = [pod(gpus=1)]
    node = {"nvidia.com/gpu": "1", "cpu": "4", "pods": "110"}
    rejection = admission.judge(pod(gpus=1), others, node, {})
    assert rejection == admission.Rejection(
        "OutOfnvidia.com/gpu",
        "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1",
    )
    assert admission.judge(pod(gpus=1), [], node, {}) is None
    assert admission.judge(pod(gpus=1), [], {"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": 1}) is None
    unknown = pod(containers=[container(limits={"example.com/nic": 1})])
    assert admission.judge(unknown, [], node, {}) is None
    cpu = pod(containers=[container(limits={"cpu": "4500m"})])
    assert "requested: 4500, used: 0, capacity: 4000" in str(admission.judge(cpu, [], node, {}))


def test_a_probe_needs_enough_answers_in_a_row() -> None:
    tally = Tally(Rules(0, 1, 1, successes=2, failures=3))
    answers = [True, True, False, False, True, False, False, False]
    assert [tally.take(ok) for ok in answers] == [None, True, None, None, None, None, None, False]


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", "0.5"), ("2Gi", "2147483648"), (8, "8"), ("1e3", "1000"), ("1.5k", "1500"), ("64", "64")],
)
def test_quantities(text: object, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


def test_amounts_of_a_pod_are_the_sum_but_at_least_the_largest_init_container() -> None:
    made = pod(containers=[container("a", gpus=1), container("b", gpus=2)], init=[container("i", gpus=4)])
    assert pod_requests(made)["nvidia.com/gpu"] == 4
    assert limits_of(container(gpus=3)) == {"nvidia.com/gpu": 3}


def test_a_sidecar_counts_beside_the_containers_and_beside_each_init_container_after_it() -> None:
    beside = {**container("beside", gpus=1), "restartPolicy": "Always"}
    for init, amount in (
        ([beside], 3),
        ([beside, container("after", gpus=4)], 5),
        ([container("before", gpus=4), beside], 4),
    ):
        made = pod(containers=[container(gpus=2)], init=init)
        assert pod_requests(made)["nvidia.com/gpu"] == amount


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.10gb", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("x.kubernetes.io/gpu", False),
        ("requests.nvidia.com/gpu", False),
        ("nvidia.com/", False),
        ("Nvidia.com/gpu", False),
        (f"nvidia.com/{'g' * 64}", False),
    ],
)
def test_extended_resource_names(name: str, fine: bool) -> None:
    assert is_extended_resource_name(name) is fine


def test_a_patch_of_the_status_takes_back_what_conditions_no_longer_say() -> None:
    record = Record("main", "i", state=RUNNING, ready=True)
    built = pod_status.build(pod(), [record], address="", start_time="", now="t", previous=[])
    patched = {c["type"]: c for c in pod_status.replacing(built)["conditions"]}
    assert patched["Ready"]["status"] == "True"
    assert (patched["Ready"]["reason"], patched["Ready"]["message"]) == (None, None)
    record.ready = False
    built = pod_status.build(pod(), [record], address="", start_time="", now="t", previous=[])
    patched = {c["type"]: c for c in pod_status.replacing(built)["conditions"]}
    assert patched["Ready"]["reason"] == "ContainersNotReady"
