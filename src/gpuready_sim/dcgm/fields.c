/* What the engine reads of a GPU or an instance, through the NVML that is linked into this library.
 *
 * Source: DCGM v4.6.0, dcgmlib/dcgm_fields.h (numbers), DcgmCacheManager.cpp (calls, units, blanks).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "../nvml/session.h"
#include "engine.h"

#define PLACES 7 /* MIG devices of one GPU at most */

nvml_return nvmlDeviceGetCount_v2(unsigned int *);
nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned int, void **);
nvml_return nvmlDeviceGetMigDeviceHandleByIndex(void *, unsigned int, void **);
nvml_return nvmlDeviceGetGpuInstanceId(void *, unsigned int *);
nvml_return nvmlDeviceGetComputeInstanceId(void *, unsigned int *);
nvml_return nvmlDeviceGetAttributes_v2(void *, device_attributes *);
nvml_return nvmlDeviceGetName(void *, char *, unsigned int);
nvml_return nvmlDeviceGetUUID(void *, char *, unsigned int);
nvml_return nvmlDeviceGetSerial(void *, char *, unsigned int);
nvml_return nvmlDeviceGetVbiosVersion(void *, char *, unsigned int);
nvml_return nvmlDeviceGetIndex(void *, unsigned int *);
nvml_return nvmlDeviceGetMinorNumber(void *, unsigned int *);
nvml_return nvmlDeviceGetPciInfo_v3(void *, pci_info *);
nvml_return nvmlSystemGetDriverVersion(char *, unsigned int);
nvml_return nvmlDeviceGetMigMode(void *, unsigned int *, unsigned int *);
nvml_return nvmlDeviceGetClockInfo(void *, unsigned int, unsigned int *);
nvml_return nvmlDeviceGetCurrentClocksEventReasons(void *, unsigned long long *);
nvml_return nvmlDeviceGetTemperature(void *, unsigned int, unsigned int *);
nvml_return nvmlDeviceGetPowerUsage(void *, unsigned int *);
nvml_return nvmlDeviceGetPowerManagementLimit(void *, unsigned int *);
nvml_return nvmlDeviceGetPerformanceState(void *, unsigned int *);
nvml_return nvmlDeviceGetFanSpeed(void *, unsigned int *);
nvml_return nvmlDeviceGetPcieReplayCounter(void *, unsigned int *);
nvml_return nvmlDeviceGetUtilizationRates(void *, utilization *);
nvml_return nvmlDeviceGetEncoderUtilization(void *, unsigned int *, unsigned int *);
nvml_return nvmlDeviceGetDecoderUtilization(void *, unsigned int *, unsigned int *);
nvml_return nvmlDeviceGetMemoryInfo_v2(void *, memory_info_v2 *);
nvml_return nvmlDeviceGetFieldValues(void *, int, field_value *);
nvml_return nvmlGpmQueryDeviceSupport(void *, gpm_support *);
nvml_return nvmlGpmSampleAlloc(void **);
nvml_return nvmlGpmSampleFree(void *);
nvml_return nvmlGpmSampleGet(void *, void *);
nvml_return nvmlGpmMigSampleGet(void *, unsigned int, void *);
nvml_return nvmlGpmMetricsGet(gpm_question *);

/* --- which there are ------------------------------------------------------------------------------------------ */

/* GPUs go by NVML's index; parts by GPU and place among its MIG devices, an instance by its first one. */
static entity_pair part_of(int group, uint32_t gpu, uint32_t place) { return (entity_pair){group, gpu * PLACES + place}; }

static int is_part(entity_pair entity) { return entity.group == GPU_INSTANCE || entity.group == COMPUTE_INSTANCE; }

uint32_t count_gpus(void) {
    unsigned int count = 0;
    return nvmlDeviceGetCount_v2(&count) == NVML_OK ? count : 0;
}

int is_active(uint32_t gpu) {
    void *device = NULL;
    return nvmlDeviceGetHandleByIndex_v2(gpu, &device) == NVML_OK;
}

