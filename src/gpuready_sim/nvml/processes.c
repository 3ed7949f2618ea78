/* The processes on a GPU: who, how much memory, how much of its time. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "course.h"
#include "processes.h"

enum { COMPUTE = 0, GRAPHICS = 1 };

/* A real driver knows; we look into /proc, which costs more than all the rest of a call: once in 20 ms for each
 * process, since monitors ask several things of a GPU in a row. */
static int runs_now(uint32_t pid) {
    static __thread struct { uint32_t pid; int running; uint64_t until_us; } known[NVSIM_MAX_PROCESSES];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    uint32_t place = pid % NVSIM_MAX_PROCESSES;
    if (known[place].pid != pid || known[place].until_us < now_us) {
        known[place].running = is_running(pid);
        known[place].pid = pid;
        known[place].until_us = now_us + 20000;
    }
    return known[place].running;
}

/* Of a MIG device only those inside it, of a GPU all. */
static unsigned int list_processes(const nvsim_gpu *gpu, const nvsim_compute *partition, uint32_t kind,
                                   nvsim_process *found) {
    unsigned int count = 0;
    for (int i = 0; i < NVSIM_MAX_PROCESSES; i++) {
        nvsim_process process = gpu->processes[i];
        if (!process.pid || process.graphics != kind || !runs_now(process.pid)) continue;
        if (partition && (!process.in_partition || process.gpu_instance != partition->gpu_instance ||
                          process.compute_instance != partition->id))
            continue;
        if (!process.in_partition) process.gpu_instance = process.compute_instance = NVSIM_NO_INSTANCE;
        found[count++] = process;
    }
    return count;
}

/* Compute instances of one GPU instance share its memory. */
uint64_t memory_of_processes(const nvsim_gpu *gpu, const nvsim_compute *partition) {
    nvsim_process found[NVSIM_MAX_PROCESSES];
    uint64_t sum = 0;
    for (uint32_t kind = COMPUTE; kind <= GRAPHICS; kind++)
        for (unsigned int i = list_processes(gpu, NULL, kind, found); i-- > 0;)
            if (!partition || found[i].gpu_instance == partition->gpu_instance) sum += found[i].memory_bytes;
    return sum;
}

static nvml_return give_processes(const char *call, void *device, uint32_t kind, unsigned int *count,
                                  process_info *list) {
    nvsim_gpu *gpu;
    const nvsim_compute *partition;
    nvml_return problem = find_entity(call, device, &gpu, &partition);
    if (problem != NVML_OK) return problem;
    NEED(count);
    nvsim_process found[NVSIM_MAX_PROCESSES];
    unsigned int room = *count, number = *count = list_processes(gpu, partition, kind, found);
    if (number > room || (number && !list)) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++)
        list[i] = (process_info){found[i].pid, found[i].memory_bytes, found[i].gpu_instance, found[i].compute_instance};
    return NVML_OK;
}

static nvml_return give_processes_v1(const char *call, void *device, uint32_t kind, unsigned int *count,
                                     process_info_v1 *list) {
    nvsim_gpu *gpu;
    nvml_return problem = find_gpu(call, device, &gpu);
    if (problem != NVML_OK) return problem;
    NEED(count);
    nvsim_process found[NVSIM_MAX_PROCESSES];
    unsigned int room = *count, number = *count = list_processes(gpu, NULL, kind, found);
    if (number > room || (number && !list)) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++) list[i] = (process_info_v1){found[i].pid, found[i].memory_bytes};
    return NVML_OK;
}

#define PROCESS_LISTS(stem, kind)                                                                       \
    EXPORT nvml_return stem##_v3(void *device, unsigned int *count, process_info *list) {               \
        SINCE(510);                                                                                     \
        return give_processes(__func__, device, kind, count, list);                                     \
    }                                                                                                   \
    EXPORT nvml_return stem##_v2(void *device, unsigned int *count, process_info *list) {               \
        return give_processes(__func__, device, kind, count, list);                                     \
    }                                                                                                   \
    EXPORT nvml_return stem(void *device, unsigned int *count, process_info_v1 *list) {                 \
        return give_processes_v1(__func__, device, kind, count, list);                                  \
    }

