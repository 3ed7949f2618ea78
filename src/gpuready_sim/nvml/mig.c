/* MIG: the GPU instances and MIG devices that the state file holds. Reading only; who makes them is
 * hardware/mig.py. */
#define _GNU_SOURCE
#include <string.h>

#include "course.h"
#include "processes.h"

/* Handles of GPU instances and compute instances: addresses, like those of devices. */
static gpu_handle instance_handles[NVSIM_MAX_GPUS][NVSIM_MAX_INSTANCES];
static gpu_handle compute_handles[NVSIM_MAX_GPUS][NVSIM_MAX_INSTANCES];

static void *handle_in(gpu_handle (*table)[NVSIM_MAX_INSTANCES], const nvsim_gpu *gpu, uint32_t place) {
    uint32_t slot = (uint32_t)(gpu - state->gpus);
    table[slot][place] = (gpu_handle){slot, place};
    return &table[slot][place];
}

static const gpu_handle *known_in(gpu_handle (*table)[NVSIM_MAX_INSTANCES], const void *handle) {
    const gpu_handle *entry = handle, *first = table[0];
    int inside = entry >= first && entry < first + NVSIM_MAX_GPUS * NVSIM_MAX_INSTANCES;
    return inside && (const char *)entry == (const char *)&table[entry->slot][entry->partition] ? entry : NULL;
}

const nvsim_instance *find_instance(const nvsim_gpu *gpu, uint32_t id) {
    for (int i = 0; i < NVSIM_MAX_INSTANCES; i++)
        if (gpu->instances[i].present && gpu->instances[i].id == id) return &gpu->instances[i];
    return NULL;
}

static const nvsim_profile *profile_of(const nvsim_gpu *gpu, const nvsim_instance *instance) {
    return &gpu->profiles[instance->kind % NVSIM_MAX_PROFILES];
}

/* --- the mode ------------------------------------------------------------------------------------------------ */

EXPORT nvml_return nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->mig_capable);
    NEED(current && pending);
    *current = gpu->mig_enabled;
    *pending = gpu->mig_pending;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count) {
    OPEN_GPU(device);
    NEED(count);
    *count = gpu->mig_capable ? 7 : 0;
    return NVML_OK;
}

/* --- MIG devices --------------------------------------------------------------------------------------------- */

EXPORT nvml_return nvmlDeviceIsMigDeviceHandle(void *device, unsigned int *is) {
    OPEN_ENTITY(device);
    NEED(is);
    *is = partition != NULL;
    return NVML_OK;
}

/* Places may be empty between others: who looks for all asks for each of nvmlDeviceGetMaxMigDeviceCount. */
EXPORT nvml_return nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int index, void **mig) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->mig_capable);
    NEED(mig && index < 7);
    if (!gpu->mig_enabled || !gpu->compute[index].present) return NVML_NOT_FOUND;
    *mig = &partition_handles[gpu - state->gpus][index];
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *mig, void **device) {
    OPEN_ENTITY(mig);
    NEED(device && partition);
    *device = handle_of_slot((uint32_t)(gpu - state->gpus));
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetGpuInstanceId(void *mig, unsigned int *id) {
    OPEN_ENTITY(mig);
    NEED(id && partition);
    *id = partition->gpu_instance;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetComputeInstanceId(void *mig, unsigned int *id) {
    OPEN_ENTITY(mig);
    NEED(id && partition);
    *id = partition->id;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetAttributes_v2(void *mig, device_attributes *attributes) {
    OPEN_ENTITY(mig);
    SUPPORTED_IF(partition);
    NEED(attributes);
    const nvsim_instance *instance = find_instance(gpu, partition->gpu_instance);
    NEED(instance);
    const nvsim_profile *profile = profile_of(gpu, instance);
    *attributes = (device_attributes){
        .multiprocessors = partition->multiprocessors,
        .copy_engines = profile->copy_engines,
        .decoders = profile->decoders,
        .jpegs = profile->jpegs,
        .ofas = profile->ofas,
        .gpu_slices = profile->slices,
        .compute_slices = partition->slices,
        .memory_mib = profile->memory_mib,
    };
    return NVML_OK;
}
ALIAS(nvmlDeviceGetAttributes, nvmlDeviceGetAttributes_v2);

/* --- GPU instances ------------------------------------------------------------------------------------------- */

static void fill_profile(const nvsim_profile *profile, instance_profile *info) {
    *info = (instance_profile){
        .id = profile->id,
        .slices = profile->slices,
        .instances = profile->most,
        .multiprocessors = profile->multiprocessors,
        .copy_engines = profile->copy_engines,
        .decoders = profile->decoders,
        .jpegs = profile->jpegs,
        .ofas = profile->ofas,
        .memory_mib = profile->memory_mib,
    };
}

static const nvsim_profile *find_profile(const nvsim_gpu *gpu, uint32_t profile) {
    for (uint32_t i = 0; i < gpu->profile_count && i < NVSIM_MAX_PROFILES; i++)
        if (gpu->profiles[i].profile == profile) return &gpu->profiles[i];
    return NULL;
}

EXPORT nvml_return nvmlDeviceGetGpuInstanceProfileInfo(void *device, unsigned int profile, instance_profile *info) {
    OPEN_GPU(device);
    NEED(info);
    const nvsim_profile *found = find_profile(gpu, profile);
    SUPPORTED_IF(gpu->mig_capable && found);
    fill_profile(found, info);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetGpuInstanceProfileInfoV(void *device, unsigned int profile, instance_profile_v2 *info) {
    OPEN_GPU(device);
    NEED(info);
    if (info->version != VERSIONED(instance_profile_v2, 2)) return NVML_ARGUMENT_VERSION_MISMATCH;
    const nvsim_profile *found = find_profile(gpu, profile);
    SUPPORTED_IF(gpu->mig_capable && found);
    instance_profile plain;
    fill_profile(found, &plain);
    *info = (instance_profile_v2){
        info->version, plain.id, plain.p2p, plain.slices, plain.instances, plain.multiprocessors, plain.copy_engines,
        plain.decoders, plain.encoders, plain.jpegs, plain.ofas, plain.memory_mib, "MIG "};
    return copy_text(found->name, info->name + 4, sizeof info->name - 4);
}

EXPORT nvml_return nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *device, unsigned int profile_id,
                                                                 placement *places, unsigned int *count) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->mig_capable);
    NEED(count);
    const nvsim_profile *found = NULL;
    for (uint32_t i = 0; i < gpu->profile_count && i < NVSIM_MAX_PROFILES; i++)
        if (gpu->profiles[i].id == profile_id) found = &gpu->profiles[i];
    NEED(found);
    unsigned int number = 0, room = *count;
    for (uint32_t start = 0; start < 32; start++) {
        if (!(found->starts >> start & 1)) continue;
        if (places && number < room) places[number] = (placement){start, found->size};
        number++;
    }
    *count = number;
    return places && room < number ? NVML_INSUFFICIENT_SIZE : NVML_OK;
}
ALIAS(nvmlDeviceGetGpuInstancePossiblePlacements, nvmlDeviceGetGpuInstancePossiblePlacements_v2);

EXPORT nvml_return nvmlDeviceGetGpuInstances(void *device, unsigned int profile_id, void **instances,
                                             unsigned int *count) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->mig_enabled);
    NEED(instances && count);
    *count = 0;
    for (uint32_t i = 0; i < NVSIM_MAX_INSTANCES; i++)
        if (gpu->instances[i].present && profile_of(gpu, &gpu->instances[i])->id == profile_id)
            instances[(*count)++] = handle_in(instance_handles, gpu, i);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetGpuInstanceById(void *device, unsigned int id, void **instance) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->mig_enabled);
    NEED(instance);
    const nvsim_instance *found = find_instance(gpu, id);
    if (!found) return NVML_NOT_FOUND;
    *instance = handle_in(instance_handles, gpu, (uint32_t)(found - gpu->instances));
    return NVML_OK;
}

