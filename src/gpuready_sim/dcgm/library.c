/* libdcgm.so.4 of the simulator: the calls of dcgm_agent.h that an exporter needs.
 *
 * An engine elsewhere is whatever accepts a connection at its address and keeps it open: it speaks no protocol,
 * and as long as the connection lives the values are those of this node's GPUs. An engine in this process holds
 * NVML as the real one does, and so does, here, one elsewhere.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../nvml/session.h"
#include "engine.h"

#define EMBEDDED 0x7fffffff
#define MOST_CONNECTIONS 8

nvml_return nvmlInit_v2(void);
nvml_return nvmlShutdown(void);

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static int initialized, nvml_open, embedded;
static int connections[MOST_CONNECTIONS]; /* descriptors, 0 when free; the handle is the place + 1 */

/* The code of `gpuready-sim fault call`, which has no minus. */
#define SUFFER()                                                            \
    do {                                                                    \
        nvml_return fault_ = fault_of_call(__func__);                      \
        if (fault_) return fault_ == NVML_UNKNOWN ? DCGM_GENERIC_ERROR : -(int)fault_; \
    } while (0)
#define OPEN(handle)                                     \
    SUFFER();                                            \
    do {                                                 \
        int problem_ = check_handle(handle);             \
        if (problem_) return problem_;                   \
    } while (0)

static int check_handle(dcgm_handle handle) {
    if (!initialized) return DCGM_UNINITIALIZED;
    if (handle == EMBEDDED) return embedded ? DCGM_OK : DCGM_BADPARAM;
    if (handle < 1 || handle > MOST_CONNECTIONS || !connections[handle - 1]) return DCGM_BADPARAM;
    char byte;
    ssize_t length = recv(connections[handle - 1], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR)) ? DCGM_OK : DCGM_CONNECTION_NOT_VALID;
}

/* Without a driver an engine runs, and has no GPUs. */
static void open_nvml(void) {
    if (!nvml_open) nvml_open = nvmlInit_v2() == 0;
    start_reading();
}

static void close_nvml(void) {
    stop_reading();
    forget_samples();
    if (nvml_open) nvmlShutdown();
    nvml_open = 0;
}

static int is_in_use(void) {
    for (int i = 0; i < MOST_CONNECTIONS; i++)
        if (connections[i]) return 1;
    return embedded;
}

/* --- coming and going ----------------------------------------------------------------------------------------- */

EXPORTED int dcgmInit(void) {
    if (!initialized && nvmlInit_v2() == NVML_OK) nvmlShutdown(); /* faults are known from the state file */
    initialized = 1;
    return DCGM_OK;
}

EXPORTED int dcgmShutdown(void) {
    if (!initialized) return DCGM_UNINITIALIZED;
    pthread_mutex_lock(&door);
    end_watches(0);
    if (is_in_use()) close_nvml();
    for (int i = 0; i < MOST_CONNECTIONS; i++)
        if (connections[i]) close(connections[i]), connections[i] = 0;
    embedded = initialized = 0;
    pthread_mutex_unlock(&door);
    return DCGM_OK;
}

static int connected(int family, const struct sockaddr *address, socklen_t length, int timeout_ms) {
    int descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), problem = 0;
    socklen_t size = sizeof problem;
    if (descriptor < 0) return -1;
    int result = connect(descriptor, address, length);
    if (result < 0 && errno == EINPROGRESS) {
        struct pollfd waiting = {descriptor, POLLOUT, 0};
        result = poll(&waiting, 1, timeout_ms) == 1 ? 0 : -1;
        if (!result && (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &problem, &size) < 0 || problem)) result = -1;
    }
    if (result == 0) return descriptor;
    close(descriptor);
    return -1;
}

static int connected_to_path(const char *path, int timeout_ms) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, path);
    return connected(AF_UNIX, (const struct sockaddr *)&address, sizeof address, timeout_ms);
}

static int connected_to_host(const char *text, int timeout_ms) {
    char host[256];
    snprintf(host, sizeof host, "%s", text);
    char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']'), *name = host;
    const char *port = DEFAULT_PORT;
    if (colon && colon > (bracket ? bracket : host)) *colon = 0, port = colon + 1;
    if (*name == '[' && bracket) name++, *bracket = 0;
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(name, port, &wanted, &found) != 0) return -1;
    int descriptor = -1;
    for (struct addrinfo *at = found; at && descriptor < 0; at = at->ai_next)
        descriptor = connected(at->ai_family, at->ai_addr, at->ai_addrlen, timeout_ms);
    freeaddrinfo(found);
    return descriptor;
}

EXPORTED int dcgmConnect_v2(const char *address, const connect_options *options, dcgm_handle *handle) {
    SUFFER();
    if (!address || !*address || !options || !handle) return DCGM_BADPARAM;
    if (!initialized) return DCGM_UNINITIALIZED;
    if (options->version != VERSION_OF(connect_options, 2)) return DCGM_VERSION_MISMATCH;
    int timeout_ms = options->timeout_ms ? (int)options->timeout_ms : 5000;
    int descriptor = options->is_socket ? connected_to_path(address, timeout_ms) : connected_to_host(address, timeout_ms);
    if (descriptor < 0) return DCGM_CONNECTION_NOT_VALID;
    pthread_mutex_lock(&door);
    int place = 0;
    while (place < MOST_CONNECTIONS && connections[place]) place++;
    if (place < MOST_CONNECTIONS) connections[place] = descriptor, open_nvml();
    pthread_mutex_unlock(&door);
    if (place == MOST_CONNECTIONS) return close(descriptor), DCGM_MAX_LIMIT;
    *handle = (dcgm_handle)place + 1;
    return DCGM_OK;
}

