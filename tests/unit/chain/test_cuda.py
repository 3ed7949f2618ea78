"""Does a CUDA program run on the GPUs: every way in which it does not has its reason and its step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuready.chain.cuda import FAILURES, CudaFacts, Target, judge, line_of
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.gpu.proofs import Outcome, Proof

WHOLE = Verdict(Link.DRIVER, State.OK, "DriverLoaded", "driver 570.86.10")


def facts(*proofs: Proof | None, **changes: Any) -> CudaFacts:
    """One GPU for each proof, None where it is not made yet."""
    targets = tuple(Target(f"GPU-{index}", index) for index in range(len(proofs)))
    made = {proof.uuid: proof for proof in proofs if proof}
    return CudaFacts(**{"driver": WHOLE, "targets": targets, "proofs": made, **changes})


def ok(index: int) -> Proof:
    return Proof(f"GPU-{index}", Outcome.OK)


def failed(index: int, code: int = 719, call: str = "cuCtxSynchronize", **words: Any) -> Proof:
    name = words.pop("name", f"CUDA_ERROR_{code}")
    return Proof(f"GPU-{index}", words.pop("outcome", Outcome.FAILED), call, code, name, **words)


# --- when all is well -------------------------------------------------------------------------------------


def test_a_program_that_ran_on_every_gpu_makes_the_link_whole() -> None:
    verdict = judge(facts(ok(0), ok(1)))

    assert (verdict.state, verdict.reason) == (State.OK, "CudaWorks")
    assert verdict.message == "a CUDA program ran on 2 GPUs"


def test_gpus_in_use_are_as_good_as_proved() -> None:
    busy = Proof("GPU-1", Outcome.IN_USE, text="300 MiB of its memory are free")

    verdict = judge(facts(ok(0), busy, ok(2)))

    assert verdict.state is State.OK
    assert verdict.message == (
        "a CUDA program ran on 2 GPUs; GPU 1 (GPU-1) is in use by programs and left alone"
    )
    assert verdict.evidence == ("GPU 1 (GPU-1): 300 MiB of its memory are free",)


def test_a_node_full_of_programs_is_whole() -> None:
    busy = [Proof(f"GPU-{index}", Outcome.IN_USE, text="one process has it for itself") for index in (0, 1)]

    verdict = judge(facts(*busy))

    assert verdict.state is State.OK
    assert verdict.message == "GPUs 0, 1 are in use by programs and left alone"


def test_partitions_are_named_as_such() -> None:
    targets = (Target("MIG-a", 3, "1g.10gb"), Target("MIG-b", 3, "2g.20gb"))
    proofs = {"MIG-a": Proof("MIG-a", Outcome.OK), "MIG-b": Proof("MIG-b", Outcome.WRONG, text="1 is wrong")}

    verdict = judge(CudaFacts(WHOLE, targets=targets, proofs=proofs))

    assert "GPU 3, partition 2g.20gb (MIG-b): a program ran, and 1 is wrong" in verdict.message
    good = {uuid: Proof(uuid, Outcome.OK) for uuid in proofs}
    assert judge(CudaFacts(WHOLE, targets=targets, proofs=good)).message == (
        "a CUDA program ran on 2 GPUs and partitions"
    )


# --- before there is an answer ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "state", "reason", "words"),
    [
        pytest.param({}, State.WAITING, "ProofRunning", "being run on GPU 1 (GPU-1)", id="on its way"),
        pytest.param(
            {"wanted": None}, State.NOT_CHECKED, "ProofNotAsked", "nobody has asked", id="no word of it yet"
        ),
        pytest.param(
            {"wanted": False}, State.NOT_CHECKED, "ProofNotWanted", "WITH_WORKLOAD=false", id="not wanted"
        ),
        pytest.param(
            {"paused": "nvidia.com/gpu.deploy.device-plugin=paused-for-x"},
            State.WAITING,
            "Paused",
            "paused-for-x",
            id="another driver is on its way",
        ),
        pytest.param(
            {"driver": Verdict(Link.DRIVER, State.BROKEN, "DriverNotLoaded", "not loaded")},
            State.WAITING,
            "WaitingForDriver",
            "for driver: DriverNotLoaded",
            id="no driver",
        ),
        pytest.param(
            {"driver": Verdict(Link.DRIVER, State.NOT_CHECKED, "NoGpu", "no GPU")},
            State.NOT_CHECKED,
            "NoGpu",
            "no GPU",
            id="no GPU",
        ),
        pytest.param({"targets": ()}, State.NOT_CHECKED, "NothingToProve", "no GPU", id="no GPU is well"),
    ],
)
def test_why_there_is_no_answer_yet(changes: Any, state: State, reason: str, words: str) -> None:
    verdict = judge(facts(ok(0), None, **changes))

    assert (verdict.state, verdict.reason) == (state, reason)
    assert words in verdict.message


def test_a_gpu_that_failed_is_told_before_the_others_are_done() -> None:
    assert judge(facts(failed(0), None)).reason == "KernelFailed"


# --- when it does not work --------------------------------------------------------------------------------

NO_MODULE = {"uvm_loaded": False}


@pytest.mark.parametrize(
    ("proof", "changes", "reason", "step"),
    [
        pytest.param(failed(0, 3), NO_MODULE, "UvmNotLoaded", "modprobe nvidia-uvm", id="3 without uvm"),
        pytest.param(failed(0, 999), NO_MODULE, "UvmNotLoaded", "modprobe nvidia-uvm", id="999 without uvm"),
        pytest.param(failed(0, 999), {}, "CudaFailed", "kernel log", id="999"),
        pytest.param(failed(0, 46), {}, "DeviceUnavailable", "nvidia-smi -q -i 0", id="46"),
        pytest.param(failed(0, 100), {}, "CudaSeesNoGpu", "nvidia-modprobe -u -c 0", id="100"),
        pytest.param(failed(0, 101), {}, "CudaSeesNoGpu", "kernel log", id="101"),
        pytest.param(failed(0, 102), {}, "LicenseMissing", "licence", id="102"),
        pytest.param(failed(0, 214), {}, "EccUncorrectable", "--gpu-reset -i 0", id="214"),
        pytest.param(failed(0, 218), {}, "PtxRefused", "another driver version", id="218"),
        pytest.param(failed(0, 220), {}, "NvlinkUncorrectable", "--gpu-reset -i 0", id="220"),
        pytest.param(failed(0, 221), {}, "CompilerNotFound", "libnvidia-ptxjitcompiler.so.1", id="221"),
        pytest.param(failed(0, 222), {}, "DriverTooOld", "branch 450", id="222"),
        pytest.param(failed(0, 500), {}, "CudaLibraryTooOld", "branch 450", id="500"),
        pytest.param(failed(0, 700), {}, "KernelFailed", "--gpu-reset -i 0", id="700"),
        pytest.param(failed(0, 800), {}, "NotPermitted", "privileged", id="800"),
        pytest.param(failed(0, 802), {}, "SystemNotReady", "nvidia-fabricmanager", id="802"),
        pytest.param(failed(0, 803), {}, "DriverLibraryMismatch", "reboot", id="803"),
        pytest.param(failed(0, 804), {}, "CompatNotSupported", "cuda-compat", id="804"),
        pytest.param(failed(0, 805), {}, "MpsNotReady", "MPS control daemon", id="805"),
        pytest.param(
            failed(0, 4711), {}, "CudaFailed", "gpuready.dev/prove-cuda", id="a number nobody knows"
        ),
        pytest.param(failed(0, -1), {}, "CudaLibraryNotLoadable", "libcuda.so.1", id="not loadable"),
        pytest.param(failed(0, 0, name="Prohibited"), {}, "ComputeProhibited", "-c DEFAULT", id="prohibited"),
        pytest.param(
            Proof("GPU-0", Outcome.WRONG, text="1 is wrong"), {}, "WrongResult", "out of use", id="wrong"
        ),
        pytest.param(
            Proof("GPU-0", Outcome.TIMED_OUT, "cuInit"), {}, "CudaHangs", "reboot the node", id="hangs"
        ),
        pytest.param(
            Proof("GPU-0", Outcome.CRASHED, "cuInit"), {}, "CudaCrashed", "driver anew", id="crashes"
        ),
    ],
)
def test_each_failure_has_its_reason_and_its_step(proof: Proof, changes: Any, reason: str, step: str) -> None:
    verdict = judge(facts(proof, **changes))

    assert (verdict.state, verdict.reason) == (State.BROKEN, reason)
    assert step in verdict.next_step
    assert "{index}" not in verdict.next_step + verdict.message
    assert verdict.message.startswith("CUDA does not work on 1 of 1 GPU: GPU 0 (GPU-0): ")


def test_one_gpu_that_fails_leaves_the_node_degraded() -> None:
    verdict = judge(facts(ok(0), failed(1, 214, text="uncorrectable ECC error encountered"), ok(2)))

    assert verdict.state is State.DEGRADED
    assert verdict.message == (
        "CUDA does not work on 1 of 3 GPUs: GPU 1 (GPU-1): cuCtxSynchronize: CUDA_ERROR_214 (214), "
        "uncorrectable ECC error encountered"
    )


def test_many_gpus_that_fail_alike_are_counted_and_their_cause_said_once() -> None:
    verdict = judge(facts(*[failed(index, 802, "cuInit") for index in range(8)]))

    assert verdict.state is State.BROKEN
    assert verdict.message.count("cuInit") == 4
    assert verdict.message.endswith("; 4 more")
    assert len(verdict.evidence) == 1 + 4
    assert "NVSwitch" in verdict.evidence[0]


def test_a_mismatch_names_both_versions() -> None:
    versions = {"library_version": "550.163.01", "module_version": "570.86.10"}

    verdict = judge(facts(failed(0, 803, "cuInit"), **versions))

    assert verdict.evidence == ("libcuda is 550.163.01, the kernel module 570.86.10",)


@pytest.mark.parametrize(("code", "reason"), [(2, "GpuFull"), (209, "GpuTooOld")])
def test_what_says_nothing_of_the_gpu_breaks_nothing(code: int, reason: str) -> None:
    """Also where it is the only one: a false alarm must not stop a node."""
    verdict = judge(facts(failed(0, code)))

    assert (verdict.state, verdict.reason) == (State.DEGRADED, reason)
    assert "says nothing of whether it works" in verdict.message


def test_a_driver_without_libcuda_is_broken_and_says_where_it_was_searched() -> None:
    verdict = judge(facts(None, searched=("/usr/lib64", "/lib64")))

    assert (verdict.state, verdict.reason) == (State.BROKEN, "CudaLibraryNotFound")
    assert verdict.evidence == ("searched: /usr/lib64, /lib64",)


def test_a_process_of_ours_that_fails_accuses_no_gpu() -> None:
    verdict = judge(facts(None, trouble="its process ended with status 1: MemoryError"))

    assert (verdict.state, verdict.reason) == (State.DEGRADED, "ProofNotMade")
    assert "no CUDA program was run: its process ended with status 1: MemoryError" in verdict.message


@pytest.mark.parametrize(
    ("proof", "line"),
    [
        (failed(0, 802, "cuInit", text="not ready"), "cuInit: CUDA_ERROR_802 (802), not ready"),
        (failed(0, -1, "dlopen", name="CannotBeLoaded"), "dlopen: CannotBeLoaded"),
        (
            Proof("u", Outcome.TIMED_OUT, "cuCtxSynchronize", text="it did not return within 30 s"),
            "cuCtxSynchronize hangs: it did not return within 30 s",
        ),
        (
            Proof("u", Outcome.CRASHED, "cuInit", text="the process ended with signal 11"),
            "the process ended with signal 11 in cuInit",
        ),
    ],
)
def test_one_line_says_which_call_and_what(proof: Proof, line: str) -> None:
    assert line_of(proof) == line


# --- where NVIDIA's validator does it ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ({"gate": True}, State.OK, "CudaWorks"),
        ({}, State.WAITING, "CudaNotReady"),
        ({"validator_label": "paused-for-driver-upgrade"}, State.WAITING, "Paused"),
        ({"validator_label": "false"}, State.NOT_CHECKED, "OptedOut"),
    ],
)
def test_nvidias_validator_is_believed_by_its_gate(changes: Any, state: State, reason: str) -> None:
    verdict = judge(facts(None, original=True, **changes))

    assert (verdict.state, verdict.reason) == (state, reason)


# --- what the documentation says --------------------------------------------------------------------------


def test_every_reason_stands_in_the_reference() -> None:
    """A person who reads one in a condition finds it there."""
    page = (Path(__file__).parents[3] / "docs/reference/cuda.md").read_text()

    assert [reason for reason in FAILURES if f"`{reason}`" not in page] == []
