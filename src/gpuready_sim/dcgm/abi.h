/* The part of the DCGM ABI that the simulator implements: numbers and layouts, alike in DCGM 3.1 to 4.6.
 *
 * Source: DCGM v3.1.8 to v4.6.0, dcgm_structs.h and dcgm_fields.h; only 64-bit little-endian Linux.
 */
#ifndef DCGMSIM_ABI_H
#define DCGMSIM_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))
#define VERSION_OF(type, number) ((uint32_t)(sizeof(type) | ((number) << 24)))

enum {
    DCGM_OK = 0,
    DCGM_BADPARAM = -1,
    DCGM_GENERIC_ERROR = -3,
    DCGM_NOT_SUPPORTED = -6,
    DCGM_UNINITIALIZED = -10,
    DCGM_VERSION_MISMATCH = -12,
    DCGM_UNKNOWN_FIELD = -13,
    DCGM_NO_DATA = -14,
    DCGM_NOT_WATCHED = -16,
    DCGM_GPU_IS_LOST = -18,
    DCGM_CONNECTION_NOT_VALID = -21,
    DCGM_MAX_LIMIT = -24,
    DCGM_PROFILING_NOT_SUPPORTED = -36,
};

enum { NO_ENTITY = 0, GPU = 1, GPU_INSTANCE = 4, COMPUTE_INSTANCE = 5, LINK = 6 };
enum { BLANK = 0, BLANK_NOT_FOUND = 1, BLANK_NOT_SUPPORTED = 2, BLANK_NO_PERMISSION = 3 };
#define INT64_BLANK 0x7ffffffffffffff0ll
#define FP64_BLANK 140737488355328.0

#define MOST_GPUS 32
#define MOST_PARTS (MOST_GPUS * 14)
#define MOST_ENTITIES 1024
#define MOST_FIELDS 128
#define MOST_GROUPS 64
#define ONLY_ACTIVE 1u /* DCGM_GEGE_FLAG_ONLY_SUPPORTED */
#define DEFAULT_PORT "5555"

typedef uintptr_t dcgm_handle;

typedef struct {
    uint32_t version, persists, timeout_ms, is_socket;
} connect_options;
static_assert(sizeof(connect_options) == 16, "dcgmConnectV2Params_v2");

typedef struct {
    uint32_t version;
    int mode;
    dcgm_handle handle;
    const char *log_file;
    int severity;
    uint32_t denied_count, denied[10];
} embedded_options;
static_assert(sizeof(embedded_options) == 72 && offsetof(embedded_options, handle) == 8, "dcgmStartEmbeddedV2Params_v1");

typedef struct {
    int group;
    uint32_t number;
} entity_pair;

typedef struct {
    entity_pair entity, parent;
    char gpu_uuid[128];
    uint32_t gpu_index, instance_id, compute_instance_id, profile_id, slices;
} mig_entry;
static_assert(sizeof(mig_entry) == 164 && offsetof(mig_entry, instance_id) == 148, "dcgmMigHierarchyInfo_v2");

typedef struct {
    uint32_t version, count;
    mig_entry entries[MOST_PARTS];
} mig_hierarchy;
static_assert(sizeof(mig_hierarchy) == 73480, "dcgmMigHierarchy_v2");

typedef union {
    int64_t i64;
    double dbl;
    char text[256];
    char bytes[4096];
} dcgm_content;

typedef struct {
    uint32_t version;
    int group;
    uint32_t number;
    uint16_t field, type;
    int status;
    uint32_t unused;
    int64_t at_us;
    dcgm_content value;
} dcgm_value;
static_assert(sizeof(dcgm_value) == 4128 && offsetof(dcgm_value, field) == 12, "dcgmFieldValue_v2");
static_assert(offsetof(dcgm_value, at_us) == 24 && offsetof(dcgm_value, value) == 32, "dcgmFieldValue_v2");

typedef struct {
    uint32_t version;
    char text[512];
} version_info;
static_assert(sizeof(version_info) == 516, "dcgmVersionInfo_v2");

#endif
