/* Add to a container's /etc/ld.so.cache what was mounted into it.
 *
 * No ldconfig runs: the host may have none, the container's own is not to be trusted, and it would read every
 * library of the image. The cache is what the loader reads, a sorted table, and it gets our rows.
 *
 * Source of the format: glibc 2.36, sysdeps/generic/dl-cache.h, elf/cache.c. */

#define _GNU_SOURCE
#include "hook.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD_MAGIC "ld.so-1.7.0"
#define MAGIC "glibc-ld.so.cache1.1"
#define LITTLE_ENDIAN_CACHE 2
#define EXTENSION_MAGIC 0xeaa42174u
#define HWCAPS_SECTION 1u
#define COMPAT_CONF "00-gpuready-compat.conf"
#define FOLDERS_CONF "00-gpuready.conf"
#define COMPAT_FOLDER "/usr/local/cuda/compat"

struct header {
    char magic[20];
    uint32_t count, strings;
    uint8_t flags, unused[3];
    uint32_t extension, more[3];
};

struct entry {
    int32_t flags;
    uint32_t key, value, os_version;
    uint64_t hwcap;
};

struct extension {
    uint32_t magic, count;
};

struct section {
    uint32_t tag, flags, offset, size;
};

struct row {
    const char *key, *value;
    struct entry entry; /* its key and value count for rows of the old cache only */
    size_t order;       /* rows of one name stay in this order: the first that fits is loaded */
    int is_old;
};

struct rows {
    struct row *row;
    size_t count, room;
};

/* The old cache as it can be carried over: its rows, and all bytes behind them. */
struct old {
    char *content;
    const char *base; /* offsets in the cache count from here */
    size_t size, count;
};

static struct row *add(struct rows *rows) {
    if (rows->count == rows->room) {
        size_t room = rows->room ? rows->room * 2 : 256;
        struct row *more = realloc(rows->row, room * sizeof *more);
        if (!more) return NULL;
        rows->row = more;
        rows->room = room;
    }
    struct row *row = &rows->row[rows->count];
    memset(row, 0, sizeof *row);
    row->order = rows->count++;
    return row;
}

/* --- what lies in the folders ------------------------------------------------------------------------------- */

/* What kind of library the loader will take it for; 0 for none that runs here. */
static int library_flags(int root, const char *path) {
    Elf64_Ehdr head;
    int fd = open_to_read(root, path);
    if (fd < 0) return 0;
    ssize_t count = read(fd, &head, sizeof head);
    close(fd);
    if (count < (ssize_t)sizeof(Elf32_Ehdr) || memcmp(head.e_ident, ELFMAG, SELFMAG)) return 0;
    if (head.e_type != ET_DYN) return 0;
    switch (head.e_machine) {
    case EM_X86_64: return head.e_ident[EI_CLASS] == ELFCLASS64 ? 0x0303 : 0x0803;
    case EM_386: return 0x0003;
    case EM_AARCH64: return 0x0a03;
    default: return 0;
    }
}

/* Which mount something is on; 0 where the kernel (before 5.8) does not tell. */
static uint64_t mount_of(int directory, const char *name) {
    struct statx found;
    if (statx(directory, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &found)) return 0;
    return found.stx_mask & STATX_MNT_ID ? found.stx_mnt_id : 0;
}

static int is_library_name(const char *name) {
    return !strncmp(name, "lib", 3) && strstr(name, ".so") && strlen(name) < 256;
}

static int add_library(struct rows *rows, int root, const char *folder, const char *name) {
    char *key = strdup(name), *value = NULL;
    if (!key || asprintf(&value, "%s/%s", folder, name) < 0) return -1;
    int flags = library_flags(root, value);
    if (!flags) return 0;
    struct row *row = add(rows);
    if (!row) return -1;
    row->key = key;
    row->value = value;
    row->entry.flags = flags;
    return 0;
}

/* Files that were mounted into the folder one by one; all of it where the kernel does not tell them apart, or
 * where `whole` says so. What the image has there itself, its own cache knows. */
static int add_folder(struct rows *rows, int root, const char *folder, int whole) {
    int place = open_inside(root, folder, 0);
    int directory = place < 0 ? -1 : openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int cause = errno;
    if (place >= 0) close(place);
    if (directory < 0) return cause == ENOENT || cause == ENOTDIR ? 0 : (errno = cause, -1);

    uint64_t own = mount_of(directory, "");
    DIR *listing = fdopendir(directory);
    if (!listing) {
        close(directory);
        return -1;
    }
    int failed = 0;
    for (struct dirent *each; !failed && (each = readdir(listing));) {
        if (!is_library_name(each->d_name)) continue;
        if (!whole && own && mount_of(directory, each->d_name) == own) continue;
        failed = add_library(rows, root, folder, each->d_name);
    }
    closedir(listing);
    return failed;
}

/* --- the cache that is there -------------------------------------------------------------------------------- */

