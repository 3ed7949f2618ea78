"""Both servers, each started once for all tests, and a namespace for each test."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sim.conftest import state_home

from gpuready_sim.cluster.processes import LAUNCH, ensure_native
from gpuready_sim.kubernetes import assets

from .api import Api

__all__ = ["state_home"]

SERVERS = ("embedded", "kubernetes")
CRDS = Path(__file__).parents[2] / "src/gpuready/api/crds"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks one server stays with it, where tests are spread over processes: `make conformance`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            asked = getattr(item, "callspec", None)
            group = asked.params.get("server") if asked is not None else None
            item.add_marker(pytest.mark.xdist_group(group or item.path.name))


@pytest.fixture(scope="session", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """(which, kubeconfig)"""
    with _started(request.param, tmp_path_factory) as kubeconfig:
        yield request.param, kubeconfig


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """kubeconfig by server, side by side."""
    with (
        _started("kubernetes", tmp_path_factory) as kubernetes,
        _started("embedded", tmp_path_factory) as embedded,
    ):
        yield {"kubernetes": kubernetes, "embedded": embedded}


@contextmanager
def _started(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if kind == "kubernetes":
        try:
            assets.require()
        except assets.MissingAssets as exc:
            pytest.skip(str(exc))
    ensure_native()
    directory = tmp_path_factory.mktemp(kind) / "cluster"
    argv = [str(LAUNCH), "--", sys.executable, "-m", "tests.conformance.serve", kind, str(directory)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n", f"{kind} did not start: see {directory}"
            yield directory / "kubeconfig"
        finally:
            process.stdin.close()
            process.wait(20)


@pytest.fixture
async def api(server: tuple[str, Path]) -> AsyncIterator[Api]:
    async with Api.connected(*server) as connected:
        await install_definitions(connected)
        yield connected


async def install_definitions(api: Api) -> None:
    for file in sorted(CRDS.glob("*.yaml")):
        await _install(api, yaml.safe_load(file.read_text()))


async def _install(api: Api, crd: dict[str, Any]) -> None:
    """Nothing happens when it is there already."""
    name = crd["metadata"]["name"]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await api.call("POST", path, crd)
    if made.status == 409:
        return
    assert made.status == 201, made.body
    async with api.watch(path, fieldSelector=f"metadata.name={name}") as watch:
        while not _is_established((await watch.next())["object"]):
            pass


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    name = f"c-{uuid.uuid4().hex[:8]}"
    await make_namespace(api, name)
    yield name
    await api.call("DELETE", f"/api/v1/namespaces/{name}")


async def make_namespace(api: Api, name: str) -> None:
    made = await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == 201, made.body
    async with api.watch(
        f"/api/v1/namespaces/{name}/serviceaccounts", fieldSelector="metadata.name=default"
    ) as watch:
        await watch.next()  # pods are refused until it is there
