/* What follows from the state file and the clock: how busy a GPU or a part of it is, and what has added up. */
#ifndef NVSIM_COURSE_H
#define NVSIM_COURSE_H

#include "session.h"

/* How often the driver notes utilisation for those who ask later. */
#define SAMPLE_PERIOD_US 167000ull

/* Indices into nvsim_gpu.violation_ns: NVML's perf policies, then the reasons with a counter of their own. */
enum {
    VIOLATION_POWER = 0,
    VIOLATION_THERMAL = 1,
    VIOLATION_SYNC_BOOST = 2,
    VIOLATION_APP_CLOCKS = 10,
    VIOLATION_SW_THERMAL = 12,
    VIOLATION_HW_THERMAL = 13,
    VIOLATION_POWER_BRAKE = 14,
};

enum {
    REASON_IDLE = 0x1,
    REASON_APP_CLOCKS = 0x2,
    REASON_POWER_CAP = 0x4,
    REASON_HW_SLOWDOWN = 0x8,
    REASON_SYNC_BOOST = 0x10,
    REASON_SW_THERMAL = 0x20,
    REASON_HW_THERMAL = 0x40,
    REASON_POWER_BRAKE = 0x80,
};

/* Percent at a moment. */
uint32_t load_at(const nvsim_load *load, uint64_t when_us);
/* Percent times microseconds between two moments. */
uint64_t load_between(const nvsim_load *load, uint64_t from_us, uint64_t to_us);

/* A GPU with MIG on is as busy as its instances are together. */
uint32_t busy_at(const nvsim_gpu *gpu, uint64_t when_us);
/* Percent times microseconds since the module was loaded. */
uint64_t busy_until(const nvsim_gpu *gpu, uint64_t now);
uint64_t instance_busy_until(const nvsim_gpu *gpu, const nvsim_instance *instance, uint64_t now);
uint64_t energy_nj_until(const nvsim_gpu *gpu, uint64_t now);
uint64_t violation_ns_until(const nvsim_gpu *gpu, uint32_t policy, uint64_t now);

uint32_t power_mw_at(const nvsim_gpu *gpu, uint64_t now);
uint32_t temperature_at(const nvsim_gpu *gpu, uint64_t now);
uint32_t memory_percent_at(const nvsim_gpu *gpu, uint64_t now);
/* What the links have carried one way: a busy GPU uses a tenth of its NVLinks and a hundredth of PCIe. */
uint64_t nvlink_kib_until(const nvsim_gpu *gpu, uint64_t now);
uint32_t pcie_kib_s_at(const nvsim_gpu *gpu, uint64_t now);
uint64_t pcie_kib_until(const nvsim_gpu *gpu, uint64_t now);

#endif
