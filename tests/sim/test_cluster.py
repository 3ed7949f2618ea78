"""A simulated cluster as its users meet it: kubectl's view, the command line, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from click.testing import CliRunner

from gpuready_sim.cli import main
from gpuready_sim.client import DAEMON_SETS, NODES, PODS
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import Place, State, running_pid
from gpuready_sim.cluster.spec import ClusterSpec, NodeSpec
from gpuready_sim.cluster.supervisor import supervise
from gpuready_sim.control import Refused
from gpuready_sim.kubelet.node_writer import RegistrationRefused

ONE_CPU_NODE = "nodes: [{name: cpu-0}]"
FOUR_NODES = """
nodes:
- {name: cpu, count: 2, labels: {role: cpu}}
- {name: l4-0, gpus: {L4: 2}, taints: [{key: nvidia.com/gpu, value: present}]}
- {name: short-lived, labels: {role: guest}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(FOUR_NODES, operator=False) as running:
        yield running


on_the_shared_cluster = pytest.mark.asyncio(loop_scope="module")


def sleeper(name: str = "sleeper", **resources: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "any/image:1",
                    "command": ["sleep", "infinity"],
                    "resources": {"limits": resources},
                }
            ],
        },
    }


def daemons(name: str = "daemons", role: str = "", word: str = "one") -> dict[str, Any]:
    pod = sleeper()["spec"]
    pod["nodeSelector"] = {"role": role} if role else {}
    pod["containers"][0]["env"] = [{"name": "WORD", "value": word}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def has_condition(kind: str, status: str = "True"):
    def check(obj: dict[str, Any]) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or []
        return any(c["type"] == kind and c["status"] == status for c in conditions)

    return check


def rolled_out(desired: int, generation: int):
    def check(obj: dict[str, Any]) -> bool:
        status = obj.get("status") or {}
        return (
            status.get("observedGeneration") == generation
            and status.get("updatedNumberScheduled") == desired
            and status.get("numberAvailable") == desired
        )

    return check


def restarted_once(pod: dict[str, Any]) -> bool:
    return pod["status"]["containerStatuses"][0]["restartCount"] == 1 and has_condition("Ready")(pod)


def sim(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`gpuready-sim ARGUMENTS`: a process where it starts, ends or becomes one, and else within this one."""
    if arguments[0] in ("up", "down", "demo", "exec"):
        command = [sys.executable, "-m", "gpuready_sim.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=check)
    with CliRunner().isolation() as (out, err, _):
        code = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    done = subprocess.CompletedProcess(arguments, code, out.getvalue().decode(), err.getvalue().decode())
    if check:
        done.check_returncode()
    return done


def processes_naming(text: str) -> list[int]:
    """Processes whose command line or environment names this text, ourselves left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in words:
            found.append(int(entry.name))
    return found


async def until(check, *, timeout_s: float = 15, what: str = "") -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.05)


@on_the_shared_cluster
async def test_a_pod_without_gpu_runs_and_goes(cluster):
    await cluster.apply(sleeper())
    pod = await cluster.wait(PODS, "sleeper", "default", has_condition("Ready"))

    assert pod["spec"]["nodeName"] in ("cpu-0", "cpu-1", "short-lived")
    assert "Scheduled" in [e["reason"] for e in await cluster.events("sleeper")]
    await cluster.client.delete(PODS, "sleeper", "default")
    await cluster.wait_gone(PODS, "sleeper", "default")


@on_the_shared_cluster
async def test_a_daemon_set_reaches_its_nodes_and_rolls_one_at_a_time(cluster):
    await cluster.apply(daemons("daemons", "cpu", "one"))
    await cluster.wait(DAEMON_SETS, "daemons", "default", rolled_out(2, 1))
    before = {p["metadata"]["uid"] for p in await cluster.pods("default", "app=daemons")}

    await cluster.apply(daemons("daemons", "cpu", "two"))
    await cluster.wait(DAEMON_SETS, "daemons", "default", rolled_out(2, 2))

    pods = await cluster.pods("default", "app=daemons")
    assert {p["spec"]["nodeName"] for p in pods} == {"cpu-0", "cpu-1"}
    assert before.isdisjoint(p["metadata"]["uid"] for p in pods)

    await cluster.client.delete(DAEMON_SETS, "daemons", "default")
    await cluster.wait_pods("default", "app=daemons", lambda left: not left)


@on_the_shared_cluster
async def test_a_pod_that_fits_nowhere_says_so_in_the_schedulers_words(cluster):
    await cluster.apply(sleeper("greedy", **{"nvidia.com/gpu": "1"}))
    pod = await cluster.wait(PODS, "greedy", "default", has_condition("PodScheduled", "False"))

    condition = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, "
        "3 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: "
        "4 Preemption is not helpful for scheduling."
    )
    await cluster.client.delete(PODS, "greedy", "default")
    await cluster.wait_gone(PODS, "greedy", "default")


