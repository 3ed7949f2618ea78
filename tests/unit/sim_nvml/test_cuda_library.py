"""The simulated libcuda.so.1: the driver calls of a proof, and a kernel that really runs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from gpuready_sim.hardware import machine

VECTOR_ADD = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry vectorAdd(
    .param .u64 vectorAdd_param_0, .param .u64 vectorAdd_param_1,
    .param .u64 vectorAdd_param_2, .param .u32 vectorAdd_param_3
)
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [vectorAdd_param_0];
    ld.param.u64 %rd2, [vectorAdd_param_1];
    ld.param.u64 %rd3, [vectorAdd_param_2];
    ld.param.u32 %r2, [vectorAdd_param_3];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra $L__BB0_2;   // past the end
    cvta.to.global.u64 %rd4, %rd1;
    mul.wide.s32 %rd5, %r1, 4;
    add.s64 %rd6, %rd4, %rd5;
    cvta.to.global.u64 %rd7, %rd2;
    add.s64 %rd8, %rd7, %rd5;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd6];
    OPERATION.f32 %f3, %f2, %f1;
    cvta.to.global.u64 %rd9, %rd3;
    add.s64 %rd10, %rd9, %rd5;
    st.global.f32 [%rd10], %f3;
$L__BB0_2:
    ret;
}
"""

PROGRAM = """
    import json, sys
    from ctypes import *
    cuda = CDLL("libcuda.so.1")
    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        if code:
            text = c_char_p(); cuda.cuGetErrorName(code, byref(text))
            print(json.dumps({"call": name, "error": text.value.decode()})); sys.exit()
    ptx, count, claimed = sys.argv[1].encode(), 1000, int(sys.argv[2])
    call("cuInit", 0)
    device, context, module, kernel = c_int(), c_void_p(), c_void_p(), c_void_p()
    call("cuDeviceGet", byref(device), 0)
    name = create_string_buffer(96); call("cuDeviceGetName", name, 96, device)
    call("cuCtxCreate_v2", byref(context), 0, device)
    call("cuModuleLoadData", byref(module), ptx)
    call("cuModuleGetFunction", byref(kernel), module, b"vectorAdd")
    vectors = [c_uint64() for _ in range(3)]
    for vector in vectors: call("cuMemAlloc_v2", byref(vector), c_size_t(4 * count))
    host = [(c_float * count)(*(step * i for i in range(count))) for step in (1, 2)]
    for vector, values in zip(vectors, host): call("cuMemcpyHtoD_v2", vector, values, c_size_t(4 * count))
    number = c_int(claimed)
    params = (c_void_p * 4)(*(cast(byref(each), c_void_p) for each in (*vectors, number)))
    call("cuLaunchKernel", kernel, (claimed + 255) // 256, 1, 1, 256, 1, 1, 0, None, params, None)
    call("cuCtxSynchronize")
    out = (c_float * count)(); call("cuMemcpyDtoH_v2", out, vectors[2], c_size_t(4 * count))
    call("cuCtxDestroy_v2", context)
    print(json.dumps({"name": name.value.decode(), "out": list(out)}))
"""


@pytest.fixture
def prove(build):
    """prove(node, operation=..., claimed=...) -> what the program printed."""

    def run(node=None, *, operation="add", claimed=1000):
        node = node or build(("A100-SXM4-40GB", 1))
        outcome = subprocess.run(
            [
                sys.executable,
                "-c",
                textwrap.dedent(PROGRAM),
                VECTOR_ADD.replace("OPERATION", operation),
                str(claimed),
            ],
            env=node.env(),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stderr
        return json.loads(outcome.stdout)

    return run


@pytest.mark.parametrize(
    ("operation", "factor"),
    [pytest.param("add", 3, id="sum"), pytest.param("sub", -1, id="difference: the text is what runs")],
)
def test_the_kernel_of_the_text_runs_on_every_element(prove, operation, factor):
    answer = prove(operation=operation)

    assert answer == {"name": "NVIDIA A100-SXM4-40GB", "out": [float(factor * i) for i in range(1000)]}


def test_a_kernel_that_leaves_its_vectors_is_stopped(prove):
    assert prove(claimed=5000) == {"call": "cuLaunchKernel", "error": "CUDA_ERROR_ILLEGAL_ADDRESS"}


def test_an_instruction_that_is_not_simulated_does_not_compile(prove):
    assert prove(operation="tanh") == {"call": "cuModuleGetFunction", "error": "CUDA_ERROR_INVALID_PTX"}


def test_a_mismatch_is_seen_by_cuda_too(prove, build):
    node = build()
    machine.update_driver(node.root, "570.86.10")

    assert prove(node) == {"call": "cuInit", "error": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}


def test_a_gpu_that_asks_for_a_reset_takes_no_context(prove, build):
    node = build()
    node.state.raise_xid(0, 109)

    assert prove(node) == {"call": "cuCtxCreate_v2", "error": "CUDA_ERROR_DEVICE_UNAVAILABLE"}
    node.state.reset(0)
    assert "out" in prove(node)


def test_a_context_shows_its_process_and_memory_in_nvml_and_holds_the_driver(build):
    node = build()
    client = node.start("""
        cuda, device, context, memory = CDLL("libcuda.so.1"), c_int(), c_void_p(), c_uint64()
        cuda.cuInit(0); cuda.cuDeviceGet(byref(device), 0); cuda.cuCtxCreate_v2(byref(context), 0, device)
        cuda.cuMemAlloc_v2(byref(memory), c_size_t(1 << 30))
        print("ready", flush=True); input()
    """)

    seen = node.run("""
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
        answer = [[p.pid, p.usedGpuMemory >> 20] for p in nvmlDeviceGetComputeRunningProcesses(gpu)]
    """)

    assert seen == [[client.pid, 450 + 1024]]
    assert [holder.pid for holder in node.state.holders()] == [client.pid]