static const char *text_at(const struct old *old, uint32_t offset) {
    if (offset >= old->size) return NULL;
    size_t room = old->size - offset;
    return memchr(old->base + offset, 0, room < PATH_MAX ? room : PATH_MAX) ? old->base + offset : NULL;
}

/* Find the part that loaders of this century read; -1 for what is no cache, and then it is written anew. */
static int find_base(struct old *old, size_t length) {
    const char *start = old->content;
    struct header head;
    if (length >= 16 && !memcmp(start, OLD_MAGIC, sizeof OLD_MAGIC)) {
        uint32_t count;
        memcpy(&count, start + 12, 4);
        uint64_t skip = (16 + 12 * (uint64_t)count + 7) / 8 * 8;
        if (skip >= length) return -1;
        start += skip;
        length -= (size_t)skip;
    }
    if (length < sizeof head || memcmp(start, MAGIC, 20)) return -1;
    memcpy(&head, start, sizeof head);
    if ((length - sizeof head) / sizeof(struct entry) < head.count) return -1;
    old->base = start;
    old->size = length;
    old->count = head.count;
    return 0;
}

static int is_new(const struct rows *rows, size_t ours, const char *key, const char *value) {
    for (size_t i = 0; i < ours; i++)
        if (!strcmp(rows->row[i].value, value) && !strcmp(rows->row[i].key, key)) return 0;
    return 1;
}

/* Its rows behind ours, without those that are ours already: a container may be started again. */
static int add_old(struct rows *rows, const struct old *old) {
    size_t ours = rows->count;
    for (size_t i = 0; i < old->count; i++) {
        struct entry entry;
        memcpy(&entry, old->base + sizeof(struct header) + i * sizeof entry, sizeof entry);
        const char *key = text_at(old, entry.key), *value = text_at(old, entry.value);
        if (!key || !value || !is_new(rows, ours, key, value)) continue;
        struct row *row = add(rows);
        if (!row) return -1;
        row->key = key;
        row->value = value;
        row->entry = entry;
        row->is_old = 1;
    }
    return 0;
}

/* --- writing ------------------------------------------------------------------------------------------------ */

static uint64_t number_at(const char **text) {
    uint64_t value = 0;
    while (**text >= '0' && **text <= '9') value = value * 10 + (uint64_t)(*(*text)++ - '0');
    return value;
}

/* The loader's order of names: runs of digits count as numbers, and come after everything else. */
static int compare_names(const char *a, const char *b) {
    while (*a && *b) {
        int a_digit = *a >= '0' && *a <= '9', b_digit = *b >= '0' && *b <= '9';
        if (a_digit && b_digit) {
            int first = (int)number_at(&a), second = (int)number_at(&b);
            if (first != second) return first < second ? -1 : 1;
        } else if (a_digit != b_digit) {
            return a_digit ? 1 : -1;
        } else if (*a != *b) {
            return *a < *b ? -1 : 1;
        } else {
            a++, b++;
        }
    }
    return *a ? 1 : *b ? -1 : 0;
}

static int compare_rows(const void *a, const void *b) {
    const struct row *first = a, *second = b;
    int names = compare_names(second->key, first->key); /* the table runs from the last name to the first */
    if (names) return names;
    return first->order < second->order ? -1 : 1;
}

/* What follows the rows keeps its bytes and moves by `shift`; so do the offsets that it holds. */
static uint32_t moved_extension(char *cache, size_t size, uint32_t offset, uint32_t shift) {
    struct extension found;
    if (!offset || offset > size || size - offset < sizeof found) return 0;
    char *place = cache + offset;
    memcpy(&found, place, sizeof found);
    size_t room = (size - offset - sizeof found) / sizeof(struct section);
    if (found.magic != EXTENSION_MAGIC || found.count > room) return 0;
    for (uint32_t i = 0; i < found.count; i++) {
        struct section section;
        char *at = place + sizeof found + i * sizeof section;
        memcpy(&section, at, sizeof section);
        section.offset += shift;
        memcpy(at, &section, sizeof section);
        if (section.tag != HWCAPS_SECTION) continue;
        if (section.offset > size || size - section.offset < section.size) return 0;
        for (uint32_t used = 0; used + 4 <= section.size; used += 4) {
            uint32_t name;
            memcpy(&name, cache + section.offset + used, 4);
            name += shift;
            memcpy(cache + section.offset + used, &name, 4);
        }
    }
    return offset;
}