@on_the_shared_cluster
async def test_a_rebooted_node_has_a_new_boot_id_an_empty_run_and_its_driver_again(cluster):
    root = cluster.node_root("l4-0")
    (root / "run/mark").write_text("gone after a reboot")
    (root / "var/lib/mark").write_text("kept")
    before = (await cluster.node("l4-0"))["status"]["nodeInfo"]["bootID"]
    pod = sleeper("stays")
    pod["spec"]["nodeName"] = "l4-0"
    await cluster.apply(pod)
    await cluster.wait(PODS, "stays", "default", has_condition("Ready"))

    boot_id = await cluster.reboot("l4-0")

    await cluster.wait(NODES, "l4-0", None, lambda n: n["status"]["nodeInfo"]["bootID"] == boot_id)
    await cluster.wait(PODS, "stays", "default", restarted_once)
    assert boot_id != before
    assert not (root / "run/mark").exists()
    assert (root / "var/lib/mark").exists()
    listing = await cluster.exec("l4-0", "nvidia-smi", "-L")
    assert listing.stdout.count("NVIDIA L4") == 2
    await cluster.client.delete(PODS, "stays", "default")


async def says(cluster, pod, word):
    """Ready comes with the process; what it does first takes it a moment longer."""
    async with asyncio.timeout(20):
        while word not in await cluster.logs(pod):
            await asyncio.sleep(0.05)


@on_the_shared_cluster
async def test_a_driver_reload_ends_a_mismatch_and_is_refused_while_a_pod_holds_nvml(cluster):
    pod = sleeper("train")
    pod["spec"]["nodeName"] = "l4-0"
    pod["spec"]["containers"][0] |= {"command": ["gpu-hold"], "securityContext": {"privileged": True}}
    driver = {"name": "lib", "hostPath": {"path": "/usr/lib/x86_64-linux-gnu"}}
    pod["spec"]["volumes"] = [driver]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "lib", "mountPath": "/usr/lib/x86_64-linux-gnu"}]
    await cluster.apply(pod)
    await cluster.wait(PODS, "train", "default", has_condition("Ready"))
    await says(cluster, "train", "holding")

    updated = await cluster.fault("driver-update", node="l4-0", version="570.133.20")
    broken = await cluster.exec("l4-0", "nvidia-smi")
    with pytest.raises(Refused) as refused:
        await cluster.fault("driver-reload", node="l4-0", wait_s=0.2)
    await cluster.client.delete(PODS, "train", "default")
    reloaded = await cluster.fault("driver-reload", node="l4-0")
    well = await cluster.exec("l4-0", "nvidia-smi", "-L")

    assert (updated["installed"], updated["loaded"]) == ("570.133.20", "570.86.10")
    assert "Driver/library version mismatch" in broken.stdout + broken.stderr
    assert "gpu-hold, pod default/train" in refused.value.why
    assert (reloaded["installed"], reloaded["loaded"]) == ("570.133.20", "570.133.20")
    assert well.returncode == 0


@on_the_shared_cluster
async def test_a_deleted_node_loses_its_pods_and_gets_them_back_when_its_kubelet_registers_again(cluster):
    await cluster.apply(daemons("guests", "guest"))
    await cluster.wait(DAEMON_SETS, "guests", "default", rolled_out(1, 1))

    await cluster.client.delete(NODES, "short-lived")
    await cluster.wait_pods("default", "app=guests", lambda left: not left)
    await cluster.fault("kubelet-restart", node="short-lived")

    await cluster.wait(NODES, "short-lived", None, has_condition("Ready"))
    await cluster.wait(DAEMON_SETS, "guests", "default", rolled_out(1, 1))
    await cluster.client.delete(DAEMON_SETS, "guests", "default")


