/* libcuda.so.1 of the simulator: the few driver calls with which a program proves that a GPU works.
 *
 * It opens the same state file as NVML (session.c is compiled into both) and counts as a holder of the driver.
 * Device memory is host memory; kernels are PTX text, run by ptx.c. One current context per process, which is
 * enough for a proof. CUDA_VISIBLE_DEVICES is read where it lists UUIDs of GPUs or MIG devices; otherwise what is
 * visible is what has a device node, of a GPU in MIG mode its first MIG device. A process sees one MIG device and
 * nothing beside it, as with the real one.
 *
 * `gpuready-sim fault call` knows these functions too (cuda_symbols.txt); its codes are then CUDA's. The function
 * "result" is none: while it fails, a kernel's first answer is wrong.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "ptx.h"
#include "session.h"

typedef int cu_result;

enum {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEVICE_UNAVAILABLE = 46,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_IMAGE = 200,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_INVALID_PTX = 218,
    CUDA_NOT_FOUND = 500,
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_SYSTEM_NOT_READY = 802,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_UNKNOWN = 999,
};

#define MIB (1024ull * 1024ull)
#define CONTEXT_BYTES (450 * MIB) /* what an idle context takes of a card */

typedef struct allocation {
    char *memory;
    size_t size;
    struct allocation *next;
} allocation;

typedef struct {
    uint32_t slot, partition; /* as in gpu_handle */
    allocation *allocations;
    uint64_t bytes;
} context;

typedef struct {
    char *text;
} module;

nvml_return nvmlInit_v2(void);
nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised;
static context *current;
static context *primary[NVSIM_MAX_GPUS];
static uint32_t retained[NVSIM_MAX_GPUS];
static gpu_handle devices[NVSIM_MAX_GPUS]; /* what this process sees, in CUDA's order */
static uint32_t device_count;

#define NEED_INIT()                                     \
    if (!initialised) return CUDA_NOT_INITIALIZED;      \
    if (enter_call("") != NVML_OK) return CUDA_UNKNOWN
/* The fault that is set for this function and GPU, as a code of CUDA. */
#define SUFFER(slot)                                                    \
    do {                                                                \
        cu_result fault = (cu_result)fault_of_gpu(__func__, (slot));    \
        if (fault) return fault;                                        \
    } while (0)
#define NEED_CONTEXT()                                              \
    NEED_INIT();                                                    \
    if (!current) return CUDA_INVALID_CONTEXT;                      \
    if (state->gpus[current->slot].lost) return CUDA_UNKNOWN;       \
    SUFFER(current->slot)
#define CHECK(condition, code) if (!(condition)) return (code)

/* --- what this process sees --------------------------------------------------------------------------------- */

static void add_device(uint32_t slot, uint32_t partition) {
    if (device_count < NVSIM_MAX_GPUS) devices[device_count++] = (gpu_handle){slot, partition};
}

/* 1 when it was a MIG device, which hides all others. */
static int add_by_uuid(const char *uuid) {
    for (uint32_t i = 0; i < visible_count; i++) {
        const nvsim_gpu *gpu = &state->gpus[visible[i]];
        if (strcmp(gpu->uuid, uuid) == 0 && !gpu->mig_enabled) add_device(visible[i], NVSIM_NO_INSTANCE);
        for (uint32_t part = 0; part < NVSIM_MAX_INSTANCES; part++)
            if (gpu->compute[part].present && strcmp(gpu->compute[part].uuid, uuid) == 0) {
                device_count = 0;
                add_device(visible[i], part);
                return 1;
            }
    }
    return 0;
}

static void add_all(void) {
    for (uint32_t i = 0; i < visible_count; i++) {
        const nvsim_gpu *gpu = &state->gpus[visible[i]];
        if (!gpu->mig_enabled) add_device(visible[i], NVSIM_NO_INSTANCE);
        for (uint32_t part = 0; part < NVSIM_MAX_INSTANCES && gpu->mig_enabled; part++)
            if (gpu->compute[part].present) {
                device_count = 0;
                add_device(visible[i], part);
                return;
            }
    }
}

static void find_devices(void) {
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    char list[4096], *rest;
    device_count = 0;
    if (!wanted || !strstr(wanted, "-")) { /* indices: not simulated */
        add_all();
        return;
    }
    snprintf(list, sizeof list, "%s", wanted);
    for (char *uuid = strtok_r(list, ",", &rest); uuid; uuid = strtok_r(NULL, ",", &rest))
        if (add_by_uuid(uuid)) return;
}

