/* launch [--log FILE] [--grace SECONDS] [--cgroup PATH --proc DIR] -- program args...
 * The first process of a simulated container. With a cgroup, the node's /proc (DIR) says for as long as the
 * program runs that it is in it: DIR/<pid>/cgroup.
 *
 * Starts the program in a session of its own, hands signals on, reaps whatever is left to it, and ends with
 * the program's status (128 + signal). After SIGTERM the program has `grace` seconds (30), two if whoever
 * started the container is gone; SIGRTMIN ends all at once (SIGKILL would leave grandchildren). Nothing that
 * the program started outlives it, whether or not it made sessions of its own; and nothing outlives whoever
 * started the container, even if that was killed with -9. The kernel counts as "whoever" the thread that
 * forked: start containers from a thread that stays.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ORPHAN_GRACE_S 2.0
static const int handed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};

static void die(const char *what) {
    fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
    exit(126);
}

/* Ends the process when its parent ends; `parent` is who it was at start, in case it has ended already. */
static void die_with(pid_t parent, int signal_number) {
    if (prctl(PR_SET_PDEATHSIG, signal_number) != 0) die("prctl");
    if (getppid() != parent) _exit(128 + SIGTERM);
}

static void redirect_output(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) die(path);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
}

/* What the kernel of the simulated node says of a process: one line in DIR/<pid>/cgroup. Who cannot be written
 * down runs all the same. */
static void write_cgroup(const char *proc, const char *cgroup) {
    char path[4096];
    if (!proc || !cgroup) return;
    snprintf(path, sizeof path, "%s/%d", proc, (int)getpid());
    if (mkdir(path, 0755) != 0 && errno != EEXIST) return;
    snprintf(path, sizeof path, "%s/%d/cgroup", proc, (int)getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return;
    dprintf(file, "0::%s\n", cgroup);
    close(file);
}

static void remove_cgroup(const char *proc, pid_t pid) {
    char path[4096];
    if (!proc) return;
    snprintf(path, sizeof path, "%s/%d/cgroup", proc, (int)pid);
    unlink(path);
    snprintf(path, sizeof path, "%s/%d", proc, (int)pid);
    rmdir(path);
}

static pid_t parent_of(const char *pid) {
    char path[300], line[1024];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    if (length <= 0) return 0;
    line[length] = 0;
    char *end = strrchr(line, ')'); /* "pid (command) state parent": the command may hold anything */
    return end && strlen(end) > 4 ? (pid_t)atoi(end + 4) : 0;
}

static int kill_children(void) {
    DIR *processes = opendir("/proc");
    pid_t self = getpid();
    int found = 0;
    if (!processes) return 0;
    for (struct dirent *entry; (entry = readdir(processes));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || parent_of(entry->d_name) != self) continue;
        kill((pid_t)atoi(entry->d_name), SIGKILL);
        found++;
    }
    closedir(processes);
    return found;
}

/* As the subreaper this process inherits the children of whatever it kills: done when there are none. */
static void kill_descendants(void) {
    for (;;) {
        kill_children();
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD) return;
    }
}

typedef struct {
    const char *log, *cgroup, *proc;
    double grace;
} options;

static void run_program(char **argv, const options *asked, pid_t parent, const sigset_t *inherited) {
    die_with(parent, SIGKILL);
    setsid();
    write_cgroup(asked->proc, asked->cgroup);
    if (asked->log) redirect_output(asked->log);
    sigprocmask(SIG_SETMASK, inherited, NULL);
    execvp(argv[0], argv);
    fprintf(stderr, "launch: %s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static int status_of(int raw) { return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw); }

/* Reaps all that has ended; 1 when the program is among it. */
static int reap(pid_t program, int *status) {
    int raw, ended = 0;
    for (pid_t pid; (pid = waitpid(-1, &raw, WNOHANG)) > 0;)
        if (pid == program) {
            *status = status_of(raw);
            ended = 1;
        }
    return ended;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Sleeps in sigtimedwait until the program ends, or has had its time after SIGTERM, or SIGRTMIN comes. */
static int serve(pid_t program, pid_t parent, double grace, const sigset_t *watched) {
    int status = 128 + SIGKILL;
    double deadline = 0;
    for (;;) {
        double left = deadline - seconds_now();
        if (deadline > 0 && left <= 0) return status;
        struct timespec limit = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        int number = sigtimedwait(watched, NULL, deadline > 0 ? &limit : NULL);
        if (number == SIGRTMIN) return status;
        if (number == SIGCHLD) {
            if (reap(program, &status)) return status;
        } else if (number > 0) {
            if (kill(-program, number) != 0) kill(program, number);
            if (number == SIGTERM && getppid() != parent && grace > ORPHAN_GRACE_S) grace = ORPHAN_GRACE_S;
            if (number == SIGTERM) deadline = seconds_now() + grace;
        }
    }
}

int main(int argc, char **argv) {
    options asked = {.grace = 30};
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--log") == 0) asked.log = argv[i + 1];
        else if (i + 1 < argc && strcmp(argv[i], "--grace") == 0) asked.grace = atof(argv[i + 1]);
        else if (i + 1 < argc && strcmp(argv[i], "--cgroup") == 0) asked.cgroup = argv[i + 1];
        else if (i + 1 < argc && strcmp(argv[i], "--proc") == 0) asked.proc = argv[i + 1];
        else break;
    }
    if (i + 1 >= argc || strcmp(argv[i], "--") != 0) {
        fprintf(stderr, "usage: launch [--log FILE] [--grace SECONDS] [--cgroup PATH --proc DIR] -- program [args...]\n");
        return 2;
    }
    pid_t parent = getppid();
    sigset_t watched, inherited;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGRTMIN);
    for (size_t n = 0; n < sizeof handed_on / sizeof *handed_on; n++) sigaddset(&watched, handed_on[n]);
    sigprocmask(SIG_BLOCK, &watched, &inherited);
    die_with(parent, SIGTERM);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) die("prctl");
    pid_t self = getpid(), program = fork();
    if (program < 0) die("fork");
    if (program == 0) run_program(argv + i + 1, &asked, self, &inherited);
    int status = serve(program, parent, asked.grace, &watched);
    kill_descendants();
    remove_cgroup(asked.proc, program);
    return status;
}
