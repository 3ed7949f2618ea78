/* The part of the NVML ABI that the simulator implements: names, numbers and layouts.
 *
 * Written from what clients of the library expect, not from nvml.h. Only 64-bit little-endian Linux. A
 * versioned struct starts with sizeof | version << 24.
 */
#ifndef NVSIM_ABI_H
#define NVSIM_ABI_H

#include <assert.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define VERSIONED(type, number) ((uint32_t)(sizeof(type) | ((number) << 24)))

typedef unsigned int nvml_return;

enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_CORRUPTED_INFOROM = 14,
    NVML_GPU_IS_LOST = 15,
    NVML_VERSION_MISMATCH = 18,
    NVML_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_UNKNOWN = 999,
};

enum {
    EVENT_SINGLE_BIT_ECC = 0x1,
    EVENT_DOUBLE_BIT_ECC = 0x2,
    EVENT_PSTATE = 0x4,
    EVENT_XID = 0x8,
    EVENT_CLOCK = 0x10,
};

enum { TOPOLOGY_INTERNAL = 0, TOPOLOGY_SINGLE = 10, TOPOLOGY_NODE = 40, TOPOLOGY_SYSTEM = 50 };
enum { CLOCK_GRAPHICS = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2, CLOCK_VIDEO = 3 };
enum { VALUE_U32 = 1, VALUE_U64 = 3 };
enum { FABRIC_NOT_SUPPORTED = 0, FABRIC_COMPLETED = 3 };

