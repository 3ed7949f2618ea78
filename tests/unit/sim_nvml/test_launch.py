"""The first process of a simulated container: status, signals, and that nothing is left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuready_sim.hardware.driver_tree import native_dir

DEADLINE_S = 30.0

# Leaves a grandchild in a session of its own, which ignores SIGTERM, then tells both pids and sleeps.
FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writing, str(os.getpid()).encode())
        time.sleep(600)
    os._exit(0)
grandchild = os.read(reading, 20).decode()
open(sys.argv[1], "w").write(f"{os.getpid()} {grandchild}")
print("ready", flush=True)
time.sleep(600)
"""


def launch(*argv: str, options: tuple[str, ...] = ()) -> list[str]:
    return [str(native_dir() / "launch"), *options, "--", *argv]


def start(argv: list[str]) -> subprocess.Popen[str]:
    """Started, and its first line read."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def wait_until_gone(pids: list[int]) -> None:
    """Every process has ended; watched through pidfds, so without polling."""
    for pid in pids:
        try:
            watched = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            poller = select.poll()
            poller.register(watched, select.POLLIN)
            assert poller.poll(DEADLINE_S * 1000), f"process {pid} is still there"
        finally:
            os.close(watched)


@pytest.mark.parametrize(
    ("program", "status"),
    [
        pytest.param("raise SystemExit(0)", 0, id="success"),
        pytest.param("raise SystemExit(3)", 3, id="its own code"),
        pytest.param("import os; os.kill(os.getpid(), 9)", 137, id="128 + signal"),
    ],
)
def test_the_status_is_the_programs(program, status):
    assert subprocess.run(launch(sys.executable, "-c", program), check=False).returncode == status


def test_a_program_that_does_not_exist_is_127():
    outcome = subprocess.run(launch("/no/such/program"), capture_output=True, text=True, check=False)

    assert outcome.returncode == 127
    assert "/no/such/program: No such file or directory" in outcome.stderr


def test_the_log_gets_both_streams(tmp_path):
    program = "import sys; print('out', flush=True); print('err', file=sys.stderr)"

    subprocess.run(
        launch(sys.executable, "-c", program, options=("--log", str(tmp_path / "log"))), check=True
    )

    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_sigterm_reaches_the_program_which_may_end_in_peace():
    program = (
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\nsignal.pause()"
    )
    container = start(launch(sys.executable, "-c", program))

    container.terminate()

    assert container.wait(timeout=DEADLINE_S) == 7


def test_after_the_grace_a_deaf_program_and_its_descendants_are_killed(tmp_path):
    container = start(
        launch(sys.executable, "-c", FAMILY, str(tmp_path / "pids"), options=("--grace", "0.2"))
    )
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]

    container.terminate()

    assert container.wait(timeout=DEADLINE_S) == 137
    wait_until_gone(pids)


def test_sigrtmin_ends_everything_at_once(tmp_path):
    container = start(launch(sys.executable, "-c", FAMILY, str(tmp_path / "pids")))
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]

    container.send_signal(signal.SIGRTMIN)

    assert container.wait(timeout=DEADLINE_S) == 137
    wait_until_gone(pids)


def test_when_the_program_ends_its_descendants_end_too(tmp_path):
    program = FAMILY.rpartition("time.sleep(600)")[0]

    container = start(launch(sys.executable, "-c", program, str(tmp_path / "pids")))

    assert container.wait(timeout=DEADLINE_S) == 0
    wait_until_gone([int(pid) for pid in (tmp_path / "pids").read_text().split()])


def test_kill_9_of_whoever_started_the_container_leaves_nothing_behind(tmp_path):
    kubelet = start(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.run(sys.argv[1:])",
            *launch(sys.executable, "-c", FAMILY, str(tmp_path / "pids"), options=("--grace", "0.2")),
        ]
    )
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    pids.append(_parent_of(pids[0]))  # launch itself

    kubelet.kill()
    kubelet.wait()

    wait_until_gone(pids)


def test_kill_9_of_launch_takes_the_program_along(tmp_path):
    container = start(launch(sys.executable, "-c", FAMILY, str(tmp_path / "pids")))
    program, grandchild = (int(pid) for pid in (tmp_path / "pids").read_text().split())

    container.kill()
    container.wait()

    wait_until_gone([program])
    os.kill(grandchild, signal.SIGKILL)  # what only SIGRTMIN or SIGTERM reach


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
