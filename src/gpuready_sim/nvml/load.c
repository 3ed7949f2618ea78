/* What the GPUs are doing: memory, utilisation, power, temperature, clocks. Deterministic: every value follows
 * from the state file and the clock (course.c). */
#define _GNU_SOURCE
#include <string.h>

#include "course.h"
#include "processes.h"

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

/* --- memory -------------------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t total, reserved, used;
} memory;

/* A GPU instance has its memory to itself, a slice of what the driver keeps included. */
static memory memory_of(const nvsim_gpu *gpu, const nvsim_compute *partition) {
    memory of = {gpu->memory_mib * MIB, gpu->memory_reserved_mib * MIB, gpu->memory_used_mib * MIB};
    const nvsim_instance *instance = partition ? find_instance(gpu, partition->gpu_instance) : NULL;
    if (instance) {
        uint64_t mib = gpu->profiles[instance->kind % NVSIM_MAX_PROFILES].memory_mib;
        of = (memory){mib * MIB, mib * gpu->memory_reserved_mib / gpu->memory_mib * MIB, instance->memory_used_mib * MIB};
    } else if (gpu->mig_enabled) {
        for (int i = 0; i < NVSIM_MAX_INSTANCES; i++)
            if (gpu->instances[i].present) of.used += gpu->instances[i].memory_used_mib * MIB;
    }
    of.used += memory_of_processes(gpu, partition);
    if (of.used > of.total - of.reserved) of.used = of.total - of.reserved;
    return of;
}