PROCESS_LISTS(nvmlDeviceGetComputeRunningProcesses, COMPUTE)
PROCESS_LISTS(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS)

/* There is no MPS in the simulator: always an empty list. */
EXPORT nvml_return nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned int *count, void *list) {
    OPEN_ENTITY(device);
    (void)list;
    NEED(count);
    *count = 0;
    return NVML_OK;
}
ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3);
ALIAS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlDeviceGetMPSComputeRunningProcesses_v3);

EXPORT nvml_return nvmlDeviceGetRunningProcessDetailList(void *device, process_detail_list *list) {
    SINCE(535);
    OPEN_ENTITY(device);
    NEED(list && list->mode <= 3);
    if (list->version != VERSIONED(process_detail_list, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    nvsim_process found[2 * NVSIM_MAX_PROCESSES];
    unsigned int number = 0, room = list->count;
    if (list->mode == 0 || list->mode == 3) number = list_processes(gpu, partition, COMPUTE, found);
    if (list->mode == 1 || list->mode == 3) number += list_processes(gpu, partition, GRAPHICS, found + number);
    list->count = number;
    if (number > room || (number && !list->entries)) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++)
        list->entries[i] = (process_detail){
            .pid = found[i].pid,
            .memory = found[i].memory_bytes,
            .gpu_instance = found[i].gpu_instance,
            .compute_instance = found[i].compute_instance,
        };
    return NVML_OK;
}

/* --- utilisation: one sample a process, of the newest whole period; idle processes have none ------------------ */

static uint32_t share_of(const nvsim_process *process, const nvsim_process *all, unsigned int number, uint32_t whole) {
    uint32_t fixed = 0, sharing = 0;
    for (unsigned int i = 0; i < number; i++) {
        fixed += all[i].sm_percent;
        sharing += !all[i].sm_percent;
    }
    if (process->sm_percent) return fixed <= whole ? process->sm_percent : process->sm_percent * whole / fixed;
    return fixed < whole ? (whole - fixed) / sharing : 0;
}

/* How many samples are newer than `since`; each with its time. */
static unsigned int sample_processes(const nvsim_gpu *gpu, uint64_t since, process_utilization *samples) {
    nvsim_process all[NVSIM_MAX_PROCESSES];
    unsigned int number = list_processes(gpu, NULL, COMPUTE, all), count = 0;
    uint64_t now = now_us(), noted = now / SAMPLE_PERIOD_US * SAMPLE_PERIOD_US;
    uint32_t busy = busy_at(gpu, noted), memory = memory_percent_at(gpu, noted);
    if (since >= noted) return 0;
    for (unsigned int i = 0; i < number; i++) {
        uint32_t sm = share_of(&all[i], all, number, busy);
        if (!sm) continue;
        samples[count++] = (process_utilization){
            .timestamp = noted, .pid = all[i].pid, .sm = sm, .memory = busy ? memory * sm / busy : 0};
    }
    return count;
}

EXPORT nvml_return nvmlDeviceGetProcessUtilization(void *device, process_sample *samples, unsigned int *count,
                                                   unsigned long long since) {
    OPEN_GPU(device);
    SUPPORTED_IF(!gpu->mig_enabled);
    NEED(count);
    process_utilization found[NVSIM_MAX_PROCESSES];
    unsigned int room = *count, number = sample_processes(gpu, since, found);
    if (!number) return NVML_NOT_FOUND;
    *count = number;
    if (!samples || room < number) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++)
        samples[i] = (process_sample){
            .pid = found[i].pid, .timestamp = found[i].timestamp, .sm = found[i].sm, .memory = found[i].memory};
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetProcessesUtilizationInfo(void *device, process_utilization_list *list) {
    SINCE(550);
    OPEN_GPU(device);
    SUPPORTED_IF(!gpu->mig_enabled);
    NEED(list);
    if (list->version != VERSIONED(process_utilization_list, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    process_utilization found[NVSIM_MAX_PROCESSES];
    unsigned int room = list->count, number = sample_processes(gpu, list->since, found);
    if (!number) return NVML_NOT_FOUND;
    list->count = number;
    if (!list->entries || room < number) return NVML_INSUFFICIENT_SIZE;
    memcpy(list->entries, found, number * sizeof *found);
    return NVML_OK;
}