static char *build(const struct rows *rows, const struct old *old, size_t *length) {
    struct header head = {.flags = LITTLE_ENDIAN_CACHE};
    size_t table = sizeof head + rows->count * sizeof(struct entry);
    size_t before = sizeof head + old->count * sizeof(struct entry);
    size_t kept = old->base ? old->size - before : 0, size = table + kept;
    for (size_t i = 0; i < rows->count; i++)
        if (!rows->row[i].is_old) size += strlen(rows->row[i].key) + strlen(rows->row[i].value) + 2;
    char *cache = size < UINT32_MAX ? calloc(1, size) : NULL;
    if (!cache) return NULL;

    uint32_t shift = (uint32_t)(table - before), end = (uint32_t)(table + kept);
    if (old->base) {
        memcpy(&head, old->base, sizeof head);
        memcpy(cache + table, old->base + before, kept);
        if (head.extension) head.extension = moved_extension(cache, end, head.extension + shift, shift);
    }
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        struct entry entry = row->entry;
        if (row->is_old) {
            entry.key += shift;
            entry.value += shift;
        } else {
            entry.key = end;
            end = (uint32_t)(stpcpy(cache + end, row->key) + 1 - cache);
            entry.value = end;
            end = (uint32_t)(stpcpy(cache + end, row->value) + 1 - cache);
        }
        memcpy(cache + sizeof head + i * sizeof entry, &entry, sizeof entry);
    }
    memcpy(head.magic, MAGIC, sizeof head.magic);
    head.count = (uint32_t)rows->count;
    head.strings = (uint32_t)(size - table);
    memcpy(cache, &head, sizeof head);
    *length = size;
    return cache;
}

/* --- commands ----------------------------------------------------------------------------------------------- */

/* Whether programs of the container have glibc's loader, the only one that reads this cache. */
static int has_glibc(int root) {
    static const char *const loaders[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
                                          "/lib/ld-linux.so.2"};
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
        int fd = open_inside(root, loaders[i], 0);
        if (fd >= 0) {
            close(fd);
            return 1;
        }
    }
    return 0;
}

/* For an ldconfig that the container runs itself later. */
static int name_folders(int root, int etc, const char *name, const char *const *folders, size_t count) {
    static const char include[] = "include /etc/ld.so.conf.d/*.conf\n";
    int place = open_inside(root, "/etc/ld.so.conf.d", 1);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (place < 0 || !stream) return -1;
    for (size_t i = 0; i < count; i++) fprintf(stream, "%s\n", folders[i]);
    fclose(stream);
    int failed = write_file(place, name, text, length);
    free(text);
    close(place);
    if (!failed && faccessat(etc, "ld.so.conf", F_OK, AT_SYMLINK_NOFOLLOW))
        failed = write_file(etc, "ld.so.conf", include, sizeof include - 1);
    return failed;
}

static int has_compat(int root) {
    int place = open_inside(root, "/etc/ld.so.conf.d/" COMPAT_CONF, 0);
    if (place >= 0) close(place);
    return place >= 0;
}

int update_ldcache(int root, const char *const *folders, size_t count) {
    struct rows rows = {0};
    struct old old = {0};
    size_t length = 0;
    if (!has_glibc(root)) return 0;
    int etc = open_inside(root, "/etc", 1);
    if (etc < 0) return -1;
    int failed = has_compat(root) ? add_folder(&rows, root, COMPAT_FOLDER, 1) : 0;
    for (size_t i = 0; !failed && i < count; i++) failed = add_folder(&rows, root, folders[i], 0);

    old.content = read_file(etc, "ld.so.cache", &length);
    if (old.content && find_base(&old, length)) old.count = 0;
    failed = failed || add_old(&rows, &old);
    if (rows.count) qsort(rows.row, rows.count, sizeof *rows.row, compare_rows);
    char *cache = failed ? NULL : build(&rows, &old, &length);
    failed = !cache || write_file(etc, "ld.so.cache", cache, length) ||
             name_folders(root, etc, FOLDERS_CONF, folders, count);
    int cause = errno;
    close(etc); /* what was allocated ends with the process */
    errno = cause;
    return failed ? -1 : 0;
}

/* The major number behind "libcuda.so."; 0 for another name. */
static long cuda_major(const char *name) {
    static const char start[] = "libcuda.so.";
    char *end;
    if (strncmp(name, start, sizeof start - 1)) return 0;
    long major = strtol(name + sizeof start - 1, &end, 10);
    return *end == '.' && major > 0 ? major : 0; /* libcuda.so.1 is a link to it */
}

int enable_cuda_compat(int root, const char *host_version) {
    static const char *const folder[] = {COMPAT_FOLDER};
    long host = strtol(host_version, NULL, 10), newest = 0;
    int place = open_inside(root, COMPAT_FOLDER, 0);
    int directory = place < 0 ? -1 : openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place >= 0) close(place);
    if (directory < 0) return 0; /* most images bring none */
    DIR *listing = fdopendir(directory);
    if (!listing) return -1;
    for (struct dirent *each; (each = readdir(listing));) {
        long major = cuda_major(each->d_name);
        if (major > newest) newest = major;
    }
    closedir(listing);
    if (host <= 0 || newest <= host) return 0;
    int etc = open_inside(root, "/etc", 1);
    if (etc < 0) return -1;
    int failed = name_folders(root, etc, COMPAT_CONF, folder, 1);
    close(etc);
    return failed;
}
