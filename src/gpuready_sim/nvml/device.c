/* Finding GPUs and asking what they are: identity, place, memory, clocks, power, links. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "course.h"

/* --- handles ------------------------------------------------------------------------------------------------- */

EXPORT nvml_return nvmlDeviceGetCount_v2(unsigned int *count) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(count);
    *count = visible_count;
    return NVML_OK;
}
ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

static nvml_return give_handle(uint32_t slot, void **device) {
    *device = handle_of_slot(slot);
    return state->gpus[slot].lost ? NVML_GPU_IS_LOST : NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(device && index < visible_count);
    return give_handle(visible[index], device);
}
ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

static nvml_return find_partition(const char *uuid, void **device) {
    for (uint32_t i = 0; i < visible_count; i++)
        for (uint32_t j = 0; j < NVSIM_MAX_INSTANCES; j++) {
            const nvsim_compute *partition = &state->gpus[visible[i]].compute[j];
            if (!partition->present || strcmp(partition->uuid, uuid) != 0) continue;
            *device = &partition_handles[visible[i]][j];
            return state->gpus[visible[i]].lost ? NVML_GPU_IS_LOST : NVML_OK;
        }
    return NVML_NOT_FOUND;
}

EXPORT nvml_return nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(uuid && device);
    for (uint32_t i = 0; i < visible_count; i++)
        if (strcmp(state->gpus[visible[i]].uuid, uuid) == 0) return give_handle(visible[i], device);
    return find_partition(uuid, device);
}

EXPORT nvml_return nvmlDeviceGetHandleByUUIDV(const uuid_query *query, void **device) {
    NEED(query);
    if (query->version != VERSIONED(uuid_query, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    if (query->type == 1) {
        char text[sizeof query->value.text + 1] = "";
        memcpy(text, query->value.text, sizeof query->value.text);
        return nvmlDeviceGetHandleByUUID(text, device);
    }
    const uint8_t *b = query->value.bytes;
    char text[48];
    snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return nvmlDeviceGetHandleByUUID(text, device);
}

EXPORT nvml_return nvmlDeviceGetHandleBySerial(const char *serial, void **device) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(serial && device);
    for (uint32_t i = 0; i < visible_count; i++)
        if (strcmp(state->gpus[visible[i]].serial, serial) == 0) return give_handle(visible[i], device);
    return NVML_NOT_FOUND;
}

EXPORT nvml_return nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(bus_id && device);
    unsigned int domain = 0, bus, slot;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        NEED(sscanf(bus_id, "%x:%x", &bus, &slot) == 2);
    }
    for (uint32_t i = 0; i < visible_count; i++) {
        const nvsim_gpu *gpu = &state->gpus[visible[i]];
        if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == slot)
            return give_handle(visible[i], device);
    }
    return NVML_NOT_FOUND;
}
ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

/* --- identity ------------------------------------------------------------------------------------------------ */

#define TEXT_GETTER(function, field)                                                \
    EXPORT nvml_return function(void *device, char *buffer, unsigned int size) {    \
        OPEN_GPU(device);                                                           \
        SUPPORTED_IF(gpu->field[0]);                                                \
        return copy_text(gpu->field, buffer, size);                                 \
    }

EXPORT nvml_return nvmlDeviceGetName(void *device, char *buffer, unsigned int size) {
    OPEN_ENTITY(device);
    if (!partition) return copy_text(gpu->name, buffer, size);
    char text[sizeof gpu->name + sizeof partition->name + 8];
    snprintf(text, sizeof text, "%s MIG %s", gpu->name, partition->name);
    return copy_text(text, buffer, size);
}

EXPORT nvml_return nvmlDeviceGetUUID(void *device, char *buffer, unsigned int size) {
    OPEN_ENTITY(device);
    return copy_text(partition ? partition->uuid : gpu->uuid, buffer, size);
}

TEXT_GETTER(nvmlDeviceGetSerial, serial)
TEXT_GETTER(nvmlDeviceGetBoardPartNumber, board_part)
TEXT_GETTER(nvmlDeviceGetVbiosVersion, vbios)

#define NUMBER_GETTER(function, condition, value)                                   \
    EXPORT nvml_return function(void *device, unsigned int *result) {               \
        OPEN_GPU(device);                                                           \
        SUPPORTED_IF(condition);                                                    \
        NEED(result);                                                               \
        *result = (unsigned int)(value);                                            \
        return NVML_OK;                                                             \
    }

static uint32_t index_of(const nvsim_gpu *gpu) {
    for (uint32_t i = 0; i < visible_count; i++) if (&state->gpus[visible[i]] == gpu) return i;
    return 0;
}

EXPORT nvml_return nvmlDeviceGetIndex(void *device, unsigned int *index) {
    OPEN_ENTITY(device);
    NEED(index);
    *index = partition ? (uint32_t)(partition - gpu->compute) : index_of(gpu);
    return NVML_OK;
}

