/* How the GPUs are: infoROM, ECC counters, remapped rows, and the field values that monitors read. */
#define _GNU_SOURCE
#include "session.h"

uint32_t power_of(const nvsim_gpu *gpu);
uint32_t temperature_of(const nvsim_gpu *gpu);

/* --- infoROM: a corrupt one fails these calls alone; everything else still answers --------------------------- */

EXPORT nvml_return nvmlDeviceValidateInforom(void *device) {
    OPEN_GPU(device);
    return gpu->inforom_corrupt ? NVML_CORRUPTED_INFOROM : NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetInforomVersion(void *device, unsigned int object, char *version, unsigned int size) {
    static const char *const versions[] = {"2.1", "6.16", "N/A"};
    OPEN_GPU(device);
    NEED(object < 4);
    if (gpu->inforom_corrupt) return NVML_CORRUPTED_INFOROM;
    SUPPORTED_IF(object < 2 && (object == 0 || gpu->ecc_capable));
    return copy_text(versions[object], version, size);
}

EXPORT nvml_return nvmlDeviceGetInforomImageVersion(void *device, char *version, unsigned int size) {
    OPEN_GPU(device);
    if (gpu->inforom_corrupt) return NVML_CORRUPTED_INFOROM;
    return copy_text("G506.0212.00.01", version, size);
}

EXPORT nvml_return nvmlDeviceGetInforomConfigurationChecksum(void *device, unsigned int *checksum) {
    OPEN_GPU(device);
    NEED(checksum);
    if (gpu->inforom_corrupt) return NVML_CORRUPTED_INFOROM;
    *checksum = 0x5eed0000 + gpu->minor;
    return NVML_OK;
}

/* --- ECC ----------------------------------------------------------------------------------------------------- */

EXPORT nvml_return nvmlDeviceGetEccMode(void *device, unsigned int *current, unsigned int *pending) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->ecc_capable);
    NEED(current && pending);
    *current = *pending = 1;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetDefaultEccMode(void *device, unsigned int *mode) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->ecc_capable);
    NEED(mode);
    *mode = 1;
    return NVML_OK;
}

static uint64_t ecc_count(const nvsim_gpu *gpu, unsigned int uncorrected, unsigned int aggregate) {
    if (uncorrected) return aggregate ? gpu->ecc_uncorrected_aggregate : gpu->ecc_uncorrected_volatile;
    return aggregate ? gpu->ecc_corrected_aggregate : gpu->ecc_corrected_volatile;
}

EXPORT nvml_return nvmlDeviceGetTotalEccErrors(void *device, unsigned int uncorrected, unsigned int aggregate,
                                               unsigned long long *count) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->ecc_capable);
    NEED(count && uncorrected < 2 && aggregate < 2);
    *count = ecc_count(gpu, uncorrected, aggregate);
    return NVML_OK;
}

/* All errors are in device memory (location 2). */
EXPORT nvml_return nvmlDeviceGetMemoryErrorCounter(void *device, unsigned int uncorrected, unsigned int aggregate,
                                                   unsigned int location, unsigned long long *count) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->ecc_capable);
    NEED(count && uncorrected < 2 && aggregate < 2 && location < 8);
    *count = location == 2 ? ecc_count(gpu, uncorrected, aggregate) : 0;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetDetailedEccErrors(void *device, unsigned int uncorrected, unsigned int aggregate,
                                                  ecc_counts *counts) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->ecc_capable);
    NEED(counts && uncorrected < 2 && aggregate < 2);
    *counts = (ecc_counts){.device_memory = ecc_count(gpu, uncorrected, aggregate)};
    return NVML_OK;
}

/* --- remapped rows ------------------------------------------------------------------------------------------- */

