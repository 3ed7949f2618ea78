"""One JSON line asked, JSON lines answered, over a unix socket in the cluster's directory.

    -> {"command": "fault xid", "args": {"target": "h100/3", "code": 79}}
    <- {"ok": {...}}   or   {"error": {"what": ..., "why": ..., "next": ...}}

The socket is reached through /proc/self/fd, so a long state directory does not meet the limit of 107
bytes on socket paths.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuready_sim.cluster.places import Place, State, running_names
from gpuready_sim.errors import SimulatorError

log = logging.getLogger(__name__)
Handler = Callable[[str, Mapping[str, Any]], Awaitable[object]]
LIMIT_BYTES = 16 * 1024 * 1024
_SEE_LOG = "see {logs}/supervisor.log"


class NotRunning(SimulatorError):
    """No supervisor listens for this cluster."""


class Refused(SimulatorError):
    """The supervisor's answer to a command that it could not follow."""


async def serve(path: Path, handler: Handler) -> asyncio.Server:
    """Listen; the caller closes the server."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                writer.write(json.dumps(await _outcome(handler, line), default=str).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass  # the asking process has gone
        finally:
            writer.close()

    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(path) as short:
        listening.bind(short)
    path.chmod(0o600)
    return await asyncio.start_unix_server(answer, sock=listening, limit=LIMIT_BYTES)


async def _outcome(handler: Handler, line: bytes) -> dict[str, object]:
    try:
        request = json.loads(line)
        return {"ok": await handler(request["command"], request.get("args") or {})}
    except SimulatorError as exc:
        return {"error": {"what": exc.what, "why": exc.why, "next": exc.next_step}}
    except Exception as exc:
        log.exception("command failed")
        return {"error": {"what": f"the simulator failed: {exc!r}", "why": "", "next": _SEE_LOG}}


def ask(place: Place, command: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60) -> Any:
    """Send one command and wait for its answer.

    raises  NotRunning when nobody listens, Refused with the supervisor's reasons
    """
    request = json.dumps({"command": command, "args": dict(args or {})}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock, _short(place.control) as short:
            sock.settimeout(timeout_s)
            sock.connect(short)
            sock.sendall(request)
            with sock.makefile("rb") as stream:
                line = stream.readline()
    except TimeoutError as exc:
        raise Refused(
            f"no answer to {command!r} within {timeout_s:g} s", next_step=_SEE_LOG.format(logs=place.logs)
        ) from exc
    except OSError as exc:
        raise not_running(place) from exc
    if not line:
        raise Refused(f"the simulator ended during {command!r}", next_step=_SEE_LOG.format(logs=place.logs))
    answer = json.loads(line)
    if "error" in answer:
        error = answer["error"]
        raise Refused(
            error["what"], why=error["why"], next_step=error["next"].replace("{logs}", str(place.logs))
        )
    return answer["ok"]


def not_running(place: Place) -> NotRunning:
    """Why nobody answers for this cluster, and which others would."""
    if place.state in (State.CHANGING, State.RUNNING):
        return NotRunning(
            f"cluster {place.name} does not answer",
            why="it is starting or ending",
            next_step=f"try again in a moment; its logs are in {place.logs}",
        )
    start = f"start it with `{place.command('up --detach')}`"
    others = running_names()
    if not others:
        return NotRunning(f"cluster {place.name} is not running", why="none is", next_step=start)
    verb = "runs" if len(others) == 1 else "run"
    return NotRunning(
        f"cluster {place.name} is not running",
        why=f"{', '.join(others)} {verb}",
        next_step=f"say --name {others[0]}, or {start}",
    )


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A path of a few bytes to the same file."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
