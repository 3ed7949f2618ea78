/* How the GPUs are: infoROM, ECC counters, remapped rows, retired pages. */
#define _GNU_SOURCE
#include "session.h"

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

EXPORT nvml_return nvmlDeviceGetUnrepairableMemoryFlag_v1(void *device, unrepairable_memory *flag) {
    SINCE(575);
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->row_remapper);
    NEED(flag);
    if (flag->version != VERSIONED(unrepairable_memory, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    flag->unrepairable = gpu->memory_unrepairable;
    return NVML_OK;
}

/* --- retired pages: what GPUs before Ampere have instead of remapped rows -------------------------------------- */

static uint32_t retired_pages(const nvsim_gpu *gpu, unsigned int cause) {
    return cause == 0 ? gpu->retired_single_bit : gpu->retired_double_bit;
}

static nvml_return give_retired_pages(const char *call, void *device, unsigned int cause, unsigned int *count,
                                      unsigned long long *addresses, unsigned long long *times) {
    nvsim_gpu *gpu;
    nvml_return problem = find_gpu(call, device, &gpu);
    if (problem != NVML_OK) return problem;
    SUPPORTED_IF(gpu->page_retirement);
    NEED(count && cause < 2);
    unsigned int room = *count, number = *count = retired_pages(gpu, cause);
    if (number > room || (number && !addresses)) return NVML_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < number; i++) {
        addresses[i] = 0x10000ull * (1 + i) + cause * 0x1000;
        if (times) times[i] = 1700000000ull + i;
    }
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetRetiredPages(void *device, unsigned int cause, unsigned int *count,
                                             unsigned long long *addresses) {
    return give_retired_pages(__func__, device, cause, count, addresses, NULL);
}

EXPORT nvml_return nvmlDeviceGetRetiredPages_v2(void *device, unsigned int cause, unsigned int *count,
                                                unsigned long long *addresses, unsigned long long *times) {
    return give_retired_pages(__func__, device, cause, count, addresses, times);
}

EXPORT nvml_return nvmlDeviceGetRetiredPagesPendingStatus(void *device, unsigned int *pending) {
    OPEN_GPU(device);
    SUPPORTED_IF(gpu->page_retirement);
    NEED(pending);
    *pending = gpu->retired_pending;
    return NVML_OK;
}
