/* GPU performance monitoring (Hopper and newer): two samples, and what happened between them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "course.h"
#include "processes.h"

#define HOPPER 9
#define VERSION_1 1

typedef struct gpm_sample {
    uint64_t taken_us; /* 0: nothing in it yet */
    uint64_t busy;
    uint64_t nvlink_kib, pcie_kib;
    uint32_t nvlinks;
    uint32_t instance; /* NVSIM_NO_INSTANCE: the whole GPU */
    struct gpm_sample *following;
} gpm_sample;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gpm_sample *samples;

static gpm_sample *known_sample(const void *handle) {
    pthread_mutex_lock(&lock);
    gpm_sample *at = samples;
    while (at && at != handle) at = at->following;
    pthread_mutex_unlock(&lock);
    return at;
}

EXPORT nvml_return nvmlGpmQueryDeviceSupport(void *device, gpm_support *support) {
    SINCE(525);
    OPEN_GPU(device);
    NEED(support);
    if (support->version != VERSION_1) return NVML_ARGUMENT_VERSION_MISMATCH;
    support->supported = gpu->architecture >= HOPPER;
    return NVML_OK;
}

EXPORT nvml_return nvmlGpmQueryIfStreamingEnabled(void *device, unsigned int *enabled) {
    SINCE(545);
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->architecture >= HOPPER);
    NEED(enabled);
    *enabled = 1;
    return NVML_OK;
}

EXPORT nvml_return nvmlGpmSampleAlloc(void **handle) {
    SINCE(525);
    NEED(handle);
    gpm_sample *made = calloc(1, sizeof *made);
    if (!made) return NVML_UNKNOWN;
    pthread_mutex_lock(&lock);
    made->following = samples;
    samples = made;
    pthread_mutex_unlock(&lock);
    *handle = made;
    return NVML_OK;
}

EXPORT nvml_return nvmlGpmSampleFree(void *handle) {
    SINCE(525);
    pthread_mutex_lock(&lock);
    gpm_sample **place = &samples;
    while (*place && *place != handle) place = &(*place)->following;
    gpm_sample *found = *place;
    if (found) *place = found->following;
    pthread_mutex_unlock(&lock);
    NEED(found);
    free(found);
    return NVML_OK;
}

EXPORT nvml_return nvmlGpmSampleGet(void *device, void *handle) {
    SINCE(525);
    OPEN_GPU(device);
    gpm_sample *taken = known_sample(handle);
    NEED(taken);
    SUPPORTED_IF(gpu->architecture >= HOPPER);
    uint64_t now = now_us();
    taken->busy = busy_until(gpu, now);
    taken->nvlink_kib = nvlink_kib_until(gpu, now);
    taken->pcie_kib = pcie_kib_until(gpu, now);
    taken->nvlinks = gpu->nvlinks;
    taken->instance = NVSIM_NO_INSTANCE;
    taken->taken_us = now;
    return NVML_OK;
}

EXPORT nvml_return nvmlGpmMigSampleGet(void *device, unsigned int instance_id, void *handle) {
    SINCE(525);
    OPEN_GPU(device);
    gpm_sample *taken = known_sample(handle);
    NEED(taken);
    SUPPORTED_IF(gpu->architecture >= HOPPER && gpu->mig_enabled);
    const nvsim_instance *instance = find_instance(gpu, instance_id);
    NEED(instance);
    uint64_t now = now_us();
    taken->busy = instance_busy_until(gpu, instance, now);
    taken->instance = instance_id;
    taken->taken_us = now;
    return NVML_OK;
}

/* --- metrics: shares of the time in which the GPU was busy, in percent of percent ----------------------------- */

typedef struct {
    uint32_t first, last;
    uint32_t share; /* percent of how busy the GPU was */
    const char *name;
} ratio;

static const ratio ratios[] = {
    {1, 1, 100, "Graphics Util"},     {2, 2, 90, "SM Util"},           {3, 3, 50, "SM Occupancy"},
    {4, 4, 15, "Integer Util"},       {5, 5, 40, "Any Tensor Util"},   {6, 6, 0, "DFMA Tensor Util"},
    {7, 7, 35, "HMMA Tensor Util"},   {8, 8, 0, "DMMA Tensor Util"},   {9, 9, 5, "IMMA Tensor Util"},
    {10, 10, 45, "DRAM BW Util"},     {11, 11, 2, "FP64 Util"},        {12, 12, 20, "FP32 Util"},
    {13, 13, 10, "FP16 Util"},        {30, 37, 0, "NVDEC Util"},       {40, 47, 0, "NVJPG Util"},
    {50, 51, 0, "NVOFA Util"},
};

static nvml_return name_metric(gpm_metric *metric, const char *name, const char *unit, double value) {
    metric->short_name = metric->long_name = name;
    metric->unit = unit;
    metric->value = value;
    return NVML_OK;
}

static nvml_return measure(gpm_metric *metric, const gpm_sample *a, const gpm_sample *b) {
    double time_us = (double)(b->taken_us - a->taken_us);
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
        if (metric->id >= ratios[i].first && metric->id <= ratios[i].last)
            return name_metric(metric, ratios[i].name, "%", (double)(b->busy - a->busy) / time_us * ratios[i].share / 100);
    SUPPORTED_IF(a->instance == NVSIM_NO_INSTANCE); /* links belong to the whole GPU */
    double seconds = time_us / 1e6;
    if (metric->id == 20 || metric->id == 21)
        return name_metric(metric, "PCIe", "MiB/s", (double)(b->pcie_kib - a->pcie_kib) / 1024 / seconds);
    uint32_t links = metric->id == 60 || metric->id == 61 ? 1 : b->nvlinks, link = (metric->id - 62) / 2;
    SUPPORTED_IF(b->nvlinks && (links == 1 || (metric->id >= 62 && metric->id <= 97 && link < b->nvlinks)));
    return name_metric(metric, "NVLink", "MiB/s", (double)(b->nvlink_kib - a->nvlink_kib) / 1024 / seconds / links);
}

EXPORT nvml_return nvmlGpmMetricsGet(gpm_question *question) {
    SINCE(525);
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(question);
    if (question->version != VERSION_1) return NVML_ARGUMENT_VERSION_MISMATCH;
    const gpm_sample *a = known_sample(question->first), *b = known_sample(question->second);
    NEED(a && b && a->taken_us && b->taken_us > a->taken_us && a->instance == b->instance && b->busy >= a->busy);
    for (uint32_t i = 0; i < question->count; i++) question->metrics[i].result = measure(&question->metrics[i], a, b);
    return NVML_OK;
}
