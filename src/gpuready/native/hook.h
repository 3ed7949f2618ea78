/* What the parts of nvidia-cdi-hook share. Every path below is inside a container's root directory. */
#ifndef GPUREADY_HOOK_H
#define GPUREADY_HOOK_H

#include <stddef.h>
#include <stdint.h>

#define MOST_FILE (16u << 20)

/* --- json.c ------------------------------------------------------------------------------------------------- */

/* Copy the text at path[0].path[1]... of a JSON object to `out`; 0, or -1 when there is none or no JSON. */
int json_text(const char *json, size_t length, const char *const *path, char *out, size_t size);

/* --- rootfs.c ----------------------------------------------------------------------------------------------- */

/* Open a path below `root` (a directory), whatever links are on the way: "/" and ".." stay inside, and a link
 * of /proc leads nowhere. With `make` missing directories are made. An O_PATH descriptor, or -1 with errno. */
int open_inside(int root, const char *path, int make);

/* The same for a regular file, to be read; anything else (a device, a pipe) is not even opened. */
int open_to_read(int root, const char *path);

/* The directory of `path`, and in `name` its last part, which is not followed. */
int open_parent(int root, const char *path, int make, char *name, size_t size);

/* A whole regular file below a directory; free() it. NULL with errno (EFBIG beyond MOST_FILE). */
char *read_file(int directory, const char *name, size_t *length);

/* Replace a file in one step; a link of that name is replaced, not followed. 0, or -1 with errno. */
int write_file(int directory, const char *name, const void *content, size_t length);

/* --- ldcache.c ---------------------------------------------------------------------------------------------- */

/* Teach the container's ld.so.cache the libraries that were mounted into `folders`. 0, or -1 with errno. */
int update_ldcache(int root, const char *const *folders, size_t count);

/* Let a libcuda that the container brings along, newer than the host's, go before it. 0, or -1 with errno. */
int enable_cuda_compat(int root, const char *host_version);

#endif
