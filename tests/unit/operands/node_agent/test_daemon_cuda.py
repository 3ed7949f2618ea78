"""The node agent has CUDA proved: when, when not, and what ends a proof."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operands.node_agent.fake_api import FakeApi
from tests.unit.operands.node_agent.machine import (
    FakeCudaChild,
    HangingCudaChild,
    device_row,
    inventory,
    mismatch,
)
from tests.unit.operands.node_agent.one_node import (
    gpu_node,
    host_driver,
    link,
    node,
    running,
    status,
    whole,
)

from gpuready import names
from gpuready.gpu.proofs import Outcome, Proof


async def test_a_program_is_run_once_on_each_gpu_beside_the_advertising(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    proofs = FakeCudaChild()
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())

    async with running(api, machine, child, proofs):
        await api.until(lambda: link(api, "cuda")["state"] == "ok")
        assert link(api, "device-plugin")["state"] == "waiting"
        await whole(api, machine)
    async with running(api, machine, child, proofs):
        await api.until(lambda: status(api)["columns"]["cuda"] == "ok")

    assert proofs.asked == [["GPU-0", "GPU-1"]]
    assert machine.gate("cuda-ready").read_text() == ""


async def test_a_person_asks_for_another_proof(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    proofs = FakeCudaChild()
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    async with running(api, machine, child, proofs):
        await whole(api, machine)
        proofs.outcomes["GPU_1"] = Proof("GPU-1", Outcome.FAILED, "cuInit", 802)

        await api.change("nodes", "n1", {"metadata": {"annotations": {names.PROVE_CUDA_ANNOTATION: "1"}}})

        await api.until(lambda: link(api, "cuda")["reason"] == "SystemNotReady")
    assert proofs.asked == [["GPU-0", "GPU-1"]] * 2


async def test_a_gpu_that_is_in_mig_mode_by_now_is_not_proved_as_a_whole(
    api: FakeApi, tmp_path: Path
) -> None:
    """No program runs on such a GPU: a proof of it would call a healthy card broken."""
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    async with running(api, machine, child):
        await whole(api, machine)
        first, second = inventory().gpus
        child.answer = dataclasses.replace(
            inventory(), gpus=(first, dataclasses.replace(second, mig_enabled=True))
        )

        machine.write_record(devices=[device_row(0), {**device_row(1), "migEnabled": True}])

        await api.until(lambda: link(api, "cuda")["message"] == "a CUDA program ran on 1 GPU")


async def test_a_record_of_proofs_that_cannot_be_written_ends_no_agent(api: FakeApi, tmp_path: Path) -> None:
    machine, child = host_driver(tmp_path)
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    async with running(api, machine, child):
        await whole(api, machine)
        record = machine.path(f"{names.RECORDS_DIR}/cuda.json")
        record.unlink()
        record.mkdir()

        machine.write_record(unhealthy={1: 79})

        await api.until(lambda: link(api, "device-plugin")["state"] == "degraded")
        assert link(api, "cuda")["message"] == "a CUDA program ran on 1 GPU"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param(
            "nodes",
            {"metadata": {"labels": {names.DEPLOY_DEVICE_PLUGIN: "paused-for-driver-upgrade"}}},
            id="another driver comes",
        ),
        pytest.param("gpunodes", {"spec": {"cuda": {"enabled": False}}}, id="the policy wants none any more"),
    ],
)
async def test_a_program_that_is_not_wanted_any_more_is_ended(
    api: FakeApi, tmp_path: Path, kind: str, change: dict[str, Any]
) -> None:
    """It holds the device nodes open, and nobody can unload a driver that is in use."""
    machine, child = host_driver(tmp_path)
    proofs = HangingCudaChild()
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    async with running(api, machine, child, proofs):
        await api.until(lambda: link(api, "cuda")["reason"] == "ProofRunning" and proofs.running == 1)

        await api.change(kind, "n1", change)

        await api.until(lambda: proofs.running == 0)


async def test_a_program_of_a_driver_that_is_updated_meanwhile_is_ended(api: FakeApi, tmp_path: Path) -> None:
    """What comes of it counts no more, and nobody can load the new module while it holds the old one."""
    machine, child = host_driver(tmp_path)
    proofs = HangingCudaChild()
    await api.put("nodes", node())
    await api.put("gpunodes", gpu_node())
    async with running(api, machine, child, proofs):
        await api.until(lambda: link(api, "cuda")["reason"] == "ProofRunning" and proofs.running == 1)
        child.answer = mismatch()

        machine.install_driver("570.124.06")

        await api.until(lambda: proofs.running == 0)


@pytest.mark.parametrize(
    ("spec", "labels", "reason"),
    [
        pytest.param({"cuda": {"enabled": False}}, {}, "ProofNotWanted", id="the policy wants none"),
        pytest.param({"gates": {"enabled": False}}, {}, "CudaNotReady", id="it is NVIDIA's validator's"),
        pytest.param(
            {}, {names.DEPLOY_DEVICE_PLUGIN: "paused-for-driver-upgrade"}, "Paused", id="another driver comes"
        ),
    ],
)
async def test_when_no_program_is_run(
    api: FakeApi, tmp_path: Path, spec: dict[str, Any], labels: dict[str, str], reason: str
) -> None:
    machine, child = host_driver(tmp_path)
    proofs = FakeCudaChild()
    wish = gpu_node()
    wish["spec"] |= spec
    await api.put("nodes", node(labels=labels))
    await api.put("gpunodes", wish)

    async with running(api, machine, child, proofs):
        await api.until(lambda: link(api, "cuda")["reason"] == reason)

    assert proofs.asked == []
