"""Does a CUDA program run on this node's GPUs, and if not: on which not, and why.

Pure. Facts: what came of a small program on each GPU and MIG device (gpu/cuda_child.py), and the driver's
verdict. It only says so: no GPU is taken out of service for a proof that failed (decision 23); the health
engine does that, by what the driver tells of the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuready import names
from gpuready.chain.device_plugin import PAUSED
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.chain.wording import counted
from gpuready.gpu.proofs import Outcome, Proof

WORKS = "CudaWorks"
NOT_WANTED = "ProofNotWanted"  # not checked, and the gate is there all the same, as the original leaves it
_MOST_NAMED = 4
_AGAIN = f"to have it run again: kubectl annotate node NODE {names.PROVE_CUDA_ANNOTATION}=now --overwrite"


@dataclass(frozen=True)
class Target:
    """What a program is to be run on: a GPU, or a MIG device of one (`profile` "1g.10gb")."""

    uuid: str
    index: int
    profile: str = ""

    @property
    def label(self) -> str:
        part = f", partition {self.profile}" if self.profile else ""
        return f"GPU {self.index}{part} ({self.uuid})"


@dataclass(frozen=True)
class CudaFacts:
    """Everything that `judge` may know.

    wanted            the policy lets a program be run; None while nobody has said
    paused            why none is begun now, in words; "" = nothing speaks against it
    original          NVIDIA's validator does that, not we: its gate is all there is
    gate              the gate cuda-ready is there
    validator_label   value of nvidia.com/gpu.deploy.operator-validator ("" = absent)
    targets           GPUs and MIG devices that are well; the others have their link
    proofs            by uuid; one that is missing is on its way
    trouble           why no program could be run at all: our process's own words
    searched          where libcuda was looked for, when there is none
    library_version   of libcuda; "" when it is not known, or nothing was run
    uvm_loaded        the kernel has nvidia_uvm, without which CUDA starts nothing
    """

    driver: Verdict
    wanted: bool | None = True
    paused: str = ""
    original: bool = False
    gate: bool = False
    validator_label: str = ""
    targets: tuple[Target, ...] = ()
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    trouble: str = ""
    searched: tuple[str, ...] = ()
    library_version: str = ""
    module_version: str = ""
    uvm_loaded: bool = True


def judge(facts: CudaFacts) -> Verdict:
    if facts.driver.state is State.NOT_CHECKED:
        return _verdict(State.NOT_CHECKED, facts.driver.reason, facts.driver.message)
    if facts.original:
        return _by_the_original(facts)
    if not facts.driver.is_whole:
        return _verdict(State.WAITING, "WaitingForDriver", f"for driver: {facts.driver.reason}")
    if facts.wanted is False:
        said = "the policy lets no program be run (validator.cuda.env: WITH_WORKLOAD=false)"
        return _verdict(State.NOT_CHECKED, NOT_WANTED, said)
    return _without_library(facts) or _without_process(facts) or _by_proofs(facts)


def _by_the_original(facts: CudaFacts) -> Verdict:
    if facts.gate:
        return _verdict(State.OK, WORKS, "NVIDIA's validator has found CUDA ready")
    label = f"{names.DEPLOY_VALIDATOR}={facts.validator_label}"
    if facts.validator_label.startswith(PAUSED):
        return _verdict(State.WAITING, "Paused", f"paused: {label}")
    if facts.validator_label not in ("", "true"):
        return _verdict(State.NOT_CHECKED, "OptedOut", f"opted out: {label}")
    step = "look at the pods nvidia-operator-validator and nvidia-cuda-validator on this node, if this lasts"
    said = "NVIDIA's validator has not found CUDA ready yet"
    return _verdict(State.WAITING, "CudaNotReady", said, next_step=step)


def _without_library(facts: CudaFacts) -> Verdict | None:
    if not facts.searched:
        return None
    said = "the driver has no libcuda.so.1: no CUDA program can start"
    searched = f"searched: {', '.join(facts.searched)}"
    step = "install the driver's compute libraries (libcuda.so.1), of the version of the driver"
    return _verdict(State.BROKEN, "CudaLibraryNotFound", said, (searched,), step)


def _without_process(facts: CudaFacts) -> Verdict | None:
    """Our own failure: it says nothing of the GPUs."""
    if not facts.trouble:
        return None
    said = f"no CUDA program was run: {facts.trouble}"
    step = f"read the log of the node agent's pod; {_AGAIN}"
    return _verdict(State.DEGRADED, "ProofNotMade", said, next_step=step)


def _by_proofs(facts: CudaFacts) -> Verdict:
    if not facts.targets:
        return _verdict(State.NOT_CHECKED, "NothingToProve", "no GPU or partition here can run a program now")
    waiting = [target for target in facts.targets if target.uuid not in facts.proofs]
    failed = [target for target in facts.targets if _has_failed(facts, target)]
    if failed:
        return _failed(facts, failed)
    if waiting and facts.wanted is None:
        said = f"nobody has asked yet for a CUDA program to be run on {_listed(waiting)}"
        return _verdict(State.NOT_CHECKED, "ProofNotAsked", said)
    if waiting and facts.paused:
        return _verdict(State.WAITING, "Paused", f"paused: {facts.paused}")
    if waiting:
        said = f"a CUDA program is being run on {_listed(waiting)}"
        return _verdict(State.WAITING, "ProofRunning", said)
    full = [target for target in facts.targets if not facts.proofs[target.uuid].is_good]
    return _unproved(facts, full) if full else _works(facts)


def _has_failed(facts: CudaFacts, target: Target) -> bool:
    proof = facts.proofs.get(target.uuid)
    return proof is not None and not proof.is_good and proof.code not in _PROVES_NOTHING


def _works(facts: CudaFacts) -> Verdict:
    busy = [target for target in facts.targets if facts.proofs[target.uuid].outcome is Outcome.IN_USE]
    ran = len(facts.targets) - len(busy)
    parts = [f"a CUDA program ran on {_counted(facts.targets, ran)}"] if ran else []
    if busy:
        left = f"{_listed(busy)} {'is' if len(busy) == 1 else 'are'} in use by programs and left alone"
        parts.append(left)
    evidence = tuple(f"{target.label}: {facts.proofs[target.uuid].text}" for target in busy[:_MOST_NAMED])
    return _verdict(State.OK, WORKS, "; ".join(parts), evidence)


def _counted(targets: Sequence[Target], number: int) -> str:
    """ "8 GPUs"; MIG devices are counted as what they are."""
    word = "GPU" if not any(target.profile for target in targets) else "GPU or partition"
    if word == "GPU" or number == 1:
        return counted(number, word)
    return f"{number} GPUs and partitions"


def _listed(targets: Sequence[Target]) -> str:
    if len(targets) == 1:
        return targets[0].label
    indices = list(dict.fromkeys(str(target.index) for target in targets))
    return f"{'GPU' if len(indices) == 1 else 'GPUs'} {', '.join(indices)}"


# --- what went wrong --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explained:
    """reason as everywhere; next_step with {index} for the GPU's."""

    reason: str
    next_step: str
    why: str = ""