EXPORT cu_result cuInit(unsigned int flags) {
    CHECK(flags == 0, CUDA_INVALID_VALUE);
    pthread_mutex_lock(&lock);
    int is_first = !initialised;
    nvml_return opened = initialised ? NVML_OK : nvmlInit_v2();
    initialised = opened == NVML_OK;
    if (is_first && initialised) find_devices();
    pthread_mutex_unlock(&lock);
    if (opened == NVML_VERSION_MISMATCH) return CUDA_SYSTEM_DRIVER_MISMATCH;
    if (opened != NVML_OK || !device_count) return CUDA_NO_DEVICE;
    for (uint32_t i = 0; i < device_count; i++) {
        cu_result fault = (cu_result)fault_of_gpu(__func__, devices[i].slot);
        initialised = !fault;
        if (fault) return fault;
    }
    return CUDA_OK;
}

EXPORT cu_result cuDriverGetVersion(int *version) {
    CHECK(version, CUDA_INVALID_VALUE);
    return nvmlSystemGetCudaDriverVersion_v2(version) == NVML_OK ? CUDA_OK : CUDA_NOT_INITIALIZED;
}

EXPORT cu_result cuDeviceGetCount(int *count) {
    NEED_INIT();
    CHECK(count, CUDA_INVALID_VALUE);
    *count = (int)device_count;
    return CUDA_OK;
}

EXPORT cu_result cuDeviceGet(int *device, int index) {
    NEED_INIT();
    CHECK(device, CUDA_INVALID_VALUE);
    CHECK(index >= 0 && (uint32_t)index < device_count, CUDA_INVALID_DEVICE);
    SUFFER(devices[index].slot);
    *device = index;
    return CUDA_OK;
}

#define NEED_DEVICE(device)                                                                     \
    NEED_INIT();                                                                                \
    CHECK((device) >= 0 && (uint32_t)(device) < device_count, CUDA_INVALID_DEVICE);             \
    SUFFER(devices[device].slot);                                                               \
    const nvsim_gpu *gpu = &state->gpus[devices[device].slot]

EXPORT cu_result cuDeviceGetName(char *name, int size, int device) {
    NEED_DEVICE(device);
    CHECK(name && size > 0, CUDA_INVALID_VALUE);
    snprintf(name, (size_t)size, "%s", gpu->name);
    return CUDA_OK;
}

/* The 16 bytes behind "GPU-" or "MIG-". */
static void read_uuid(const char *text, unsigned char *uuid) {
    text += strlen("GPU-");
    for (int i = 0; i < 16; text += 2, i++) {
        if (*text == '-') text++;
        sscanf(text, "%2hhx", &uuid[i]);
    }
}

EXPORT cu_result cuDeviceGetUuid(unsigned char *uuid, int device) {
    NEED_DEVICE(device);
    CHECK(uuid, CUDA_INVALID_VALUE);
    read_uuid(gpu->uuid, uuid);
    return CUDA_OK;
}

/* Of a MIG device its own, where the older one says its GPU's. */
EXPORT cu_result cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    NEED_DEVICE(device);
    CHECK(uuid, CUDA_INVALID_VALUE);
    uint32_t partition = devices[device].partition;
    read_uuid(partition == NVSIM_NO_INSTANCE ? gpu->uuid : gpu->compute[partition].uuid, uuid);
    return CUDA_OK;
}

EXPORT cu_result cuDeviceTotalMem_v2(size_t *bytes, int device) {
    NEED_DEVICE(device);
    CHECK(bytes, CUDA_INVALID_VALUE);
    *bytes = (gpu->memory_mib - gpu->memory_reserved_mib) * MIB;
    return CUDA_OK;
}
ALIAS(cuDeviceTotalMem, cuDeviceTotalMem_v2);

EXPORT cu_result cuDeviceGetAttribute(int *value, int attribute, int device) {
    NEED_DEVICE(device);
    CHECK(value, CUDA_INVALID_VALUE);
    switch (attribute) {
        case 1: *value = 1024; break; /* threads per block */
        case 10: *value = 32; break;  /* warp size */
        case 20: *value = (int)gpu->compute_mode; break;
        case 16: *value = (int)gpu->multiprocessors; break;
        case 33: *value = (int)gpu->pci_bus; break;
        case 34: *value = (int)gpu->pci_device; break;
        case 50: *value = (int)gpu->pci_domain; break;
        case 75: *value = (int)gpu->compute_major; break;
        case 76: *value = (int)gpu->compute_minor; break;
        default: return CUDA_INVALID_VALUE;
    }
    return CUDA_OK;
}

