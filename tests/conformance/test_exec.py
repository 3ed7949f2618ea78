"""`kubectl exec` into a simulated pod, through the embedded API server and a real one."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from gpuready_sim.client import PODS, Object
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets, clients

POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {
        "nodeName": "cpu",
        "containers": [{"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}],
    },
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("api", [Api.EMBEDDED, Api.KUBERNETES])
async def test_a_program_in_a_pod_is_run_and_its_end_is_ours(
    api: Api, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kubectls = clients.find("kubectl")
    if not kubectls:
        pytest.skip("no kubectl in the cache; run `make clients`")
    if api is Api.KUBERNETES:
        try:
            assets.require()
        except assets.MissingAssets as exc:
            pytest.skip(str(exc))
    name = f"x-{uuid.uuid4().hex[:6]}"
    async with Cluster.started("nodes: [{name: cpu}]", operator=False, api=api, name=name) as cluster:
        await cluster.apply(POD)
        await cluster.wait(PODS, "one", "default", lambda pod: pod["status"].get("phase") == "Running")
        for kubectl in kubectls:
            runs = [str(kubectl.path), "--kubeconfig", str(cluster.kubeconfig), "exec", "one", "--"]
            assert await _end(*runs, "printenv", "HOSTNAME") == (0, "one")
            code, text = await _end(*runs, "false")
            assert (code, text) == (1, "command terminated with exit code 1")
            code, text = await _end(*runs, "bash")
            assert code == 126
            assert text.startswith("exec ['bash'] is not known here; the simulator runs only:")


async def _end(*argv: str) -> tuple[int | None, str]:
    """Its exit status and all that it says."""
    both = asyncio.subprocess.STDOUT
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, stderr=both)
    said, _ = await process.communicate()
    return process.returncode, said.decode().strip()
