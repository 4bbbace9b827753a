/* Kernels from text: compiled once, found again, never believed when damaged (B42, B34).
 *
 * What is tried twice by one machine is tried in child processes, because a process keeps what it
 * has loaded.
 */
#include "base/base.h"
#include "codegen/cache.h"
#include "codegen/toolchain.h"
#include "harness.h"
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNELS = 6, NOBODY = 65534 };

static char name_room[KERNELS][32], text_room[KERNELS][512];

/* Kernel k computes tanh(x) + k. */
static void make_sources(hod_kernel_source *s, int n)
{
    for (int k = 0; k < n; k++) {
        snprintf(name_room[k], sizeof name_room[k], "k_%d", k);
        snprintf(text_room[k], sizeof text_room[k],
                 "void k_%d(void *const *buf, const i64 *arg, i64 begin, i64 end)\n{\n"
                 "    const float *x = buf[0];\n    float *y = buf[1];\n#pragma omp simd\n"
                 "    for (i64 i = begin; i < end; i++)\n        y[i] = r_tanh(x[i]) + %d;\n}\n",
                 k, k);
        s[k] = (hod_kernel_source){name_room[k], text_room[k]};
    }
}

/* Builds n kernels and checks that each computes what its text says. */
static hod_toolchain_report build_and_check(int n)
{
    hod_kernel_source source[KERNELS];
    hod_kernel *kernel[KERNELS] = {0};
    hod_toolchain_report report = {0};
    make_sources(source, n);
    if (hod__toolchain_build(source, n, kernel, &report) != 0)
        FAIL("%s", hod_error());
    for (int k = 0; k < n; k++) {
        float x[37], y[37];
        for (int i = 0; i < 37; i++)
            x[i] = (float)(i - 18) / 4;
        kernel[k]((void *[]){x, y}, NULL, 0, 37);
        for (int i = 0; i < 37; i++)
            NEAR(y[i], tanh(x[i]) + k, 1e-6); /* a float's ulp at 6 is 4.8e-7 */
    }
    EQ_INT(report.compiled + report.from_disk + report.from_memory, n);
    return report;
}

/* The same in a process of its own: how many were compiled, or -1 when it did not end well. */
static pid_t child_starts(int n)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(100 + build_and_check(n).compiled);
    return pid;
}

static int child_ends(pid_t pid)
{
    int status;
    EQ_INT(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) >= 100 ? WEXITSTATUS(status) - 100 : -1;
}

static int child_compiles(int n)
{
    return child_ends(child_starts(n));
}

static const char *use_cache(const char *name)
{
    const char *dir = scratch(name);
    setenv("HOD_CACHE_DIR", dir, 1);
    return dir;
}

/* Calls f for each entry's path; returns their number. */
static int each_file(const char *dir, void (*f)(const char *path))
{
    DIR *d = opendir(dir);
    int n = 0;
    CHECK(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        CHECK(strstr(path, ".make-") == NULL); /* nothing half-made stays behind */
        if (f)
            f(path);
        n++;
    }
    closedir(d);
    return n;
}

/* ---- the three places ---- */

TEST(toolchain_compiles_then_remembers)
{
    const char *dir = use_cache("cache");
    hod_toolchain_report first = build_and_check(KERNELS), again = build_and_check(KERNELS);
    EQ_INT(first.compiled, KERNELS);
    CHECK(first.seconds > 0);
    EQ_INT(again.from_memory, KERNELS);
    NEAR(again.seconds, 0, 0);
    EQ_INT(each_file(dir, NULL), KERNELS);
}

TEST(toolchain_next_process_finds_them_on_disk)
{
    use_cache("cache");
    EQ_INT(child_compiles(3), 3);
    EQ_INT(child_compiles(KERNELS), KERNELS - 3);
    hod_toolchain_report r = build_and_check(KERNELS);
    EQ_INT(r.from_disk, KERNELS);
    CHECK(r.seconds == 0);
}

