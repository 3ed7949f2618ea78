"""The last link: a program runs on every GPU, and who reads of the node learns where it does not, and why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sim.node_cluster import (
    AGENT_ROLE,
    daemon_pod,
    doctor,
    event,
    gate,
    gpu_node,
    gpu_ready,
    kill,
    read_json,
    ready_cluster,
    restarts,
    until,
)
from tests.sim.operator_cluster import GPU_NODES, link, offers, policy

from gpuready_sim.client import NODES
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: four, gpus: {H100-SXM5-80GB: 4}, driver: {where: host}}
- {name: one, gpus: {L4: 1}, driver: {where: container}}
"""
CUDA_RECORD = "run/gpuready/records/cuda.json"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with ready_cluster(SPEC, nodes=("four", "one")) as running:
        yield running


def cuda_is(reason: str, *words: str) -> Any:
    def check(found: Any) -> bool:
        row = link(found, "cuda")
        return row.get("reason") == reason and all(word in row["message"] for word in words)

    return check


def is_ready(obj: Any) -> bool:
    return bool(obj["status"]["containerStatuses"][0]["ready"])


async def prove_again(cluster: Cluster, node: str, value: str) -> None:
    patch = {"metadata": {"annotations": {"gpuready.dev/prove-cuda": value}}}
    await cluster.client.merge_patch(NODES, node, patch)


@asynccontextmanager
async def broken(cluster: Cluster, target: str, kind: str) -> AsyncIterator[None]:
    """CUDA is broken so on this GPU, and a person asks for another proof, before and after."""
    node = target.partition("/")[0]
    await cluster.fault("cuda", target=target, trouble=kind)
    await prove_again(cluster, node, f"{kind}-broken")
    yield
    await cluster.fault("cuda", target=target, trouble=kind, on=False)
    await prove_again(cluster, node, f"{kind}-mended")
    await gpu_node(cluster, node, cuda_is("CudaWorks"))


async def test_a_program_has_run_on_every_gpu_when_a_node_is_ready(cluster):
    for node, said in (("four", "a CUDA program ran on 4 GPUs"), ("one", "a CUDA program ran on 1 GPU")):
        found = await gpu_node(cluster, node, cuda_is("CudaWorks", said))

        assert found["status"]["columns"]["cuda"] == "ok"
        assert gate(cluster, node, "cuda-ready").read_bytes() == b""
        assert json.loads(gate(cluster, node, "cuda-ready.json").read_bytes())["reason"] == "CudaWorks"
    status, said = await doctor(cluster, "four")
    assert (status, "ok    cuda           a CUDA program ran on 4 GPUs" in said) == (0, True)


async def test_an_agent_that_starts_anew_takes_the_proofs_as_they_are(cluster):
    root = cluster.node_root("four")
    before = (root / CUDA_RECORD).stat().st_mtime_ns
    count = restarts(await daemon_pod(cluster, "four", AGENT_ROLE))
    await cluster.fault("cuda", target="four/1", trouble="ecc")  # another proof would see it
    await kill(cluster, "four", AGENT_ROLE)

    await daemon_pod(cluster, "four", AGENT_ROLE, lambda obj: restarts(obj) > count and is_ready(obj))

    found = await gpu_node(cluster, "four", cuda_is("CudaWorks"))
    assert found["status"]["columns"]["cuda"] == "ok"
    assert (root / CUDA_RECORD).stat().st_mtime_ns == before
    await cluster.fault("cuda", target="four/1", trouble="ecc", on=False)


