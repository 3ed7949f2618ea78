/* Groups of entities and fields, and the thread that reads what is watched: whoever asks gets what it read last,
 * also while it hangs in a driver. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"

typedef struct {
    int used;
    uint32_t count;
    entity_pair entities[MOST_ENTITIES];
} entity_group;

typedef struct {
    int used, count;
    uint16_t fields[MOST_FIELDS];
} field_group;

typedef struct {
    dcgm_handle owner; /* 0: free */
    uintptr_t entities, fields;
    int64_t every_us, due_us;
} watch;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* of all below */
static pthread_mutex_t reading_lock = PTHREAD_MUTEX_INITIALIZER; /* held by whoever asks NVML; taken before `lock` */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static entity_group entity_groups[MOST_GROUPS]; /* a group's number is its place + 1 */
static field_group field_groups[MOST_GROUPS];
static watch watches[2 * MOST_GROUPS];
static reading *kept;
static size_t kept_count, kept_room;
static pthread_t thread;
static int is_reading, stopping;

static int64_t time_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static entity_group *entities_of(uintptr_t number) {
    return number >= 1 && number <= MOST_GROUPS && entity_groups[number - 1].used ? &entity_groups[number - 1] : NULL;
}

static field_group *fields_of(uintptr_t number) {
    return number >= 1 && number <= MOST_GROUPS && field_groups[number - 1].used ? &field_groups[number - 1] : NULL;
}

/* --- groups --------------------------------------------------------------------------------------------------- */

int make_entity_group(uintptr_t *number) {
    pthread_mutex_lock(&lock);
    uintptr_t place = 0;
    while (place < MOST_GROUPS && entity_groups[place].used) place++;
    if (place < MOST_GROUPS) {
        entity_groups[place].used = 1;
        entity_groups[place].count = 0;
        *number = place + 1;
    }
    pthread_mutex_unlock(&lock);
    return place < MOST_GROUPS ? DCGM_OK : DCGM_MAX_LIMIT;
}

int add_entity(uintptr_t number, entity_pair entity) {
    if (!is_known_entity(entity)) return DCGM_BADPARAM;
    pthread_mutex_lock(&lock);
    entity_group *group = entities_of(number);
    int result = !group ? DCGM_NOT_WATCHED : group->count == MOST_ENTITIES ? DCGM_MAX_LIMIT : DCGM_OK;
    if (result == DCGM_OK) group->entities[group->count++] = entity;
    pthread_mutex_unlock(&lock);
    return result;
}

int drop_entity_group(uintptr_t number) {
    pthread_mutex_lock(&lock);
    entity_group *group = entities_of(number);
    if (group) group->used = 0;
    pthread_mutex_unlock(&lock);
    return group ? DCGM_OK : DCGM_BADPARAM;
}

int make_field_group(int count, const uint16_t *fields, uintptr_t *number) {
    if (count > MOST_FIELDS) return DCGM_MAX_LIMIT;
    for (int i = 0; i < count; i++)
        if (!is_known_field(fields[i])) return DCGM_UNKNOWN_FIELD;
    pthread_mutex_lock(&lock);
    uintptr_t place = 0;
    while (place < MOST_GROUPS && field_groups[place].used) place++;
    if (place < MOST_GROUPS) {
        field_groups[place].used = 1;
        field_groups[place].count = count;
        memcpy(field_groups[place].fields, fields, (size_t)count * sizeof *fields);
        *number = place + 1;
    }
    pthread_mutex_unlock(&lock);
    return place < MOST_GROUPS ? DCGM_OK : DCGM_MAX_LIMIT;
}

int drop_field_group(uintptr_t number) {
    pthread_mutex_lock(&lock);
    field_group *group = fields_of(number);
    if (group) group->used = 0;
    pthread_mutex_unlock(&lock);
    return group ? DCGM_OK : DCGM_BADPARAM;
}

/* --- reading -------------------------------------------------------------------------------------------------- */

static reading *find_kept(entity_pair of, uint16_t field) {
    for (size_t i = 0; i < kept_count; i++)
        if (kept[i].field == field && kept[i].of.group == of.group && kept[i].of.number == of.number) return &kept[i];
    return NULL;
}

static void keep(const reading *fresh) {
    reading *place = find_kept(fresh->of, fresh->field);
    if (!place) {
        if (kept_count == kept_room) {
            size_t room = kept_room ? 2 * kept_room : 256;
            reading *larger = realloc(kept, room * sizeof *kept);
            if (!larger) return;
            kept = larger;
            kept_room = room;
        }
        place = &kept[kept_count++];
    }
    *place = *fresh;
}