@on_the_shared_cluster
async def test_an_api_server_that_was_away_finds_all_nodes_ready(cluster):
    await cluster.fault("api-stop", seconds=1)

    nodes, _ = await cluster.client.list(NODES)
    assert {"cpu-0", "cpu-1", "l4-0"} <= {n["metadata"]["name"] for n in nodes if has_condition("Ready")(n)}


async def test_a_cluster_with_a_node_that_the_server_refuses_ends_with_the_reason(state_home: Path):
    place = Place.of("refused")
    nodes = (NodeSpec("fine"), NodeSpec("unlabelled", labels={"b ad": "1"}))
    with pytest.raises(RegistrationRefused) as caught:
        await supervise(
            place,
            ClusterSpec(nodes),
            with_operator=False,
            on_clean=lambda: None,
            on_ready=lambda _: pytest.fail("it is not ready"),
            stop=asyncio.Event(),
        )

    assert "unlabelled" in caught.value.what
    assert "b ad" in caught.value.why
    await until(lambda: not processes_naming(str(place.directory)), what="the cluster's processes to end")
    assert place.state is State.ENDED


async def test_kill_9_of_the_supervisor_leaves_no_process_and_the_next_up_starts_clean(start_cluster):
    cluster = await start_cluster(ONE_CPU_NODE, name="killed")
    await cluster.apply(daemons())
    await cluster.wait(DAEMON_SETS, "daemons", "default", rolled_out(1, 1))
    pid = running_pid(cluster.place)
    mark = str(cluster.place.directory)
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    await until(lambda: not processes_naming(mark), what=f"processes of {mark} to end")
    assert running_pid(cluster.place) is None
    again = await start_cluster(ONE_CPU_NODE, name="killed")
    assert (await again.client.list(DAEMON_SETS))[0] == []


async def test_kill_9_of_the_demo_leaves_files_only_and_the_next_one_starts_clean(
    state_home: Path, tmp_path: Path, start_cluster
):
    place = Place.of("story")
    scratch = {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "gpuready_sim.cli", "demo", "--name", "story"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **scratch})
    await until(lambda: place.state is State.RUNNING, timeout_s=30, what="the demo's cluster")

    process.kill()
    process.wait(10)

    await until(lambda: not processes_naming(str(place.directory)), what="the demo's processes to end")
    await until(lambda: place.state is State.ENDED, what="the demo's place to be free")
    assert list(tmp_path.iterdir()) == []
    (place.directory / "left-by-the-first").touch()
    again = await start_cluster(ONE_CPU_NODE, name="story")
    assert not (again.place.directory / "left-by-the-first").exists()