def _failed(facts: CudaFacts, failed: Sequence[Target]) -> Verdict:
    """Some of the GPUs: the node serves with the others. All: a pod that gets one cannot use it."""
    lines = [f"{target.label}: {line_of(facts.proofs[target.uuid])}" for target in failed]
    explained = [(target, explain(facts, facts.proofs[target.uuid])) for target in failed]
    first = explained[0][1]
    good = sum(facts.proofs[target.uuid].is_good for target in facts.targets if target.uuid in facts.proofs)
    state = State.DEGRADED if good else State.BROKEN
    steps = dict.fromkeys(each.next_step.replace("{index}", str(target.index)) for target, each in explained)
    whys = tuple(dict.fromkeys(each.why for _, each in explained if each.why))
    head = f"CUDA does not work on {len(failed)} of {_counted(facts.targets, len(facts.targets))}"
    more = f"; {len(lines) - _MOST_NAMED} more" if len(lines) > _MOST_NAMED else ""
    return _verdict(
        state,
        first.reason,
        f"{head}: {'; '.join(lines[:_MOST_NAMED])}{more}",
        (*whys, *lines[_MOST_NAMED:]),
        "; ".join([*list(steps)[:_MOST_NAMED]]),
    )


def _unproved(facts: CudaFacts, full: Sequence[Target]) -> Verdict:
    """Nothing is known to be wrong."""
    lines = [f"{target.label}: {line_of(facts.proofs[target.uuid])}" for target in full]
    explained = explain(facts, facts.proofs[full[0].uuid])
    step = explained.next_step.replace("{index}", str(full[0].index))
    said = f"no CUDA program could be run on {_listed(full)}, which says nothing of whether it works"
    return _verdict(State.DEGRADED, explained.reason, said, tuple(lines), step)


def line_of(proof: Proof) -> str:
    """One phrase: which call, what it said."""
    if proof.outcome is Outcome.WRONG:
        return f"a program ran, and {proof.text}"
    if proof.outcome is Outcome.TIMED_OUT:
        return f"{proof.call} hangs: {proof.text}"
    if proof.outcome is Outcome.CRASHED:
        return f"{proof.text} in {proof.call}"
    number = f" ({proof.code})" if proof.code > 0 else ""
    return f"{proof.call}: {proof.name}{number}" + (f", {proof.text}" if proof.text else "")


def explain(facts: CudaFacts, proof: Proof) -> Explained:
    if proof.outcome is Outcome.WRONG:
        return _WRONG
    if proof.outcome is Outcome.TIMED_OUT:
        return _HANGS
    if proof.outcome is Outcome.CRASHED:
        return _CRASHED
    if proof.name == "Prohibited":
        return _PROHIBITED
    if proof.code in (3, 100, 304, 999) and not facts.uvm_loaded:
        return _NO_UVM
    found = _BY_CODE.get(proof.code, _UNKNOWN)
    if proof.code == 803 and facts.library_version:
        versions = (
            f"libcuda is {facts.library_version}, the kernel module {facts.module_version or 'unknown'}"
        )
        return Explained(found.reason, found.next_step, versions)
    return found


