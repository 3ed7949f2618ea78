"""What is believed of pods while the kubelet answers, and while it does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.operands.exporter.gpus import GPU_TEMP, gpu, held, sample

from gpuready.gpu.telemetry.model import Absent, Collection, Device, Entity, Sample, Silent
from gpuready.gpu.tree import Tree
from gpuready.log import get_logger
from gpuready.loop_errors import LoopErrors
from gpuready.node.kubelet.pod_resources import Held, PodResourcesUnavailable
from gpuready.operands.exporter import pods
from gpuready.operands.exporter.attribution import Attribution, attribute
from gpuready.operands.exporter.compose import Known, families_of
from gpuready.operands.exporter.exposition import render
from gpuready.operands.exporter.families import Style
from gpuready.operands.exporter.holders import Holders, Holdings
from gpuready.operands.exporter.self_metrics import Counted, own_families

UID = "0a1b2c3d-1111-2222-3333-444455556666"


class Kubelet:
    """Answers what it is told to, in a time that the test sets."""

    def __init__(self) -> None:
        self.answer: list[Held] | Exception = []
        self.now = 100.0
        self.takes_s = 0.25

    async def list(self) -> list[Held]:
        self.now += self.takes_s
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None: ...


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
def holders(kubelet: Kubelet) -> Holders:
    return Holders(Path("/x"), keep_s=60, lister=kubelet, clock=lambda: kubelet.now)


AWAY = PodResourcesUnavailable("the kubelet does not list pod resources", why="Connection refused")


async def test_it_is_known_since_when_a_pod_holds_what_it_holds(kubelet, holders):
    kubelet.answer = [held("a", "GPU-0")]
    await holders.ask()
    kubelet.now = 500
    kubelet.answer = [held("a", "GPU-0"), held("b", "GPU-1")]
    await holders.ask()

    assert {each.pod: at for each, at in holders.now.since.items()} == {"a": 100.25, "b": 500.25}

    kubelet.answer = [held("b", "GPU-1")]
    await holders.ask()
    assert [each.pod for each in holders.now.since] == ["b"]


async def test_the_last_answer_stays_while_the_kubelet_is_away(kubelet, holders):
    kubelet.answer = [held("a", "GPU-0")]
    await holders.ask()
    kubelet.answer = AWAY
    kubelet.now += 30
    await holders.ask()

    assert [each.holder.pod for each in holders.now.held] == ["a"]
    assert holders.now.problem == "Connection refused"
    assert (holders.now.lists, holders.now.failures) == (1, 1)
    assert holders.now.age_s(kubelet.now) == pytest.approx(30.25)


async def test_an_answer_that_is_too_old_to_be_true_is_forgotten(kubelet, holders):
    kubelet.answer = [held("a", "GPU-0")]
    await holders.ask()
    kubelet.answer = AWAY
    kubelet.now += 61
    await holders.ask()

    assert holders.now.held == ()
    assert holders.now.age_s(kubelet.now) > 60


async def test_a_kubelet_that_is_back_is_believed_at_once(kubelet, holders):
    kubelet.answer = AWAY
    await holders.ask()
    assert holders.now.age_s(kubelet.now) is None
    kubelet.answer = [held("b", "GPU-0")]
    await holders.ask()

    assert holders.now.problem == ""
    assert [each.holder.pod for each in holders.now.held] == ["b"]
    assert holders.now.list_s == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("holdings", "shown"),
    [
        pytest.param(Holdings(taken_at=100.0), True, id="the kubelet says that nobody holds it"),
        pytest.param(Holdings(problem="Connection refused"), False, id="it has said nothing yet"),
        pytest.param(Holdings(taken_at=100.0, problem="refused"), False, id="or too long ago"),
    ],
)
def test_that_nobody_holds_a_gpu_is_only_said_by_who_knows(holdings, shown):
    families = families_of(Collection((gpu(),)), Known(), Style(), Counted(holdings=holdings), 110.0)

    assert ('gpuready_allocated_shares{gpu="0",UUID="GPU-0"} 0' in render(families).decode()) is shown


async def test_a_socket_that_speaks_something_else_is_told_in_one_line_and_once(tmp_path, caplog):
    asyncio.get_running_loop().set_exception_handler(LoopErrors(get_logger("exporter")))
    socket = tmp_path / "kubelet.sock"
    server = await asyncio.start_unix_server(lambda reader, writer: writer.write(b"\0\1junk" * 99), socket)
    async with server:
        holders = Holders(socket, keep_s=60)
        for _ in range(3):
            await holders.ask()
        holders.close()

    assert (holders.now.failures, holders.now.problem) == (3, "Connection lost")
    warnings = [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
    assert [each.message for each in warnings] == ["a callback failed", "pods are not known anew"]
    assert warnings[0].fields["at"].startswith("protocol.py:")
    assert not any(each.exc_info for each in warnings)


# --- files of the node ------------------------------------------------------------------------------------


def node(folder: Path, **cgroups: str) -> Tree:
    (folder / f"var/log/pods/team_a_{UID}/main").mkdir(parents=True)
    (folder / "var/log/pods/junk").mkdir()
    for pid, text in cgroups.items():
        (folder / f"proc/{pid[1:]}").mkdir(parents=True)
        (folder / f"proc/{pid[1:]}/cgroup").write_text(text)
    return Tree(folder)


def test_a_process_is_a_pods_by_its_cgroup_and_the_kubelets_log_directory(tmp_path):
    host = node(tmp_path, p11=f"0::/kubepods/pod{UID}/abc", p12="0::/init.scope", p13=f"0::/pod{UID[:-1]}0")

    assert pods.pods_of(host, [11, 12, 13, 14], pods.pods_by_uid(host)) == {11: ("team", "a")}


def test_the_uid_of_a_name_is_that_of_the_newest_pod(tmp_path):
    host = node(tmp_path)
    older = tmp_path / "var/log/pods/team_a_older"
    older.mkdir()
    import os

    os.utime(older, (1, 1))

    assert pods.uids_of(pods.pods_by_uid(host), host) == {("team", "a"): UID}


def test_a_node_without_logs_tells_nothing(tmp_path):
    assert pods.pods_by_uid(Tree(tmp_path)) == {}
    assert pods.pods_of(Tree(tmp_path), [1], {}) == {}


def test_labels_of_pods_take_no_other_labels_place():
    import re

    labels = {"app.kubernetes.io/name": "x", "pod": "forged", "team": "ml"}

    assert dict(pods.label_pairs(labels, [])) == {
        "app_kubernetes_io_name": "x",
        "label_pod": "forged",
        "team": "ml",
    }
    assert dict(pods.label_pairs(labels, [re.compile("^team$")])) == {"team": "ml"}


# --- what the exporter counts about itself ----------------------------------------------------------------


def own(collection: Collection, attribution: Attribution | None = None, **counted) -> dict[str, str]:
    page = render(own_families(collection, attribution or Attribution(), Counted(**counted), 110.0)).decode()
    return dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))


def seen(device: Device, at: float) -> Sample:
    first = sample(GPU_TEMP, 40, device)
    return Sample(first.field, first.entity, first.value, at)


def test_a_silent_gpu_shows_and_its_neighbour_goes_on():
    collection = Collection(
        (gpu(0), gpu(1)),
        (seen(gpu(0), 109.0),),
        silent=(Silent("GPU-1", 1, "no answer", 50.0),),
        started_at=107.0,
        ended_at=107.5,
    )
    found = own(collection)

    assert found['gpuready_exporter_gpu_silent{gpu="0",UUID="GPU-0"}'] == "0"
    assert found['gpuready_exporter_gpu_silent{gpu="1",UUID="GPU-1"}'] == "1"
    assert found['gpuready_exporter_sample_age_seconds{gpu="0",UUID="GPU-0"}'] == "1.0"
    assert 'gpuready_exporter_sample_age_seconds{gpu="1",UUID="GPU-1"}' not in found
    assert found["gpuready_exporter_collection_seconds"] == "0.5"


def test_a_gpu_that_was_silent_from_the_start_shows_by_its_number():
    found = own(Collection((gpu(0),), silent=(Silent("", 1, "no answer", 50.0),)))

    assert found['gpuready_exporter_gpu_silent{gpu="0",UUID="GPU-0"}'] == "0"
    assert found['gpuready_exporter_gpu_silent{gpu="1"}'] == "1"


def test_devices_that_no_gpu_is_known_for_are_counted_by_reason():
    found = own(
        Collection(),
        attribute([held("a", "GPU-gone"), held("b", "MIG-gone")], []),
        holdings=Holdings(taken_at=100.0, lists=3, failures=1),
    )

    assert found['gpuready_exporter_unattributed_devices{reason="UnknownId"}'] == "2"
    assert found["gpuready_exporter_mapping_age_seconds"] == "10.0"
    assert found['gpuready_exporter_kubelet_lists_total{result="failed"}'] == "1"


def test_a_kubelet_that_never_answered_is_a_reason_too():
    found = own(Collection(), holdings=Holdings(problem="Connection refused", failures=4))

    assert found['gpuready_exporter_unattributed_devices{reason="NoMapping"}'] == "1"
    assert "gpuready_exporter_mapping_age_seconds" not in found


def test_fields_that_a_gpu_does_not_have_are_told_with_the_reason():
    absent = Absent(GPU_TEMP, Entity(gpu()), "NVML answers NotSupported")

    found = own(Collection((gpu(),), absent=(absent,)))

    reason = 'field="DCGM_FI_DEV_GPU_TEMP",reason="NVML answers NotSupported"'
    assert found[f"gpuready_exporter_absent_fields{{{reason}}}"] == "1"


def test_rejected_lines_and_a_driver_that_is_away_show():
    found = own(Collection(problem="DriverNotLoaded"), rejected_lines=5)

    assert found["gpuready_exporter_rejected_lines"] == "5"
    assert found["gpuready_exporter_nvml_up"] == "0"
