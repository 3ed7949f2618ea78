/* Files of a container that is not to be trusted: its image may hold any link at any place.
 *
 * Links are followed here, one part of a path after the other, and never by the kernel: so none leads out. */

#define _GNU_SOURCE
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOST_LINKS 40
#define MOST_PARTS 64
#define MOST_PATH 4096

/* The directories from the root to where we are: ".." goes back to one that we came through. */
struct way {
    int fd[MOST_PARTS];
    int depth;
    char name[256]; /* of what was entered last, in the directory before */
};

static void leave(struct way *way, int depth) {
    while (way->depth > depth) close(way->fd[--way->depth]);
}

static int enter(struct way *way, int fd) {
    if (way->depth == MOST_PARTS) {
        close(fd);
        errno = ENAMETOOLONG;
        return -1;
    }
    way->fd[way->depth++] = fd;
    return 0;
}

/* Put a link's target before what is left of the path. */
static int follow(int link, char *left) {
    char text[MOST_PATH];
    struct statfs fs;
    if (fstatfs(link, &fs)) return -1;
    /* /proc/1/root and its like lead to where their text does not say. */
    if (fs.f_type == PROC_SUPER_MAGIC) {
        errno = ELOOP;
        return -1;
    }
    ssize_t length = readlinkat(link, "", text, MOST_PATH - 1);
    if (length < 0) return -1;
    text[length] = 0;
    if ((size_t)length + 1 + strlen(left) >= MOST_PATH) {
        errno = ENAMETOOLONG;
        return -1;
    }
    text[length++] = '/';
    strcpy(text + length, left);
    strcpy(left, text);
    return 0;
}

static int step(struct way *way, const char *name, int make) {
    int here = way->fd[way->depth - 1];
    int fd = openat(here, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || !make) return fd;
    if (mkdirat(here, name, 0755) && errno != EEXIST) return -1;
    return openat(here, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

static int walk(struct way *way, char *left, int make) {
    int links = 0;
    while (*left) {
        char name[256];
        if (*left == '/') {
            memmove(left, left + 1, strlen(left));
            continue;
        }
        size_t length = strcspn(left, "/");
        if (length >= sizeof name) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, left, length);
        name[length] = 0;
        memmove(left, left + length, strlen(left + length) + 1);
        if (!strcmp(name, ".")) continue;
        if (!strcmp(name, "..")) {
            leave(way, way->depth > 1 ? way->depth - 1 : 1);
            continue;
        }
        int fd = step(way, name, make);
        struct stat status;
        if (fd < 0) return -1;
        if (fstat(fd, &status)) {
            close(fd);
            return -1;
        }
        if (!S_ISLNK(status.st_mode)) {
            if (enter(way, fd)) return -1;
            strcpy(way->name, name);
            continue;
        }
        int failed = ++links > MOST_LINKS ? (errno = ELOOP, -1) : follow(fd, left);
        int cause = errno;
        close(fd);
        errno = cause;
        if (failed) return -1;
        if (*left == '/') leave(way, 1);
    }
    return 0;
}

static int go(struct way *way, int root, const char *path, int make) {
    char left[MOST_PATH];
    way->depth = 0;
    if (strlen(path) >= sizeof left) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(left, path);
    int top = fcntl(root, F_DUPFD_CLOEXEC, 0);
    return top < 0 || enter(way, top) ? -1 : walk(way, left, make);
}

/* Close all that was opened on the way; the answer keeps its errno. */
static int arrived(struct way *way, int answer) {
    int cause = errno;
    leave(way, 0);
    errno = cause;
    return answer;
}

int open_inside(int root, const char *path, int make) {
    struct way way;
    int failed = go(&way, root, path, make);
    return arrived(&way, failed ? -1 : way.fd[--way.depth]);
}

int open_to_read(int root, const char *path) {
    struct way way;
    struct stat status;
    if (go(&way, root, path, 0) || fstat(way.fd[way.depth - 1], &status)) return arrived(&way, -1);
    if (!S_ISREG(status.st_mode) || way.depth < 2) {
        errno = EINVAL;
        return arrived(&way, -1);
    }
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    return arrived(&way, openat(way.fd[way.depth - 2], way.name, flags));
}

int open_parent(int root, const char *path, int make, char *name, size_t size) {
    char folder[MOST_PATH];
    const char *last = strrchr(path, '/');
    const char *base = last ? last + 1 : path;
    if (!*base || !strcmp(base, ".") || !strcmp(base, "..")) {
        errno = EINVAL;
        return -1;
    }
    if (strlen(base) >= size || strlen(path) >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, path, (size_t)(base - path));
    folder[base - path] = 0;
    strcpy(name, base);
    return open_inside(root, folder, make);
}

char *read_file(int directory, const char *name, size_t *length) {
    struct stat status;
    char *content = NULL;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status)) goto fail;
    if (!S_ISREG(status.st_mode) || status.st_size > MOST_FILE) {
        errno = S_ISREG(status.st_mode) ? EFBIG : EINVAL;
        goto fail;
    }
    /* What /proc tells has no size, and another file may grow: read to the end, within the limit. */
    size_t room = (size_t)status.st_size + 4096, used = 0;
    for (;;) {
        char *more = realloc(content, room);
        if (!more) goto fail;
        content = more;
        ssize_t count = read(fd, content + used, room - used);
        if (count < 0) goto fail;
        if (count == 0) break;
        used += (size_t)count;
        if (used > MOST_FILE) {
            errno = EFBIG;
            goto fail;
        }
        if (used == room) room *= 2;
    }
    close(fd);
    *length = used;
    return content;
fail:;
    int cause = errno;
    free(content);
    if (fd >= 0) close(fd);
    errno = cause;
    return NULL;
}

int write_file(int directory, const char *name, const void *content, size_t length) {
    char fresh[300];
    const char *left = content;
    if ((size_t)snprintf(fresh, sizeof fresh, ".%s.gpuready", name) >= sizeof fresh) {
        errno = ENAMETOOLONG;
        return -1;
    }
    unlinkat(directory, fresh, 0);
    int fd = openat(directory, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return -1;
    while (length) {
        ssize_t count = write(fd, left, length);
        if (count < 0) goto fail;
        left += count;
        length -= (size_t)count;
    }
    if (fchmod(fd, 0644) || renameat(directory, fresh, directory, name)) goto fail;
    return close(fd);
fail:;
    int cause = errno;
    close(fd);
    unlinkat(directory, fresh, 0);
    errno = cause;
    return -1;
}
