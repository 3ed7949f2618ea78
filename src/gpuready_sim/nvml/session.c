/* Opening and closing NVML: which state file, which driver, which GPUs, who holds it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

nvsim_state *state;
gpu_handle handles[NVSIM_MAX_GPUS];
gpu_handle partition_handles[NVSIM_MAX_GPUS][NVSIM_MAX_INSTANCES];
uint32_t visible[NVSIM_MAX_GPUS];
uint32_t visible_count;

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static uint32_t open_sessions;
static uint32_t session_generation;
static ino_t mapped_inode;
static char library_version[64];

/* The version in the name of the file that was loaded: libnvidia-ml.so.550.163.01. Looked up once, at load:
 * a driver update may replace the links behind a running process. */
__attribute__((constructor)) static void learn_library_version(void) {
    Dl_info info;
    char path[PATH_MAX];
    for (uint32_t slot = 0; slot < NVSIM_MAX_GPUS; slot++) {
        handles[slot] = (gpu_handle){slot, NVSIM_NO_INSTANCE};
        for (uint32_t i = 0; i < NVSIM_MAX_INSTANCES; i++) partition_handles[slot][i] = (gpu_handle){slot, i};
    }
    if (!dladdr((void *)learn_library_version, &info) || !realpath(info.dli_fname, path)) return;
    const char *suffix = strstr(path, ".so.");
    if (suffix && strchr(suffix + 4, '.')) snprintf(library_version, sizeof library_version, "%s", suffix + 4);
}

static void read_text(const char *source, size_t size, char *target) {
    for (int attempt = 0; attempt < 1000; attempt++) {
        uint32_t before = __atomic_load_n(&state->sequence, __ATOMIC_ACQUIRE);
        memcpy(target, source, size);
        target[size - 1] = 0;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(before & 1) && before == __atomic_load_n(&state->sequence, __ATOMIC_RELAXED)) return;
        sched_yield();
    }
}

static nvml_return map_state(void) {
    const char *path = getenv("NVSIM_STATE");
    struct stat found;
    if (!path) return NVML_DRIVER_NOT_LOADED;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return NVML_DRIVER_NOT_LOADED;
    nvml_return result = NVML_OK;
    if (fstat(file, &found) != 0 || (size_t)found.st_size != sizeof(nvsim_state)) {
        result = NVML_UNKNOWN;
    } else if (!state || mapped_inode != found.st_ino) {
        /* The mapping of an older file stays: another thread may be waiting in it. */
        void *memory = mmap(NULL, sizeof(nvsim_state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED) {
            result = NVML_UNKNOWN;
        } else {
            state = memory;
            mapped_inode = found.st_ino;
        }
    }
    close(file);
    if (result == NVML_OK && (state->magic != NVSIM_MAGIC || state->size != sizeof(nvsim_state))) return NVML_UNKNOWN;
    return result;
}

static int has_device_node(const char *name) {
    char path[PATH_MAX];
    const char *devices = getenv("NVSIM_DEV");
    if (devices) {
        snprintf(path, sizeof path, "%s/%s", devices, name);
    } else { /* not in a container: the node's own /dev, beside the state file */
        const char *file = getenv("NVSIM_STATE"), *slash = file ? strrchr(file, '/') : NULL;
        snprintf(path, sizeof path, "%.*sroot/dev/%s", slash ? (int)(slash + 1 - file) : 0, file ? file : "", name);
    }
    return access(path, F_OK) == 0;
}

static void find_visible_gpus(void) {
    visible_count = 0;
    for (uint32_t slot = 0; slot < state->gpu_count && slot < NVSIM_MAX_GPUS; slot++) {
        char name[32];
        snprintf(name, sizeof name, "nvidia%u", state->gpus[slot].minor);
        if (has_device_node(name)) visible[visible_count++] = slot;
    }
}

static uint64_t start_time_of(uint32_t pid) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    if (length <= 0) return 0;
    line[length] = 0;
    char *field = strrchr(line, ')'); /* the command may hold spaces; field 3 follows it */
    if (!field || field[2] == 'Z' || field[2] == 'X') return 0;
    for (int number = 2; field && number < 22; number++) field = strchr(field + 1, ' ');
    return field ? strtoull(field + 1, NULL, 10) : 0;
}

