"""One small program on one GPU, and whether its answer is right.

Done in a process of its own that sees nothing but that GPU or MIG device (cuda_child.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_uint32

from gpuready.gpu.cuda import Cuda, CudaError
from gpuready.gpu.proofs import Outcome, Proof

ENTRY = "gpuready_proof"
COUNT = 4096
FACTOR = 1664525
# Drivers since 384 (CUDA 9.0) compile PTX 6.0, and sm_52 is the oldest GPU in data centres that branches of
# today serve (Tesla M60). Each driver compiles it for whatever newer GPU it finds.
PTX = f"""\
.version 6.0
.target sm_52
.address_size 64

.visible .entry {ENTRY}(
    .param .u64 p_source,
    .param .u64 p_target,
    .param .u32 p_count
)
{{
    .reg .pred %p1;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [p_source];
    ld.param.u64 %rd2, [p_target];
    ld.param.u32 %r1, [p_count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra $done;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.u32 %r6, [%rd6];
    mad.lo.u32 %r7, %r6, {FACTOR}, %r5;
    st.global.u32 [%rd7], %r7;
$done:
    ret;
}}
"""


def prove(cuda: Cuda, uuid: str) -> Proof:
    """Run the program on the only device that this process sees, which must be `uuid`."""
    try:
        cuda.init()
        if cuda.count() < 1:
            return Proof(uuid, Outcome.FAILED, "cuDeviceGetCount", 100, "CUDA_ERROR_NO_DEVICE", "0 devices")
        device = cuda.device(0)
        found = cuda.uuid(device)
        if found not in uuid.lower():
            return Proof(uuid, Outcome.FAILED, "cuDeviceGetUuid", 101, "OtherDevice", f"it is {found}")
        return _on_device(cuda, device, uuid)
    except CudaError as exc:
        return Proof(uuid, Outcome.FAILED, exc.call, exc.code, exc.name, exc.text)


def _on_device(cuda: Cuda, device: int, uuid: str) -> Proof:
    numbers = (c_uint32 * COUNT)(*(index * 7 + 1 for index in range(COUNT)))
    size = 4 * COUNT
    cuda.retain_primary_context(device)
    module = cuda.load(PTX)
    function = cuda.function(module, ENTRY)
    source, target = cuda.allocate(size), cuda.allocate(size)
    cuda.copy_to_device(source, numbers, size)
    cuda.launch(function, COUNT, (source, target, c_uint32(COUNT)))
    cuda.synchronize()
    answers = (c_uint32 * COUNT)()
    cuda.copy_to_host(answers, target, size)
    cuda.free(source)
    cuda.free(target)
    cuda.unload(module)
    cuda.release_primary_context(device)
    return _judged(uuid, list(numbers), list(answers))


def _judged(uuid: str, numbers: Sequence[int], answers: Sequence[int]) -> Proof:
    expected = [(number * FACTOR + index) % 2**32 for index, number in enumerate(numbers)]
    wrong = [index for index in range(len(expected)) if expected[index] != answers[index]]
    if not wrong:
        return Proof(uuid, Outcome.OK)
    first = wrong[0]
    said = (
        f"its answer is wrong in {len(wrong)} of {len(expected)} numbers; number {first} is {answers[first]}"
    )
    return Proof(uuid, Outcome.WRONG, text=f"{said}, not {expected[first]}")