static nvml_return gpu_of(entity_pair entity, void **device) {
    return nvmlDeviceGetHandleByIndex_v2(is_part(entity) ? entity.number / PLACES : entity.number, device);
}

/* The GPU's handle, or that of the instance's first MIG device. */
static nvml_return handle_of(entity_pair entity, void **device) {
    void *gpu = NULL;
    nvml_return problem = gpu_of(entity, &gpu);
    *device = gpu;
    if (problem != NVML_OK || !is_part(entity)) return problem;
    return nvmlDeviceGetMigDeviceHandleByIndex(gpu, entity.number % PLACES, device);
}

static uint32_t list_parts_of(uint32_t number, mig_entry *entries) {
    void *gpu = NULL, *device;
    uint32_t count = 0, first[256];
    memset(first, 0xff, sizeof first);
    if (nvmlDeviceGetHandleByIndex_v2(number, &gpu) != NVML_OK) return 0;
    for (uint32_t place = 0; place < PLACES; place++) {
        device_attributes attributes = {0};
        mig_entry entry = {.gpu_index = number, .profile_id = NVSIM_NO_INSTANCE};
        if (nvmlDeviceGetMigDeviceHandleByIndex(gpu, place, &device) != NVML_OK) continue;
        if (nvmlDeviceGetGpuInstanceId(device, &entry.instance_id) != NVML_OK || entry.instance_id > 255) continue;
        nvmlDeviceGetAttributes_v2(device, &attributes);
        nvmlDeviceGetUUID(gpu, entry.gpu_uuid, sizeof entry.gpu_uuid);
        uint32_t *instance = &first[entry.instance_id];
        if (*instance == NVSIM_NO_INSTANCE) {
            *instance = place;
            entry.entity = part_of(GPU_INSTANCE, number, place);
            entry.parent = (entity_pair){GPU, number};
            entry.compute_instance_id = NVSIM_NO_INSTANCE;
            entry.slices = attributes.gpu_slices;
            entries[count++] = entry;
        }
        entry.entity = part_of(COMPUTE_INSTANCE, number, place);
        entry.parent = part_of(GPU_INSTANCE, number, *instance);
        nvmlDeviceGetComputeInstanceId(device, &entry.compute_instance_id);
        entry.slices = attributes.compute_slices;
        entries[count++] = entry;
    }
    return count;
}

uint32_t list_parts(mig_entry *entries) {
    uint32_t count = 0;
    for (uint32_t gpu = 0; gpu < count_gpus() && gpu < MOST_GPUS; gpu++) count += list_parts_of(gpu, entries + count);
    return count;
}

int is_known_entity(entity_pair entity) {
    void *device;
    if (entity.group != GPU && !is_part(entity)) return 0;
    return (is_part(entity) ? entity.number / PLACES : entity.number) < count_gpus() &&
           (entity.group == GPU || handle_of(entity, &device) == NVML_OK);
}

/* --- what grows, between two readings ------------------------------------------------------------------------- */

typedef struct {
    int used;
    entity_pair of;
    void *before, *after; /* of GPM */
    int has_links;
    uint64_t kib_before, kib_after, us_before, us_after;
} growth;

static growth grown[MOST_GPUS * (PLACES + 1)];

static growth *growth_of(entity_pair entity) {
    growth *free_one = NULL;
    for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) {
        if (grown[i].used && grown[i].of.group == entity.group && grown[i].of.number == entity.number) return &grown[i];
        if (!grown[i].used && !free_one) free_one = &grown[i];
    }
    if (free_one) *free_one = (growth){.used = 1, .of = entity};
    return free_one;
}

static nvml_return take_gpm_sample(entity_pair entity, void *sample) {
    void *gpu = NULL, *device = NULL;
    unsigned int instance;
    nvml_return problem = gpu_of(entity, &gpu);
    if (problem != NVML_OK) return problem;
    if (entity.group == GPU) return nvmlGpmSampleGet(gpu, sample);
    problem = handle_of(entity, &device);
    if (problem == NVML_OK) problem = nvmlDeviceGetGpuInstanceId(device, &instance);
    return problem == NVML_OK ? nvmlGpmMigSampleGet(gpu, instance, sample) : problem;
}