TEST(toolchain_equal_texts_are_one_kernel)
{
    use_cache("cache");
    hod_kernel_source source[3];
    hod_kernel *kernel[3];
    hod_toolchain_report report = {0};
    make_sources(source, 2);
    source[2] = source[0];
    EQ_INT(hod__toolchain_build(source, 3, kernel, &report), 0);
    EQ_INT(report.compiled, 2);
    EQ_INT(report.from_memory, 1);
    CHECK(kernel[0] == kernel[2] && kernel[0] != kernel[1]);
}

TEST(toolchain_same_name_other_text_is_another_kernel)
{
    use_cache("cache");
    hod_kernel_source a = {"k", "void k(void *const *buf, const i64 *arg, i64 begin, i64 end)\n"
                                "{ *(i64 *)buf[0] = 1; }"},
                      b = {"k", "void k(void *const *buf, const i64 *arg, i64 begin, i64 end)\n"
                                "{ *(i64 *)buf[0] = 2; }"};
    hod_kernel *f[2];
    EQ_INT(hod__toolchain_build(&a, 1, &f[0], NULL), 0);
    EQ_INT(hod__toolchain_build(&b, 1, &f[1], NULL), 0);
    for (int i = 0; i < 2; i++) {
        int64_t seen = 0;
        f[i]((void *[]){&seen}, NULL, 0, 1);
        EQ_INT(seen, i + 1);
    }
}

static void *thread_builds(void *n)
{
    hod_kernel_source source[KERNELS];
    hod_kernel *kernel[KERNELS];
    for (int k = 0; k < KERNELS; k++)
        source[k] = (hod_kernel_source){name_room[k], text_room[k]};
    CHECK(hod__toolchain_build(source, (int)(intptr_t)n, kernel, NULL) == 0);
    return (void *)(intptr_t)kernel[0];
}

TEST(toolchain_threads_build_at_once)
{
    use_cache("cache");
    hod_kernel_source source[KERNELS];
    make_sources(source, KERNELS);
    pthread_t thread[4];
    void *first[4];
    for (int i = 0; i < 4; i++)
        EQ_INT(pthread_create(&thread[i], NULL, thread_builds, (void *)(intptr_t)(i + 2)), 0);
    for (int i = 0; i < 4; i++)
        EQ_INT(pthread_join(thread[i], &first[i]), 0);
    for (int i = 1; i < 4; i++)
        CHECK(first[i] == first[0]);
    EQ_INT(build_and_check(KERNELS).from_memory, KERNELS - 1); /* 5 were the most asked for */
}

/* ---- wrong use ---- */

TEST(toolchain_compile_error_names_the_line)
{
    use_cache("cache");
    hod_kernel_source s = {"k_bad", "void k_bad(void *const *buf, const i64 *arg, i64 b, i64 e)\n"
                                    "{\n    nothing[0] = 1;\n}"};
    hod_kernel *k;
    EQ_INT(hod__toolchain_build(&s, 1, &k, NULL), -1);
    EQ_INT(hod_error_kind_pending(), HOD_ERROR_COMPILE);
    CHECK(strncmp(hod_error(), "compiler: k_bad:3:5: error: ", 28) == 0);
    hod_error_take(NULL);
    EQ_INT(each_file(scratch("cache"), NULL), 0);
    EQ_INT(build_and_check(2).compiled, 2); /* and the next request is served */
}

TEST(toolchain_without_compiler_is_an_error)
{
    use_cache("cache");
    setenv("HOD_CC", "/nowhere/cc", 1);
    hod_kernel_source s;
    hod_kernel *k;
    make_sources(&s, 1);
    ERROR_IS("HOD_CC: there is no program /nowhere/cc", hod__toolchain_build(&s, 1, &k, NULL));
    unsetenv("HOD_CC");
    char *path = hod__strdup(getenv("PATH"));
    setenv("PATH", scratch("empty"), 1);
    ERROR_IS("no C compiler: none of cc, gcc, clang is in PATH",
             hod__toolchain_build(&s, 1, &k, NULL));
    setenv("PATH", path, 1);
    free(path);
}