/* The door of what is asked of a GPU instance. */
#define OPEN_INSTANCE(handle)                                                                   \
    const gpu_handle *at = known_in(instance_handles, (handle));                                \
    NEED(at);                                                                                   \
    OPEN_GPU(handle_of_slot(at->slot));                                                         \
    const nvsim_instance *instance = &gpu->instances[at->partition];                            \
    NEED(instance->present)

EXPORT nvml_return nvmlGpuInstanceGetInfo(void *handle, gpu_instance_info *info) {
    OPEN_INSTANCE(handle);
    NEED(info);
    const nvsim_profile *profile = profile_of(gpu, instance);
    *info = (gpu_instance_info){
        handle_of_slot(at->slot), instance->id, profile->id, {instance->start, profile->size}};
    return NVML_OK;
}

/* --- compute instances --------------------------------------------------------------------------------------- */

EXPORT nvml_return nvmlGpuInstanceGetComputeInstances(void *handle, unsigned int profile_id, void **found,
                                                      unsigned int *count) {
    OPEN_INSTANCE(handle);
    NEED(found && count);
    *count = 0;
    for (uint32_t i = 0; i < NVSIM_MAX_INSTANCES; i++) {
        const nvsim_compute *compute = &gpu->compute[i];
        if (compute->present && compute->gpu_instance == instance->id && compute->profile == profile_id)
            found[(*count)++] = handle_in(compute_handles, gpu, i);
    }
    return NVML_OK;
}

EXPORT nvml_return nvmlGpuInstanceGetComputeInstanceById(void *handle, unsigned int id, void **found) {
    OPEN_INSTANCE(handle);
    NEED(found);
    for (uint32_t i = 0; i < NVSIM_MAX_INSTANCES; i++) {
        const nvsim_compute *compute = &gpu->compute[i];
        if (!compute->present || compute->gpu_instance != instance->id || compute->id != id) continue;
        *found = handle_in(compute_handles, gpu, i);
        return NVML_OK;
    }
    return NVML_NOT_FOUND;
}

EXPORT nvml_return nvmlComputeInstanceGetInfo_v2(void *handle, compute_instance_info *info) {
    const gpu_handle *at = known_in(compute_handles, handle);
    NEED(at && info);
    OPEN_GPU(handle_of_slot(at->slot));
    const nvsim_compute *compute = &gpu->compute[at->partition];
    const nvsim_instance *instance = find_instance(gpu, compute->gpu_instance);
    NEED(compute->present && instance);
    *info = (compute_instance_info){
        handle_of_slot(at->slot), handle_in(instance_handles, gpu, (uint32_t)(instance - gpu->instances)),
        compute->id, compute->profile, {compute->start, compute->slices}};
    return NVML_OK;
}
ALIAS(nvmlComputeInstanceGetInfo, nvmlComputeInstanceGetInfo_v2);