EXPORT nvml_return nvmlDeviceGetRemappedRows(void *device, unsigned int *correctable, unsigned int *uncorrectable,
                                             unsigned int *pending, unsigned int *failed) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->row_remapper);
    NEED(correctable && uncorrectable && pending && failed);
    *correctable = gpu->remap_correctable;
    *uncorrectable = gpu->remap_uncorrectable;
    *pending = gpu->remap_pending;
    *failed = gpu->remap_failed;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetRemappedRows_v2(void *device, remapped_rows_v2 *info) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->row_remapper);
    NEED(info);
    *info = (remapped_rows_v2){
        .correctable = gpu->remap_correctable,
        .uncorrectable = gpu->remap_uncorrectable,
        .pending = gpu->remap_pending,
        .failed = gpu->remap_failed,
    };
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetRowRemapperHistogram(void *device, remap_histogram *values) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->row_remapper);
    NEED(values);
    uint32_t used = gpu->remap_correctable + gpu->remap_uncorrectable;
    *values = (remap_histogram){.max = 640 - used, .high = used};
    return NVML_OK;
}

/* --- field values -------------------------------------------------------------------------------------------- */

enum { TYPE_U32 = 1, TYPE_U64 = 3 };

static nvml_return put_u32(field_value *field, uint32_t value) {
    field->type = TYPE_U32;
    field->value.u64 = value;
    return NVML_OK;
}

static nvml_return put_u64(field_value *field, uint64_t value) {
    field->type = TYPE_U64;
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

static nvml_return nvlink_field(const nvsim_gpu *gpu, field_value *field) {
    if (field->id == 91) return put_u32(field, gpu->nvlinks);
    SUPPORTED_IF(gpu->nvlinks);
    if (field->id >= 138 && field->id <= 141) { /* throughput in KiB since load, of one link or of all */
        uint32_t links = field->scope == NVSIM_NO_INSTANCE ? gpu->nvlinks : 1;
        return put_u64(field, (uint64_t)gpu->utilization_gpu * gpu->nvlink_mbps * links);
    }
    if (field->id == 164 || (field->id >= 84 && field->id <= 90)) return put_u32(field, gpu->nvlink_mbps);
    if (field->id == 147) return put_u32(field, gpu->nvlinks);
    if (field->id == 165) return put_u32(field, field->scope < gpu->nvlinks);
    if (field->id == 166) return put_u32(field, gpu->nvlink_version);
    return put_u64(field, 0); /* error counters */
}

static nvml_return power_field(const nvsim_gpu *gpu, field_value *field) {
    switch (field->id) {
        case 185: case 186: return put_u32(field, power_of(gpu));
        case 187: return put_u32(field, gpu->power_min_mw);
        case 188: return put_u32(field, gpu->power_max_mw);
        case 189: return put_u32(field, gpu->power_default_mw);
        case 191: return put_u64(field, gpu->energy_mj);
        default: return put_u32(field, gpu->power_limit_mw);
    }
}

static nvml_return read_field(const nvsim_gpu *gpu, field_value *field) {
    uint32_t id = field->id;
    if (id >= 1 && id <= 28) return ecc_field(gpu, field);
    if ((id >= 32 && id <= 59) || (id >= 84 && id <= 91) || (id >= 96 && id <= 119) || (id >= 132 && id <= 141) ||
        (id >= 147 && id <= 166))
        return nvlink_field(gpu, field);
    if (id >= 74 && id <= 81) return put_u64(field, 0); /* time the clocks were held back */
    if (id == 82) return put_u32(field, temperature_of(gpu) + 6);
    if (id == 83) return put_u64(field, gpu->energy_mj);
    if (id == 94 || id == 95 || (id >= 173 && id <= 183)) return put_u32(field, 0);
    if (id >= 142 && id <= 145) return remap_field(gpu, field);
    if (id >= 185 && id <= 192) return power_field(gpu, field);
    if (id == 226 || id == 227) return put_u32(field, gpu->recovery_action == (id == 226 ? 1 : 4));
    if (id == 230) return put_u32(field, gpu->recovery_action);
    return NVML_NOT_SUPPORTED;
}

EXPORT nvml_return nvmlDeviceGetFieldValues(void *device, int count, field_value *fields) {
    OPEN_GPU(device);
    NEED(count > 0 && fields);
    for (int i = 0; i < count; i++) {
        fields[i].timestamp = (int64_t)now_us();
        fields[i].latency = 0;
        fields[i].result = read_field(gpu, &fields[i]);
    }
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceClearFieldValues(void *device, int count, field_value *fields) {
    OPEN_GPU(device);
    NEED(count > 0 && fields);
    for (int i = 0; i < count; i++) fields[i].result = NVML_OK;
    return NVML_OK;
}