TEST(toolchain_another_compiler_is_another_entry)
{
    if (access("/usr/bin/clang", X_OK) != 0)
        SKIP("clang is not installed");
    use_cache("cache");
    EQ_INT(child_compiles(2), 2);
    setenv("HOD_CC", "clang", 1);
    EQ_INT(child_compiles(2), 2);
    EQ_INT(child_compiles(2), 0);
    EQ_INT(each_file(scratch("cache"), NULL), 4);
}

TEST(toolchain_text_is_whole)
{
    hod_kernel_source s;
    make_sources(&s, 1);
    char *text = hod__toolchain_text(&s);
    CHECK(text && strstr(text, "r_tanh(float x)") && strstr(text, "r_uniform(") &&
          strstr(text, s.text));
    free(text);
}

/* ---- B42: concurrent writers ---- */

TEST(toolchain_eight_processes_race)
{
    const char *dir = use_cache("cache");
    pid_t pid[8];
    for (int i = 0; i < 8; i++)
        pid[i] = child_starts(KERNELS);
    for (int i = 0; i < 8; i++)
        CHECK(child_ends(pid[i]) >= 0);
    EQ_INT(each_file(dir, NULL), KERNELS);
    EQ_INT(child_compiles(KERNELS), 0);
}

TEST(toolchain_killed_compiler_run_leaves_no_harm)
{
    use_cache("cache");
    for (int i = 1; i <= 5; i++) {
        pid_t pid = child_starts(KERNELS);
        usleep((useconds_t)i * 20000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        CHECK(child_compiles(KERNELS) >= 0);
    }
    EQ_INT(child_compiles(KERNELS), 0);
}

/* ---- B42: damage ---- */

static void halve(const char *path)
{
    struct stat s;
    CHECK(stat(path, &s) == 0 && truncate(path, s.st_size / 2) == 0);
}

static void empty(const char *path)
{
    CHECK(truncate(path, 0) == 0);
}

static int flip_percent;

static void flip(const char *path)
{
    struct stat s;
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && fstat(fd, &s) == 0);
    char c;
    off_t at = (s.st_size - 1) * flip_percent / 100;
    CHECK(pread(fd, &c, 1, at) == 1);
    c ^= 4;
    CHECK(pwrite(fd, &c, 1, at) == 1 && close(fd) == 0);
}

/* An entry's names are links to one file; each damage is to be done once. */
static ino_t damaged[64];
static int n_damaged;
static void (*damage)(const char *path);

static void damage_once(const char *path)
{
    struct stat s;
    CHECK(stat(path, &s) == 0 && n_damaged < 64);
    for (int i = 0; i < n_damaged; i++)
        if (damaged[i] == s.st_ino)
            return;
    damaged[n_damaged++] = s.st_ino;
    damage(path);
}

static void damage_all(const char *dir, void (*how)(const char *path))
{
    n_damaged = 0;
    damage = how;
    EQ_INT(each_file(dir, damage_once), KERNELS);
}

TEST(toolchain_damaged_entries_are_rebuilt)
{
    const char *dir = use_cache("cache");
    EQ_INT(child_compiles(KERNELS), KERNELS);
    damage_all(dir, halve);
    EQ_INT(child_compiles(KERNELS), KERNELS);
    damage_all(dir, empty);
    EQ_INT(child_compiles(KERNELS), KERNELS);
    for (flip_percent = 0; flip_percent <= 100; flip_percent += 10) {
        damage_all(dir, flip);
        EQ_INT(child_compiles(KERNELS), KERNELS);
        EQ_INT(child_compiles(KERNELS), 0);
    }
}

static int files_seen;

static void remove_first(const char *path)
{
    if (files_seen++ == 0)
        CHECK(unlink(path) == 0);
}

TEST(toolchain_one_entry_deleted)
{
    const char *dir = use_cache("cache");
    EQ_INT(child_compiles(KERNELS), KERNELS);
    each_file(dir, remove_first);
    EQ_INT(child_compiles(KERNELS), 1);
}

static char other_entry[512];