EXPORTED int dcgmDisconnect(dcgm_handle handle) {
    if (!initialized) return DCGM_UNINITIALIZED;
    if (handle < 1 || handle > MOST_CONNECTIONS || !connections[handle - 1]) return DCGM_BADPARAM;
    pthread_mutex_lock(&door);
    end_watches(handle);
    close(connections[handle - 1]);
    connections[handle - 1] = 0;
    if (!is_in_use()) close_nvml();
    pthread_mutex_unlock(&door);
    return DCGM_OK;
}

EXPORTED int dcgmStartEmbedded_v2(embedded_options *options) {
    if (!options) return DCGM_BADPARAM;
    if (!initialized) return DCGM_UNINITIALIZED;
    if (options->version != VERSION_OF(embedded_options, 1)) return DCGM_VERSION_MISMATCH;
    pthread_mutex_lock(&door);
    open_nvml();
    embedded = 1;
    pthread_mutex_unlock(&door);
    options->handle = EMBEDDED;
    SUFFER();
    return DCGM_OK;
}

EXPORTED int dcgmStopEmbedded(dcgm_handle handle) {
    if (!initialized || !embedded) return DCGM_UNINITIALIZED;
    if (handle != EMBEDDED) return DCGM_BADPARAM;
    pthread_mutex_lock(&door);
    end_watches(handle);
    embedded = 0;
    if (!is_in_use()) close_nvml();
    pthread_mutex_unlock(&door);
    return DCGM_OK;
}

EXPORTED int dcgmHostengineVersionInfo(dcgm_handle handle, version_info *info) {
    OPEN(handle);
    if (!info) return DCGM_BADPARAM;
    if (info->version != VERSION_OF(version_info, 2)) return DCGM_VERSION_MISMATCH;
    snprintf(info->text, sizeof info->text, "version:4.5.3;arch:x86_64;buildid:0;buildtype:Simulated");
    return DCGM_OK;
}

EXPORTED const char *errorString(int code) {
    return code == DCGM_OK ? "Success" : code == DCGM_CONNECTION_NOT_VALID ? "Host engine connection invalid" : "Error";
}

/* --- what there is -------------------------------------------------------------------------------------------- */

EXPORTED int dcgmGetEntityGroupEntities(dcgm_handle handle, int group, uint32_t *entities, int *count, uint32_t flags) {
    OPEN(handle);
    if (!entities || !count) return DCGM_BADPARAM;
    if (group != GPU) return DCGM_NOT_SUPPORTED;
    int room = *count;
    *count = 0;
    for (uint32_t gpu = 0; gpu < count_gpus(); gpu++) {
        if ((flags & ONLY_ACTIVE) && !is_active(gpu)) continue;
        if (*count == room) return DCGM_GENERIC_ERROR;
        entities[(*count)++] = gpu;
    }
    return DCGM_OK;
}

EXPORTED int dcgmGetGpuInstanceHierarchy(dcgm_handle handle, mig_hierarchy *tree) {
    OPEN(handle);
    if (!tree) return DCGM_BADPARAM;
    if (tree->version != VERSION_OF(mig_hierarchy, 2)) return DCGM_VERSION_MISMATCH;
    tree->count = list_parts(tree->entries);
    return DCGM_OK;
}

/* --- groups, watches, values ---------------------------------------------------------------------------------- */

EXPORTED int dcgmGroupCreate(dcgm_handle handle, int type, const char *name, uintptr_t *group) {
    OPEN(handle);
    if (!name || !group || type != 1) return DCGM_BADPARAM;
    return make_entity_group(group);
}

EXPORTED int dcgmGroupAddEntity(dcgm_handle handle, uintptr_t group, int kind, uint32_t number) {
    OPEN(handle);
    return add_entity(group, (entity_pair){kind, number});
}

EXPORTED int dcgmGroupDestroy(dcgm_handle handle, uintptr_t group) {
    OPEN(handle);
    return drop_entity_group(group);
}

EXPORTED int dcgmFieldGroupCreate(dcgm_handle handle, int count, const uint16_t *fields, const char *name,
                                  uintptr_t *group) {
    OPEN(handle);
    if (count < 1 || !fields || !name || !group) return DCGM_BADPARAM;
    return make_field_group(count, fields, group);
}

EXPORTED int dcgmFieldGroupDestroy(dcgm_handle handle, uintptr_t group) {
    OPEN(handle);
    return drop_field_group(group);
}

EXPORTED int dcgmWatchFields(dcgm_handle handle, uintptr_t entities, uintptr_t fields, long long every_us, double keep_s,
                             int keep_samples) {
    OPEN(handle);
    if (every_us < 1 || keep_s < 0 || keep_samples < 0) return DCGM_BADPARAM;
    return watch_fields(handle, entities, fields, every_us);
}

EXPORTED int dcgmUnwatchFields(dcgm_handle handle, uintptr_t entities, uintptr_t fields) {
    OPEN(handle);
    unwatch_fields(handle, entities, fields);
    return DCGM_OK;
}

EXPORTED int dcgmEntitiesGetLatestValues(dcgm_handle handle, const entity_pair *entities, uint32_t entity_count,
                                         const uint16_t *fields, uint32_t field_count, uint32_t flags,
                                         dcgm_value *values) {
    OPEN(handle);
    if (!entities || !fields || !values || !entity_count || !field_count || flags) return DCGM_BADPARAM;
    if (field_count > MOST_FIELDS || entity_count > MOST_ENTITIES) return DCGM_MAX_LIMIT;
    for (uint32_t i = 0; i < entity_count; i++) /* the real one keeps no order either */
        for (uint32_t j = field_count; j-- > 0;) newest(entities[i], fields[j], values++);
    return DCGM_OK;
}