int is_running(uint32_t pid) { return start_time_of(pid) != 0; }

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static int lock_file = -1;

void lock_state(void) {
    pthread_mutex_lock(&writing);
    const char *path = getenv("NVSIM_STATE");
    lock_file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (lock_file < 0) return;
    while (flock(lock_file, LOCK_EX) != 0 && errno == EINTR) {}
}

void unlock_state(void) {
    if (lock_file >= 0) close(lock_file); /* releases the lock */
    lock_file = -1;
    pthread_mutex_unlock(&writing);
}

static void change_holder(int delta) {
    lock_state();
    uint32_t pid = (uint32_t)getpid();
    uint64_t started = start_time_of(pid);
    nvsim_holder *mine = NULL, *free_entry = NULL;
    for (int i = 0; i < NVSIM_MAX_HOLDERS && !mine; i++) {
        nvsim_holder *entry = &state->holders[i];
        if (entry->pid == pid && entry->started == started) mine = entry;
        else if (!free_entry && (!entry->pid || start_time_of(entry->pid) != entry->started)) free_entry = entry;
    }
    if (!mine && delta > 0 && free_entry) {
        *free_entry = (nvsim_holder){.pid = pid, .started = started, .sessions = 1};
    } else if (mine) {
        mine->sessions += (uint32_t)delta;
        if (!mine->sessions) *mine = (nvsim_holder){0};
    }
    unlock_state();
}

int library_branch(void) { return library_version[0] ? atoi(library_version) : 100000; }

uint64_t now_us(void) {
    if (state && state->clock_us) return state->clock_us;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int wait_for_change(uint32_t *word, uint32_t seen, uint64_t timeout_ms) {
    struct timespec limit = {.tv_sec = (time_t)(timeout_ms / 1000), .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0) == 0) return 0;
    return errno == EINTR ? -1 : 0;
}

static uint64_t monotonic_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A hanging driver: the call sleeps until the hang is lifted, its time is over, or a signal is handled. */
static nvml_return sit_out(const uint32_t *hang_ms) {
    uint64_t begin = monotonic_ms();
    for (;;) {
        uint32_t seen = __atomic_load_n(&state->hang_word, __ATOMIC_ACQUIRE);
        uint64_t spent = monotonic_ms() - begin, limit = __atomic_load_n(hang_ms, __ATOMIC_RELAXED);
        if (spent >= limit) return NVML_OK;
        if (wait_for_change(&state->hang_word, seen, limit - spent) < 0) return NVML_UNKNOWN;
    }
}

/* What the faults that were set for single calls make of this one. */
static nvml_return suffer(const char *call, uint32_t slot) {
    for (int i = 0; i < NVSIM_MAX_CALL_FAULTS; i++) {
        const nvsim_call_fault *fault = &state->call_faults[i];
        if (!__atomic_load_n(&fault->active, __ATOMIC_ACQUIRE)) continue;
        if (fault->gpu != NVSIM_NO_INSTANCE && fault->gpu != slot) continue;
        if (strcmp(fault->call, "*") != 0 && strcmp(fault->call, call) != 0) continue;
        if (fault->hang_ms) {
            nvml_return problem = sit_out(&fault->hang_ms);
            if (problem != NVML_OK) return problem;
        }
        if (fault->active && fault->code) return fault->code;
    }
    return NVML_OK;
}

nvml_return fault_of_call(const char *call) {
    return state && state->call_fault_count ? suffer(call, NVSIM_NO_INSTANCE) : NVML_OK;
}

nvml_return fault_of_gpu(const char *call, uint32_t slot) {
    return state && state->call_fault_count ? suffer(call, slot) : NVML_OK;
}

