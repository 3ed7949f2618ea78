/* The parts of the simulated engine: what it is connected by, what it watches, how it reads a field. */
#ifndef DCGMSIM_ENGINE_H
#define DCGMSIM_ENGINE_H

#include "abi.h"

/* What is kept of a field of an entity. `type` as in dcgm_fields.h: i, d, s. */
typedef struct {
    entity_pair of;
    uint16_t field;
    char type;
    int status;
    int64_t at_us;
    union {
        int64_t i64;
        double dbl;
        char text[256];
    };
} reading;

#define LINK_RATE 449 /* the only rate that is known here, beside those of profiling */

/* --- fields.c: read through NVML ---- */
int is_known_field(uint16_t field);
int is_profiling_field(uint16_t field);
int has_profiling(entity_pair entity);
uint32_t count_gpus(void);
/* Not one that fell off the bus. */
int is_active(uint32_t gpu);
/* The parts of all MIG GPUs, as dcgmGetGpuInstanceHierarchy tells them. */
uint32_t list_parts(mig_entry *entries);
int is_known_entity(entity_pair entity);
/* Take down what grows, for the values between this reading and the one before. */
void sample_links(entity_pair entity);
void sample_profile(entity_pair entity);
void read_field(entity_pair entity, uint16_t field, reading *into);
void forget_samples(void);

/* --- watches.c: groups, and the thread that reads what is watched ---- */
int make_entity_group(uintptr_t *number);
int add_entity(uintptr_t group, entity_pair entity);
int drop_entity_group(uintptr_t group);
int make_field_group(int count, const uint16_t *fields, uintptr_t *number);
int drop_field_group(uintptr_t group);
int watch_fields(dcgm_handle owner, uintptr_t entities, uintptr_t fields, int64_t every_us);
void unwatch_fields(dcgm_handle owner, uintptr_t entities, uintptr_t fields);
/* Of one owner, or (0) of all. */
void end_watches(dcgm_handle owner);
void newest(entity_pair entity, uint16_t field, dcgm_value *into);
void start_reading(void);
/* Waits for a reading that hangs. */
void stop_reading(void);

#endif