static nvml_return one_field(void *device, uint32_t id, uint32_t scope, uint64_t *value) {
    field_value asked = {.id = id, .scope = scope};
    nvml_return problem = nvmlDeviceGetFieldValues(device, 1, &asked);
    *value = asked.value.u64;
    return problem != NVML_OK ? problem : asked.result;
}

static int nvlink_kib(entity_pair entity, uint64_t *kib) {
    void *gpu = NULL;
    uint64_t sent = 0, received = 0;
    if (gpu_of(entity, &gpu) != NVML_OK) return 0;
    if (one_field(gpu, 138, NVSIM_NO_INSTANCE, &sent) || one_field(gpu, 139, NVSIM_NO_INSTANCE, &received)) return 0;
    *kib = sent + received;
    return 1;
}

void sample_links(entity_pair entity) {
    growth *of = growth_of(entity);
    if (!of) return;
    of->kib_before = of->kib_after;
    of->us_before = of->us_after;
    of->has_links = nvlink_kib(entity, &of->kib_after);
    of->us_after = now_us();
}

void sample_profile(entity_pair entity) {
    growth *of = growth_of(entity);
    if (!of) return;
    if (of->before) nvmlGpmSampleFree(of->before);
    of->before = of->after;
    of->after = NULL;
    if (!has_profiling(entity) || nvmlGpmSampleAlloc(&of->after) != NVML_OK) return;
    if (take_gpm_sample(entity, of->after) == NVML_OK) return;
    nvmlGpmSampleFree(of->after);
    of->after = NULL;
}

void forget_samples(void) {
    for (size_t i = 0; i < sizeof grown / sizeof *grown; i++) {
        if (grown[i].before) nvmlGpmSampleFree(grown[i].before);
        if (grown[i].after) nvmlGpmSampleFree(grown[i].after);
    }
    memset(grown, 0, sizeof grown);
}

/* --- values --------------------------------------------------------------------------------------------------- */

static const uint16_t known_fields[] = {
    1,   50,  51,  52,  53,  54,  55,  57,  67,  85,  100, 101, 102, 110, 111, 112,  140,  150,  155,  156,  160,
    190, 191, 200, 201, 202, 203, 204, 206, 207, 230, 240, 241, 242, 243, 244, 245,  246,  247,  250,  251,  252,
    253, 254, 300, 301, 310, 311, 312, 313, 390, 391, 392, 393, 394, 395, 396, 449,  526,  1420, 1421, 1523,
};

int is_profiling_field(uint16_t field) { return field >= 1001 && field <= 1083; }

int is_known_field(uint16_t field) {
    for (size_t i = 0; i < sizeof known_fields / sizeof *known_fields; i++)
        if (known_fields[i] == field) return 1;
    return is_profiling_field(field);
}

int has_profiling(entity_pair entity) {
    void *gpu = NULL;
    gpm_support support = {.version = 1};
    return gpu_of(entity, &gpu) == NVML_OK && nvmlGpmQueryDeviceSupport(gpu, &support) == NVML_OK && support.supported;
}

static char type_of(uint16_t field) {
    switch (field) {
        case 1: case 50: case 51: case 53: case 54: case 57: case 85: return 's';
        case 155: case 157: case 160: case 254: return 'd';
        default: return is_profiling_field(field) && (field < 1009 || (field >= 1013 && field < 1040)) ? 'd' : 'i';
    }
}

static nvml_return read_text(void *device, uint16_t field, reading *into) {
    char *text = into->text;
    unsigned int size = sizeof into->text;
    pci_info place;
    nvml_return problem;
    switch (field) {
        case 1: return nvmlSystemGetDriverVersion(text, size);
        case 50: return nvmlDeviceGetName(device, text, size);
        case 51: return strcpy(text, "Tesla"), NVML_OK;
        case 53: return nvmlDeviceGetSerial(device, text, size);
        case 54: return nvmlDeviceGetUUID(device, text, size);
        case 85: return nvmlDeviceGetVbiosVersion(device, text, size);
        default:
            problem = nvmlDeviceGetPciInfo_v3(device, &place);
            snprintf(text, size, "%s", problem == NVML_OK ? place.bus_id : "");
            return problem;
    }
}