static void take_place_of_others(const char *path)
{
    if (!other_entry[0])
        snprintf(other_entry, sizeof other_entry, "%s", path);
    else
        CHECK(unlink(path) == 0 && link(other_entry, path) == 0);
}

/* Two kernels of one name in two files: the seal, not the symbol, tells them apart. */
TEST(toolchain_entry_under_a_foreign_name_is_refused)
{
    const char *dir = use_cache("cache");
    static const char *const texts[] = {
        "void k(void *const *buf, const i64 *arg, i64 b, i64 e) { *(i64 *)buf[0] = 1; }",
        "void k(void *const *buf, const i64 *arg, i64 b, i64 e) { *(i64 *)buf[0] = 2; }"};
    for (int round = 0; round < 2; round++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            for (int i = 0; i < 2; i++) {
                hod_kernel_source s = {"k", texts[i]};
                hod_kernel *k;
                int64_t seen = 0;
                EQ_INT(hod__toolchain_build(&s, 1, &k, NULL), 0);
                k((void *[]){&seen}, NULL, 0, 1);
                EQ_INT(seen, i + 1);
            }
            _exit(100);
        }
        EQ_INT(child_ends(pid), 0);
        EQ_INT(each_file(dir, round ? NULL : take_place_of_others), 2);
    }
}

/* ---- B42: directories that cannot be used ---- */

/* A child of another user, where we are root; plain otherwise. */
static int child_compiles_as_nobody(int n)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 &&
            (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0))
            _exit(99);
        _exit(100 + build_and_check(n).compiled);
    }
    return child_ends(pid);
}

TEST(toolchain_read_only_directory_still_serves)
{
    const char *dir = use_cache("cache");
    CHECK(mkdir(dir, 0700) == 0 && chmod(scratch(""), 0755) == 0);
    if (geteuid() == 0)
        CHECK(chown(dir, NOBODY, NOBODY) == 0);
    EQ_INT(child_compiles_as_nobody(2), 2);
    CHECK(chmod(dir, 0500) == 0);
    EQ_INT(child_compiles_as_nobody(2), 0);
    EQ_INT(child_compiles_as_nobody(4), 2);
    EQ_INT(child_compiles_as_nobody(4), 2); /* could not be kept */
    EQ_INT(each_file(dir, NULL), 2);
}

