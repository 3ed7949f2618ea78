"""status and doctor against a live API server: what is typed, what is printed, how it exits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from tests.sim.conftest import StartCluster

from gpuready import names
from gpuready.cli import main
from gpuready.commands import gpuready
from gpuready.kube.client import KubeClient
from gpuready.kube.resources import CLUSTER_POLICIES, GPU_NODES, NODES
from gpuready_sim.cluster.control_plane import install_crds

TWO_NODES = "nodes: [{name: cpu-0}, {name: l4-0, gpus: {L4: 1}}]"
BROKEN = {
    "link": "driver",
    "state": "broken",
    "reason": "DriverLibraryMismatch",
    "message": "library 570.9, module 570.1",
    "nextStep": "reboot the node",
}


async def run(*arguments: str) -> int:
    return await asyncio.to_thread(main, arguments)


async def a_gpu_node_with_a_broken_driver(kubeconfig: str) -> None:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        policy = {"apiVersion": names.CLUSTER_POLICY_API, "kind": "ClusterPolicy", "metadata": {"name": "p"}}
        await client.create(CLUSTER_POLICIES, {**policy, "spec": {}})
        labels = {names.NFD_PCI_LABELS[0]: "true"}
        await client.merge_patch(NODES, "l4-0", {"metadata": {"labels": labels}})
        gpu_node: dict[str, Any] = {"apiVersion": names.GPU_NODE_API, "kind": "GPUNode"}
        await client.create(GPU_NODES, {**gpu_node, "metadata": {"name": "l4-0"}, "spec": {}})
        status = {"chain": [BROKEN], "gpus": 1, "healthy": 0}
        await client.merge_patch(GPU_NODES, "l4-0", {"status": status}, subresource="status")


async def test_the_tools_on_a_live_cluster(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = await start_cluster(TWO_NODES)
    kubeconfig = str(cluster.kubeconfig)

    assert await run("doctor", "--kubeconfig", kubeconfig) == 1
    assert "gpuready crds | kubectl apply --server-side -f -" in capsys.readouterr().out

    await install_crds(cluster.client)
    assert await run("doctor", "--kubeconfig", kubeconfig) == 1
    assert "there is no ClusterPolicy" in capsys.readouterr().out

    await a_gpu_node_with_a_broken_driver(kubeconfig)
    assert await run("status", "--kubeconfig", kubeconfig, "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(node["name"], node["gpus"]) for node in shown["nodes"]] == [("l4-0", 1)]
    assert (shown["nodesWithoutGpus"], shown["nodesNotLookedAt"]) == (0, 1), "no agent runs on cpu-0"

    assert await run("doctor", "--kubeconfig", kubeconfig, "--node", "l4-0") == 1
    told = capsys.readouterr().out
    assert "FAIL  driver         library 570.9, module 570.1" in told
    assert "next           reboot the node" in told


async def test_a_server_that_does_not_answer_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )

    for command in ("doctor", "status"):
        assert await run(command, "--kubeconfig", str(kubeconfig)) == 2
        assert "did not answer" in capsys.readouterr().err


async def test_the_tab_key_knows_the_names_of_nodes(start_cluster: StartCluster) -> None:
    def completed(word: str, *typed: str) -> list[str]:
        found = ShellComplete(gpuready, {}, "gpuready", "_GPUREADY_COMPLETE")
        return [item.value for item in found.get_completions(["doctor", *typed, "--node"], word)]

    cluster = await start_cluster(TWO_NODES)
    where = ("--kubeconfig", str(cluster.kubeconfig))

    assert await asyncio.to_thread(completed, "", *where) == ["cpu-0", "l4-0"]
    assert await asyncio.to_thread(completed, "l4", *where) == ["l4-0"]
    assert await asyncio.to_thread(completed, "", "--kubeconfig", "/nowhere") == []
