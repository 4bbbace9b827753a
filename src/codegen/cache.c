/* See cache.h for the form of an entry and for what is promised. */
#include "codegen/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEAL_MAGIC 0x316c656e72656b64ull /* "dkernel1" */
enum { SEAL_MAX_KEYS = 1 << 16 };

/* The end of an entry; the keys stand before it. digest covers the file up to itself. */
typedef struct seal {
    uint64_t magic, count, elf_bytes;
    uint64_t digest;
} seal;

hod_kernel_key hod__cache_key(uint64_t environment, const char *text)
{
    size_t n = strlen(text);
    return (hod_kernel_key){hod__hash(text, n, environment),
                            hod__hash(text, n, environment ^ 0x9e3779b97f4a7c15ull)};
}

/* ---- the directory ---- */

/* mkdir -p with mode 0700; true when dir exists at the end. */
static bool make_directories(const char *dir)
{
    char path[HOD_CACHE_PATH];
    snprintf(path, sizeof path, "%s", dir);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0700);
            *p = '/';
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Loading code from a directory is trusting all who can write there: that must be us alone. */
static bool ours_alone(const struct stat *s)
{
    return s->st_uid == geteuid() && !(s->st_mode & (S_IWGRP | S_IWOTH));
}

bool hod__cache_directory(char dir[HOD_CACHE_PATH])
{
    const char *own = getenv("HOD_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n;
    if (own && *own)
        n = snprintf(dir, HOD_CACHE_PATH, "%s", own);
    else if (xdg && *xdg == '/')
        n = snprintf(dir, HOD_CACHE_PATH, "%s/hod", xdg);
    else if (home && *home == '/')
        n = snprintf(dir, HOD_CACHE_PATH, "%s/.cache/hod", home);
    else
        return false;
    static atomic_flag told = ATOMIC_FLAG_INIT;
    struct stat s;
    bool good = n > 0 && n < HOD_CACHE_PATH - 128 && make_directories(dir) && stat(dir, &s) == 0 &&
                S_ISDIR(s.st_mode) && ours_alone(&s);
    if (!good && own && *own)
        hod__env_ignored("HOD_CACHE_DIR", "no directory of yours alone: nothing is kept", &told);
    return good;
}

static bool entry_path(const char *dir, hod_kernel_key key, char path[HOD_CACHE_PATH])
{
    return snprintf(path, HOD_CACHE_PATH, "%s/%016llx%016llx.so", dir, (unsigned long long)key.hi,
                    (unsigned long long)key.lo) < HOD_CACHE_PATH;
}

/* ---- reading ---- */

/* The whole of a regular file that is ours alone; NULL otherwise. free() it. */
static char *read_entry(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    struct stat s;
    char *data = NULL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && ours_alone(&s) && s.st_size > 0)
        data = malloc((size_t)s.st_size);
    size_t n = 0, want = data ? (size_t)s.st_size : 0;
    while (n < want) {
        ssize_t got = read(fd, data + n, want - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    if (!data || n < want) {
        free(data);
        return NULL;
    }
    *bytes = n;
    return data;
}

/* Whether data is an entry as hod__cache_seal left it, for this key among others. */
static bool sealed_for(const char *data, size_t bytes, hod_kernel_key key)
{
    seal s;
    if (bytes < sizeof s)
        return false;
    memcpy(&s, data + bytes - sizeof s, sizeof s);
    if (s.magic != SEAL_MAGIC || s.count > SEAL_MAX_KEYS ||
        s.elf_bytes != bytes - sizeof s - s.count * sizeof key ||
        s.digest != hod__hash(data, bytes - sizeof s.digest, SEAL_MAGIC))
        return false;
    for (uint64_t i = 0; i < s.count; i++) {
        hod_kernel_key k;
        memcpy(&k, data + s.elf_bytes + i * sizeof k, sizeof k);
        if (k.lo == key.lo && k.hi == key.hi)
            return true;
    }
    return false;
}

bool hod__cache_find(const char *dir, hod_kernel_key key, char path[HOD_CACHE_PATH])
{
    size_t bytes = 0;
    char *data = entry_path(dir, key, path) ? read_entry(path, &bytes) : NULL;
    bool good = data && sealed_for(data, bytes, key);
    free(data);
    if (good)
        utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW); /* used now: last to be pruned */
    return good;
}

/* ---- writing ---- */

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

int hod__cache_seal(const char *path, const hod_kernel_key *keys, int n)
{
    size_t elf = 0, tail = (size_t)n * sizeof *keys + sizeof(seal);
    if (chmod(path, 0600) != 0) /* the linker follows the umask, which may be a generous one */
        return -1;
    char *data = read_entry(path, &elf);
    char *whole = data ? realloc(data, elf + tail) : NULL;
    if (!whole) {
        free(data);
        return -1;
    }
    seal s = {.magic = SEAL_MAGIC, .count = (uint64_t)n, .elf_bytes = elf};
    memcpy(whole + elf, keys, (size_t)n * sizeof *keys);
    memcpy(whole + elf + tail - sizeof s, &s, sizeof s);
    s.digest = hod__hash(whole, elf + tail - sizeof s.digest, SEAL_MAGIC);
    memcpy(whole + elf + tail - sizeof s.digest, &s.digest, sizeof s.digest);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    bool good = fd >= 0 && write_all(fd, whole + elf, tail);
    if (fd >= 0 && close(fd) != 0)
        good = false;
    free(whole);
    return good ? 0 : -1;
}

/* A second name for the file at `from`; where the file system has no links, a copy. */
static bool link_or_copy(const char *from, const char *to)
{
    if (link(from, to) == 0)
        return true;
    size_t bytes = 0;
    char *data = read_entry(from, &bytes);
    int fd = data ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    bool good = fd >= 0 && write_all(fd, data, bytes);
    if (fd >= 0 && close(fd) != 0)
        good = false;
    free(data);
    if (fd >= 0 && !good)
        unlink(to);
    return good;
}

void hod__cache_publish(const char *dir, const char *path, const hod_kernel_key *keys, int n)
{
    for (int i = 0; i < n; i++) {
        char name[HOD_CACHE_PATH], aside[HOD_CACHE_PATH];
        if (!entry_path(dir, keys[i], name) ||
            snprintf(aside, sizeof aside, "%s.%d", path, i) >= (int)sizeof aside)
            continue;
        if (link_or_copy(path, aside)) {
            rename(aside, name);
            unlink(aside); /* rename leaves it when both were the same file already */
        }
    }
}

void hod__cache_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat s;
        if (strncmp(e->d_name, ".make-", 6) == 0 &&
            fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode) &&
            time(NULL) - s.st_mtime > 24 * 3600)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

