"""A simulated cluster as its users meet it: kubectl's view, the command line, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.client import DAEMON_SETS, NODES, PODS
from gpuready_sim.cluster.places import Place, running_pid

ONE_CPU_NODE = "nodes: [{name: cpu-0}]"
TWO_CPU_NODES = "nodes: [{name: cpu, count: 2}]"
ONE_L4_NODE = "nodes: [{name: l4-0, gpus: {L4: 2}}]"


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


def daemons(word: str = "one") -> dict[str, Any]:
    pod = sleeper()["spec"]
    pod["containers"][0]["env"] = [{"name": "WORD", "value": word}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "daemons"},
        "spec": {
            "selector": {"matchLabels": {"app": "daemons"}},
            "template": {"metadata": {"labels": {"app": "daemons"}}, "spec": pod},
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


def sim(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuready_sim.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=check)


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


async def test_a_pod_without_gpu_runs_and_goes(start_cluster):
    cluster = await start_cluster(ONE_CPU_NODE)

    await cluster.apply(sleeper())
    pod = await cluster.wait(PODS, "sleeper", "default", has_condition("Ready"))

    assert pod["spec"]["nodeName"] == "cpu-0"
    assert "Scheduled" in [e["reason"] for e in await cluster.events("sleeper")]
    await cluster.client.delete(PODS, "sleeper", "default")
    await cluster.wait_gone(PODS, "sleeper", "default")


async def test_a_daemon_set_reaches_all_nodes_and_rolls_one_at_a_time(start_cluster):
    cluster = await start_cluster(TWO_CPU_NODES)

    await cluster.apply(daemons("one"))
    await cluster.wait(DAEMON_SETS, "daemons", "default", rolled_out(2, 1))
    before = {p["metadata"]["uid"] for p in (await cluster.client.list(PODS, "default"))[0]}

    await cluster.apply(daemons("two"))
    await cluster.wait(DAEMON_SETS, "daemons", "default", rolled_out(2, 2))

    pods = (await cluster.client.list(PODS, "default"))[0]
    assert {p["spec"]["nodeName"] for p in pods} == {"cpu-0", "cpu-1"}
    assert before.isdisjoint(p["metadata"]["uid"] for p in pods)

    await cluster.client.delete(DAEMON_SETS, "daemons", "default")
    await cluster.wait_pods("default", "app=daemons", lambda left: not left)


async def test_a_pod_that_fits_nowhere_says_so_in_the_schedulers_words(start_cluster):
    cluster = await start_cluster(ONE_CPU_NODE)

    await cluster.apply(sleeper("greedy", **{"nvidia.com/gpu": "1"}))
    pod = await cluster.wait(PODS, "greedy", "default", has_condition("PodScheduled", "False"))

    condition = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


async def test_a_rebooted_node_has_a_new_boot_id_an_empty_run_and_its_driver_again(start_cluster):
    cluster = await start_cluster(ONE_L4_NODE)
    root = cluster.node_root("l4-0")
    (root / "run/mark").write_text("gone after a reboot")
    (root / "var/lib/mark").write_text("kept")
    before = (await cluster.node("l4-0"))["status"]["nodeInfo"]["bootID"]
    await cluster.apply(sleeper())
    await cluster.wait(PODS, "sleeper", "default", has_condition("Ready"))

    boot_id = await cluster.reboot("l4-0")
    await cluster.wait(NODES, "l4-0", None, lambda n: n["status"]["nodeInfo"]["bootID"] == boot_id)
    await cluster.wait(
        PODS,
        "sleeper",
        "default",
        lambda p: p["status"]["containerStatuses"][0]["restartCount"] == 1 and has_condition("Ready")(p),
    )

    assert boot_id != before
    assert not (root / "run/mark").exists()
    assert (root / "var/lib/mark").exists()
    listing = await cluster.exec("l4-0", "nvidia-smi", "-L")
    assert listing.stdout.count("NVIDIA L4") == 2


async def test_a_driver_update_under_a_loaded_module_is_a_mismatch_until_the_reload(start_cluster):
    cluster = await start_cluster(ONE_L4_NODE)

    answer = await cluster.fault("driver-update", node="l4-0", version="570.133.20")
    broken = await cluster.exec("l4-0", "nvidia-smi")
    reloaded = await cluster.fault("driver-reload", node="l4-0")
    well = await cluster.exec("l4-0", "nvidia-smi", "-L")

    assert (answer["installed"], answer["loaded"]) == ("570.133.20", "570.86.10")
    assert "Driver/library version mismatch" in broken.stdout + broken.stderr
    assert (reloaded["installed"], reloaded["loaded"]) == ("570.133.20", "570.133.20")
    assert well.returncode == 0


async def test_a_silent_node_becomes_not_ready_and_a_deleted_one_loses_its_pods(start_cluster):
    cluster = await start_cluster("nodes: [{name: cpu, count: 2}]\nnodeGraceSeconds: 3")
    await cluster.apply(daemons())
    await cluster.wait(DAEMON_SETS, "daemons", "default", rolled_out(2, 1))

    await cluster.client.delete(NODES, "cpu-1")

    await cluster.wait(
        DAEMON_SETS, "daemons", "default", lambda d: d["status"]["desiredNumberScheduled"] >= 1
    )
    await cluster.wait(NODES, "cpu-0", None, has_condition("Ready"))


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


def test_the_command_line_from_up_to_down(tmp_path: Path):
    file = tmp_path / "cluster.yaml"
    file.write_text(ONE_L4_NODE)
    place = Place.of("words")
    try:
        started = sim("up", "--name", "words", "--file", str(file), "--no-operator", "--detach")
        assert started.stdout == f"kubeconfig: {place.kubeconfig}\n"

        second = sim("up", "--name", "words", "--no-operator", "--detach", check=False)
        assert second.returncode == 2
        assert "cluster words is running already" in second.stderr
        assert "gpuready-sim down --name words" in second.stderr

        state = json.loads(sim("status", "--name", "words", "-o", "json").stdout)
        assert [len(n["gpus"]) for n in state["nodes"]] == [2]
        table = sim("status", "--name", "words").stdout
        assert "2 x L4" in table
        assert "host 570.86.10" in table

        assert sim("exec", "--name", "words", "l4-0", "--", "nvidia-smi", "-L").stdout.count("GPU ") == 2
        assert "XID 79 raised on l4-0/1" in sim("fault", "xid", "--name", "words", "l4-0/1", "79").stdout
        refused = sim("fault", "reset", "--name", "words", "l4-0/1", check=False)
        assert refused.returncode == 2
        assert "next  reboot the node: gpuready-sim reboot l4-0" in refused.stderr
        assert sim("status", "--name", "words", check=False).returncode == 1

        writes = sim("requests", "--name", "words", "--writes").stdout.splitlines()
        assert any("sim-kubelet" in line and "nodes" in line for line in writes)
        assert not any(" get " in line for line in writes)
    finally:
        ended = sim("down", "--name", "words")
    assert "cluster words is down" in ended.stderr
    assert not place.directory.exists()
    assert not processes_naming(str(place.directory))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["status"], ["is not running", "gpuready-sim up"], id="status of nothing"),
        pytest.param(["up", "--file", "nowhere.yaml"], ["cannot read nowhere.yaml"], id="no such file"),
        pytest.param(["up", "--name", "No_Good"], ["is no cluster name"], id="bad name"),
        pytest.param(["requests", "--since", "yesterday"], ["is no RFC 3339 time"], id="bad time"),
        pytest.param(["fault", "xid", "n/0", "none"], ["not a valid integer"], id="bad XID"),
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