/* --- contexts ------------------------------------------------------------------------------------------------ */

/* Shows this process and its memory on the GPU's process list; 0 bytes takes it off. */
static void show_on_gpu(const context *of, uint64_t bytes) {
    nvsim_process *mine = NULL, *free_entry = NULL;
    uint32_t pid = (uint32_t)getpid();
    nvsim_process shown = {.pid = pid, .memory_bytes = bytes};
    if (of->partition != NVSIM_NO_INSTANCE) {
        const nvsim_compute *part = &state->gpus[of->slot].compute[of->partition];
        shown.in_partition = 1;
        shown.gpu_instance = part->gpu_instance;
        shown.compute_instance = part->id;
    }
    lock_state();
    for (int i = 0; i < NVSIM_MAX_PROCESSES; i++) {
        nvsim_process *entry = &state->gpus[of->slot].processes[i];
        if (entry->pid == pid) mine = entry;
        else if (!free_entry && (!entry->pid || !is_running(entry->pid))) free_entry = entry;
    }
    nvsim_process *entry = mine ? mine : free_entry;
    if (entry && entry == mine && bytes) entry->memory_bytes = bytes;
    else if (entry) *entry = bytes ? shown : (nvsim_process){0};
    unlock_state();
}

/* What other processes hold there; `others` counts them. */
static uint64_t bytes_of_others(const context *of, uint32_t *others) {
    const nvsim_gpu *gpu = &state->gpus[of->slot];
    uint64_t sum = 0;
    *others = 0;
    for (int i = 0; i < NVSIM_MAX_PROCESSES; i++) {
        const nvsim_process *entry = &gpu->processes[i];
        if (!entry->pid || entry->pid == (uint32_t)getpid() || !is_running(entry->pid)) continue;
        if (of->partition != NVSIM_NO_INSTANCE && entry->gpu_instance != gpu->compute[of->partition].gpu_instance)
            continue;
        sum += entry->memory_bytes;
        ++*others;
    }
    return sum;
}

/* Memory that this context and others may share. */
static uint64_t bytes_of_device(const context *of) {
    const nvsim_gpu *gpu = &state->gpus[of->slot];
    if (of->partition == NVSIM_NO_INSTANCE)
        return (gpu->memory_mib - gpu->memory_reserved_mib - gpu->memory_used_mib) * MIB;
    for (int i = 0; i < NVSIM_MAX_INSTANCES; i++) {
        const nvsim_instance *instance = &gpu->instances[i];
        if (instance->present && instance->id == gpu->compute[of->partition].gpu_instance)
            return (gpu->profiles[instance->kind].memory_mib - instance->memory_used_mib) * MIB;
    }
    return 0;
}

static int has_room(const context *of, uint64_t bytes) {
    uint32_t others;
    return bytes_of_others(of, &others) + bytes <= bytes_of_device(of);
}

enum { DEFAULT = 0, PROHIBITED = 2, EXCLUSIVE_PROCESS = 3 };

static cu_result make_context(int device, context **result) {
    const nvsim_gpu *gpu = &state->gpus[devices[device].slot];
    context *made = calloc(1, sizeof *made);
    uint32_t others;
    CHECK(made, CUDA_OUT_OF_MEMORY);
    made->slot = devices[device].slot;
    made->partition = devices[device].partition;
    made->bytes = CONTEXT_BYTES;
    bytes_of_others(made, &others);
    cu_result problem = CUDA_OK;
    if (gpu->lost || gpu->recovery_action) problem = CUDA_DEVICE_UNAVAILABLE;
    else if (gpu->compute_mode == PROHIBITED) problem = CUDA_UNKNOWN; /* so says cuda.h */
    else if (gpu->compute_mode == EXCLUSIVE_PROCESS && others) problem = CUDA_DEVICE_UNAVAILABLE;
    else if (!has_room(made, made->bytes)) problem = CUDA_OUT_OF_MEMORY;
    if (problem) {
        free(made);
        return problem;
    }
    show_on_gpu(made, made->bytes);
    *result = made;
    return CUDA_OK;
}

