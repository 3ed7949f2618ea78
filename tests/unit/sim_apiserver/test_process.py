"""The server as a process: TLS, a clean stop with open watches, a restart that forgets nothing."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from gpuready_sim.apiserver.journal import Journal
from gpuready_sim.apiserver.store import Store

START_S = 10.0


class Process:
    """A server in a process of its own, with a client made from its kubeconfig."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.requests = directory / "requests.jsonl"

    async def start(self) -> None:
        self.kubeconfig.unlink(missing_ok=True)
        arguments = ("--data", self.directory / "data", "--kubeconfig", self.kubeconfig)
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *map(str, ("-m", "gpuready_sim.apiserver", *arguments, "--requests", self.requests)),
        )
        async with asyncio.timeout(START_S):
            while not self.kubeconfig.exists():
                await asyncio.sleep(0.02)
        self._connect(yaml.safe_load(self.kubeconfig.read_text()))
        async with asyncio.timeout(START_S):
            while not await self._is_ready():
                await asyncio.sleep(0.02)

    def _connect(self, config: dict[str, Any]) -> None:
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.url = cluster["server"]
        self.client = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {user['token']}"},
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority)),
        )

    async def _is_ready(self) -> bool:
        try:
            async with self.client.get(self.url + "/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectorError:
            return False

    async def get(self, path: str) -> Any:
        async with self.client.get(self.url + path) as answer:
            return await answer.json()

    async def stop(self) -> None:
        await self.client.close()
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(2.0):
                await self.process.wait()


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    process = Process(tmp_path)
    await process.start()
    yield process
    await process.stop()


async def test_it_stops_at_once_though_watches_are_open_and_comes_back_with_everything(
    process: Process,
) -> None:
    watch = await process.client.get(process.url + "/api/v1/nodes?watch=true")
    async with process.client.post(
        process.url + "/api/v1/nodes", json={"metadata": {"name": "n1"}}
    ) as answer:
        made = await answer.json()
    assert b'"ADDED"' in await watch.content.readline()
    await process.stop()
    assert process.process.returncode == 0
    token = yaml.safe_load(process.kubeconfig.read_text())["users"][0]["user"]["token"]

    await process.start()

    assert yaml.safe_load(process.kubeconfig.read_text())["users"][0]["user"]["token"] == token
    again = await process.get("/api/v1/nodes/n1")
    assert again == made
    nodes = await process.get("/api/v1/nodes")
    assert int(nodes["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert '"verb":"watch","resource":"nodes"' in process.requests.read_text()


async def test_it_can_be_frozen_for_a_while(process: Process) -> None:
    os.kill(process.process.pid, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await process.get("/api/v1/nodes")

    os.kill(process.process.pid, signal.SIGCONT)

    assert (await process.get("/api/v1/nodes"))["kind"] == "NodeList"


async def test_answers_do_not_wait_for_acknowledgements(process: Process) -> None:
    """Which take 40 ms: nearly every answer would, and a busy machine makes only some as slow."""
    times = []
    for _ in range(25):
        begun = time.monotonic()
        await process.get("/api/v1/namespaces/default")
        times.append(time.monotonic() - begun)

    assert sorted(times)[len(times) // 4] < 0.04


async def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    arguments = ["-m", "gpuready_sim.apiserver", "--data", str(tmp_path), "--kubeconfig", str(kubeconfig)]
    starter = (
        "import subprocess, sys, time\n"
        "print(subprocess.Popen([sys.executable, *sys.argv[1:]]).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", starter, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    async with asyncio.timeout(START_S):
        while not kubeconfig.exists():
            await asyncio.sleep(0.02)

    parent.kill()
    await parent.wait()

    async with asyncio.timeout(30):
        while _runs(pid):
            await asyncio.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie that nobody has collected."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_journal_with_a_torn_last_line_is_read_to_where_it_is_whole(tmp_path: Path) -> None:
    store, journal = Store(), Journal(tmp_path / "journal.jsonl")
    journal.open(store)
    for name in ("a", "b"):
        store.put("nodes", ("", name), {"metadata": {"name": name}})
    store.remove("nodes", ("", "a"))
    journal.close()
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"table":"nodes","type":"ADD')

    restored = Store()
    Journal(tmp_path / "journal.jsonl").replay(restored)

    assert list(restored.table("nodes").items) == [("", "b")]
    assert restored.rv == store.rv
    assert [c.type for c in restored.table("nodes").changes_since(1)] == ["ADDED", "ADDED", "DELETED"]