TEST(toolchain_no_directory_still_works)
{
    setenv("HOD_CACHE_DIR", "/dev/null/cache", 1);
    EQ_INT(child_compiles(2), 2);
    unsetenv("HOD_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    EQ_INT(child_compiles(2), 2);
    setenv("TMPDIR", "/dev/null/tmp", 1);
    EQ_INT(child_compiles(2), 2);
}

TEST(toolchain_default_directories)
{
    unsetenv("HOD_CACHE_DIR");
    setenv("HOME", scratch("home"), 1);
    unsetenv("XDG_CACHE_HOME");
    EQ_INT(child_compiles(1), 1);
    struct stat s;
    EQ_INT(stat(scratch("home/.cache/hod"), &s), 0);
    EQ_INT(s.st_mode & 0777, 0700);
    setenv("XDG_CACHE_HOME", scratch("xdg"), 1);
    EQ_INT(child_compiles(1), 1);
    EQ_INT(each_file(scratch("xdg/hod"), NULL), 1);
}

TEST(toolchain_directory_open_to_others_is_refused)
{
    const char *dir = use_cache("cache");
    EQ_INT(child_compiles(2), 2);
    CHECK(chmod(dir, 0777) == 0);
    EQ_INT(child_compiles(2), 2); /* what lies there is not loaded */
    CHECK(chmod(dir, 0700) == 0);
    EQ_INT(child_compiles(2), 0);
    if (geteuid() == 0) {
        CHECK(chown(dir, NOBODY, NOBODY) == 0);
        EQ_INT(child_compiles(2), 2);
    }
}

static void open_to_others(const char *path)
{
    CHECK(chmod(path, 0666) == 0);
}

TEST(toolchain_entry_open_to_others_is_refused)
{
    const char *dir = use_cache("cache");
    EQ_INT(child_compiles(KERNELS), KERNELS);
    each_file(dir, open_to_others);
    EQ_INT(child_compiles(KERNELS), KERNELS);
    EQ_INT(child_compiles(KERNELS), 0);
}

TEST(toolchain_generous_umask_is_no_harm)
{
    use_cache("cache");
    umask(0);
    EQ_INT(child_compiles(2), 2);
    EQ_INT(child_compiles(2), 0);
}

/* A file system of our own with less room than an entry needs. */
TEST(toolchain_full_disk_still_works)
{
    const char *dir = use_cache("cache");
    CHECK(mkdir(dir, 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("hod", dir, "tmpfs", 0, "size=16k,mode=0700") != 0)
        SKIP("may not mount a small file system");
    EQ_INT(child_compiles(KERNELS), KERNELS);
    EQ_INT(each_file(dir, NULL), 0);
    CHECK(mount("hod", dir, "tmpfs", MS_REMOUNT | MS_NOEXEC, "size=16m") == 0);
    EQ_INT(child_compiles(KERNELS), KERNELS); /* written, but may not be executed from there */
    CHECK(umount(dir) == 0);
}

/* ---- B34 ---- */

static uint32_t fp_mode(void)
{
#ifdef __x86_64__
    return __builtin_ia32_stmxcsr() & 0xffc0u; /* without the sticky exception flags */
#else
    return 0;
#endif
}

TEST(toolchain_loading_leaves_fp_mode_alone)
{
    use_cache("cache");
    uint32_t mode = fp_mode();
    build_and_check(2);
    EQ_INT(fp_mode(), mode);
    volatile double d = 5e-324;
    volatile float f = 1e-39f, one = 1;
    CHECK(d != 0 && f * one != 0);
}

TEST(toolchain_kernels_know_nan)
{
    use_cache("cache");
    hod_kernel_source s = {"k_relu",
                           "void k_relu(void *const *buf, const i64 *arg, i64 begin, i64 end)\n{\n"
                           "    const float *x = buf[0];\n    float *y = buf[1], sum = 0;\n"
                           "#pragma omp simd reduction(+ : sum)\n"
                           "    for (i64 i = begin; i < end; i++)\n"
                           "        sum += x[i] <= 0 ? 0 : x[i];\n"
                           "    y[0] = sum;\n    y[1] = x[0] != x[0];\n}"};
    hod_kernel *k;
    EQ_INT(hod__toolchain_build(&s, 1, &k, NULL), 0);
    float x[40] = {NAN, 1, -1}, y[2];
    k((void *[]){x, y}, NULL, 0, 40);
    CHECK(isnan(y[0]) && y[1] == 1);
}

/* The cache keeps what was used last, and counts a file with two names once. */
TEST(toolchain_prunes_what_was_used_longest_ago)
{
    static char bytes[1000];
    char name[64], path[256], second[300];
    char dir[200];
    snprintf(dir, sizeof dir, "%s", scratch("cache"));
    CHECK(mkdir(dir, 0700) == 0);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "cache/%032x.so", i);
        scratch_write(name, bytes, sizeof bytes);
        snprintf(path, sizeof path, "%s/%032x.so", dir, i);
        struct timespec used[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + (i == 0 ? 99 : i)}};
        CHECK(utimensat(AT_FDCWD, path, used, 0) == 0);
    }
    scratch_write("cache/other", bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/%032x.so", dir, 7);
    snprintf(second, sizeof second, "%s/%032x.so", dir, 8);
    CHECK(link(path, second) == 0);
    hod__cache_prune(dir, 8000); /* 8 files, 9 names: nothing to do */
    CHECK(access(second, F_OK) == 0);
    hod__cache_prune(dir, 6000); /* down to 4500: 1, 2, 3, 4 go */
    for (int i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "%s/%032x.so", dir, i);
        EQ_INT(access(path, F_OK) == 0, i == 0 || i > 4);
    }
    snprintf(path, sizeof path, "%s/other", dir);
    CHECK(access(path, F_OK) == 0);
}