EXPORT cu_result cuCtxCreate_v2(void **handle, unsigned int flags, int device) {
    NEED_DEVICE(device);
    (void)flags, (void)gpu;
    CHECK(handle, CUDA_INVALID_VALUE);
    context *made;
    cu_result problem = make_context(device, &made);
    if (!problem) *handle = current = made;
    return problem;
}
ALIAS(cuCtxCreate, cuCtxCreate_v2);

static void destroy(context *old);

/* The one context per device that all libraries of a process share; it is not made current. */
EXPORT cu_result cuDevicePrimaryCtxRetain(void **handle, int device) {
    NEED_DEVICE(device);
    (void)gpu;
    CHECK(handle, CUDA_INVALID_VALUE);
    if (!primary[device]) {
        cu_result problem = make_context(device, &primary[device]);
        if (problem) return problem;
    }
    retained[device]++;
    *handle = primary[device];
    return CUDA_OK;
}

EXPORT cu_result cuDevicePrimaryCtxRelease_v2(int device) {
    NEED_DEVICE(device);
    (void)gpu;
    CHECK(primary[device], CUDA_INVALID_CONTEXT);
    if (--retained[device] == 0) {
        destroy(primary[device]);
        primary[device] = NULL;
    }
    return CUDA_OK;
}
ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);

EXPORT cu_result cuCtxSetCurrent(void *handle) {
    NEED_INIT();
    current = handle;
    if (current) SUFFER(current->slot);
    return CUDA_OK;
}

EXPORT cu_result cuCtxGetCurrent(void **handle) {
    NEED_INIT();
    CHECK(handle, CUDA_INVALID_VALUE);
    *handle = current;
    return CUDA_OK;
}

static void release(context *old, allocation **place) {
    allocation *gone = *place;
    *place = gone->next;
    old->bytes -= gone->size;
    free(gone->memory);
    free(gone);
}

static void destroy(context *old) {
    while (old->allocations) release(old, &old->allocations);
    show_on_gpu(old, 0);
    if (current == old) current = NULL;
    free(old);
}

EXPORT cu_result cuCtxDestroy_v2(void *handle) {
    NEED_INIT();
    CHECK(handle && handle == current, CUDA_INVALID_CONTEXT);
    destroy(current);
    return CUDA_OK;
}
ALIAS(cuCtxDestroy, cuCtxDestroy_v2);

EXPORT cu_result cuCtxSynchronize(void) {
    NEED_CONTEXT();
    return CUDA_OK;
}

/* --- memory -------------------------------------------------------------------------------------------------- */

static void *device_memory(void *owner, uint64_t address, size_t size) {
    for (allocation *at = ((context *)owner)->allocations; at; at = at->next) {
        uint64_t begin = (uint64_t)(uintptr_t)at->memory;
        if (address >= begin && size <= at->size && address - begin <= at->size - size)
            return at->memory + (address - begin);
    }
    return NULL;
}

EXPORT cu_result cuMemAlloc_v2(uint64_t *address, size_t size) {
    NEED_CONTEXT();
    CHECK(address && size, CUDA_INVALID_VALUE);
    if (!has_room(current, current->bytes + size)) return CUDA_OUT_OF_MEMORY;
    allocation *made = calloc(1, sizeof *made);
    if (made) made->memory = calloc(1, size); /* untouched pages take no memory of the machine */
    if (!made || !made->memory) {
        free(made);
        return CUDA_OUT_OF_MEMORY;
    }
    made->size = size;
    pthread_mutex_lock(&lock);
    made->next = current->allocations;
    current->allocations = made;
    current->bytes += size;
    show_on_gpu(current, current->bytes);
    pthread_mutex_unlock(&lock);
    *address = (uint64_t)(uintptr_t)made->memory;
    return CUDA_OK;
}
ALIAS(cuMemAlloc, cuMemAlloc_v2);

EXPORT cu_result cuMemFree_v2(uint64_t address) {
    NEED_CONTEXT();
    pthread_mutex_lock(&lock);
    allocation **place = &current->allocations;
    while (*place && (uint64_t)(uintptr_t)(*place)->memory != address) place = &(*place)->next;
    int found = *place != NULL;
    if (found) {
        release(current, place);
        show_on_gpu(current, current->bytes);
    }
    pthread_mutex_unlock(&lock);
    return found ? CUDA_OK : CUDA_INVALID_VALUE;
}
ALIAS(cuMemFree, cuMemFree_v2);