@pytest.mark.parametrize(
    ("kind", "reason", "said", "step"),
    [
        ("ecc", "EccUncorrectable", "cuCtxSynchronize: CUDA_ERROR_ECC_UNCORRECTABLE (214)", "reset it"),
        (
            "wrong-result",
            "WrongResult",
            "a program ran, and its answer is wrong in 1 of 4096 numbers",
            "out of use",
        ),
        ("system-not-ready", "SystemNotReady", "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802)", "fabricmanager"),
        ("no-compiler", "CompilerNotFound", "PTX JIT compiler library not found", "ptxjitcompiler"),
    ],
)
async def test_a_gpu_on_which_no_program_runs_is_named_and_the_others_serve(
    cluster, kind, reason, said, step
):
    async with broken(cluster, "four/2", kind):
        found = await gpu_node(cluster, "four", cuda_is(reason, "GPU 2", said))
        told = await event(cluster, "four", reason, "cuda: CUDA does not work on 1 of 4 GPUs")
        status, printed = await doctor(cluster)

        assert found["status"]["columns"]["cuda"] == "degraded"
        assert step in link(found, "cuda")["nextStep"]
        assert told["type"] == "Warning"
        assert (status, found["status"]["reason"]) == (1, reason)
        assert "warn  node/four  cuda  CUDA does not work on 1 of 4 GPUs: GPU 2" in printed
        node = await cluster.wait(NODES, "four", until=offers(4))
        assert gpu_ready(node) == "True"  # what works is not taken away
        assert gate(cluster, "four", "cuda-ready").exists()


async def test_a_node_whose_only_gpu_runs_no_program_is_not_ready(cluster):
    async with broken(cluster, "one/0", "launch-failed"):
        found = await gpu_node(cluster, "one", cuda_is("KernelFailed", "CUDA_ERROR_LAUNCH_FAILED (719)"))
        node = await cluster.wait(NODES, "one", until=lambda obj: gpu_ready(obj) == "False")
        await until(lambda: not gate(cluster, "one", "cuda-ready").exists(), "the gate is closed")

        assert found["status"]["columns"]["cuda"] == "broken"
        assert offers(1)(node)  # the health engine alone takes a GPU away
    await cluster.wait(NODES, "one", until=lambda obj: gpu_ready(obj) == "True")


async def test_a_gpu_that_had_a_reset_is_proved_anew(cluster):
    await cluster.fault("xid", target="four/3", code=109)
    await cluster.wait(NODES, "four", until=offers(3))
    await gpu_node(cluster, "four", cuda_is("CudaWorks", "ran on 3 GPUs"))  # one voice: the health engine's
    await cluster.fault("cuda", target="four/3", trouble="wrong-result")

    await cluster.fault("reset", target="four/3")

    await gpu_node(cluster, "four", cuda_is("WrongResult", "GPU 3"))
    await cluster.fault("cuda", target="four/3", trouble="wrong-result", on=False)
    # Tried again by itself, after some seconds: nobody has to ask.
    await gpu_node(cluster, "four", cuda_is("CudaWorks", "ran on 4 GPUs"))


async def test_a_gpu_that_is_full_is_left_to_its_program(cluster):
    await cluster.gpu("load", target="four/1", words=["idle"], usedMib=80400)
    await prove_again(cluster, "four", "while one is full")

    found = await gpu_node(cluster, "four", cuda_is("CudaWorks", "ran on 3 GPUs", "GPU 1", "in use"))

    assert found["status"]["columns"]["cuda"] == "ok"
    rows = read_json(cluster.node_root("four") / CUDA_RECORD)["proofs"]
    assert sorted(row["outcome"] for row in rows) == ["in-use", "ok", "ok", "ok"]


async def test_a_policy_that_wants_no_program_gets_none_and_the_gate_all_the_same(cluster):
    env = [{"name": "WITH_WORKLOAD", "value": "false"}]
    await cluster.apply(policy(validator={"cuda": {"env": env}}))

    found = await cluster.wait(GPU_NODES, "one", until=cuda_is("ProofNotWanted"))

    assert found["status"]["columns"]["cuda"] == "-"
    assert gate(cluster, "one", "cuda-ready").exists()
    await cluster.apply(policy())
    await gpu_node(cluster, "one", cuda_is("CudaWorks"))
