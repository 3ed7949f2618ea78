/* What every part of the library needs: the mapped state, handles, and the checks at a call's door. */
#ifndef NVSIM_SESSION_H
#define NVSIM_SESSION_H

#include <stddef.h>

#include "abi.h"
#include "state.h"

/* A handle is the address of one of these; it stays the same for the life of the process. */
typedef struct {
    uint32_t slot; /* index into nvsim_state.gpus */
} gpu_handle;

/* The state of the session that is open now; valid after enter() said NVML_OK, and never unmapped. */
extern nvsim_state *state;
extern gpu_handle handles[NVSIM_MAX_GPUS];
/* Slots of the GPUs whose device nodes this process may open, in NVML's order. */
extern uint32_t visible[NVSIM_MAX_GPUS];
extern uint32_t visible_count;

/* Waits while NVML hangs, then says whether calls may be answered now. */
nvml_return enter(void);
/* enter(), then the GPU behind a handle; NVML_GPU_IS_LOST when it has fallen off the bus. */
nvml_return find_gpu(const void *handle, nvsim_gpu **gpu);
void *handle_of_slot(uint32_t slot);
nvml_return copy_text(const char *text, char *buffer, uint32_t size);
/* Sleeps until *word differs from `seen`, a signal arrives (-1) or timeout_ms is over. */
int wait_for_change(uint32_t *word, uint32_t seen, uint64_t timeout_ms);
/* The file's lock against every other writer. */
void lock_state(void);
void unlock_state(void);
uint64_t now_us(void);
/* Whether a process with this pid runs. */
int is_running(uint32_t pid);

/* The door of a getter: `gpu` is declared, or the function has returned. */
#define OPEN_GPU(handle)                                \
    nvsim_gpu *gpu;                                     \
    nvml_return problem = find_gpu((handle), &gpu);     \
    if (problem != NVML_OK) return problem
#define NEED(condition)                                 \
    if (!(condition)) return NVML_INVALID_ARGUMENT
#define SUPPORTED_IF(condition)                         \
    if (!(condition)) return NVML_NOT_SUPPORTED
#define ALIAS(name, target) EXPORT __typeof__(target) name __attribute__((alias(#target)))

#endif