typedef struct {
    char bus_id_legacy[16];
    uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_info;
static_assert(sizeof(pci_info) == 68, "nvmlPciInfo_t v3");

typedef struct {
    char bus_id[16];
    uint32_t domain, bus, device, pci_device_id, pci_subsystem_id, reserved[4];
} pci_info_v2;
static_assert(sizeof(pci_info_v2) == 52, "nvmlPciInfo_t v2");

typedef struct {
    uint32_t version, domain, bus, device, pci_device_id, pci_subsystem_id, base_class, sub_class;
    char bus_id[32];
} pci_info_ext;
static_assert(sizeof(pci_info_ext) == 64, "nvmlPciInfoExt_v1_t");

typedef struct {
    uint64_t total, free, used;
} memory_info;
static_assert(sizeof(memory_info) == 24, "nvmlMemory_t");

typedef struct {
    uint32_t version;
    uint64_t total, reserved, free, used;
} memory_info_v2;
static_assert(sizeof(memory_info_v2) == 40, "nvmlMemory_v2_t");

typedef struct {
    uint32_t gpu, memory;
} utilization;

typedef struct {
    void *device;
    uint64_t type, data;
    uint32_t gpu_instance, compute_instance;
} event_data;
static_assert(sizeof(event_data) == 32, "nvmlEventData_t");

typedef struct {
    uint32_t pid;
    uint64_t memory;
} process_info_v1;
static_assert(sizeof(process_info_v1) == 16, "nvmlProcessInfo_v1_t");

typedef struct {
    uint32_t pid;
    uint64_t memory;
    uint32_t gpu_instance, compute_instance;
} process_info;
static_assert(sizeof(process_info) == 24, "nvmlProcessInfo_v2_t");

typedef struct {
    uint32_t pid;
    uint64_t memory;
    uint32_t gpu_instance, compute_instance;
    uint64_t protected_memory;
} process_detail;
static_assert(sizeof(process_detail) == 32, "nvmlProcessDetail_v1_t");

typedef struct {
    uint32_t version, mode, count;
    process_detail *entries;
} process_detail_list;
static_assert(sizeof(process_detail_list) == 24, "nvmlProcessDetailList_v1_t");

typedef struct {
    uint32_t pid;
    uint64_t timestamp;
    uint32_t sm, memory, encoder, decoder;
} process_sample;
static_assert(sizeof(process_sample) == 32, "nvmlProcessUtilizationSample_t");

typedef struct {
    uint32_t version, sensor;
    int32_t temperature;
} temperature_v1;
static_assert(sizeof(temperature_v1) == 12, "nvmlTemperature_v1_t");

typedef struct {
    uint32_t version;
    int32_t margin;
} margin_temperature;

typedef struct {
    uint32_t version, value;
} addressing_mode;
static_assert(sizeof(addressing_mode) == 8, "nvmlDeviceAddressingMode_v1_t");

typedef struct {
    uint8_t cluster[16];
    uint32_t status, clique, state;
} fabric_info;
static_assert(sizeof(fabric_info) == 28, "nvmlGpuFabricInfo_t");

typedef struct {
    uint32_t version;
    uint8_t cluster[16];
    uint32_t status, clique, state, health_mask;
} fabric_info_v2;
static_assert(sizeof(fabric_info_v2) == 36, "nvmlGpuFabricInfo_v2_t");

typedef struct {
    uint32_t version;
    uint8_t cluster[16];
    uint32_t status, clique, state, health_mask;
    uint8_t health_summary;
} fabric_info_v3;
static_assert(sizeof(fabric_info_v3) == 40, "nvmlGpuFabricInfo_v3_t");

typedef union {
    double real;
    uint32_t u32;
    uint64_t u64;
    int64_t s64;
} field_content;

typedef struct {
    uint32_t id, scope;
    int64_t timestamp, latency;
    uint32_t type, result;
    field_content value;
} field_value;
static_assert(sizeof(field_value) == 40, "nvmlFieldValue_t");

typedef struct {
    uint64_t l1, l2, device_memory, register_file;
} ecc_counts;

typedef struct {
    uint32_t max, high, partial, low, none;
} remap_histogram;

typedef struct {
    uint32_t correctable, correctable_inactive, uncorrectable, uncorrectable_inactive, pending, failed;
} remapped_rows_v2;

typedef struct {
    uint64_t reference_time, violation_time;
} violation_time;

typedef struct {
    uint64_t timestamp;
    field_content value;
} sample;
static_assert(sizeof(sample) == 16, "nvmlSample_t");

typedef struct {
    uint64_t timestamp;
    uint32_t pid, sm, memory, encoder, decoder, jpeg, ofa;
} process_utilization;
static_assert(sizeof(process_utilization) == 40, "nvmlProcessUtilizationInfo_v1_t");

typedef struct {
    uint32_t version, count;
    uint64_t since;
    process_utilization *entries;
} process_utilization_list;
static_assert(sizeof(process_utilization_list) == 24, "nvmlProcessesUtilizationInfo_v1_t");

typedef struct {
    uint32_t version, unrepairable;
} unrepairable_memory;

typedef struct {
    uint32_t start, size;
} placement;

typedef struct {
    void *device;
    uint32_t id, profile_id;
    placement place;
} gpu_instance_info;
static_assert(sizeof(gpu_instance_info) == 24, "nvmlGpuInstanceInfo_t");

typedef struct {
    void *device, *gpu_instance;
    uint32_t id, profile_id;
    placement place;
} compute_instance_info;
static_assert(sizeof(compute_instance_info) == 32, "nvmlComputeInstanceInfo_t");

typedef struct {
    uint32_t id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    uint64_t memory_mib;
} instance_profile;
static_assert(sizeof(instance_profile) == 48, "nvmlGpuInstanceProfileInfo_t");

typedef struct {
    uint32_t version, id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    uint64_t memory_mib;
    char name[96];
} instance_profile_v2;
static_assert(sizeof(instance_profile_v2) == 152, "nvmlGpuInstanceProfileInfo_v2_t");

typedef struct {
    uint32_t multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    uint64_t memory_mib;
} device_attributes;
static_assert(sizeof(device_attributes) == 40, "nvmlDeviceAttributes_t");

typedef struct {
    uint32_t id, result;
    double value;
    const char *short_name, *long_name, *unit;
} gpm_metric;
static_assert(sizeof(gpm_metric) == 40, "nvmlGpmMetric_t");

typedef struct {
    uint32_t version, count;
    void *first, *second;
    gpm_metric metrics[];
} gpm_question;
static_assert(sizeof(gpm_question) == 24, "nvmlGpmMetricsGet_t");

typedef struct {
    uint32_t version, supported;
} gpm_support;

typedef struct {
    uint64_t protected_kib, unprotected_kib;
} conf_compute_memory;

typedef struct {
    uint32_t version;
    char branch[80];
} driver_branch;
static_assert(sizeof(driver_branch) == 84, "nvmlSystemDriverBranchInfo_v1_t");

typedef struct {
    uint32_t version, type;
    union {
        char text[41];
        uint8_t bytes[16];
    } value;
} uuid_query;
static_assert(sizeof(uuid_query) == 52, "nvmlUUID_t");

#endif