static nvml_return enter_for(const char *call, uint32_t slot) {
    if (!open_sessions) return NVML_UNINITIALIZED;
    if (state->hang_ms) {
        nvml_return problem = sit_out(&state->hang_ms);
        if (problem != NVML_OK) return problem;
    }
    if (state->retired || !state->loaded || state->generation != session_generation) return NVML_DRIVER_NOT_LOADED;
    return state->call_fault_count ? suffer(call, slot) : NVML_OK;
}

nvml_return enter_call(const char *call) { return enter_for(call, NVSIM_NO_INSTANCE); }

static nvml_return check_driver(void) {
    char module_version[sizeof state->driver_version];
    if (state->retired || !state->loaded || !has_device_node("nvidiactl")) return NVML_DRIVER_NOT_LOADED;
    read_text(state->driver_version, sizeof state->driver_version, module_version);
    if (library_version[0] && strcmp(library_version, module_version) != 0) return NVML_VERSION_MISMATCH;
    return NVML_OK;
}

EXPORT nvml_return nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    pthread_mutex_lock(&door);
    nvml_return result = open_sessions ? NVML_OK : map_state();
    if (result == NVML_OK && !open_sessions && state->hang_ms) result = sit_out(&state->hang_ms);
    if (result == NVML_OK && !open_sessions) {
        result = check_driver();
        if (result == NVML_OK) {
            session_generation = state->generation;
            find_visible_gpus();
            change_holder(+1);
        }
    }
    if (result == NVML_OK) open_sessions++;
    pthread_mutex_unlock(&door);
    return result;
}

EXPORT nvml_return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
ALIAS(nvmlInit, nvmlInit_v2);

EXPORT nvml_return nvmlShutdown(void) {
    pthread_mutex_lock(&door);
    nvml_return result = open_sessions ? NVML_OK : NVML_UNINITIALIZED;
    if (open_sessions && state->hang_ms) sit_out(&state->hang_ms);
    if (open_sessions && --open_sessions == 0) change_holder(-1);
    pthread_mutex_unlock(&door);
    return result;
}

void *handle_of_slot(uint32_t slot) { return &handles[slot]; }

static const gpu_handle *known_handle(const void *handle) {
    const gpu_handle *entry = handle, *parts = partition_handles[0];
    if (entry >= handles && entry < handles + NVSIM_MAX_GPUS) return &handles[entry->slot] == entry ? entry : NULL;
    if (entry < parts || entry >= parts + NVSIM_MAX_GPUS * NVSIM_MAX_INSTANCES) return NULL;
    return &partition_handles[entry->slot][entry->partition] == entry ? entry : NULL;
}

nvml_return find_entity(const char *call, const void *handle, nvsim_gpu **gpu, const nvsim_compute **partition) {
    const gpu_handle *entry = known_handle(handle);
    nvml_return problem = enter_for(call, entry ? entry->slot : NVSIM_NO_INSTANCE);
    if (problem != NVML_OK) return problem;
    NEED(entry && entry->slot < state->gpu_count);
    *gpu = &state->gpus[entry->slot];
    *partition = entry->partition == NVSIM_NO_INSTANCE ? NULL : &(*gpu)->compute[entry->partition];
    NEED(!*partition || (*partition)->present);
    return (*gpu)->lost ? NVML_GPU_IS_LOST : NVML_OK;
}

nvml_return find_gpu(const char *call, const void *handle, nvsim_gpu **gpu) {
    const nvsim_compute *partition;
    nvml_return problem = find_entity(call, handle, gpu, &partition);
    if (problem == NVML_OK) SUPPORTED_IF(!partition);
    return problem;
}

nvml_return copy_text(const char *text, char *buffer, uint32_t size) {
    NEED(buffer);
    if (strlen(text) + 1 > size) return NVML_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_OK;
}

/* What every function does that the simulator does not implement (stubs.c, written by build.py). */
nvml_return not_supported(const char *call) {
    nvml_return problem = enter_call(call);
    return problem == NVML_OK ? NVML_NOT_SUPPORTED : problem;
}