/* ---- pruning ---- */

typedef struct aged {
    char name[48]; /* 32 digits and ".so" */
    double bytes;  /* its share of a file that several names have */
    struct timespec used;
} aged;

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const aged *)a)->used, *y = &((const aged *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* All entries of the directory, and their bytes. */
static double list_entries(DIR *d, aged **list, int64_t *n)
{
    int64_t cap = 0;
    double total = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat s;
        size_t length = strlen(e->d_name);
        if (length != 35 || strcmp(e->d_name + 32, ".so") != 0 ||
            fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
            continue;
        if (*n == cap) {
            aged *more = realloc(*list, (size_t)(cap ? 2 * cap : 1024) * sizeof **list);
            if (!more)
                break; /* what is listed is enough to begin with */
            *list = more;
            cap = cap ? 2 * cap : 1024;
        }
        aged *a = &(*list)[(*n)++];
        memcpy(a->name, e->d_name, length + 1);
        a->bytes = (double)s.st_size / (double)HOD_MAX(s.st_nlink, 1);
        a->used = s.st_mtim;
        total += a->bytes;
    }
    return total;
}

/* A process that has mapped a file keeps it; one that finds a name gone compiles again. So nobody
 * has to be asked. Goes down to three quarters, so that the next compilation need not prune
 * again. */
void hod__cache_prune(const char *dir, int64_t most)
{
    DIR *d = opendir(dir);
    aged *list = NULL;
    int64_t n = 0;
    double total = d ? list_entries(d, &list, &n) : 0;
    if (total > (double)most) {
        qsort(list, (size_t)n, sizeof *list, by_use);
        for (int64_t i = 0; i < n && total > 0.75 * (double)most; i++)
            if (unlinkat(dirfd(d), list[i].name, 0) == 0)
                total -= list[i].bytes;
    }
    free(list);
    if (d)
        closedir(d);
}

int64_t hod__cache_most(void)
{
    enum { DEFAULT = 256, MOST = 1 << 24 };
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *text = getenv("HOD_CACHE_MB");
    if (!text || !*text)
        return (int64_t)DEFAULT * 1000000;
    char *end;
    long long mb = strtoll(text, &end, 10);
    if (*end || mb < 1 || mb > MOST) {
        hod__env_ignored("HOD_CACHE_MB", "wanted are megabytes, 1 to 16777216", &told);
        mb = DEFAULT;
    }
    return mb * 1000000;
}

int hod__cache_lock(const char *dir, double seconds)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    double end = hod__seconds() + seconds;
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR && (errno != EWOULDBLOCK || hod__seconds() > end)) {
            close(fd);
            return -1;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return fd;
}

void hod__cache_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}