EXPORT cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    NEED_CONTEXT();
    CHECK(free_bytes && total, CUDA_INVALID_VALUE);
    uint32_t others;
    uint64_t all = bytes_of_device(current), taken = bytes_of_others(current, &others) + current->bytes;
    *free_bytes = all > taken ? all - taken : 0;
    *total = all;
    return CUDA_OK;
}
ALIAS(cuMemGetInfo, cuMemGetInfo_v2);

EXPORT cu_result cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t size) {
    NEED_CONTEXT();
    void *memory = device_memory(current, target, size);
    CHECK(memory && source, CUDA_INVALID_VALUE);
    memcpy(memory, source, size);
    return CUDA_OK;
}
ALIAS(cuMemcpyHtoD, cuMemcpyHtoD_v2);

EXPORT cu_result cuMemcpyDtoH_v2(void *target, uint64_t source, size_t size) {
    NEED_CONTEXT();
    void *memory = device_memory(current, source, size);
    CHECK(memory && target, CUDA_INVALID_VALUE);
    memcpy(target, memory, size);
    if (size && fault_of_gpu("result", current->slot)) *(unsigned char *)target ^= 1; /* a card that cannot count */
    return CUDA_OK;
}
ALIAS(cuMemcpyDtoH, cuMemcpyDtoH_v2);

/* --- kernels ------------------------------------------------------------------------------------------------- */

EXPORT cu_result cuModuleLoadData(void **handle, const void *image) {
    NEED_CONTEXT();
    CHECK(handle && image, CUDA_INVALID_VALUE);
    if (memcmp(image, "\177ELF", 4) == 0) return CUDA_INVALID_IMAGE; /* machine code: PTX text is what runs here */
    if (!strstr(image, ".version") || !strstr(image, ".target")) return CUDA_INVALID_PTX;
    module *made = calloc(1, sizeof *made);
    if (made) made->text = strdup(image);
    CHECK(made && made->text, CUDA_OUT_OF_MEMORY);
    *handle = made;
    return CUDA_OK;
}

EXPORT cu_result cuModuleUnload(void *handle) {
    NEED_INIT();
    CHECK(handle, CUDA_INVALID_VALUE);
    free(((module *)handle)->text);
    free(handle);
    return CUDA_OK;
}

/* Kernels live as long as the process: functions have no call that gives them back. */
EXPORT cu_result cuModuleGetFunction(void **function, void *handle, const char *name) {
    NEED_CONTEXT();
    CHECK(function && handle && name, CUDA_INVALID_VALUE);
    if (!strstr(((module *)handle)->text, name)) return CUDA_NOT_FOUND;
    *function = ptx_compile(((module *)handle)->text, name);
    return *function ? CUDA_OK : CUDA_INVALID_PTX;
}

EXPORT cu_result cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                unsigned int shared_bytes, void *stream, void **params, void **extra) {
    NEED_CONTEXT();
    (void)shared_bytes, (void)stream;
    CHECK(function && params && !extra, CUDA_INVALID_VALUE);
    CHECK(grid_x && grid_y && grid_z && block_x && block_y && block_z, CUDA_INVALID_VALUE);
    CHECK((uint64_t)block_x * block_y * block_z <= 1024, CUDA_INVALID_VALUE);
    ptx_launch launch = {
        .grid = {grid_x, grid_y, grid_z},
        .block = {block_x, block_y, block_z},
        .params = params,
        .memory = device_memory,
        .context = current,
    };
    return ptx_run(function, &launch) == 0 ? CUDA_OK : CUDA_ILLEGAL_ADDRESS;
}

/* --- errors -------------------------------------------------------------------------------------------------- */

static const struct { cu_result code; const char *name, *text; } errors[] = {
    {CUDA_OK, "CUDA_SUCCESS", "no error"},
    {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CUDA_JIT_COMPILER_NOT_FOUND, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
    {CUDA_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

EXPORT cu_result cuGetErrorName(cu_result code, const char **name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *name = errors[i].name;
            return CUDA_OK;
        }
    *name = NULL;
    return CUDA_INVALID_VALUE;
}

EXPORT cu_result cuGetErrorString(cu_result code, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *text = errors[i].text;
            return CUDA_OK;
        }
    *text = NULL;
    return CUDA_INVALID_VALUE;
}
