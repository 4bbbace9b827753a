/* Atomic files: write aside, flush, rename.
 *
 *     net.safetensors.tmp-4711-0   written, fsync'ed
 *     net.safetensors              rename: from now on the new one, before it the old one
 *     .                            fsync of the directory, so that the rename survives a power cut
 *
 * A process killed in between leaves the aside file, which no reader looks at; the next save into
 * the same directory sweeps it away once its writer is gone.
 */
#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char aside_mark[] = ".tmp-";

struct hod_sum {
    XXH3_state_t *state;
};

hod_sum *hod__sum_new(void)
{
    hod_sum *s = hod__alloc(1, sizeof *s);
    if (s && (!(s->state = XXH3_createState()) || XXH3_64bits_reset(s->state) != XXH_OK)) {
        HOD_FAIL(MEMORY, "checksum: no memory");
        hod__sum_end(s);
        s = NULL;
    }
    return s;
}

void hod__sum_add(hod_sum *s, const void *data, int64_t n)
{
    XXH3_64bits_update(s->state, data, (size_t)n);
}

uint64_t hod__sum_end(hod_sum *s)
{
    if (!s)
        return 0;
    uint64_t sum = s->state ? XXH3_64bits_digest(s->state) : 0;
    XXH3_freeState(s->state);
    free(s);
    return sum;
}

int hod__file_begin(hod_new_file *f, const char *path)
{
    static atomic_int number;
    *f = (hod_new_file){0};
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return HOD_FAIL_RC(IO, "%s: exists and is not a regular file", path);
    f->path = hod__strdup(path);
    f->aside =
        hod__format("%s%s%d-%d", path, aside_mark, (int)getpid(), atomic_fetch_add(&number, 1));
    if (!f->path || !f->aside) {
        free(f->path);
        free(f->aside);
        *f = (hod_new_file){0};
        return -1;
    }
    int fd = open(f->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 && !(f->out = fdopen(fd, "wb"))) {
        close(fd);
        unlink(f->aside);
    }
    if (!f->out) {
        HOD_FAIL(IO, "%s: %s", path, strerror(errno));
        free(f->path);
        free(f->aside);
        *f = (hod_new_file){0};
        return -1;
    }
    return 0;
}

int hod__file_write(hod_new_file *f, const void *data, int64_t n)
{
    if (n > 0 && fwrite(data, 1, (size_t)n, f->out) != (size_t)n)
        return HOD_FAIL_RC(IO, "%s: %s", f->path, strerror(errno));
    if (f->sum)
        hod__sum_add(f->sum, data, n);
    return 0;
}

void hod__file_abandon(hod_new_file *f)
{
    if (f->out)
        fclose(f->out);
    if (f->aside)
        unlink(f->aside);
    free(f->path);
    free(f->aside);
    *f = (hod_new_file){0};
}

/* Flushes the directory of `path`, which is cut there. Some file systems cannot; the rename is done
 * all the same. */
static void flush_directory(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[1] = 0;
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

int hod__file_commit(hod_new_file *f)
{
    int bad = fflush(f->out) || fsync(fileno(f->out));
    int why = errno;
    if (fclose(f->out) && !bad) {
        bad = 1;
        why = errno;
    }
    f->out = NULL;
    if (!bad && rename(f->aside, f->path)) {
        bad = 1;
        why = errno;
    }
    if (bad) {
        HOD_FAIL(IO, "%s: %s", f->path, strerror(why));
        hod__file_abandon(f);
        return -1;
    }
    flush_directory(f->path);
    free(f->path);
    free(f->aside);
    *f = (hod_new_file){0};
    return 0;
}

/* Is this "<something>.tmp-<process>-<number>" of a process that is gone? */
static bool is_orphan(const char *name)
{
    const char *mark = strstr(name, aside_mark);
    int process, number, used = 0;
    return mark && sscanf(mark + strlen(aside_mark), "%d-%d%n", &process, &number, &used) == 2 &&
           mark[strlen(aside_mark) + (size_t)used] == 0 && process > 0 && kill(process, 0) &&
           errno == ESRCH;
}

void hod__file_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        if (is_orphan(e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}
