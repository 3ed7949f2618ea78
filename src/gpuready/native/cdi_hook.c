/* nvidia-cdi-hook: what a CDI spec asks of a createContainer hook and a mount cannot do.
 *
 *     nvidia-cdi-hook create-symlinks --link TARGET::LINK ...
 *     nvidia-cdi-hook update-ldcache --folder FOLDER ...
 *     nvidia-cdi-hook enable-cuda-compat --host-driver-version VERSION
 *     nvidia-cdi-hook disable-device-node-modification
 *     nvidia-cdi-hook chmod --mode OCTAL --path PATH ...
 *
 * Commands and options are those of NVIDIA's program of this name, so that either serves a spec of either.
 * A runtime starts it as root before the container's own process, with the container's state on stdin. It reads
 * no variable, starts no other program and is linked statically: nothing of the image is ever run or loaded.
 * Exit status: 0 done or nothing to do, 1 failed (the container does not start), 2 wrong use. */

#define _GNU_SOURCE
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_VALUES 1024
#define MOST_PATH 4096

enum { DONE = 0, FAILED = 1, WRONG_USE = 2 };

struct options {
    const char *value[MOST_VALUES];
    size_t count;
    const char *mode;
};

static const char *command;

__attribute__((format(printf, 2, 3))) static int fail(int status, const char *format, ...) {
    va_list words;
    fprintf(stderr, "nvidia-cdi-hook: %s: ", command ? command : "usage");
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    return status;
}

/* --- the container's root ----------------------------------------------------------------------------------- */

