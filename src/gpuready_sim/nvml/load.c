/* What the GPUs are doing: memory, utilisation, power, temperature, clocks, processes. Deterministic: every
 * value follows from the state file alone. */
#define _GNU_SOURCE
#include <string.h>

#include "session.h"

#define MIB (1024ull * 1024ull)
#define NOT_AVAILABLE 0xffffffffffffffffull

#define NUMBER_GETTER(function, condition, value)                                   \
    EXPORT nvml_return function(void *device, unsigned int *result) {               \
        OPEN_GPU(device);                                                           \
        SUPPORTED_IF(condition);                                                    \
        NEED(result);                                                               \
        *result = (unsigned int)(value);                                            \
        return NVML_OK;                                                             \
    }

/* --- processes ----------------------------------------------------------------------------------------------- */

enum { COMPUTE = 0, GRAPHICS = 1 };

static unsigned int list_processes(const nvsim_gpu *gpu, uint32_t kind, nvsim_process *found) {
    unsigned int count = 0;
    for (int i = 0; i < NVSIM_MAX_PROCESSES; i++) {
        nvsim_process process = gpu->processes[i];
        if (process.pid && process.graphics == kind && is_running(process.pid)) found[count++] = process;
    }
    return count;
}

static uint64_t memory_of_processes(const nvsim_gpu *gpu) {
    nvsim_process found[NVSIM_MAX_PROCESSES];
    uint64_t sum = 0;
    for (uint32_t kind = COMPUTE; kind <= GRAPHICS; kind++)
        for (unsigned int i = list_processes(gpu, kind, found); i-- > 0;) sum += found[i].memory_bytes;
    return sum;
}

static nvml_return give_processes(void *device, uint32_t kind, unsigned int *count, process_info *list) {
    OPEN_GPU(device);
    NEED(count);
    nvsim_process found[NVSIM_MAX_PROCESSES];
    unsigned int room = *count, number = *count = list_processes(gpu, kind, found);
    if (number > room || (number && !list)) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++)
        list[i] = (process_info){found[i].pid, found[i].memory_bytes, NVSIM_NO_INSTANCE, NVSIM_NO_INSTANCE};
    return NVML_OK;
}

static nvml_return give_processes_v1(void *device, uint32_t kind, unsigned int *count, process_info_v1 *list) {
    OPEN_GPU(device);
    NEED(count);
    nvsim_process found[NVSIM_MAX_PROCESSES];
    unsigned int room = *count, number = *count = list_processes(gpu, kind, found);
    if (number > room || (number && !list)) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++) list[i] = (process_info_v1){found[i].pid, found[i].memory_bytes};
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_info *list) {
    return give_processes(device, COMPUTE, count, list);
}
ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3);

EXPORT nvml_return nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, process_info *list) {
    return give_processes(device, GRAPHICS, count, list);
}
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);

EXPORT nvml_return nvmlDeviceGetComputeRunningProcesses(void *device, unsigned int *count, process_info_v1 *list) {
    return give_processes_v1(device, COMPUTE, count, list);
}

EXPORT nvml_return nvmlDeviceGetGraphicsRunningProcesses(void *device, unsigned int *count, process_info_v1 *list) {
    return give_processes_v1(device, GRAPHICS, count, list);
}

/* There is no MPS in the simulator: always an empty list. */
EXPORT nvml_return nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned int *count, void *list) {
    OPEN_GPU(device);
    (void)list;
    NEED(count);
    *count = 0;
    return NVML_OK;
}
ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3);
ALIAS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlDeviceGetMPSComputeRunningProcesses_v3);

EXPORT nvml_return nvmlDeviceGetRunningProcessDetailList(void *device, process_detail_list *list) {
    OPEN_GPU(device);
    NEED(list && list->mode <= 3);
    if (list->version != VERSIONED(process_detail_list, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    nvsim_process found[2 * NVSIM_MAX_PROCESSES];
    unsigned int number = 0, room = list->count;
    if (list->mode == 0 || list->mode == 3) number = list_processes(gpu, COMPUTE, found);
    if (list->mode == 1 || list->mode == 3) number += list_processes(gpu, GRAPHICS, found + number);
    list->count = number;
    if (number > room || (number && !list->entries)) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++)
        list->entries[i] = (process_detail){
            .pid = found[i].pid,
            .memory = found[i].memory_bytes,
            .gpu_instance = NVSIM_NO_INSTANCE,
            .compute_instance = NVSIM_NO_INSTANCE,
        };
    return NVML_OK;
}

/* The GPU's utilisation in equal shares. */
EXPORT nvml_return nvmlDeviceGetProcessUtilization(void *device, process_sample *samples, unsigned int *count,
                                                   unsigned long long since) {
    OPEN_GPU(device);
    NEED(count);
    nvsim_process found[NVSIM_MAX_PROCESSES];
    unsigned int room = *count, number = list_processes(gpu, COMPUTE, found);
    uint64_t now = now_us();
    if (!number || since > now) return NVML_NOT_FOUND;
    *count = number;
    if (!samples || room < number) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++)
        samples[i] = (process_sample){
            .pid = found[i].pid,
            .timestamp = now,
            .sm = gpu->utilization_gpu / number,
            .memory = gpu->utilization_memory / number,
        };
    return NVML_OK;
}

