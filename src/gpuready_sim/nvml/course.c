/* How busy a GPU is and what has added up. Deterministic: all follows from the state file and the clock.
 * hardware/course.py holds the same arithmetic for the writer's side; a test compares them. */
#define _GNU_SOURCE
#include "course.h"

#define SECOND_US 1000000ull

/* --- one load ------------------------------------------------------------------------------------------------ */

static double value_between(const nvsim_load_point *a, const nvsim_load_point *b, double at_us) {
    double begin = a->at_ms * 1000.0, end = b->at_ms * 1000.0;
    return a->percent + ((double)b->percent - a->percent) * (at_us - begin) / (end - begin);
}

/* Percent, `at_us` after the start of one pass. */
static double value_in_pass(const nvsim_load *load, double at_us) {
    const nvsim_load_point *points = load->points;
    uint32_t next = 0;
    while (next < load->count && points[next].at_ms * 1000.0 <= at_us) next++;
    if (next == 0) return points[0].percent;
    if (next == load->count) return points[next - 1].percent;
    return value_between(&points[next - 1], &points[next], at_us);
}

/* Percent times microseconds in the first `until_us` of one pass. */
static double area_in_pass(const nvsim_load *load, double until_us) {
    double sum = 0, begin = 0, value = load->points[0].percent;
    for (uint32_t i = 0; i < load->count; i++) {
        const nvsim_load_point *point = &load->points[i];
        double end = point->at_ms * 1000.0;
        if (end >= until_us) {
            double slope = end > begin ? (point->percent - value) / (end - begin) : 0;
            return sum + (value + slope * (until_us - begin) / 2) * (until_us - begin);
        }
        sum += (value + point->percent) / 2 * (end - begin);
        begin = end;
        value = point->percent;
    }
    return sum + value * (until_us - begin);
}

static double area_until(const nvsim_load *load, uint64_t when_us) {
    if (!load->count || when_us <= load->started_us) return 0;
    uint64_t passed = when_us - load->started_us, period = load->period_ms * 1000ull;
    if (!period) return area_in_pass(load, (double)passed);
    return (double)(passed / period) * area_in_pass(load, (double)period) + area_in_pass(load, (double)(passed % period));
}

uint32_t load_at(const nvsim_load *load, uint64_t when_us) {
    if (!load->count || load->count > NVSIM_MAX_LOAD_POINTS) return 0;
    uint64_t passed = when_us > load->started_us ? when_us - load->started_us : 0, period = load->period_ms * 1000ull;
    return (uint32_t)(value_in_pass(load, (double)(period ? passed % period : passed)) + 0.5);
}

uint64_t load_between(const nvsim_load *load, uint64_t from_us, uint64_t to_us) {
    if (!load->count || load->count > NVSIM_MAX_LOAD_POINTS || to_us <= from_us) return 0;
    double area = area_until(load, to_us) - area_until(load, from_us);
    return area > 0 ? (uint64_t)(area + 0.5) : 0;
}

/* --- a GPU --------------------------------------------------------------------------------------------------- */

static uint32_t all_slices(const nvsim_gpu *gpu) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < gpu->profile_count && i < NVSIM_MAX_PROFILES; i++)
        if (gpu->profiles[i].slices > most) most = gpu->profiles[i].slices;
    return most;
}

static uint32_t slices_of(const nvsim_gpu *gpu, const nvsim_instance *instance) {
    return gpu->profiles[instance->kind % NVSIM_MAX_PROFILES].slices;
}

uint32_t busy_at(const nvsim_gpu *gpu, uint64_t when_us) {
    if (!gpu->mig_enabled) return load_at(&gpu->load, when_us);
    uint32_t sum = 0;
    for (int i = 0; i < NVSIM_MAX_INSTANCES; i++)
        if (gpu->instances[i].present)
            sum += load_at(&gpu->instances[i].load, when_us) * slices_of(gpu, &gpu->instances[i]);
    return sum / all_slices(gpu);
}

