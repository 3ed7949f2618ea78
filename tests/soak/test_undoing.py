"""What was done on hosts is undone, though the node agent, who says when, is late."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.node_cluster import AGENT_ROLE, read_json, until
from tests.sim.operator_cluster import NAMESPACE, wait_process

from gpuready_sim.client import DAEMON_SETS

from .scene import ABSENT, Scene, scene

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

NODE = "l4"
TOOLKIT = "nvidia-container-toolkit-daemonset"
DESIRED = "run/gpuready/desired/toolkit.json"
JOURNAL = "var/lib/gpuready/toolkit/journal.json"
CONFIG = "etc/containerd/config.toml"
LONGER_THAN_A_FAREWELL_S = 6.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    home: Path = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        async with scene({NODE: "gpus: {L4: 2}, driver: {where: host}, containerd: 2.2.1"}) as started:
            yield started


@pytest.mark.parametrize("wish", ["without toolkit", ABSENT])
async def test_the_toolkit_stays_until_it_has_given_back_what_the_runtime_had(
    one_node: Scene, wish: str
) -> None:
    cluster, root = one_node.cluster, one_node.cluster.node_root(NODE)

    async with toolkit_gives_back(one_node):
        with stopped(await wait_process(cluster, NODE, AGENT_ROLE)):
            await one_node.wish(wish)
            await asyncio.sleep(LONGER_THAN_A_FAREWELL_S)
            assert await cluster.client.find(DAEMON_SETS, TOOLKIT, NAMESPACE)
            assert (root / JOURNAL).exists()


@pytest.mark.parametrize("wish", ["without toolkit", ABSENT])
async def test_a_toolkit_that_is_killed_in_the_middle_of_it_goes_on_when_it_is_back(
    one_node: Scene, wish: str
) -> None:
    cluster, root = one_node.cluster, one_node.cluster.node_root(NODE)

    async with toolkit_gives_back(one_node):
        pid = await wait_process(cluster, NODE, "toolkit")
        with stopped(pid):
            await one_node.wish(wish)
            await until(lambda: read_json(root / DESIRED).get("config") == {"enabled": False}, "told to go")
            os.kill(pid, signal.SIGKILL)

    assert not (root / DESIRED).exists()


@asynccontextmanager
async def toolkit_gives_back(one_node: Scene) -> AsyncIterator[None]:
    """Begins with the toolkit at work; by the end it has gone and the runtime has what it had before."""
    root = one_node.cluster.node_root(NODE)
    before = (root / CONFIG).read_text()
    await one_node.end_of("plain")
    assert (root / JOURNAL).exists()

    yield

    await one_node.cluster.wait_gone(DAEMON_SETS, TOOLKIT, NAMESPACE, timeout_s=60)
    assert not (root / JOURNAL).exists()
    assert (root / CONFIG).read_text() == before
    await one_node.end_of(ABSENT)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
