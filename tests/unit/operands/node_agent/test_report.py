"""What is told to the cluster, as tables: Events, patches, settings, labels under sharing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operands.node_agent.machine import device_row, inventory

from gpuready.chain.driver import DriverFacts, Owner
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.errors import UsageError
from gpuready.gpu.inventory import Failure
from gpuready.gpu.tree import Tree
from gpuready.log import get_logger
from gpuready.node.desired import Desired
from gpuready.operands.node_agent import feature_labels, report
from gpuready.operands.node_agent.decision import Judgement, View
from gpuready.operands.node_agent.events import Draft, events_between
from gpuready.operands.node_agent.holders import Holding, find_uid
from gpuready.operands.node_agent.reporter import Reporter
from gpuready.operands.node_agent.settings import LabelSource, Settings
from gpuready.operands.node_agent.wishes import Wishes


def row(state: str, reason: str = "Some", link: str = "driver") -> dict[str, Any]:
    return {"link": link, "state": state, "reason": reason, "message": "said"}


def device(
    health: str = "Healthy", xid: int = 0, time: str = "t1", action: str = "CheckApplication"
) -> dict[str, Any]:
    found: dict[str, Any] = {"uuid": "GPU-0", "index": 0, "health": health}
    if xid:
        found["lastXid"] = {"code": xid, "time": time, "action": action}
    return found


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        pytest.param([], [row("waiting")], [], id="a node that comes up says nothing"),
        pytest.param([row("waiting")], [row("ok")], ["Normal"], id="whole at last"),
        pytest.param([row("ok")], [row("broken", "Mismatch")], ["Warning"], id="broken"),
        pytest.param([row("broken", "Mismatch")], [row("broken", "Mismatch")], [], id="still broken"),
        pytest.param(
            [row("broken", "Mismatch")], [row("broken", "Timeout")], ["Warning"], id="broken otherwise"
        ),
        pytest.param([row("broken")], [row("ok", "Fine")], ["Normal"], id="repaired"),
        pytest.param([row("ok")], [row("degraded", "GpuMissing")], ["Warning"], id="degraded"),
        pytest.param([row("ok")], [row("waiting", "Paused")], [], id="waiting is no event"),
    ],
)
def test_a_verdict_that_changes_is_an_event(before: list[Any], after: list[Any], events: list[str]) -> None:
    drafts = events_between({"chain": before}, {"chain": after})

    assert [draft.type for draft in drafts] == events


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        pytest.param([device()], [device("Unhealthy", 109)], ["GpuUnhealthy"], id="fell ill"),
        pytest.param([device("Unhealthy", 109)], [device("Unhealthy", 109)], [], id="still ill"),
        pytest.param([device("Unhealthy", 109)], [device("Healthy", 109)], ["GpuRecovered"], id="recovered"),
        pytest.param([device()], [device("Healthy", 31)], ["GpuXid"], id="an application's XID"),
        pytest.param([device("Healthy", 31)], [device("Healthy", 31, "t2")], ["GpuXid"], id="once more"),
        pytest.param([], [device("Healthy")], [], id="a new device"),
    ],
)
def test_a_device_that_changes_is_an_event(before: list[Any], after: list[Any], reasons: list[str]) -> None:
    drafts = events_between({"devices": before}, {"devices": after})

    assert [draft.reason for draft in drafts] == reasons


def test_a_gpu_that_was_ill_between_two_reports_is_told_of_all_the_same() -> None:
    passed = device("Healthy", 999, action="Observe")

    (draft,) = events_between({"devices": [device()]}, {"devices": [passed]})

    assert (draft.type, draft.reason, draft.on_node) == ("Warning", "GpuUnhealthy", True)
    assert "GPU 0 (GPU-0): unhealthy for a moment: XID 999: unknown XID; next: " in draft.message


def test_gpus_that_change_together_make_one_event() -> None:
    rows = [{**device(), "uuid": f"GPU-{index}", "index": index} for index in range(3)]
    ill = [{**row, "health": "Unhealthy", "reason": "two driver versions"} for row in rows]

    (draft,) = events_between({"devices": rows}, {"devices": ill})

    assert draft.message == "GPUs 0, 1, 2: unhealthy: two driver versions"
    assert draft.devices == ("GPU-0", "GPU-1", "GPU-2")


class Spoken:
    """Stands in for the recorder and keeps who was told what."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    async def event(self, obj: dict[str, Any], type_: str, reason: str, message: str) -> None:
        self.said.append((f"{obj['kind']}/{obj['metadata']['name']}", reason))


