"""A program that runs on a GPU is worth more than our proof."""

from __future__ import annotations

import pytest

from gpuready.gpu.proofs import EXCLUSIVE, Outcome, Proof, Use, reason_to_leave_alone


@pytest.mark.parametrize(
    ("use", "why"),
    [
        pytest.param(Use(free_mib=80000), "", id="nobody there"),
        pytest.param(Use(processes=1, used_mib=20000, free_mib=60000), "", id="room beside a program"),
        pytest.param(
            Use(processes=1, used_mib=80000, free_mib=900), "900 MiB of its memory are free", id="full"
        ),
        pytest.param(
            Use(used_mib=80000, free_mib=900),
            "900 MiB of its memory are free",
            id="full, by whom we cannot see",
        ),
        pytest.param(
            Use(EXCLUSIVE, 1, 500, 80000), "one process has it for itself", id="exclusive, and taken"
        ),
        pytest.param(Use(EXCLUSIVE, 0, 0, 80000), "", id="exclusive, and free"),
        pytest.param(Use(free_mib=700), "", id="a small card that nobody uses"),
    ],
)
def test_when_a_gpu_is_left_alone(use: Use, why: str) -> None:
    assert reason_to_leave_alone(use) == why


def test_a_proof_goes_through_json() -> None:
    proof = Proof("GPU-1", Outcome.FAILED, "cuInit", 802, "CUDA_ERROR_SYSTEM_NOT_READY", "not ready", 17)

    assert Proof.from_json(proof.to_json()) == proof
    assert Proof("GPU-1", Outcome.OK).to_json() == {"uuid": "GPU-1", "outcome": "ok"}
