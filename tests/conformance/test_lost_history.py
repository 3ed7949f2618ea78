"""An API server that restarts while etcd is compacted: what vanished meanwhile is told as deleted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from tests.sim.fault_cluster import server_certificate
from tests.sim.faulty_proxy import FaultyProxy

from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.resources import CONFIGMAPS
from gpuready_sim.client import CONFIG_MAPS
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
DEADLINE_S = 90
NAMESPACE = "default"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    try:
        assets.require()
    except assets.MissingAssets as exc:
        pytest.skip(str(exc))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        async with Cluster.started("nodes: [{name: n}]", operator=False, api=Api.KUBERNETES) as cluster:
            yield cluster


async def test_what_vanished_while_the_history_was_compacted_is_told_as_deleted(
    real: Cluster, tmp_path: Path
):
    for name in ("stays", "goes"):
        await real.client.create(CONFIG_MAPS, config_map(name))
    certificate = server_certificate(real)
    async with FaultyProxy.in_front_of(
        real.kubeconfig, certificate, certificate.with_suffix(".key")
    ) as proxy:
        kubeconfig = proxy.kubeconfig_for(real.kubeconfig, tmp_path / "kubeconfig")
        async with KubeClient.from_kubeconfig(str(kubeconfig)) as client:
            cache: WatchCache[dict[str, Any]] = WatchCache(client, CONFIGMAPS, namespace=NAMESPACE)
            told: list[tuple[str, str]] = []
            cache.add_handler(lambda old, new: told.append(_told(old, new)))
            following = asyncio.create_task(cache.run())
            await asyncio.wait_for(cache.wait_synced(), DEADLINE_S)
            await until(lambda: cache.connected)

            await proxy.stop()
            await real.client.delete(CONFIG_MAPS, "goes", NAMESPACE)
            await real.client.create(CONFIG_MAPS, config_map("comes"))
            await compact(real)
            await real.fault("api-stop", seconds=1, timeout_s=120)  # its own memory of events goes with it
            told.clear()
            assert "default/goes" in cache.keys()  # noqa: SIM118
            await proxy.restart(away_s=0)
            await until(lambda: ("deleted", "goes") in told and ("added", "comes") in told)

            assert cache.restarts["expired"] == 1, "the server did not remember where we were"
            assert told.count(("deleted", "goes")) == 1
            assert ("added", "stays") not in told
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


def config_map(name: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _told(old: dict[str, Any] | None, new: dict[str, Any] | None) -> tuple[str, str]:
    what = "added" if old is None else "deleted" if new is None else "changed"
    found = new or old
    assert found is not None
    return what, found["metadata"]["name"]


async def until(check: Any) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not check():
            await asyncio.sleep(0.05)


async def compact(cluster: Cluster) -> None:
    """Have etcd forget every version but the last.

    Source: etcd's JSON gateway, api/etcdserverpb/rpc.proto, KV.Compact.
    """
    folder = cluster.place.data
    tls = ssl.create_default_context(cafile=str(next(folder.rglob("ca.crt"))))
    certificate = next(folder.rglob("etcd.crt"))
    tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
    url = etcd_url(folder)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
        async with session.post(f"{url}/v3/kv/range", json={"key": "AA=="}) as answer:
            revision = (await answer.json())["header"]["revision"]
        asked = {"revision": revision, "physical": True}
        async with session.post(f"{url}/v3/kv/compaction", json=asked) as answer:
            assert answer.status == 200, await answer.text()


def etcd_url(folder: Path) -> str:
    """From the command line of the etcd that keeps its data there."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if f"--data-dir={folder / 'etcd'}" in words:
            return next(w.partition("=")[2] for w in words if w.startswith("--advertise-client-urls="))
    raise AssertionError("etcd does not run")