@pytest.mark.parametrize(
    ("draft", "told"),
    [
        pytest.param(
            Draft("Warning", "GpuXid", "…", devices=("GPU-0",), on_node=False),
            ["Pod/train-0"],
            id="only the pod",
        ),
        pytest.param(
            Draft("Warning", "GpuUnhealthy", "…", devices=("GPU-0",)),
            ["Node/n1", "Pod/train-0"],
            id="node and pod",
        ),
        pytest.param(
            Draft("Warning", "GpuXid", "…", devices=("GPU-9",), on_node=False),
            ["Node/n1"],
            id="nobody holds it",
        ),
    ],
)
async def test_the_pods_that_hold_a_gpu_are_told(draft: Draft, told: list[str]) -> None:
    spoken = Spoken()
    holding = [
        Holding("default", "train-0", "u", ("GPU-0::1",)),
        Holding("default", "other", "u", ("GPU-1",)),
    ]

    async def find_holders() -> list[Holding]:
        return holding

    reporter = Reporter(
        None,  # type: ignore[arg-type]  # an Event does not need the client itself
        spoken,  # type: ignore[arg-type]
        find_holders,
        clock=lambda: 0.0,
        now=lambda: "now",
        log=get_logger("test"),
    )
    await reporter._tell(draft, "n1")

    assert [who for who, _ in spoken.said] == told


def test_a_pods_uid_is_read_from_its_log_directory(tmp_path: Path) -> None:
    (tmp_path / "var/log/pods/default_train-0_1234-abcd").mkdir(parents=True)
    (tmp_path / "var/log/pods/default_train-01_ffff").mkdir(parents=True)

    assert find_uid(Tree(tmp_path), "default", "train-0") == "1234-abcd"
    assert find_uid(Tree(tmp_path), "default", "gone") == ""


def test_defaults_that_the_server_adds_are_no_difference() -> None:
    mine = {"gpus": 1, "devices": [{"uuid": "GPU-0", "health": "Healthy"}]}
    served = {
        "gpus": 1,
        "requests": [],
        "uninstalled": False,
        "devices": [{"uuid": "GPU-0", "health": "Healthy", "allocated": 0, "replicas": 1}],
    }

    assert report.status_patch(served, mine) is None
    assert report.status_patch(served, {**mine, "gpus": 2}) == {"gpus": 2} | {
        "devices": mine["devices"],
        "requests": None,
        "uninstalled": None,
    }


SETTINGS = st.builds(
    Settings,
    label_source=st.sampled_from(LabelSource),
    gates_dir=st.just("/run/elsewhere"),
    nvml_deadline_s=st.floats(min_value=0.1, max_value=600),
    settle_s=st.floats(min_value=0.1, max_value=600),
)


@given(SETTINGS)
def test_the_daemon_reads_what_the_manifest_wrote(settings: Settings) -> None:
    assert Settings.from_env(settings.to_env()) == settings


@pytest.mark.parametrize(
    ("name", "text"),
    [("GPUREADY_LABEL_SOURCE", "both"), ("GPUREADY_SETTLE_S", "soon"), ("GPUREADY_NVML_DEADLINE_S", "-1")],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=name):
        Settings.from_env({name: text})


SHARED = {
    "version": "v1",
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 5}]}},
}


def view(
    *, config: dict[str, Any] | None = None, record: dict[str, Any] | None = None, **changes: Any
) -> View:
    wish = Desired("device-plugin", "boot-1", config=config or {"version": "v1"})
    wishes = Wishes(plugin_enabled=True, plugin=wish, feature_labels=True)
    given: dict[str, Any] = {"wishes": wishes, "inventory": inventory(1), "record": record, **changes}
    return View("n1", "boot-1", DriverFacts(), **given)


def test_feature_labels_follow_the_sharing_in_force_not_the_one_asked_for() -> None:
    devices = [{**device_row(0), "replicas": 2}]
    running = {"registered": True, "devices": devices, "resources": [{"name": "nvidia.com/gpu.shared"}]}

    asked = feature_labels.labels_of(view(config=SHARED), {})
    in_force = feature_labels.labels_of(view(config=SHARED, record=running), {})

    assert asked["nvidia.com/gpu.replicas"] == "5"
    assert asked["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB-SHARED"
    assert in_force["nvidia.com/gpu.replicas"] == "2"
    assert in_force["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"


def test_feature_labels_stay_while_the_driver_does_not_answer() -> None:
    ours = {"nvidia.com/gpu.count": "1", "feature.node.kubernetes.io/pci-10de.present": "true"}

    lost = Failure(1, 15, "GpuIsLost", "answered GpuIsLost (15)")
    assert feature_labels.labels_of(view(inventory=None), ours) == {"nvidia.com/gpu.count": "1"}
    assert feature_labels.labels_of(view(inventory=inventory(1, failures=(lost,))), ours) == {
        "nvidia.com/gpu.count": "1"
    }
    assert feature_labels.labels_of(view(wishes=Wishes()), ours) == {}


def test_a_condition_is_no_longer_than_people_and_etcd_take() -> None:
    told = Verdict(Link.DRIVER, State.BROKEN, "Some", "x" * 50_000, (), "")
    row = report.condition_of(Judgement((told,), Owner.NONE, {Link.DRIVER: told}), "now")

    assert len(row["message"]) == 1024
    assert row["message"].endswith("x…")
