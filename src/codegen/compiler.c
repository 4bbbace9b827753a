/* See compiler.h. The compiler is started without a shell, so no path needs quoting, and in a
 * process group of its own: an interrupt typed at a terminal is for the program to handle. */
#include "codegen/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* FP semantics first: no -ffast-math, and a*b+c rounds twice unless the preamble says otherwise,
 * as in hod itself, so compiled equals eager wherever the order of operations is the same. No
 * start-up files: loading a kernel runs no code, so it cannot change the floating-point mode, as
 * crtfastmath.o would. -lm is for the f64 functions. */
static const char *const before[] = {
    "-std=gnu11",
    "-O2",
    "-ftree-vectorize",
    "-fopenmp-simd",
#ifdef __x86_64__
    "-march=native",
    "-mprefer-vector-width=512",
#else
    "-mcpu=native",
#endif
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",
    "-pipe",
    "-shared",
    "-nostartfiles",
    "-o",
};
static const char *const after[] = {"-Wl,--as-needed", "-lm"};

/* ---- starting and ending ---- */

/* The child's environment: ours with LC_ALL=C and TMPDIR=dir, and nothing preloaded. The array and
 * its last string are the caller's to free. */
static char **child_environment(const char *dir)
{
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **env = hod__alloc(n + 3, sizeof *env);
    char *tmp = hod__format("TMPDIR=%s", dir);
    if (!env || !tmp) {
        free(env);
        free(tmp);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0 && strncmp(environ[i], "LC_ALL=", 7) != 0 &&
            strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            env[k++] = environ[i];
    env[k++] = (char *)"LC_ALL=C";
    env[k] = tmp;
    return env;
}

static void child_environment_free(char **env)
{
    size_t n = 0;
    while (env[n])
        n++;
    free(env[n - 1]);
    free(env);
}

static hod_compilation start(char *const *argv, const char *dir)
{
    hod_compilation job = {.pid = -1, .out = memfd_create("compiler", MFD_CLOEXEC)};
    char **env = child_environment(dir);
    if (!env)
        return job;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGTERM);
    sigaddset(&defaults, SIGCHLD);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (job.out >= 0)
        posix_spawn_file_actions_adddup2(&files, job.out, 1);
    else
        posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    if (posix_spawn(&job.pid, argv[0], &files, &attr, argv, env) != 0)
        job.pid = -1;
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    child_environment_free(env);
    return job;
}

bool hod__compiler_wait(hod_compilation *job)
{
    int status = -1;
    pid_t got = -1;
    if (job->pid > 0)
        while ((got = waitpid(job->pid, &status, 0)) < 0 && errno == EINTR)
            ;
    size_t n = 0;
    if (job->out >= 0) {
        ssize_t bytes = pread(job->out, job->said, sizeof job->said - 1, 0);
        n = bytes > 0 ? (size_t)bytes : 0;
        close(job->out);
    }
    job->said[n] = 0;
    bool lost = job->pid > 0 && got < 0;
    return lost || (got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

hod_compilation hod__compiler_start(const hod_compiler *c, const char *source, const char *object,
                                    const char *dir)
{
    char *argv[HOD_COUNT(before) + HOD_COUNT(after) + 4];
    int n = 0;
    argv[n++] = (char *)c->path;
    for (int i = 0; i < HOD_COUNT(before); i++)
        argv[n++] = (char *)before[i];
    argv[n++] = (char *)object;
    argv[n++] = (char *)source;
    for (int i = 0; i < HOD_COUNT(after); i++)
        argv[n++] = (char *)after[i];
    argv[n] = NULL;
    return start(argv, dir);
}

/* ---- finding ---- */

/* The first executable of this name in PATH; a name with a slash is a path already. */
static bool find_program(const char *name, char path[HOD_COMPILER_PATH])
{
    if (strchr(name, '/'))
        return snprintf(path, HOD_COMPILER_PATH, "%s", name) < HOD_COMPILER_PATH &&
               access(path, X_OK) == 0;
    const char *p = getenv("PATH");
    for (p = p ? p : "/usr/bin:/bin"; *p;) {
        int n = (int)strcspn(p, ":");
        if (n > 0 && snprintf(path, HOD_COMPILER_PATH, "%.*s/%s", n, p, name) < HOD_COMPILER_PATH &&
            access(path, X_OK) == 0)
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

/* What -march=native depends on: the lines of the first processor in /proc/cpuinfo that do not
 * change while it runs. */
static uint64_t hash_processor(uint64_t h)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[8192];
    while (f && fgets(line, sizeof line, f) && line[0] != '\n')
        if (!strstr(line, "MHz") && strncmp(line, "bogomips", 8) != 0)
            h = hod__hash(line, strlen(line), h);
    if (f)
        fclose(f);
    return h;
}

static int identify(hod_compiler *c)
{
    hod_compilation job = start((char *const[]){c->path, (char *)"--version", NULL}, "/tmp");
    if (!hod__compiler_wait(&job))
        return HOD_FAIL_RC(COMPILE, "%.300s --version does not run", c->path);
    uint64_t h = hash_processor(hod__hash(job.said, strlen(job.said), 0));
    for (int i = 0; i < HOD_COUNT(before); i++)
        h = hod__hash(before[i], strlen(before[i]), h);
    c->identity = h;
    return 0;
}

int hod__compiler_find(hod_compiler *out)
{
    static hod_compiler last;
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *own = getenv("HOD_CC");
    bool asked = own && *own, found = asked && find_program(own, out->path);
    if (asked && !found)
        return HOD_FAIL_RC(COMPILE, "HOD_CC: there is no program %.300s", own);
    for (int i = 0; i < HOD_COUNT(names) && !found; i++)
        found = find_program(names[i], out->path);
    if (!found)
        return HOD_FAIL_RC(COMPILE, "no C compiler: none of cc, gcc, clang is in PATH");
    if (strcmp(out->path, last.path) != 0) {
        if (identify(out) != 0)
            return -1;
        last = *out;
    }
    *out = last;
    return 0;
}