@pytest.fixture(scope="module")
def words(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cluster that only the command line has touched."""
    file = tmp_path_factory.mktemp("spec") / "cluster.yaml"
    file.write_text("nodes: [{name: cpu-0}, {name: l4-0, gpus: {L4: 2}}]")
    place = Place.of("words")
    started = sim("up", "--name", "words", "--file", str(file), "--no-operator", "--detach")
    assert started.stdout == f"kubeconfig: {place.kubeconfig}\n"
    assert "end it with `gpuready-sim down --name words`" in started.stderr
    yield place
    ended = sim("down", "--name", "words")
    assert ended.stderr == f"cluster words is down; {place.directory} is removed\n"
    assert not place.directory.exists()
    assert not place.lock.exists()
    assert not processes_naming(str(place.directory))
    again = sim("down", "--name", "words")
    assert again.stderr == "there is no cluster words; nothing was removed\n"


def on_words(*arguments: str) -> str:
    """What a command prints about the cluster `words`, stdout and stderr, whatever its outcome."""
    command, *rest = arguments
    group = (command, rest.pop(0)) if command == "fault" else (command,)
    done = sim(*group, "--name", "words", *rest, check=False)
    return done.stdout + done.stderr


def test_a_second_up_is_refused(words):
    second = sim("up", "--name", "words", "--no-operator", "--detach", check=False)
    demo = sim("demo", "--name", "words", check=False)

    for refused in (second, demo):
        assert refused.returncode == 2
        assert "cluster words is running already" in refused.stderr
        assert "gpuready-sim down --name words" in refused.stderr


def test_status_shows_nodes_and_faults(words):
    state = json.loads(sim("status", "--name", "words", "-o", "json").stdout)
    assert [len(n["gpus"]) for n in state["nodes"]] == [0, 2]
    table = sim("status", "--name", "words").stdout
    assert "2 x L4" in table
    assert "host 570.86.10" in table

    assert on_words("fault", "hang", "l4-0", "60") == "NVML of l4-0 hangs for 60 s\n"
    hanging = sim("status", "--name", "words", check=False)
    assert hanging.returncode == 1
    assert "NVML hangs" in hanging.stdout
    assert on_words("fault", "hang", "l4-0", "0") == "NVML of l4-0 answers\n"

    assert "infoROM of l4-0/0 is corrupt" in on_words("fault", "inforom", "l4-0/0")
    assert "0: infoROM" in on_words("status")
    assert "infoROM of l4-0/0 is readable again" in on_words("fault", "inforom", "l4-0/0", "--mend")
    assert sim("status", "--name", "words").returncode == 0


def test_a_lost_gpu_needs_a_reboot_of_this_clusters_node(words):
    assert "XID 79 raised on l4-0/1" in on_words("fault", "xid", "l4-0/1", "79")
    refused = sim("fault", "reset", "--name", "words", "l4-0/1", check=False)
    assert refused.returncode == 2
    assert "next  reboot the node: gpuready-sim reboot l4-0 --name words" in refused.stderr
    assert sim("status", "--name", "words", check=False).returncode == 1
    sim("reboot", "l4-0", "--name", "words")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["xid", "l4-0", "79"], "for example l4-0/0", id="the named node's GPU"),
        pytest.param(["xid", "nothing", "79"], "for example l4-0/0", id="a GPU that is there"),
        pytest.param(["xid", "cpu-0/0", "79"], "node cpu-0 has no GPU", id="no GPU"),
        pytest.param(["xid", "l4-0/7", "79"], "it has 0, 1", id="no such GPU"),
        pytest.param(["hang", "cpu-0", "1"], "these have: l4-0", id="nothing to hang"),
        pytest.param(["driver-update", "cpu-0", "570.1"], "node cpu-0 has no GPU", id="no driver ever"),
        pytest.param(["driver-update", "l4-0", "5.x"], "give one such as 570.133.20", id="no version"),
    ],
)
def test_a_fault_that_makes_no_sense_says_what_would(words, arguments, said):
    assert said in on_words("fault", *arguments)


def test_exec_sees_the_nodes_files_and_says_when_it_does_not(words):
    assert 'PRETTY_NAME="Ubuntu 22.04"' in on_words("exec", "l4-0", "--", "cat", "/etc/os-release")
    assert "/etc/hostname\n" in on_words("exec", "l4-0", "--", "find", "/etc")
    assert on_words("exec", "l4-0", "--", "cat", "/nope") == "cat: /nope: No such file or directory\n"
    assert on_words("exec", "l4-0", "--", "nvidia-smi", "-L").count("GPU ") == 2
    assert "a node without GPU gets none" in on_words("exec", "cpu-0", "--", "nvidia-smi")
    assert "note: uname is this machine's own" in on_words("exec", "l4-0", "--", "uname", "-r")
    missing = sim("exec", "--name", "words", "l4-0", "--", "test", "-e", "/nope", check=False)
    assert missing.returncode == 1


def test_writes_are_listed_without_leases_and_by_client(words):
    writes = sim("requests", "--name", "words", "--writes")
    assert any("sim-kubelet" in line and "nodes" in line for line in writes.stdout.splitlines())
    assert not any(" get " in line for line in writes.stdout.splitlines())
    assert " leases " not in writes.stdout
    assert "left out; --leases shows them" in writes.stderr

    rows = sim("requests", "--name", "words", "--writes", "-o", "json").stdout.splitlines()
    assert "leases" not in {json.loads(row)["resource"] for row in rows}
    rows = sim("requests", "--name", "words", "--writes", "--leases", "-o", "json").stdout.splitlines()
    assert "leases" in {json.loads(row)["resource"] for row in rows}

    rows = sim("requests", "--name", "words", "--client", "sim-kubelet", "-o", "json").stdout.splitlines()
    assert {json.loads(row)["client"] for row in rows} == {"sim-kubelet"}
    assert "no client nobody; there are " in on_words("requests", "--client", "nobody")


def test_clusters_are_listed_and_named_to_who_forgot(words):
    rows = {row["name"]: row for row in json.loads(sim("list", "-o", "json").stdout)}
    assert rows["words"]["state"] == "running"
    assert rows["words"]["nodes"] == ["cpu-0", "l4-0"]
    assert rows["words"]["kubeconfig"] == str(words.kubeconfig)
    assert re.search(r"words +running +cpu-0, l4-0 ", sim("list").stdout)

    forgot = sim("status", check=False)
    assert forgot.returncode == 2
    assert "cluster gpuready is not running" in forgot.stderr
    assert "words run" in forgot.stderr


def test_after_ctrl_c_the_logs_stay_and_down_says_what_it_removes(state_home: Path):
    place = Place.of("front")
    command = [sys.executable, "-m", "gpuready_sim.cli", "up", "--name", "front", "--file", "-"]
    process = subprocess.Popen(
        [*command, "--no-operator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as stdin:
        stdin.write(ONE_CPU_NODE)
    assert process.stdout.readline() == f"kubeconfig: {place.kubeconfig}\n"
    os.killpg(process.pid, signal.SIGINT)
    process.stdin = None
    _, said = process.communicate(timeout=30)

    assert process.returncode == 0
    assert f"cluster front has ended; its logs and requests stay in {place.directory}" in said
    assert "next  remove them with `gpuready-sim down --name front`" in said
    assert (place.logs / "supervisor.log").exists()
    assert not place.lock.exists()
    assert re.search(r"front +ended ", sim("list").stdout)
    ended = sim("down", "--name", "front").stderr
    assert ended == f"cluster front was not running; what it had left in {place.directory} is removed\n"
    assert not place.directory.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["status"], ["is not running", "gpuready-sim up"], id="status of nothing"),
        pytest.param(["up", "--file", "nowhere.yaml"], ["cannot read nowhere.yaml"], id="no such file"),
        pytest.param(["up", "--name", "No_Good"], ["is no cluster name"], id="bad name"),
        pytest.param(["requests", "--since", "yesterday"], ["is no RFC 3339 time"], id="bad time"),
        pytest.param(["fault", "hang", "n", "long"], ["is no number of seconds from 0"], id="bad time span"),
        pytest.param(["demo", "--frobnicate"], ["No such option"], id="no such option of the demo"),
        pytest.param(["fault", "xid", "n/0", "none"], ["is no whole number from 1 to 999"], id="bad XID"),
    ],
)
def test_a_mistake_is_answered_with_exit_code_2_and_the_reason(arguments, words):
    done = sim(*arguments, check=False)

    assert done.returncode == 2
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_the_faults_are_listed_and_completion_is_printed():
    faults = sim("fault", "list").stdout
    for word in ("xid NODE/GPU CODE", "driver-reload NODE", "api-stop SECONDS", "kubelet-restart NODE"):
        assert word in faults
    assert "_GPUREADY_SIM_COMPLETE" in sim("completion", "bash").stdout


def test_the_help_shows_what_there_is():
    demo = sim("demo", "--help").stdout
    assert "--name" in demo
    assert "--picture" in demo
    assert "--mend" in sim("fault", "--help").stdout
    assert sim("--version").stdout.startswith("gpuready-sim, version ")
    completed = subprocess.run(
        [sys.executable, "-c", "from gpuready_sim.cli import sim; sim(prog_name='gpuready-sim')"],
        env={
            **os.environ,
            "_GPUREADY_SIM_COMPLETE": "bash_complete",
            "COMP_WORDS": "gpuready-sim demo --",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "--picture" in completed.stdout