/* --- memory -------------------------------------------------------------------------------------------------- */

static uint64_t memory_used(const nvsim_gpu *gpu) {
    uint64_t used = gpu->memory_used_mib * MIB + memory_of_processes(gpu);
    uint64_t room = (gpu->memory_mib - gpu->memory_reserved_mib) * MIB;
    return used < room ? used : room;
}

/* The first version counts what the driver keeps for itself as used. */
EXPORT nvml_return nvmlDeviceGetMemoryInfo(void *device, memory_info *info) {
    OPEN_GPU(device);
    NEED(info);
    info->total = gpu->memory_mib * MIB;
    info->used = memory_used(gpu) + gpu->memory_reserved_mib * MIB;
    info->free = info->total - info->used;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetMemoryInfo_v2(void *device, memory_info_v2 *info) {
    OPEN_GPU(device);
    NEED(info);
    if (info->version != VERSIONED(memory_info_v2, 2)) return NVML_ARGUMENT_VERSION_MISMATCH;
    info->total = gpu->memory_mib * MIB;
    info->reserved = gpu->memory_reserved_mib * MIB;
    info->used = memory_used(gpu);
    info->free = info->total - info->reserved - info->used;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetBAR1MemoryInfo(void *device, memory_info *info) {
    OPEN_GPU(device);
    NEED(info);
    *info = (memory_info){gpu->bar1_mib * MIB, (gpu->bar1_mib - 1) * MIB, MIB};
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetConfComputeMemSizeInfo(void *device, conf_compute_memory *info) {
    OPEN_GPU(device);
    NEED(info);
    *info = (conf_compute_memory){0, gpu->memory_mib * 1024ull};
    return NVML_OK;
}

/* --- utilisation --------------------------------------------------------------------------------------------- */

EXPORT nvml_return nvmlDeviceGetUtilizationRates(void *device, utilization *rates) {
    OPEN_GPU(device);
    NEED(rates);
    *rates = (utilization){gpu->utilization_gpu, gpu->utilization_memory};
    return NVML_OK;
}

#define ENGINE_UTILIZATION(function, value)                                                     \
    EXPORT nvml_return function(void *device, unsigned int *percent, unsigned int *period_us) { \
        OPEN_GPU(device);                                                                       \
        NEED(percent && period_us);                                                             \
        *percent = (value);                                                                     \
        *period_us = 167000;                                                                    \
        return NVML_OK;                                                                         \
    }

ENGINE_UTILIZATION(nvmlDeviceGetEncoderUtilization, gpu->utilization_encoder)
ENGINE_UTILIZATION(nvmlDeviceGetDecoderUtilization, gpu->utilization_decoder)
ENGINE_UTILIZATION(nvmlDeviceGetJpgUtilization, 0)
ENGINE_UTILIZATION(nvmlDeviceGetOfaUtilization, 0)

/* --- power and temperature ----------------------------------------------------------------------------------- */

uint32_t power_of(const nvsim_gpu *gpu) {
    if (gpu->power_mw) return gpu->power_mw;
    uint64_t range_mw = gpu->power_limit_mw - gpu->power_idle_mw; /* a busy GPU draws nine tenths of it */
    return gpu->power_idle_mw + (uint32_t)(range_mw * gpu->utilization_gpu * 9 / 1000);
}

uint32_t temperature_of(const nvsim_gpu *gpu) {
    return gpu->temperature_c ? gpu->temperature_c : 32 + gpu->minor % 4 + gpu->utilization_gpu * 36 / 100;
}

NUMBER_GETTER(nvmlDeviceGetPowerUsage, 1, power_of(gpu))
NUMBER_GETTER(nvmlDeviceGetPowerManagementLimit, 1, gpu->power_limit_mw)
NUMBER_GETTER(nvmlDeviceGetEnforcedPowerLimit, 1, gpu->power_limit_mw)
NUMBER_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, 1, gpu->power_default_mw)
NUMBER_GETTER(nvmlDeviceGetPowerManagementMode, 1, 1)
NUMBER_GETTER(nvmlDeviceGetPowerSource, 1, 0)
NUMBER_GETTER(nvmlDeviceGetPerformanceState, 1, gpu->utilization_gpu || gpu->nvlinks ? 0 : 8)
ALIAS(nvmlDeviceGetPowerState, nvmlDeviceGetPerformanceState);
NUMBER_GETTER(nvmlDeviceGetNumFans, 1, gpu->fans)
NUMBER_GETTER(nvmlDeviceGetFanSpeed, gpu->fans, 30 + gpu->utilization_gpu / 2)

EXPORT nvml_return nvmlDeviceGetFanSpeed_v2(void *device, unsigned int fan, unsigned int *percent) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->fans);
    NEED(percent && fan < gpu->fans);
    *percent = 30 + gpu->utilization_gpu / 2;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetPowerManagementLimitConstraints(void *device, unsigned int *low, unsigned int *high) {
    OPEN_GPU(device);
    NEED(low && high);
    *low = gpu->power_min_mw;
    *high = gpu->power_max_mw;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy_mj) {
    OPEN_GPU(device);
    NEED(energy_mj);
    *energy_mj = gpu->energy_mj;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTemperature(void *device, unsigned int sensor, unsigned int *celsius) {
    OPEN_GPU(device);
    NEED(celsius && sensor == 0);
    *celsius = temperature_of(gpu);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTemperatureV(void *device, temperature_v1 *reading) {
    OPEN_GPU(device);
    NEED(reading);
    if (reading->version != VERSIONED(temperature_v1, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    NEED(reading->sensor == 0);
    reading->temperature = (int32_t)temperature_of(gpu);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetMarginTemperature(void *device, margin_temperature *reading) {
    OPEN_GPU(device);
    NEED(reading);
    if (reading->version != VERSIONED(margin_temperature, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    reading->margin = (int32_t)gpu->temperature_slowdown_c - (int32_t)temperature_of(gpu);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTemperatureThreshold(void *device, unsigned int which, unsigned int *celsius) {
    OPEN_GPU(device);
    NEED(celsius && which < 8);
    const uint32_t limits[] = {gpu->temperature_shutdown_c, gpu->temperature_slowdown_c, gpu->temperature_memory_max_c,
                               gpu->temperature_max_c};
    SUPPORTED_IF(which < 4);
    *celsius = limits[which];
    return NVML_OK;
}

/* --- clocks -------------------------------------------------------------------------------------------------- */

static uint32_t max_clock(const nvsim_gpu *gpu, unsigned int type) {
    if (type == CLOCK_MEMORY) return gpu->clock_memory_max_mhz;
    return type == CLOCK_VIDEO ? gpu->clock_video_max_mhz : gpu->clock_graphics_max_mhz;
}

static uint32_t current_clock(const nvsim_gpu *gpu, unsigned int type) {
    if (type == CLOCK_MEMORY || gpu->utilization_gpu) return max_clock(gpu, type);
    return type == CLOCK_VIDEO ? gpu->clock_graphics_idle_mhz * 9 / 10 : gpu->clock_graphics_idle_mhz;
}

#define CLOCK_GETTER(function, value)                                                   \
    EXPORT nvml_return function(void *device, unsigned int type, unsigned int *mhz) {   \
        OPEN_GPU(device);                                                               \
        NEED(mhz && type < 4);                                                          \
        *mhz = value(gpu, type);                                                        \
        return NVML_OK;                                                                 \
    }

CLOCK_GETTER(nvmlDeviceGetClockInfo, current_clock)
CLOCK_GETTER(nvmlDeviceGetMaxClockInfo, max_clock)
CLOCK_GETTER(nvmlDeviceGetApplicationsClock, max_clock)
CLOCK_GETTER(nvmlDeviceGetDefaultApplicationsClock, max_clock)
CLOCK_GETTER(nvmlDeviceGetMaxCustomerBoostClock, max_clock)

EXPORT nvml_return nvmlDeviceGetClock(void *device, unsigned int type, unsigned int which, unsigned int *mhz) {
    OPEN_GPU(device);
    NEED(mhz && type < 4 && which < 4);
    *mhz = which == 0 ? current_clock(gpu, type) : max_clock(gpu, type);
    return NVML_OK;
}

/* Bit 0: the GPU idles; otherwise nothing holds the clocks back. */
EXPORT nvml_return nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    OPEN_GPU(device);
    NEED(reasons);
    *reasons = gpu->utilization_gpu ? 0 : 1;
    return NVML_OK;
}
ALIAS(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetCurrentClocksEventReasons);

EXPORT nvml_return nvmlDeviceGetSupportedClocksEventReasons(void *device, unsigned long long *reasons) {
    OPEN_GPU(device);
    NEED(reasons);
    *reasons = 0x1ff;
    return NVML_OK;
}
ALIAS(nvmlDeviceGetSupportedClocksThrottleReasons, nvmlDeviceGetSupportedClocksEventReasons);

EXPORT nvml_return nvmlDeviceGetViolationStatus(void *device, unsigned int policy, violation_time *time) {
    OPEN_GPU(device);
    NEED(time && policy < 12);
    *time = (violation_time){now_us(), 0};
    return NVML_OK;
}