/* Of an instance its profile: "1g.10gb" of "… MIG 1c.1g.10gb". */
static void name_profile(reading *into) {
    const char *name = strstr(into->text, "MIG ");
    if (!name) return;
    name += 4;
    const char *slices = strstr(name, "c.");
    if (slices) name = slices + 2;
    memmove(into->text, name, strlen(name) + 1);
}

static nvml_return read_memory(void *device, uint16_t field, reading *into) {
    memory_info_v2 info = {.version = VERSIONED(memory_info_v2, 2)};
    nvml_return problem = nvmlDeviceGetMemoryInfo_v2(device, &info);
    if (problem != NVML_OK) return problem;
    const uint64_t parts[] = {info.total, info.free, info.used, info.reserved};
    if (field == 254) into->dbl = (double)info.used / (double)(info.total - info.reserved);
    else into->i64 = (int64_t)(parts[field - 250] >> 20);
    return NVML_OK;
}

static nvml_return read_load(void *device, uint16_t field, reading *into) {
    utilization rates;
    unsigned int percent = 0, period;
    nvml_return problem = field == 206   ? nvmlDeviceGetEncoderUtilization(device, &percent, &period)
                          : field == 207 ? nvmlDeviceGetDecoderUtilization(device, &percent, &period)
                                         : nvmlDeviceGetUtilizationRates(device, &rates);
    if (problem == NVML_OK) into->i64 = field == 203 ? rates.gpu : field == 204 ? rates.memory : percent;
    return problem;
}

/* Those that NVML tells by a field value of its own. */
static nvml_return read_mapped(void *device, uint16_t field, reading *into) {
    static const uint16_t pairs[][2] = {
        {140, 82},  {156, 83},  {300, 1},   {301, 2},   {310, 3},   {311, 4},   {312, 5},   {313, 6},
        {390, 29},  {391, 30},  {392, 31},  {393, 143}, {394, 142}, {395, 145}, {396, 144}, {1420, 74},
        {1421, 76}, {1523, 230},
    };
    uint64_t value = 0;
    nvml_return problem = NVML_NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] == field) problem = one_field(device, pairs[i][1], 0, &value);
    if (field >= 240 && field <= 247) problem = one_field(device, field - 240u + 74, 0, &value);
    into->i64 = (int64_t)value;
    return problem;
}

static nvml_return read_number(void *device, entity_pair entity, uint16_t field, reading *into) {
    unsigned int number = 0, other = 0;
    unsigned long long bits = 0;
    nvml_return problem;
    switch (field) {
        case 52: problem = nvmlDeviceGetIndex(device, &number); break;
        case 55: problem = nvmlDeviceGetMinorNumber(device, &number); break;
        case 67: problem = nvmlDeviceGetMigMode(device, &number, &other); break;
        case 100: problem = nvmlDeviceGetClockInfo(device, CLOCK_SM, &number); break;
        case 101: problem = nvmlDeviceGetClockInfo(device, CLOCK_MEMORY, &number); break;
        case 102: problem = nvmlDeviceGetClockInfo(device, CLOCK_VIDEO, &number); break;
        case 112: problem = nvmlDeviceGetCurrentClocksEventReasons(device, &bits); number = (unsigned int)bits; break;
        case 150: problem = nvmlDeviceGetTemperature(device, 0, &number); break;
        case 155: problem = nvmlDeviceGetPowerUsage(device, &number); into->dbl = number / 1000.0; return problem;
        case 160: problem = nvmlDeviceGetPowerManagementLimit(device, &number); into->dbl = number / 1000; return problem;
        case 190: problem = nvmlDeviceGetPerformanceState(device, &number); break;
        case 191: problem = nvmlDeviceGetFanSpeed(device, &number); break;
        case 202: problem = nvmlDeviceGetPcieReplayCounter(device, &number); break;
        case 203: case 204: case 206: case 207: return read_load(device, field, into);
        case 230: /* events, which the engine remembers */
            number = state->gpus[visible[is_part(entity) ? entity.number / PLACES : entity.number]].last_xid;
            if (!number) into->status = DCGM_NO_DATA;
            problem = NVML_OK;
            break;
        default: return read_mapped(device, field, into);
    }
    into->i64 = number;
    return problem;
}