NUMBER_GETTER(nvmlDeviceGetMinorNumber, 1, gpu->minor)
NUMBER_GETTER(nvmlDeviceGetArchitecture, 1, gpu->architecture)
NUMBER_GETTER(nvmlDeviceGetBrand, 1, gpu->brand)
NUMBER_GETTER(nvmlDeviceGetBoardId, 1, gpu->pci_domain << 16 | gpu->pci_bus << 8)
NUMBER_GETTER(nvmlDeviceGetMultiGpuBoard, 1, 0)
NUMBER_GETTER(nvmlDeviceGetModuleId, gpu->nvlinks, index_of(gpu) + 1)
NUMBER_GETTER(nvmlDeviceGetNumGpuCores, 1, gpu->cores)
NUMBER_GETTER(nvmlDeviceGetBusType, 1, 2)
NUMBER_GETTER(nvmlDeviceGetIrqNum, 1, 64 + gpu->minor)
NUMBER_GETTER(nvmlDeviceGetPersistenceMode, 1, gpu->persistence)
NUMBER_GETTER(nvmlDeviceGetComputeMode, 1, gpu->compute_mode)
NUMBER_GETTER(nvmlDeviceGetDisplayMode, 1, gpu->has_display)
NUMBER_GETTER(nvmlDeviceGetDisplayActive, 1, 0)
NUMBER_GETTER(nvmlDeviceGetVirtualizationMode, 1, 0)
NUMBER_GETTER(nvmlDeviceGetMemoryBusWidth, 1, gpu->memory_bus_bits)

EXPORT nvml_return nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    OPEN_GPU(device);
    NEED(major && minor);
    *major = (int)gpu->compute_major;
    *minor = (int)gpu->compute_minor;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetAddressingMode(void *device, addressing_mode *mode) {
    OPEN_GPU(device);
    NEED(mode);
    if (mode->version != VERSIONED(addressing_mode, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    mode->value = 0;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNumaNodeId(void *device, unsigned int *node) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->numa_node >= 0);
    NEED(node);
    *node = (unsigned int)gpu->numa_node;
    return NVML_OK;
}

/* --- PCI ----------------------------------------------------------------------------------------------------- */

static void write_bus_id(const nvsim_gpu *gpu, char *text, size_t size, int domain_digits) {
    snprintf(text, size, "%0*X:%02X:%02X.0", domain_digits, gpu->pci_domain, gpu->pci_bus, gpu->pci_device);
}

static void fill_pci_info(const nvsim_gpu *gpu, pci_info *info) {
    *info = (pci_info){
        .domain = gpu->pci_domain,
        .bus = gpu->pci_bus,
        .device = gpu->pci_device,
        .pci_device_id = gpu->pci_device_id,
        .pci_subsystem_id = gpu->pci_subsystem_id,
    };
    write_bus_id(gpu, info->bus_id_legacy, sizeof info->bus_id_legacy, 4);
    write_bus_id(gpu, info->bus_id, sizeof info->bus_id, 8);
}

EXPORT nvml_return nvmlDeviceGetPciInfo_v3(void *device, pci_info *info) {
    OPEN_GPU(device);
    NEED(info);
    fill_pci_info(gpu, info);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetPciInfo_v2(void *device, pci_info_v2 *info) {
    OPEN_GPU(device);
    NEED(info);
    *info = (pci_info_v2){
        .domain = gpu->pci_domain,
        .bus = gpu->pci_bus,
        .device = gpu->pci_device,
        .pci_device_id = gpu->pci_device_id,
        .pci_subsystem_id = gpu->pci_subsystem_id,
    };
    write_bus_id(gpu, info->bus_id, sizeof info->bus_id, 4);
    return NVML_OK;
}
ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v2);

EXPORT nvml_return nvmlDeviceGetPciInfoExt(void *device, pci_info_ext *info) {
    OPEN_GPU(device);
    NEED(info);
    if (info->version != VERSIONED(pci_info_ext, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    info->domain = gpu->pci_domain;
    info->bus = gpu->pci_bus;
    info->device = gpu->pci_device;
    info->pci_device_id = gpu->pci_device_id;
    info->pci_subsystem_id = gpu->pci_subsystem_id;
    info->base_class = gpu->pci_class >> 8;
    info->sub_class = gpu->pci_class & 0xff;
    write_bus_id(gpu, info->bus_id, sizeof info->bus_id, 8);
    return NVML_OK;
}

NUMBER_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, 1, gpu->pcie_generation)
NUMBER_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, 1, gpu->pcie_generation)
NUMBER_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, 1, gpu->pcie_generation)
NUMBER_GETTER(nvmlDeviceGetMaxPcieLinkWidth, 1, gpu->pcie_width)
NUMBER_GETTER(nvmlDeviceGetCurrPcieLinkWidth, 1, gpu->pcie_width)
NUMBER_GETTER(nvmlDeviceGetPcieLinkMaxSpeed, 1, gpu->pcie_generation)
NUMBER_GETTER(nvmlDeviceGetPcieSpeed, 1, gpu->pcie_generation >= 3 ? 1000u << gpu->pcie_generation : 5000)
NUMBER_GETTER(nvmlDeviceGetPcieReplayCounter, 1, gpu->pcie_replays)