/* The first version counts what the driver keeps for itself as used. */
EXPORT nvml_return nvmlDeviceGetMemoryInfo(void *device, memory_info *info) {
    OPEN_ENTITY(device);
    NEED(info);
    memory of = memory_of(gpu, partition);
    *info = (memory_info){of.total, of.total - of.reserved - of.used, of.used + of.reserved};
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetMemoryInfo_v2(void *device, memory_info_v2 *info) {
    SINCE(510);
    OPEN_ENTITY(device);
    NEED(info);
    if (info->version != VERSIONED(memory_info_v2, 2)) return NVML_ARGUMENT_VERSION_MISMATCH;
    memory of = memory_of(gpu, partition);
    info->total = of.total;
    info->reserved = of.reserved;
    info->used = of.used;
    info->free = of.total - of.reserved - of.used;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetBAR1MemoryInfo(void *device, memory_info *info) {
    OPEN_ENTITY(device);
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

/* --- utilisation: none while MIG is on, then GPM alone knows -------------------------------------------------- */

EXPORT nvml_return nvmlDeviceGetUtilizationRates(void *device, utilization *rates) {
    OPEN_GPU(device);
    SUPPORTED_IF(!gpu->mig_enabled);
    NEED(rates);
    uint64_t now = now_us();
    *rates = (utilization){busy_at(gpu, now), memory_percent_at(gpu, now)};
    return NVML_OK;
}

#define ENGINE_UTILIZATION(function, value)                                                     \
    EXPORT nvml_return function(void *device, unsigned int *percent, unsigned int *period_us) { \
        OPEN_GPU(device);                                                                       \
        SUPPORTED_IF(!gpu->mig_enabled);                                                        \
        NEED(percent && period_us);                                                             \
        *percent = (value);                                                                     \
        *period_us = SAMPLE_PERIOD_US;                                                          \
        return NVML_OK;                                                                         \
    }

ENGINE_UTILIZATION(nvmlDeviceGetEncoderUtilization, gpu->utilization_encoder)
ENGINE_UTILIZATION(nvmlDeviceGetDecoderUtilization, gpu->utilization_decoder)
ENGINE_UTILIZATION(nvmlDeviceGetJpgUtilization, 0)
ENGINE_UTILIZATION(nvmlDeviceGetOfaUtilization, 0)

/* --- samples: what the driver has noted, at every whole period of the clock, of the last twenty seconds -------- */

enum { SAMPLE_POWER, SAMPLE_GPU, SAMPLE_MEMORY, SAMPLE_ENCODER, SAMPLE_DECODER, SAMPLE_GPU_CLOCK, SAMPLE_MEMORY_CLOCK };
#define KEPT_SAMPLES 120
static uint32_t current_clock(const nvsim_gpu *gpu, unsigned int type, uint64_t now);

static uint32_t sampled(const nvsim_gpu *gpu, unsigned int type, uint64_t when_us) {
    switch (type) {
        case SAMPLE_POWER: return power_mw_at(gpu, when_us);
        case SAMPLE_GPU: return busy_at(gpu, when_us);
        case SAMPLE_MEMORY: return memory_percent_at(gpu, when_us);
        case SAMPLE_ENCODER: return gpu->utilization_encoder;
        case SAMPLE_DECODER: return gpu->utilization_decoder;
        case SAMPLE_GPU_CLOCK: return current_clock(gpu, CLOCK_GRAPHICS, when_us);
        default: return current_clock(gpu, CLOCK_MEMORY, when_us);
    }
}

EXPORT nvml_return nvmlDeviceGetSamples(void *device, unsigned int type, unsigned long long since, unsigned int *kind,
                                        unsigned int *count, sample *samples) {
    OPEN_GPU(device);
    NEED(kind && count && type <= 9);
    SUPPORTED_IF(type <= SAMPLE_MEMORY_CLOCK);
    SUPPORTED_IF(!gpu->mig_enabled || type == SAMPLE_POWER || type >= SAMPLE_GPU_CLOCK);
    uint64_t newest = now_us() / SAMPLE_PERIOD_US, oldest = newest > KEPT_SAMPLES ? newest - KEPT_SAMPLES + 1 : 1;
    if (since / SAMPLE_PERIOD_US >= oldest) oldest = since / SAMPLE_PERIOD_US + 1;
    if (oldest > newest) return NVML_NOT_FOUND;
    unsigned int number = (unsigned int)(newest - oldest + 1);
    *kind = VALUE_U32;
    if (!samples) {
        *count = number;
        return NVML_OK;
    }
    if (*count < number) number = *count; /* the oldest first, as many as there is room for */
    for (unsigned int i = 0; i < number; i++) {
        samples[i].timestamp = (oldest + i) * SAMPLE_PERIOD_US;
        samples[i].value.u64 = sampled(gpu, type, samples[i].timestamp);
    }
    *count = number;
    return NVML_OK;
}

/* --- power and temperature ----------------------------------------------------------------------------------- */

NUMBER_GETTER(nvmlDeviceGetPowerUsage, 1, power_mw_at(gpu, now_us()))
NUMBER_GETTER(nvmlDeviceGetPowerManagementLimit, 1, gpu->power_limit_mw)
NUMBER_GETTER(nvmlDeviceGetEnforcedPowerLimit, 1, gpu->power_limit_mw)
NUMBER_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, 1, gpu->power_default_mw)
NUMBER_GETTER(nvmlDeviceGetPowerManagementMode, 1, 1)
NUMBER_GETTER(nvmlDeviceGetPowerSource, 1, 0)
NUMBER_GETTER(nvmlDeviceGetPerformanceState, 1, busy_at(gpu, now_us()) || gpu->nvlinks ? 0 : 8)
ALIAS(nvmlDeviceGetPowerState, nvmlDeviceGetPerformanceState);
NUMBER_GETTER(nvmlDeviceGetNumFans, 1, gpu->fans)
NUMBER_GETTER(nvmlDeviceGetFanSpeed, gpu->fans, 30 + busy_at(gpu, now_us()) / 2)

EXPORT nvml_return nvmlDeviceGetFanSpeed_v2(void *device, unsigned int fan, unsigned int *percent) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->fans);
    NEED(percent && fan < gpu->fans);
    *percent = 30 + busy_at(gpu, now_us()) / 2;
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
    *energy_mj = energy_nj_until(gpu, now_us()) / 1000000;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTemperature(void *device, unsigned int sensor, unsigned int *celsius) {
    OPEN_GPU(device);
    NEED(celsius && sensor == 0);
    *celsius = temperature_at(gpu, now_us());
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTemperatureV(void *device, temperature_v1 *reading) {
    OPEN_GPU(device);
    NEED(reading);
    if (reading->version != VERSIONED(temperature_v1, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    NEED(reading->sensor == 0);
    reading->temperature = (int32_t)temperature_at(gpu, now_us());
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetMarginTemperature(void *device, margin_temperature *reading) {
    OPEN_GPU(device);
    NEED(reading);
    if (reading->version != VERSIONED(margin_temperature, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    reading->margin = (int32_t)gpu->temperature_slowdown_c - (int32_t)temperature_at(gpu, now_us());
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

#define SLOWED (REASON_POWER_CAP | REASON_HW_SLOWDOWN | REASON_SW_THERMAL | REASON_HW_THERMAL | REASON_POWER_BRAKE)

/* What holds the clocks back takes two fifths of the GPU's. */
static uint32_t current_clock(const nvsim_gpu *gpu, unsigned int type, uint64_t now) {
    if (type == CLOCK_MEMORY) return max_clock(gpu, type);
    if (busy_at(gpu, now)) return gpu->clocks_reasons & SLOWED ? max_clock(gpu, type) * 3 / 5 : max_clock(gpu, type);
    return type == CLOCK_VIDEO ? gpu->clock_graphics_idle_mhz * 9 / 10 : gpu->clock_graphics_idle_mhz;
}

static uint32_t clock_now(const nvsim_gpu *gpu, unsigned int type) { return current_clock(gpu, type, now_us()); }

#define CLOCK_GETTER(function, value)                                                   \
    EXPORT nvml_return function(void *device, unsigned int type, unsigned int *mhz) {   \
        OPEN_GPU(device);                                                               \
        NEED(mhz && type < 4);                                                          \
        *mhz = value(gpu, type);                                                        \
        return NVML_OK;                                                                 \
    }

CLOCK_GETTER(nvmlDeviceGetClockInfo, clock_now)
CLOCK_GETTER(nvmlDeviceGetMaxClockInfo, max_clock)
CLOCK_GETTER(nvmlDeviceGetApplicationsClock, max_clock)
CLOCK_GETTER(nvmlDeviceGetDefaultApplicationsClock, max_clock)
CLOCK_GETTER(nvmlDeviceGetMaxCustomerBoostClock, max_clock)

EXPORT nvml_return nvmlDeviceGetClock(void *device, unsigned int type, unsigned int which, unsigned int *mhz) {
    OPEN_GPU(device);
    NEED(mhz && type < 4 && which < 4);
    *mhz = which == 0 ? clock_now(gpu, type) : max_clock(gpu, type);
    return NVML_OK;
}

static uint64_t reasons_now(const nvsim_gpu *gpu) {
    return gpu->clocks_reasons | (busy_at(gpu, now_us()) ? 0 : REASON_IDLE);
}

EXPORT nvml_return nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    SINCE(535);
    OPEN_GPU(device);
    NEED(reasons);
    *reasons = reasons_now(gpu);
    return NVML_OK;
}

/* The same by its older name, which every driver has. */
EXPORT nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    OPEN_GPU(device);
    NEED(reasons);
    *reasons = reasons_now(gpu);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetSupportedClocksThrottleReasons(void *device, unsigned long long *reasons) {
    OPEN_GPU(device);
    NEED(reasons);
    *reasons = 0x1ff;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetSupportedClocksEventReasons(void *device, unsigned long long *reasons) {
    SINCE(535);
    return nvmlDeviceGetSupportedClocksThrottleReasons(device, reasons);
}

EXPORT nvml_return nvmlDeviceGetViolationStatus(void *device, unsigned int policy, violation_time *time) {
    OPEN_GPU(device);
    NEED(time && (policy < 6 || policy == 10 || policy == 11));
    uint64_t now = now_us();
    *time = (violation_time){now, violation_ns_until(gpu, policy, now)};
    return NVML_OK;
}
