/* gpus.state: what the "kernel" of one simulated node knows about its GPUs.
 *
 * One fixed-size file per node, mapped shared by every process of the node. The NVML library reads it and
 * writes only `holders`; everything else is written by gpuready_sim/hardware/state.py, which reads this
 * header to learn the layout. So each field stands on a line of its own, and types are the seven below.
 *
 * Writers hold flock(LOCK_EX) on the file. Readers take no lock: single words cannot tear, and the few
 * strings that change (driver_version, boot_id) are guarded by `sequence`, which is odd during a change.
 * `event_word` and `hang_word` are futexes: whoever adds an event (`event_head` counts them), loses a GPU,
 * unloads the module or lifts a hang increments the word and wakes every waiter.
 *
 * What grows with time (`busy` in percent times microseconds, energy, time held back) stands here as it was at
 * `settled_us`; readers add what has come since. Writers settle before they change what drives it. `clock_us`
 * is 0, or the time at which the machine's clock stands still.
 */
#ifndef NVSIM_STATE_H
#define NVSIM_STATE_H

#include <stdint.h>

#define NVSIM_MAGIC 0x4d53564e
#define NVSIM_VERSION 2
#define NVSIM_MAX_GPUS 32
#define NVSIM_MAX_PROCESSES 64
#define NVSIM_MAX_HOLDERS 512
#define NVSIM_MAX_EVENTS 256
#define NVSIM_MAX_LOAD_POINTS 64
#define NVSIM_MAX_PROFILES 8
#define NVSIM_MAX_INSTANCES 8
#define NVSIM_MAX_VIOLATIONS 16
#define NVSIM_MAX_CALL_FAULTS 16
#define NVSIM_NO_INSTANCE 0xffffffff

/* A process with a context on the GPU. `sm_percent` 0: an equal share of what the others leave. */
typedef struct {
    uint32_t pid;
    uint32_t graphics;
    uint64_t memory_bytes;
    uint32_t sm_percent;
    uint32_t in_partition;
    uint32_t gpu_instance;
    uint32_t compute_instance;
} nvsim_process;

typedef struct {
    uint32_t at_ms;
    uint32_t percent;
} nvsim_load_point;

/* How busy something is over time: straight lines between the points. After the last one its value stays, or,
 * with a period, all begins again. Two points at one time make a step; no points, never busy. */
typedef struct {
    uint64_t started_us;
    uint32_t period_ms;
    uint32_t count;
    nvsim_load_point points[NVSIM_MAX_LOAD_POINTS];
} nvsim_load;

/* A GPU instance that this model can hold: `profile` is NVML's number of the kind, `id` what the create call
 * takes. It covers `size` memory slices from a start that `starts` has a bit for. */
typedef struct {
    char name[24];
    uint32_t profile;
    uint32_t id;
    uint32_t slices;
    uint32_t size;
    uint32_t starts;
    uint32_t most;
    uint32_t memory_mib;
    uint32_t multiprocessors;
    uint32_t copy_engines;
    uint32_t decoders;
    uint32_t jpegs;
    uint32_t ofas;
} nvsim_profile;

/* A GPU instance; `kind` is its place in the GPU's profiles. */
typedef struct {
    uint32_t present;
    uint32_t id;
    uint32_t kind;
    uint32_t start;
    uint32_t memory_used_mib;
    uint64_t busy;
    nvsim_load load;
} nvsim_instance;

/* A compute instance within a GPU instance: a MIG device. */
typedef struct {
    char uuid[48];
    char name[24];
    uint32_t present;
    uint32_t id;
    uint32_t gpu_instance;
    uint32_t profile;
    uint32_t start;
    uint32_t slices;
    uint32_t multiprocessors;
} nvsim_compute;

/* While `active`, calls of this name ("*": every call) for this GPU (NO_INSTANCE: every GPU, and calls that
 * name none) wait so long and answer `code` if that is not 0. */
typedef struct {
    uint32_t active;
    uint32_t gpu;
    uint32_t code;
    uint32_t hang_ms;
    char call[64];
} nvsim_call_fault;