EXPORT nvml_return nvmlDeviceGetPcieThroughput(void *device, unsigned int counter, unsigned int *kib_s) {
    OPEN_GPU(device);
    NEED(kib_s && counter < 2);
    *kib_s = pcie_kib_s_at(gpu, now_us());
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, unsigned int *level) {
    nvsim_gpu *second;
    OPEN_GPU(device);
    problem = find_gpu(__func__, other, &second);
    if (problem != NVML_OK) return problem;
    NEED(level);
    if (gpu == second) *level = TOPOLOGY_INTERNAL;
    else if (gpu->pcie_switch == second->pcie_switch) *level = TOPOLOGY_SINGLE;
    else if (gpu->numa_node == second->numa_node) *level = TOPOLOGY_NODE;
    else *level = TOPOLOGY_SYSTEM;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetTopologyNearestGpus(void *device, unsigned int level, unsigned int *count,
                                                    void **found) {
    OPEN_GPU(device);
    NEED(count);
    unsigned int room = *count, number = 0;
    for (uint32_t i = 0; i < visible_count; i++) {
        unsigned int distance;
        void *other = handle_of_slot(visible[i]);
        if (other == device || nvmlDeviceGetTopologyCommonAncestor(device, other, &distance) != NVML_OK) continue;
        if (distance > level) continue;
        if (found && number < room) found[number] = other;
        number++;
    }
    *count = found && room < number ? room : number;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetP2PStatus(void *device, void *other, unsigned int capability, unsigned int *status) {
    nvsim_gpu *second;
    OPEN_GPU(device);
    problem = find_gpu(__func__, other, &second);
    if (problem != NVML_OK) return problem;
    NEED(status && capability < 5);
    int linked = gpu->nvlinks && second->nvlinks;
    *status = capability == 2 && !linked ? 5 : 0;
    return NVML_OK;
}

/* --- NVLink: every link of a model that has them goes to a switch -------------------------------------------- */

EXPORT nvml_return nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->nvlinks);
    NEED(active && link < gpu->nvlinks);
    *active = 1;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNvLinkVersion(void *device, unsigned int link, unsigned int *version) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->nvlinks);
    NEED(version && link < gpu->nvlinks);
    *version = gpu->nvlink_version;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNvLinkCapability(void *device, unsigned int link, unsigned int which,
                                                 unsigned int *has) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->nvlinks);
    NEED(has && link < gpu->nvlinks && which < 6);
    *has = which != 4; /* all but an SLI bridge */
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned int link, unsigned int which,
                                                   unsigned long long *count) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->nvlinks);
    NEED(count && link < gpu->nvlinks && which < 5);
    const uint32_t counts[] = {gpu->nvlink_replays, gpu->nvlink_recoveries, gpu->nvlink_crc_flit_errors,
                               gpu->nvlink_crc_data_errors, 0};
    *count = link == 0 ? counts[which] : 0; /* all errors are on the first link */
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *type) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->nvlinks);
    NEED(type && link < gpu->nvlinks);
    *type = 2; /* switch */
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, pci_info *info) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->nvlinks);
    NEED(info && link < gpu->nvlinks);
    *info = (pci_info){.bus = 0xc4 + link % 6, .pci_device_id = 0x22a310de};
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0", 0, info->bus, 0);
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", 0, info->bus, 0);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNvLinkRemotePciInfo(void *device, unsigned int link, pci_info_v2 *info) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->nvlinks);
    NEED(info && link < gpu->nvlinks);
    *info = (pci_info_v2){.bus = 0xc4 + link % 6, .pci_device_id = 0x22a310de};
    snprintf(info->bus_id, sizeof info->bus_id, "%04X:%02X:%02X.0", 0, info->bus, 0);
    return NVML_OK;
}

/* --- fabric: complete where the model has one; the cluster is the machine itself, so its UUID is zero -------- */

EXPORT nvml_return nvmlDeviceGetGpuFabricInfo(void *device, fabric_info *info) {
    OPEN_GPU(device);
    NEED(info);
    *info = (fabric_info){.state = gpu->fabric ? FABRIC_COMPLETED : FABRIC_NOT_SUPPORTED};
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetGpuFabricInfoV(void *device, fabric_info_v3 *info) {
    OPEN_GPU(device);
    NEED(info);
    uint32_t fabric_state = gpu->fabric ? FABRIC_COMPLETED : FABRIC_NOT_SUPPORTED;
    if (info->version == VERSIONED(fabric_info_v2, 2)) {
        *(fabric_info_v2 *)info = (fabric_info_v2){.version = info->version, .state = fabric_state};
    } else if (info->version == VERSIONED(fabric_info_v3, 3)) {
        *info = (fabric_info_v3){
            .version = info->version,
            .state = fabric_state,
            .health_summary = gpu->fabric ? 1 : 0, /* healthy */
        };
    } else {
        return NVML_ARGUMENT_VERSION_MISMATCH;
    }
    return NVML_OK;
}