EXPORT const char *nvmlErrorString(nvml_return code) {
    static const char *const texts[] = {
        [0] = "Success",
        [1] = "Uninitialized",
        [2] = "Invalid Argument",
        [3] = "Not Supported",
        [4] = "Insufficient Permissions",
        [5] = "Already Initialized",
        [6] = "Not Found",
        [7] = "Insufficient Size",
        [8] = "Insufficient External Power",
        [9] = "Driver Not Loaded",
        [10] = "Timeout",
        [11] = "Interrupt Request Issue",
        [12] = "NVML Shared Library Not Found",
        [13] = "Function Not Found",
        [14] = "Corrupted infoROM",
        [15] = "GPU is lost",
        [16] = "GPU requires reset",
        [17] = "GPU access blocked by the operating system",
        [18] = "Driver/library version mismatch",
        [19] = "In use by another client",
        [20] = "Insufficient Memory",
        [21] = "No data",
        [22] = "vGPU ECC not supported",
        [23] = "Insufficient Resources",
        [24] = "Requested frequency not supported",
        [25] = "Argument version mismatch",
        [26] = "Deprecated",
        [27] = "Not ready",
        [28] = "GPU not found",
        [29] = "Invalid state",
        [30] = "Reset type not supported",
    };
    if (code < sizeof texts / sizeof *texts) return texts[code];
    return code == NVML_UNKNOWN ? "Unknown Error" : "Unknown Error Code";
}

EXPORT nvml_return nvmlSystemGetDriverVersion(char *version, unsigned int size) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    char text[sizeof state->driver_version];
    read_text(state->driver_version, sizeof text, text);
    return copy_text(text, version, size);
}

/* The newest CUDA that a driver branch supports. 550 -> 12.4 is recorded (gfd fixtures), the rest is not. */
static int cuda_version(void) {
    static const struct { int branch, cuda; } table[] = {
        {470, 11040}, {495, 11050}, {510, 11060}, {515, 11070}, {520, 11080}, {525, 12000}, {530, 12010},
        {535, 12020}, {545, 12030}, {550, 12040}, {555, 12050}, {560, 12060}, {565, 12070}, {570, 12080},
        {575, 12090}, {580, 13000}, {590, 13010}, {595, 13020},
    };
    char text[sizeof state->driver_version];
    read_text(state->driver_version, sizeof text, text);
    int branch = atoi(text), cuda = 11000;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) if (branch >= table[i].branch) cuda = table[i].cuda;
    return cuda;
}

EXPORT nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(version);
    *version = cuda_version();
    return NVML_OK;
}
ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

EXPORT nvml_return nvmlSystemGetNVMLVersion(char *version, unsigned int size) {
    char driver[sizeof state->driver_version], text[80];
    nvml_return problem = nvmlSystemGetDriverVersion(driver, sizeof driver);
    if (problem != NVML_OK) return problem;
    snprintf(text, sizeof text, "%d.%s", cuda_version() / 1000, library_version[0] ? library_version : driver);
    return copy_text(text, version, size);
}

EXPORT nvml_return nvmlSystemGetDriverBranch(driver_branch *info, unsigned int size) {
    char driver[sizeof state->driver_version], text[80];
    nvml_return problem = nvmlSystemGetDriverVersion(driver, sizeof driver);
    if (problem != NVML_OK) return problem;
    NEED(info);
    if (info->version != VERSIONED(driver_branch, 1)) return NVML_ARGUMENT_VERSION_MISMATCH;
    snprintf(text, sizeof text, "r%d_00", atoi(driver));
    return copy_text(text, info->branch, size < sizeof info->branch ? size : sizeof info->branch);
}

EXPORT nvml_return nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int size) {
    nvml_return problem = enter();
    if (problem != NVML_OK) return problem;
    NEED(name && size);
    char path[64], link[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0) return NVML_NOT_FOUND;
    link[length] = 0;
    snprintf(name, size, "%s", link);
    return NVML_OK;
}
