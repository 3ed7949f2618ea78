/* Event sets: each keeps its own place in the node's event ring, so every set sees every event. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "session.h"

typedef struct event_set {
    uint32_t next; /* number of the event to look at next; event n is in events[n % NVSIM_MAX_EVENTS] */
    nvsim_state *state;
    uint32_t mask[NVSIM_MAX_GPUS];
    struct event_set *following;
} event_set;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static event_set *sets;

static event_set *find_set(const void *handle) {
    event_set *set = sets;
    while (set && set != handle) set = set->following;
    return set;
}

static uint32_t supported_events(const nvsim_gpu *gpu) {
    uint32_t ecc = gpu->ecc_capable ? EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC : 0;
    return EVENT_XID | EVENT_PSTATE | EVENT_CLOCK | ecc;
}

EXPORT nvml_return nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types) {
    OPEN_GPU(device);
    NEED(types);
    *types = supported_events(gpu);
    return NVML_OK;
}

EXPORT nvml_return nvmlEventSetCreate(void **handle) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(handle);
    event_set *set = calloc(1, sizeof *set);
    if (!set) return NVML_UNKNOWN;
    set->state = state;
    set->next = __atomic_load_n(&state->event_head, __ATOMIC_ACQUIRE);
    pthread_mutex_lock(&lock);
    set->following = sets;
    sets = set;
    pthread_mutex_unlock(&lock);
    *handle = set;
    return NVML_OK;
}

EXPORT nvml_return nvmlEventSetFree(void *handle) {
    nvml_return problem = enter();
    if (problem == NVML_UNINITIALIZED) return problem;
    pthread_mutex_lock(&lock);
    event_set **place = &sets;
    while (*place && *place != handle) place = &(*place)->following;
    event_set *found = *place;
    if (found) *place = found->following;
    pthread_mutex_unlock(&lock);
    NEED(found);
    free(found);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *handle) {
    OPEN_GPU(device);
    SUPPORTED_IF((types & ~(unsigned long long)supported_events(gpu)) == 0);
    pthread_mutex_lock(&lock);
    event_set *set = find_set(handle);
    if (set) set->mask[((gpu_handle *)device)->slot] |= (uint32_t)types;
    pthread_mutex_unlock(&lock);
    NEED(set);
    return NVML_OK;
}

/* The next event of the set's GPUs and types, in order. */
static int take_event(event_set *set, event_data *data) {
    uint32_t head = __atomic_load_n(&set->state->event_head, __ATOMIC_ACQUIRE);
    if (head - set->next > NVSIM_MAX_EVENTS) set->next = head - NVSIM_MAX_EVENTS; /* overrun: the oldest are gone */
    while (set->next != head) {
        const nvsim_event *event = &set->state->events[set->next++ % NVSIM_MAX_EVENTS];
        if (event->gpu >= NVSIM_MAX_GPUS || !(set->mask[event->gpu] & event->type)) continue;
        *data = (event_data){
            .device = handle_of_slot(event->gpu),
            .type = event->type,
            .data = event->data,
            .gpu_instance = event->gpu_instance,
            .compute_instance = event->compute_instance,
        };
        return 1;
    }
    return 0;
}

static int has_lost_gpu(const event_set *set) {
    for (uint32_t slot = 0; slot < set->state->gpu_count; slot++)
        if (set->mask[slot] && set->state->gpus[slot].lost) return 1;
    return 0;
}

static uint64_t monotonic_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Waiting events first; then NVML_GPU_IS_LOST at once while any registered GPU is lost. A client that only
 * loops on errors spins here: k8s-device-plugin's health loop is known to (internal/rm/health.go). */
EXPORT nvml_return nvmlEventSetWait_v2(void *handle, event_data *data, unsigned int timeout_ms) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(data);
    uint64_t deadline = monotonic_ms() + timeout_ms;
    for (;;) {
        pthread_mutex_lock(&lock);
        event_set *set = find_set(handle);
        nvsim_state *watched = set ? set->state : NULL;
        uint32_t seen = set ? __atomic_load_n(&watched->event_word, __ATOMIC_ACQUIRE) : 0;
        int taken = set && take_event(set, data);
        int lost = set && !taken && has_lost_gpu(set);
        pthread_mutex_unlock(&lock);
        NEED(set);
        if (taken) return NVML_OK;
        if (lost) return NVML_GPU_IS_LOST;
        problem = enter();
        if (problem != NVML_OK) return problem;
        uint64_t now = monotonic_ms();
        if (now >= deadline) return NVML_TIMEOUT;
        if (wait_for_change(&watched->event_word, seen, deadline - now) < 0) return NVML_TIMEOUT; /* a signal */
    }
}
ALIAS(nvmlEventSetWait, nvmlEventSetWait_v2);