/* Everything of one watch, anew; without `lock`, as NVML may hang. */
static void read_watch(const watch *of) {
    static entity_group entities; /* both guarded by reading_lock */
    static field_group fields;
    pthread_mutex_lock(&lock);
    entity_group *known_entities = entities_of(of->entities);
    field_group *known_fields = fields_of(of->fields);
    int is_known = known_entities && known_fields;
    if (is_known) entities = *known_entities, fields = *known_fields;
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; is_known && i < entities.count; i++) {
        int profiles = 0;
        for (int j = 0; j < fields.count; j++) {
            profiles |= is_profiling_field(fields.fields[j]);
            if (fields.fields[j] == LINK_RATE) sample_links(entities.entities[i]);
        }
        if (profiles) sample_profile(entities.entities[i]);
        for (int j = 0; j < fields.count; j++) {
            reading fresh = {.of = entities.entities[i], .field = fields.fields[j]};
            read_field(fresh.of, fresh.field, &fresh);
            fresh.at_us = time_us();
            pthread_mutex_lock(&lock);
            keep(&fresh);
            pthread_mutex_unlock(&lock);
        }
    }
}

static void read_due(void) {
    pthread_mutex_lock(&reading_lock);
    for (size_t i = 0; i < sizeof watches / sizeof *watches; i++) {
        pthread_mutex_lock(&lock);
        watch copy = watches[i];
        int is_due = copy.owner && copy.due_us <= time_us();
        if (is_due) watches[i].due_us = time_us() + copy.every_us;
        pthread_mutex_unlock(&lock);
        if (is_due) read_watch(&copy);
    }
    pthread_mutex_unlock(&reading_lock);
}

static void *read_on(void *nothing) {
    pthread_mutex_lock(&lock);
    while (!stopping) {
        int64_t next_us = time_us() + 3600000000ll;
        for (size_t i = 0; i < sizeof watches / sizeof *watches; i++)
            if (watches[i].owner && watches[i].due_us < next_us) next_us = watches[i].due_us;
        if (next_us > time_us()) {
            struct timespec until = {next_us / 1000000, next_us % 1000000 * 1000};
            pthread_cond_timedwait(&changed, &lock, &until);
            continue;
        }
        pthread_mutex_unlock(&lock);
        read_due();
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return nothing;
}

void start_reading(void) {
    if (is_reading) return;
    stopping = 0;
    is_reading = pthread_create(&thread, NULL, read_on, NULL) == 0;
}

void stop_reading(void) {
    if (!is_reading) return;
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    is_reading = 0;
    kept_count = 0;
}

/* --- watches -------------------------------------------------------------------------------------------------- */

/* Profiling is refused for all when one cannot do it, as by the real engine. */
static int check_profiling(uintptr_t entities, uintptr_t fields) {
    pthread_mutex_lock(&lock);
    const entity_group *group = entities_of(entities);
    const field_group *wanted = fields_of(fields);
    int is_known = group && wanted, profiles = 0;
    entity_group copy = {0};
    if (is_known) copy = *group;
    for (int j = 0; is_known && j < wanted->count; j++) profiles |= is_profiling_field(wanted->fields[j]);
    pthread_mutex_unlock(&lock);
    if (!is_known) return DCGM_BADPARAM;
    for (uint32_t i = 0; profiles && i < copy.count; i++)
        if (!has_profiling(copy.entities[i])) return DCGM_PROFILING_NOT_SUPPORTED;
    return DCGM_OK;
}

int watch_fields(dcgm_handle owner, uintptr_t entities, uintptr_t fields, int64_t every_us) {
    int result = check_profiling(entities, fields);
    if (result != DCGM_OK) return result;
    pthread_mutex_lock(&lock);
    size_t place = 0, most = sizeof watches / sizeof *watches;
    while (place < most && watches[place].owner) place++;
    if (place < most) watches[place] = (watch){owner, entities, fields, every_us, 0};
    pthread_mutex_unlock(&lock);
    if (place == most) return DCGM_MAX_LIMIT;
    read_due(); /* the first values are there when the call returns */
    pthread_cond_signal(&changed);
    return DCGM_OK;
}

void unwatch_fields(dcgm_handle owner, uintptr_t entities, uintptr_t fields) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof watches / sizeof *watches; i++)
        if (watches[i].owner == owner && watches[i].entities == entities && watches[i].fields == fields)
            watches[i].owner = 0;
    pthread_mutex_unlock(&lock);
}

void end_watches(dcgm_handle owner) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof watches / sizeof *watches; i++)
        if (!owner || watches[i].owner == owner) watches[i].owner = 0;
    if (!owner) {
        memset(entity_groups, 0, sizeof entity_groups);
        memset(field_groups, 0, sizeof field_groups);
    }
    pthread_mutex_unlock(&lock);
}

void newest(entity_pair entity, uint16_t field, dcgm_value *into) {
    *into = (dcgm_value){.version = VERSION_OF(dcgm_value, 2), .group = entity.group, .number = entity.number};
    into->field = field;
    into->type = 'i';
    into->status = DCGM_NOT_WATCHED;
    pthread_mutex_lock(&lock);
    const reading *found = find_kept(entity, field);
    if (found) {
        into->type = (uint16_t)found->type;
        into->status = found->status;
        into->at_us = found->at_us;
        memcpy(&into->value, found->text, sizeof found->text);
    }
    pthread_mutex_unlock(&lock);
}
