"""`up` in the foreground and in the background, and `down`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.places import Place, State, owned, running_pid
from gpuready_sim.cluster.spec import DEFAULT_CLUSTER, ClusterSpec, read_spec
from gpuready_sim.cluster.supervisor import Supervisor, supervise
from gpuready_sim.control import Refused
from gpuready_sim.errors import SimulatorError

START_S = 120.0
STOP_S = 20.0


@dataclass(frozen=True)
class Asked:
    """A cluster.yaml, read and understood, with its text."""

    spec: ClusterSpec
    text: str


def load_spec(file: Path | None) -> Asked:
    """The default cluster without a file, standard input for `-`; raises SpecError."""
    if file is None:
        text, source = DEFAULT_CLUSTER, "the default cluster"
    elif str(file) == "-":
        text, source = sys.stdin.read(), "standard input"
    else:
        text, source = read_spec(file), str(file)
    return Asked(ClusterSpec.parse(text, source=source), text)


def run_here(
    place: Place,
    spec: ClusterSpec,
    *,
    with_operator: bool,
    api: Api,
    on_ready: Callable[[Supervisor], None],
) -> None:
    """Run the cluster in this process until SIGINT or SIGTERM."""

    async def main() -> None:
        stop, ready = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)

        def now_ready(cluster: Supervisor) -> None:
            ready.set()
            on_ready(cluster)

        running = asyncio.create_task(
            supervise(
                place,
                spec,
                with_operator=with_operator,
                api=api,
                on_clean=lambda: _log_to(place.logs / "supervisor.log"),
                on_ready=now_ready,
                stop=stop,
            )
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set() and not ready.is_set():
            running.cancel()  # it still starts, and looks at `stop` only when it is up
        stopping.cancel()
        try:
            await running
        except asyncio.CancelledError:
            pass

    asyncio.run(main())


def _log_to(path: Path) -> None:
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for chatty in ("asyncio", "aiohttp", "grpclib"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def run_in_background(place: Place, spec_text: str, *, with_operator: bool, api: Api) -> None:
    """Start a process of its own that runs the cluster; return once it is ready.

    raises  what the other process could not do, as Refused
    """
    read_end, write_end = os.pipe()
    argv = [sys.executable, "-m", "gpuready_sim.cli", "up", "--name", place.name]
    argv += ["--file", "-", "--ready-fd", str(write_end), "--api", api]
    argv += [] if with_operator else ["--no-operator"]
    child = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(write_end,),
        start_new_session=True,
    )
    os.close(write_end)
    try:
        _send(child, spec_text)
        answer = _read_line(read_end, START_S)
    except BaseException:
        child.terminate()
        raise
    finally:
        os.close(read_end)
    if not answer:
        child.terminate()
        raise Refused(
            f"cluster {place.name} did not start", why="its process ended", next_step=f"see {place.logs}"
        )
    error = json.loads(answer).get("error")
    if error:
        raise Refused(error["what"], why=error["why"], next_step=error["next"])


def _send(child: subprocess.Popen[bytes], text: str) -> None:
    assert child.stdin is not None
    try:
        with child.stdin as stream:
            stream.write(text.encode())
    except BrokenPipeError:
        pass  # it ended: its answer says why


def _read_line(descriptor: int, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    data = b""
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise Refused(f"the cluster was not ready within {timeout_s:g} s")
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return b""
        data += chunk
    return data


def tell_parent(descriptor: int, error: SimulatorError | None = None) -> None:
    """The other half of run_in_background: one line, then the pipe is closed."""
    answer: dict[str, object] = {"ready": error is None}
    if error is not None:
        answer["error"] = {"what": error.what, "why": error.why, "next": error.next_step}
    try:
        os.write(descriptor, json.dumps(answer).encode() + b"\n")
        os.close(descriptor)
    except OSError:
        pass  # nobody waits for us


def take_down(place: Place) -> State:
    """End the cluster and remove what it left; returns what there was."""
    state, pid = place.state, running_pid(place)
    if pid is not None:
        _end(place, pid)
    with owned(place):
        place.remove()
    return state


def _end(place: Place, pid: int) -> None:
    for number, patience_s in ((signal.SIGTERM, STOP_S + 10), (signal.SIGKILL, 5.0)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if running_pid(place) is None:
                return
            time.sleep(0.05)
    raise Refused(f"process {pid} of cluster {place.name} does not end", next_step=f"kill -9 {pid}")