_LOOK_AT_LOG = "look for NVRM lines in the kernel log (journalctl -k | grep NVRM)"
_RESET = "when nothing uses it, reset it (nvidia-smi --gpu-reset -i {index})"
_WRONG = Explained(
    "WrongResult",
    "take GPU {index} out of use: drain the node, reset it (nvidia-smi --gpu-reset -i {index}), and have "
    "the card replaced if it computes wrong again",
)
_HANGS = Explained("CudaHangs", f"{_LOOK_AT_LOG}; {_RESET}, or reboot the node")
_CRASHED = Explained("CudaCrashed", f"{_LOOK_AT_LOG}; install the driver anew if its libraries are damaged")
_PROHIBITED = Explained("ComputeProhibited", "allow programs on it: nvidia-smi -i {index} -c DEFAULT")
_NO_UVM = Explained(
    "UvmNotLoaded",
    "load it on the node: modprobe nvidia-uvm, and nvidia-modprobe -u -c 0 for its device node",
    "the kernel module nvidia_uvm is not loaded: CUDA starts nothing without it",
)
_KERNEL = Explained("KernelFailed", f"{_LOOK_AT_LOG}; {_RESET}")
_MPS = Explained("MpsNotReady", "look at the MPS control daemon of this node")
_COMPILER = Explained(
    "CompilerNotFound",
    "install the driver's whole set of compute libraries: libnvidia-ptxjitcompiler.so.1 belongs beside "
    "libcuda.so.1",
)
_UNKNOWN = Explained("CudaFailed", f"{_LOOK_AT_LOG}; {_AGAIN}")
_SEES_NO_GPU = (
    "see that /dev on the node has nvidiactl, nvidia-uvm and the GPU's own node; to make them: "
    "nvidia-modprobe -u -c {index}"
)
_FABRIC = (
    "see that the fabric manager runs, in the driver's version (systemctl status nvidia-fabricmanager), "
    "and what it says of the GPU (nvidia-smi -q -i {index}, Fabric)"
)
_NO_FABRIC = "GPUs behind NVSwitch start no CUDA program before the fabric manager has set them up"
_BRANCH = "install a driver of branch 450 or newer"
# Numbers of CUresult in cuda.h.
_BY_CODE: Mapping[int, Explained] = {
    -1: Explained("CudaLibraryNotLoadable", "install the driver anew: its libcuda.so.1 cannot be loaded"),
    2: Explained("GpuFull", f"nothing, while programs use GPU {{index}}; {_AGAIN}"),
    46: Explained("DeviceUnavailable", f"see who has it: nvidia-smi -q -i {{index}}; {_RESET}"),
    100: Explained("CudaSeesNoGpu", _SEES_NO_GPU),
    101: Explained("CudaSeesNoGpu", f"{_LOOK_AT_LOG}; {_AGAIN}"),
    102: Explained("LicenseMissing", "give the vGPU its licence (nvidia-smi -q, Product License)"),
    209: Explained("GpuTooOld", "nothing: our program needs compute capability 5.2 or more"),
    214: Explained("EccUncorrectable", f"{_RESET}; have the card replaced if such errors come back"),
    218: Explained(
        "PtxRefused", "install another driver version: the compiler of this one refuses plain PTX"
    ),
    220: Explained("NvlinkUncorrectable", f"{_LOOK_AT_LOG}; {_RESET}"),
    221: _COMPILER,
    222: Explained("DriverTooOld", f"{_BRANCH}: this one does not compile PTX 6.0"),
    223: _COMPILER,
    500: Explained("CudaLibraryTooOld", f"{_BRANCH}: its libcuda lacks a function"),
    **dict.fromkeys((226, 700, 702, 714, 715, 716, 717, 718, 719), _KERNEL),
    800: Explained("NotPermitted", "see that the node agent's pod is privileged, and what else confines it"),
    802: Explained("SystemNotReady", _FABRIC, _NO_FABRIC),
    803: Explained("DriverLibraryMismatch", "reboot the node, or load the modules of the new version"),
    804: Explained("CompatNotSupported", "take the forward compatibility libraries (cuda-compat) away"),
    **dict.fromkeys((805, 806, 807, 808, 809), _MPS),
}
_OTHERS = (_WRONG, _HANGS, _CRASHED, _PROHIBITED, _NO_UVM, _UNKNOWN)
FAILURES = tuple(dict.fromkeys(each.reason for each in (*_BY_CODE.values(), *_OTHERS)))
# The GPU may be as well as ever: it is full, or too old for our program.
_PROVES_NOTHING = (2, 209)


def _verdict(
    state: State, reason: str, message: str, evidence: tuple[str, ...] = (), next_step: str = ""
) -> Verdict:
    return Verdict(Link.CUDA, state, reason, message, evidence, next_step)