static int find_root(void) {
    static const char *const bundle_key[] = {"bundle", NULL}, *const root_key[] = {"root", "path", NULL};
    char bundle[MOST_PATH], root[MOST_PATH];
    size_t length = 0, room = 1 << 20;
    char *state = malloc(room), *config;
    for (ssize_t count; state && length < room && (count = read(0, state + length, room - length)) > 0;)
        length += (size_t)count;
    if (!state || json_text(state, length, bundle_key, bundle, sizeof bundle))
        return fail(-1, "stdin holds no OCI state with a bundle; a runtime starts this program");
    int directory = open(bundle, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return fail(-1, "%s: %s", bundle, strerror(errno));
    config = read_file(directory, "config.json", &length);
    if (!config) return fail(-1, "%s/config.json: %s", bundle, strerror(errno));
    if (json_text(config, length, root_key, root, sizeof root))
        return fail(-1, "%s/config.json names no root.path", bundle);
    int found = openat(directory, root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (found < 0) return fail(-1, "%s: %s", root, strerror(errno));
    return found;
}

/* --- commands ----------------------------------------------------------------------------------------------- */

static int create_symlink(int root, const char *text) {
    char name[256], target[MOST_PATH], there[MOST_PATH];
    const char *split = strstr(text, "::");
    if (!split || split == text || split[2] != '/' || (size_t)(split - text) >= sizeof target)
        return fail(WRONG_USE, "%s is not TARGET::/LINK", text);
    memcpy(target, text, (size_t)(split - text));
    target[split - text] = 0;

    int parent = open_parent(root, split + 2, 1, name, sizeof name);
    if (parent < 0) return fail(FAILED, "%s: %s", split + 2, strerror(errno));
    ssize_t length = readlinkat(parent, name, there, sizeof there - 1);
    if (length >= 0) {
        there[length] = 0;
        if (!strcmp(there, target)) return close(parent);
        unlinkat(parent, name, 0);
    } else if (errno == EINVAL) {
        close(parent); /* a file of the image, or one that was mounted: it is what it should lead to */
        return DONE;
    }
    int failed = symlinkat(target, parent, name);
    int cause = errno;
    close(parent);
    return failed ? fail(FAILED, "%s: %s", split + 2, strerror(cause)) : DONE;
}

static int create_symlinks(int root, const struct options *options) {
    int status = DONE;
    for (size_t i = 0; !status && i < options->count; i++) status = create_symlink(root, options->value[i]);
    return status;
}

static int change_modes(int root, const struct options *options) {
    char *end, name[256];
    long mode = options->mode ? strtol(options->mode, &end, 8) : -1;
    if (mode < 0 || mode > 07777 || *end) return fail(WRONG_USE, "--mode takes an octal number");
    for (size_t i = 0; i < options->count; i++) {
        int parent = open_parent(root, options->value[i], 0, name, sizeof name);
        int fd = parent < 0 ? -1 : openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT) continue;
        if (fd < 0 || fchmod(fd, (mode_t)mode))
            return fail(FAILED, "%s: %s", options->value[i], strerror(errno));
        close(fd);
        close(parent);
    }
    return DONE;
}

/* A file of its own, on no disk and under no name. */
static int detached_file(const char *content, size_t length) {
    int context = (int)syscall(SYS_fsopen, "tmpfs", 1 /* close on exec */);
    if (context < 0 || syscall(SYS_fsconfig, context, 6 /* create */, NULL, NULL, 0)) return -1;
    int place = (int)syscall(SYS_fsmount, context, 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (place < 0 || write_file(place, "params", content, length)) return -1;
    return (int)syscall(SYS_open_tree, place, "params", 1 /* a copy */ | O_CLOEXEC);
}

/* The driver's libraries make missing device nodes themselves, unless the module's parameters say no. */
static int keep_device_nodes(int root) {
    static const char yes[] = "ModifyDeviceFiles: 1";
    size_t length;
    int folder = open_inside(root, "/proc/driver/nvidia", 0);
    char *text = folder < 0 ? NULL : read_file(folder, "params", &length);
    char *place = text ? memmem(text, length, yes, sizeof yes - 1) : NULL;
    if (!place) return DONE;
    place[sizeof yes - 2] = '0';
    int file = detached_file(text, length);
    int target = openat(folder, "params", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 && target >= 0 && !syscall(SYS_move_mount, file, "", target, "", 0x4 | 0x40 /* by descriptor */))
        return DONE;
    /* The device cgroup forbids such nodes in any case: no reason to keep the container from starting. */
    fail(DONE, "/proc/driver/nvidia/params stays as it is: %s", strerror(errno));
    return DONE;
}

static int run(const struct options *options) {
    int root = find_root();
    if (root < 0) return FAILED;
    if (!strcmp(command, "create-symlinks")) return create_symlinks(root, options);
    if (!strcmp(command, "chmod")) return change_modes(root, options);
    if (!strcmp(command, "disable-device-node-modification")) return keep_device_nodes(root);
    if (!strcmp(command, "enable-cuda-compat")) {
        if (options->count != 1) return fail(WRONG_USE, "it takes one --host-driver-version");
        return enable_cuda_compat(root, options->value[0]) ? fail(FAILED, "%s", strerror(errno)) : DONE;
    }
    if (!update_ldcache(root, options->value, options->count)) return DONE;
    /* Libraries in the loader's own folders are found without its cache. */
    return fail(errno == EROFS ? DONE : FAILED, "/etc/ld.so.cache: %s", strerror(errno));
}

/* --- the command line --------------------------------------------------------------------------------------- */

static const struct {
    const char *command, *option;
} USES[] = {
    {"create-symlinks", "--link"},
    {"update-ldcache", "--folder"},
    {"enable-cuda-compat", "--host-driver-version"},
    {"disable-device-node-modification", ""},
    {"chmod", "--path"},
};

static const char *option_of(const char *wanted) {
    for (size_t i = 0; i < sizeof USES / sizeof *USES; i++)
        if (!strcmp(USES[i].command, wanted)) return USES[i].option;
    return NULL;
}

/* --name VALUE or --name=VALUE; NULL when `word` is another one. */
static const char *value_of(const char *name, char **argv, int argc, int *at) {
    size_t length = strlen(name);
    if (!length || strncmp(argv[*at], name, length)) return NULL;
    if (argv[*at][length] == '=') return argv[*at] + length + 1;
    return argv[*at][length] == 0 && *at + 1 < argc ? argv[++*at] : NULL;
}

static int print_help(void) {
    puts("nvidia-cdi-hook: started by a container runtime, as a CDI spec says\n");
    for (size_t i = 0; i < sizeof USES / sizeof *USES; i++)
        printf("  nvidia-cdi-hook %s %s%s\n", USES[i].command, USES[i].option, *USES[i].option ? " VALUE ..." : "");
    return DONE;
}

int main(int argc, char **argv) {
    static struct options options;
    int at = argc > 1 && !strcmp(argv[1], "hook") ? 2 : 1; /* as `nvidia-ctk hook` */
    if (argc <= at) return fail(WRONG_USE, "say what to do; --help lists it");
    if (!strcmp(argv[at], "--help") || !strcmp(argv[at], "-h")) return print_help();
    command = argv[at++];
    if (!strcmp(command, "update-application-profile"))
        return fail(DONE, "nothing is done: it serves programs that draw on several GPUs");
    const char *wanted = option_of(command), *value;
    if (!wanted) return fail(WRONG_USE, "there is no such command; --help lists them");
    for (; at < argc; at++) {
        if ((value = value_of(wanted, argv, argc, &at)) != NULL) {
            if (options.count == MOST_VALUES) return fail(WRONG_USE, "more than %d values", MOST_VALUES);
            options.value[options.count++] = value;
        } else if ((value = value_of("--mode", argv, argc, &at)) != NULL) {
            options.mode = value;
        } else {
            return fail(WRONG_USE, "%s is not understood", argv[at]);
        }
    }
    return run(&options);
}