static const struct {
    uint16_t field;
    uint32_t metric;
} gpm_metrics[] = {
    {1001, 1},  {1002, 2},  {1003, 3},  {1004, 5},  {1005, 10}, {1006, 11}, {1007, 12},
    {1008, 13}, {1009, 20}, {1010, 21}, {1011, 61}, {1012, 60}, {1013, 9},  {1014, 7},
    {1015, 6},  {1016, 4},
};

static nvml_return read_gpm(entity_pair entity, uint16_t field, reading *into) {
    struct {
        gpm_question question;
        gpm_metric metric;
    } asked = {.question = {.version = 1, .count = 1}};
    const growth *of = growth_of(entity);
    for (size_t i = 0; i < sizeof gpm_metrics / sizeof *gpm_metrics; i++)
        if (gpm_metrics[i].field == field) asked.metric.id = gpm_metrics[i].metric;
    if (!asked.metric.id) return NVML_NOT_SUPPORTED;
    if (!of || !of->before || !of->after) return NVML_UNKNOWN; /* the first reading */
    asked.question.first = of->before;
    asked.question.second = of->after;
    nvml_return problem = nvmlGpmMetricsGet(&asked.question);
    if (problem == NVML_OK) problem = asked.metric.result;
    if (problem != NVML_OK) return problem;
    if (type_of(field) == 'd') into->dbl = asked.metric.value / 100;
    else into->i64 = (int64_t)(asked.metric.value * 1024 * 1024);
    return NVML_OK;
}

static nvml_return read_nvlink_rate(entity_pair entity, reading *into) {
    const growth *of = growth_of(entity);
    if (of && of->us_after && !of->has_links) return NVML_NOT_SUPPORTED;
    if (!of || !of->us_before || of->us_after <= of->us_before) return NVML_UNKNOWN;
    uint64_t kib = of->kib_after - of->kib_before, us = of->us_after - of->us_before;
    into->i64 = (int64_t)((double)kib * 1e6 / (double)us / 1000);
    return NVML_OK;
}

/* The values that no measurement takes. */
static void put_blank(reading *into, int kind) {
    static const char *const texts[] = {"<<<NULL>>>", "<<<NOT_FOUND>>>", "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>"};
    if (into->type == 'd') into->dbl = FP64_BLANK + kind;
    else if (into->type == 's') strcpy(into->text, texts[kind]);
    else into->i64 = INT64_BLANK + kind;
}

static int blank_for(nvml_return problem) {
    switch (problem) {
        case NVML_NOT_FOUND: return BLANK_NOT_FOUND;
        case NVML_NOT_SUPPORTED: return BLANK_NOT_SUPPORTED;
        case NVML_NO_PERMISSION: return BLANK_NO_PERMISSION;
        default: return BLANK;
    }
}

/* What belongs to a whole GPU is the same of each of its instances. */
static int has_of_its_own(entity_pair entity, uint16_t field) {
    return is_part(entity) && (field == 50 || field == 54 || (field >= 250 && field <= 254));
}

void read_field(entity_pair entity, uint16_t field, reading *into) {
    void *device = NULL;
    into->type = type_of(field);
    nvml_return problem = has_of_its_own(entity, field) ? handle_of(entity, &device) : gpu_of(entity, &device);
    if (problem == NVML_OK) {
        if (is_profiling_field(field)) problem = read_gpm(entity, field, into);
        else if (field == LINK_RATE) problem = read_nvlink_rate(entity, into);
        else if (into->type == 's') problem = read_text(device, field, into);
        else if (field >= 250 && field <= 254) problem = read_memory(device, field, into);
        else problem = read_number(device, entity, field, into);
    }
    if (problem != NVML_OK) put_blank(into, blank_for(problem));
    else if (field == 50 && entity.group == GPU_INSTANCE) name_profile(into);
}
