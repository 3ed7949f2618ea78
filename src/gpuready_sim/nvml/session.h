/* What every part of the library needs: the mapped state, handles, and the checks at a call's door. */
#ifndef NVSIM_SESSION_H
#define NVSIM_SESSION_H

#include <stddef.h>

#include "abi.h"
#include "state.h"

/* A handle is the address of one of these; it stays the same for the life of the process. */
typedef struct {
    uint32_t slot;      /* index into nvsim_state.gpus */
    uint32_t partition; /* index into nvsim_gpu.compute; NVSIM_NO_INSTANCE: the whole GPU */
} gpu_handle;

/* The state of the session that is open now; valid after enter() said NVML_OK, and never unmapped. */
extern nvsim_state *state;
extern gpu_handle handles[NVSIM_MAX_GPUS];
extern gpu_handle partition_handles[NVSIM_MAX_GPUS][NVSIM_MAX_INSTANCES];
/* Slots of the GPUs whose device nodes this process may open, in NVML's order. */
extern uint32_t visible[NVSIM_MAX_GPUS];
extern uint32_t visible_count;

/* Waits while NVML hangs, then says whether calls may be answered now; `call` is the function's own name. */
nvml_return enter_call(const char *call);
/* What the faults that are set for this call make of it; for calls of other libraries than NVML. */
nvml_return fault_of_call(const char *call);
/* The same for one GPU. */
nvml_return fault_of_gpu(const char *call, uint32_t slot);
/* enter_call(), then the GPU behind a handle; NVML_GPU_IS_LOST when it has fallen off the bus. `partition` is
 * the MIG device of that handle, NULL for a whole GPU. */
nvml_return find_entity(const char *call, const void *handle, nvsim_gpu **gpu, const nvsim_compute **partition);
/* The same for calls that know whole GPUs only. */
nvml_return find_gpu(const char *call, const void *handle, nvsim_gpu **gpu);
/* The branch of this library (550), or a very high one when its file name does not say. */
int library_branch(void);
void *handle_of_slot(uint32_t slot);
nvml_return copy_text(const char *text, char *buffer, uint32_t size);
/* Sleeps until *word differs from `seen`, a signal arrives (-1) or timeout_ms is over. */
int wait_for_change(uint32_t *word, uint32_t seen, uint64_t timeout_ms);
/* The file's lock against every other writer. */
void lock_state(void);
void unlock_state(void);
/* The machine's clock, which a test may have stopped. */
uint64_t now_us(void);
/* Whether a process with this pid runs. */
int is_running(uint32_t pid);

#define enter() enter_call(__func__)
/* The door of a getter: `gpu` is declared, or the function has returned. */
#define OPEN_GPU(handle)                                        \
    nvsim_gpu *gpu;                                             \
    nvml_return problem = find_gpu(__func__, (handle), &gpu);   \
    if (problem != NVML_OK) return problem
/* The same for getters that MIG devices answer too: `partition` is declared as well. */
#define OPEN_ENTITY(handle)                                                             \
    nvsim_gpu *gpu;                                                                     \
    const nvsim_compute *partition;                                                     \
    nvml_return problem = find_entity(__func__, (handle), &gpu, &partition);            \
    if (problem != NVML_OK) return problem;                                             \
    (void)partition
/* Functions that an older driver's library does not have. */
#define SINCE(branch)                                                   \
    if (library_branch() < (branch)) return NVML_FUNCTION_NOT_FOUND
#define NEED(condition)                                 \
    if (!(condition)) return NVML_INVALID_ARGUMENT
#define SUPPORTED_IF(condition)                         \
    if (!(condition)) return NVML_NOT_SUPPORTED
#define ALIAS(name, target) EXPORT __typeof__(target) name __attribute__((alias(#target)))

#endif