typedef struct {
    char uuid[48];
    char name[96];
    char serial[32];
    char board_part[32];
    char vbios[32];
    uint32_t minor;
    uint32_t pci_domain;
    uint32_t pci_bus;
    uint32_t pci_device;
    uint32_t pci_device_id;
    uint32_t pci_subsystem_id;
    uint32_t pci_class;
    uint32_t pcie_switch;
    int32_t numa_node;
    uint32_t compute_major;
    uint32_t compute_minor;
    uint32_t architecture;
    uint32_t brand;
    uint32_t cores;
    uint32_t multiprocessors;
    uint32_t mig_capable;
    uint32_t ecc_capable;
    uint32_t row_remapper;
    uint32_t fabric;
    uint32_t fans;
    uint32_t has_display;
    uint32_t memory_mib;
    uint32_t memory_reserved_mib;
    uint32_t memory_used_mib;
    uint32_t memory_bus_bits;
    uint32_t bar1_mib;
    uint32_t pcie_generation;
    uint32_t pcie_width;
    uint32_t nvlinks;
    uint32_t nvlink_version;
    uint32_t nvlink_mbps;
    uint32_t power_idle_mw;
    uint32_t power_limit_mw;
    uint32_t power_min_mw;
    uint32_t power_max_mw;
    uint32_t power_default_mw;
    uint32_t power_mw;
    uint32_t temperature_c;
    uint32_t temperature_shutdown_c;
    uint32_t temperature_slowdown_c;
    uint32_t temperature_memory_max_c;
    uint32_t temperature_max_c;
    uint32_t clock_graphics_max_mhz;
    uint32_t clock_memory_max_mhz;
    uint32_t clock_video_max_mhz;
    uint32_t clock_graphics_idle_mhz;
    uint32_t utilization_memory;
    uint32_t utilization_encoder;
    uint32_t utilization_decoder;
    uint32_t compute_mode;
    uint32_t persistence;
    uint32_t lost;
    uint32_t inforom_corrupt;
    uint32_t recovery_action;
    uint32_t last_xid;
    uint32_t resets;
    uint32_t remap_correctable;
    uint32_t remap_uncorrectable;
    uint32_t remap_pending;
    uint32_t remap_failed;
    uint32_t memory_unrepairable;
    uint32_t page_retirement;
    uint32_t retired_single_bit;
    uint32_t retired_double_bit;
    uint32_t retired_pending;
    uint32_t clocks_reasons;
    uint32_t pcie_replays;
    uint32_t pcie_correctable_errors;
    uint32_t nvlink_crc_flit_errors;
    uint32_t nvlink_crc_data_errors;
    uint32_t nvlink_replays;
    uint32_t nvlink_recoveries;
    uint32_t mig_enabled;
    uint32_t mig_pending;
    uint32_t profile_count;
    uint64_t ecc_corrected_volatile;
    uint64_t ecc_uncorrected_volatile;
    uint64_t ecc_corrected_aggregate;
    uint64_t ecc_uncorrected_aggregate;
    uint64_t settled_us;
    uint64_t busy;
    uint64_t energy_nj;
    uint64_t violation_ns[NVSIM_MAX_VIOLATIONS];
    nvsim_load load;
    nvsim_profile profiles[NVSIM_MAX_PROFILES];
    nvsim_instance instances[NVSIM_MAX_INSTANCES];
    nvsim_compute compute[NVSIM_MAX_INSTANCES];
    nvsim_process processes[NVSIM_MAX_PROCESSES];
} nvsim_gpu;

/* One process with NVML open. `started` is field 22 of /proc/<pid>/stat: with it, an entry whose process
 * was killed, even if the pid is in use again, is recognised and reused. */
typedef struct {
    uint32_t pid;
    uint32_t sessions;
    uint64_t started;
} nvsim_holder;

typedef struct {
    uint32_t gpu;
    uint32_t type;
    uint64_t data;
    uint32_t gpu_instance;
    uint32_t compute_instance;
} nvsim_event;

typedef struct {
    uint32_t magic;
    uint32_t version;
    uint32_t size;
    uint32_t sequence;
    uint32_t loaded;
    uint32_t generation;
    uint32_t retired;
    uint32_t gpu_count;
    uint32_t event_word;
    uint32_t hang_word;
    uint32_t hang_ms;
    uint32_t event_head;
    uint32_t call_fault_count;
    uint64_t clock_us;
    nvsim_call_fault call_faults[NVSIM_MAX_CALL_FAULTS];
    char driver_version[32];
    char boot_id[48];
    nvsim_event events[NVSIM_MAX_EVENTS];
    nvsim_holder holders[NVSIM_MAX_HOLDERS];
    nvsim_gpu gpus[NVSIM_MAX_GPUS];
} nvsim_state;

#endif
