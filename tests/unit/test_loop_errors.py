"""Where no file descriptor is left a daemon goes on with what it has, and says so in one line."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuready.controller import main as operator
from gpuready.errors import GPUReadyError, UsageError
from gpuready.log import get_logger
from gpuready.loop_errors import LoopErrors
from gpuready.node.root import Root
from gpuready.operands.device_plugin import daemon as device_plugin
from gpuready.operands.node_agent import daemon as node_agent
from gpuready.operands.node_agent.settings import Settings as NodeAgentSettings
from gpuready.operands.toolkit import daemon as toolkit

OUT_OF_FILES = {
    "message": "socket.accept() out of system resource",
    "exception": OSError(24, "Too many open files"),
}


async def test_connections_that_cannot_be_taken_up_are_told_of_once(caplog):
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrors(get_logger("test"), tracebacks=True))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, backlog=64)
    async with server:
        with socket.socket() as client:
            client.setblocking(False)
            client.connect_ex(server.sockets[0].getsockname())
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
                async with asyncio.timeout(30):
                    while not caplog.records:
                        await asyncio.sleep(0.01)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.message for each in warnings] == ["a callback failed"]
    assert not warnings[0].exc_info


async def test_a_mistake_of_our_own_keeps_its_traceback(caplog):
    handler = LoopErrors(get_logger("test"), tracebacks=True)

    handler(asyncio.get_running_loop(), {"message": "a task failed", "exception": KeyError("x")})

    assert caplog.records[0].exc_info


async def test_the_operator_tells_so_too(caplog):
    with pytest.raises(UsageError):
        await operator._run({}, None, None)
    for _ in range(3):
        asyncio.get_running_loop().call_exception_handler(OUT_OF_FILES)

    assert [each.message for each in caplog.records if each.levelname != "DEBUG"] == ["a callback failed"]


@pytest.mark.parametrize(
    "start",
    [
        lambda: node_agent._serve(NodeAgentSettings(node_name="gpu-1"), Root(Path("/"))),
        lambda: device_plugin._run(None, None),  # type: ignore[arg-type]
        lambda: toolkit._run(None, None, {}),  # type: ignore[arg-type]
    ],
    ids=["node agent", "device plugin", "toolkit"],
)
async def test_so_do_the_daemons_of_a_node(start, caplog):
    with pytest.raises((GPUReadyError, AttributeError)):  # they come no further than that here
        await start()
    for _ in range(3):
        asyncio.get_running_loop().call_exception_handler(OUT_OF_FILES)

    assert [each.message for each in caplog.records if each.levelname != "DEBUG"] == ["a callback failed"]


def test_the_log_needs_no_file_to_say_so():
    program = (
        "import resource, os\n"
        "from gpuready.log import get_logger, set_up\n"
        "set_up()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))\n"
        "get_logger('x').warning('\\u202e full')\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    told = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60
    )

    assert told.stderr.endswith("\\u202e full\n")
    assert "Logging error" not in told.stderr
