/* nvmlDeviceGetFieldValues: what monitors read, by number. */
#define _GNU_SOURCE
#include "course.h"

static nvml_return put_u32(field_value *field, uint32_t value) {
    field->type = VALUE_U32;
    field->value.u64 = value;
    return NVML_OK;
}

static nvml_return put_u64(field_value *field, uint64_t value) {
    field->type = VALUE_U64;
    field->value.u64 = value;
    return NVML_OK;
}

static nvml_return ecc_field(const nvsim_gpu *gpu, field_value *field) {
    SUPPORTED_IF(gpu->ecc_capable);
    switch (field->id) {
        case 1: case 2: return put_u32(field, 1);
        case 3: case 11: return put_u64(field, gpu->ecc_corrected_volatile);
        case 4: case 12: return put_u64(field, gpu->ecc_uncorrected_volatile);
        case 5: case 22: return put_u64(field, gpu->ecc_corrected_aggregate);
        case 6: case 23: return put_u64(field, gpu->ecc_uncorrected_aggregate);
        default: return put_u64(field, 0);
    }
}

static nvml_return remap_field(const nvsim_gpu *gpu, field_value *field) {
    SUPPORTED_IF(gpu->row_remapper);
    switch (field->id) {
        case 142: return put_u32(field, gpu->remap_correctable);
        case 143: return put_u32(field, gpu->remap_uncorrectable);
        case 144: return put_u32(field, gpu->remap_pending);
        default: return put_u32(field, gpu->remap_failed);
    }
}

static nvml_return retired_field(const nvsim_gpu *gpu, field_value *field) {
    SUPPORTED_IF(gpu->page_retirement);
    switch (field->id) {
        case 29: return put_u64(field, gpu->retired_single_bit);
        case 30: return put_u64(field, gpu->retired_double_bit);
        default: return put_u64(field, gpu->retired_pending);
    }
}

/* Counters have a field for each of the first six links, one for all, and those of the other six apart. All
 * errors are on the first link. */
static int is_error_total(uint32_t id) { return id >= 32 && id <= 59 && (id - 32) % 7 == 6; }
static int is_error_of_first_link(uint32_t id) { return id >= 32 && id <= 59 && (id - 32) % 7 == 0; }

static nvml_return nvlink_error_field(const nvsim_gpu *gpu, field_value *field) {
    const uint32_t counts[] = {gpu->nvlink_crc_flit_errors, gpu->nvlink_crc_data_errors, gpu->nvlink_replays,
                               gpu->nvlink_recoveries};
    int counted = is_error_total(field->id) || is_error_of_first_link(field->id);
    return put_u64(field, counted ? counts[(field->id - 32) / 7] : 0);
}

static nvml_return nvlink_field(const nvsim_gpu *gpu, field_value *field, uint64_t now) {
    uint32_t id = field->id;
    if (id == 91) return put_u32(field, gpu->nvlinks);
    SUPPORTED_IF(gpu->nvlinks);
    if (id >= 138 && id <= 141) { /* KiB since load, of one link or of all */
        if (field->scope == NVSIM_NO_INSTANCE) return put_u64(field, nvlink_kib_until(gpu, now));
        SUPPORTED_IF(field->scope < gpu->nvlinks);
        return put_u64(field, nvlink_kib_until(gpu, now) / gpu->nvlinks);
    }
    if (id == 164 || (id >= 84 && id <= 90)) return put_u32(field, gpu->nvlink_mbps);
    if (id == 147) return put_u32(field, gpu->nvlinks);
    if (id == 165) return put_u32(field, field->scope < gpu->nvlinks);
    if (id == 166) return put_u32(field, gpu->nvlink_version);
    return nvlink_error_field(gpu, field);
}

static nvml_return power_field(const nvsim_gpu *gpu, field_value *field, uint64_t now) {
    switch (field->id) {
        case 185: case 186: return put_u32(field, power_mw_at(gpu, now));
        case 187: return put_u32(field, gpu->power_min_mw);
        case 188: return put_u32(field, gpu->power_max_mw);
        case 189: return put_u32(field, gpu->power_default_mw);
        case 191: return put_u64(field, energy_nj_until(gpu, now) / 1000000);
        default: return put_u32(field, gpu->power_limit_mw);
    }
}

static nvml_return pcie_field(const nvsim_gpu *gpu, field_value *field) {
    switch (field->id) {
        case 94: return put_u32(field, gpu->pcie_replays);
        case 173: return put_u32(field, gpu->pcie_correctable_errors);
        default: return put_u32(field, 0);
    }
}

/* Time for which the clocks were held back. */
static nvml_return violation_field(const nvsim_gpu *gpu, field_value *field, uint64_t now) {
    uint32_t id = field->id;
    uint32_t policy = id >= 269 ? VIOLATION_SW_THERMAL + (id - 269) : id >= 80 ? VIOLATION_APP_CLOCKS + (id - 80) : id - 74;
    return put_u64(field, violation_ns_until(gpu, policy, now));
}

/* The branch with which fields came that monitors have to do without on older drivers. */
static int first_branch_of(uint32_t id) {
    if (id >= 269 && id <= 271) return 570;
    if (id >= 185 && id <= 192) return 525;
    return 0;
}

static nvml_return read_field(const nvsim_gpu *gpu, field_value *field, uint64_t now) {
    uint32_t id = field->id;
    SUPPORTED_IF(library_branch() >= first_branch_of(id));
    if (id >= 1 && id <= 28) return ecc_field(gpu, field);
    if (id >= 29 && id <= 31) return retired_field(gpu, field);
    if ((id >= 32 && id <= 59) || (id >= 84 && id <= 91) || (id >= 96 && id <= 119) || (id >= 132 && id <= 141) ||
        (id >= 147 && id <= 166))
        return nvlink_field(gpu, field, now);
    if ((id >= 74 && id <= 81) || (id >= 269 && id <= 271)) return violation_field(gpu, field, now);
    if (id == 82) {
        SUPPORTED_IF(gpu->memory_bus_bits >= 1024); /* only stacked memory has a sensor */
        return put_u32(field, temperature_at(gpu, now) + 6);
    }
    if (id == 83) return put_u64(field, energy_nj_until(gpu, now) / 1000000);
    if (id == 94 || id == 95 || (id >= 173 && id <= 183)) return pcie_field(gpu, field);
    if (id == 197 || id == 198) return put_u64(field, pcie_kib_until(gpu, now) * 1024);
    if (id >= 142 && id <= 145) return remap_field(gpu, field);
    if (id >= 185 && id <= 192) return power_field(gpu, field, now);
    if (id == 226 || id == 227) return put_u32(field, gpu->recovery_action == (id == 226 ? 1 : 4));
    if (id == 230) return put_u32(field, gpu->recovery_action);
    return NVML_NOT_SUPPORTED;
}

EXPORT nvml_return nvmlDeviceGetFieldValues(void *device, int count, field_value *fields) {
    OPEN_GPU(device);
    NEED(count > 0 && fields);
    uint64_t now = now_us();
    for (int i = 0; i < count; i++) {
        fields[i].timestamp = (int64_t)now;
        fields[i].latency = 0;
        fields[i].result = read_field(gpu, &fields[i], now);
    }
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceClearFieldValues(void *device, int count, field_value *fields) {
    OPEN_GPU(device);
    NEED(count > 0 && fields);
    for (int i = 0; i < count; i++) fields[i].result = NVML_OK;
    return NVML_OK;
}