static uint64_t busy_since_settled(const nvsim_gpu *gpu, uint64_t now) {
    if (!gpu->mig_enabled) return load_between(&gpu->load, gpu->settled_us, now);
    uint64_t sum = 0;
    for (int i = 0; i < NVSIM_MAX_INSTANCES; i++)
        if (gpu->instances[i].present)
            sum += load_between(&gpu->instances[i].load, gpu->settled_us, now) * slices_of(gpu, &gpu->instances[i]);
    return sum / all_slices(gpu);
}

uint64_t busy_until(const nvsim_gpu *gpu, uint64_t now) { return gpu->busy + busy_since_settled(gpu, now); }

uint64_t instance_busy_until(const nvsim_gpu *gpu, const nvsim_instance *instance, uint64_t now) {
    return instance->busy + load_between(&instance->load, gpu->settled_us, now);
}

static uint64_t since_settled(const nvsim_gpu *gpu, uint64_t now) {
    return now > gpu->settled_us ? now - gpu->settled_us : 0;
}

/* A busy GPU draws nine tenths of the range above idle. */
static uint64_t range_mw(const nvsim_gpu *gpu) { return (gpu->power_limit_mw - gpu->power_idle_mw) * 9ull / 10; }

uint64_t energy_nj_until(const nvsim_gpu *gpu, uint64_t now) {
    uint64_t time_us = since_settled(gpu, now);
    if (gpu->power_mw) return gpu->energy_nj + gpu->power_mw * time_us;
    return gpu->energy_nj + gpu->power_idle_mw * time_us + range_mw(gpu) * busy_since_settled(gpu, now) / 100;
}

static uint32_t reasons_of(uint32_t policy) {
    switch (policy) {
        case VIOLATION_POWER: return REASON_POWER_CAP | REASON_POWER_BRAKE;
        case VIOLATION_THERMAL: return REASON_SW_THERMAL | REASON_HW_THERMAL;
        case VIOLATION_SYNC_BOOST: return REASON_SYNC_BOOST;
        case VIOLATION_APP_CLOCKS: return REASON_APP_CLOCKS;
        case VIOLATION_SW_THERMAL: return REASON_SW_THERMAL;
        case VIOLATION_HW_THERMAL: return REASON_HW_THERMAL;
        case VIOLATION_POWER_BRAKE: return REASON_POWER_BRAKE;
        default: return 0;
    }
}

uint64_t violation_ns_until(const nvsim_gpu *gpu, uint32_t policy, uint64_t now) {
    if (policy >= NVSIM_MAX_VIOLATIONS) return 0;
    uint64_t held = gpu->clocks_reasons & reasons_of(policy) ? since_settled(gpu, now) * 1000 : 0;
    return gpu->violation_ns[policy] + held;
}

uint32_t power_mw_at(const nvsim_gpu *gpu, uint64_t now) {
    if (gpu->power_mw) return gpu->power_mw;
    return gpu->power_idle_mw + (uint32_t)(range_mw(gpu) * busy_at(gpu, now) / 100);
}

uint32_t temperature_at(const nvsim_gpu *gpu, uint64_t now) {
    return gpu->temperature_c ? gpu->temperature_c : 32 + gpu->minor % 4 + busy_at(gpu, now) * 36 / 100;
}

uint32_t memory_percent_at(const nvsim_gpu *gpu, uint64_t now) {
    return gpu->utilization_memory ? gpu->utilization_memory : busy_at(gpu, now) * 2 / 5;
}

uint64_t nvlink_kib_until(const nvsim_gpu *gpu, uint64_t now) {
    double megabytes = (double)busy_until(gpu, now) * gpu->nvlinks * gpu->nvlink_mbps / (100 * 10) / SECOND_US;
    return (uint64_t)(megabytes * 1e6 / 1024);
}

uint32_t pcie_kib_s_at(const nvsim_gpu *gpu, uint64_t now) {
    return busy_at(gpu, now) * gpu->pcie_width * 10 << gpu->pcie_generation;
}

uint64_t pcie_kib_until(const nvsim_gpu *gpu, uint64_t now) {
    double per_percent_and_second = gpu->pcie_width * 10u << gpu->pcie_generation;
    return (uint64_t)((double)busy_until(gpu, now) / SECOND_US * per_percent_and_second);
}
