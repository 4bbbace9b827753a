/* Checkpoints: one safetensors file an update, so tensors and state can never be of two steps.
 *
 *     runs/demo/update-00000500.safetensors
 *     runs/demo/update-00001000.safetensors
 */
#include "io/file.h"

#include "io/safetensors.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes every directory of the path that is missing. */
static int make_directories(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        int rc = mkdir(path, 0777);
        int why = errno;
        *p = '/';
        if (rc && why != EEXIST)
            return HOD_FAIL_RC(IO, "%s: %s", path, strerror(why));
    }
    struct stat st;
    if (mkdir(path, 0777) && errno != EEXIST)
        return HOD_FAIL_RC(IO, "%s: %s", path, strerror(errno));
    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return HOD_FAIL_RC(IO, "%s: not a directory", path);
    return 0;
}

int hod_directory_prepare(const char *dir)
{
    if (!dir || !*dir)
        return HOD_FAIL_RC(ARGUMENT, "directory: no name");
    char *path = hod__strdup(dir);
    if (!path)
        return -1;
    int rc = make_directories(path);
    free(path);
    if (rc)
        return -1;
    /* The permission bits do not tell (root, read-only mounts): trying does. */
    char *probe = hod__format("%s/probe.tmp-%d-0", dir, (int)getpid()); /* swept if we die here */
    int fd = probe ? open(probe, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (probe && fd < 0)
        HOD_FAIL(IO, "%s: no file can be made there: %s", dir, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(probe);
    }
    free(probe);
    hod__file_sweep(dir);
    return fd < 0 ? -1 : 0;
}

/* The number in "update-<number>.safetensors", -1 for any other name. */
static int64_t number_of(const char *name)
{
    long long update;
    int used = 0;
    if (sscanf(name, "update-%lld.safetensors%n", &update, &used) == 1 && used && !name[used] &&
        update >= 0)
        return update;
    return -1;
}

typedef struct numbers {
    int64_t *at, n, cap;
} numbers;

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* All checkpoints of a directory, newest first. A directory that is not there has none. */
static int list(const char *dir, numbers *found)
{
    *found = (numbers){0};
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : HOD_FAIL_RC(IO, "%s: %s", dir, strerror(errno));
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        int64_t update = number_of(e->d_name);
        if (update < 0)
            continue;
        int64_t *slot = hod__push(&found->at, &found->n, &found->cap, sizeof *slot);
        if (slot)
            *slot = update;
        else
            rc = -1;
    }
    closedir(d);
    if (found->n)
        qsort(found->at, (size_t)found->n, sizeof *found->at, descending);
    return rc;
}

static char *path_of(const char *dir, int64_t update)
{
    return hod__format("%s/update-%08lld.safetensors", dir, (long long)update);
}

/* Deletes all but the `keep` newest up to `update`; later ones are not this run's to judge. */
static int prune(const char *dir, int64_t update, int keep)
{
    numbers all;
    int rc = list(dir, &all);
    int64_t kept = 0;
    for (int64_t i = 0; i < all.n && rc == 0; i++) {
        if (all.at[i] > update || kept++ < keep)
            continue;
        char *path = path_of(dir, all.at[i]);
        if (!path)
            rc = -1;
        else if (unlink(path) && errno != ENOENT)
            rc = HOD_FAIL_RC(IO, "%s: %s", path, strerror(errno));
        free(path);
    }
    free(all.at);
    return rc;
}

int hod_checkpoint_save(const char *dir, int64_t update, const hod_named_tensor *tensors, int64_t n,
                        const hod_named_text *notes, int64_t n_notes, int keep)
{
    if (update < 0 || keep < 0)
        return HOD_FAIL_RC(ARGUMENT, "checkpoint: update %lld, %d to keep", (long long)update,
                           keep);
    if (hod_directory_prepare(dir))
        return -1;
    char *path = path_of(dir, update);
    int rc = path ? hod_save_tensors(path, tensors, n, notes, n_notes) : -1;
    free(path);
    return rc == 0 && keep > 0 ? prune(dir, update, keep) : rc;
}

int hod_checkpoint_latest(const char *dir, char *path, size_t cap)
{
    numbers all;
    int rc = dir ? list(dir, &all) : -1;
    if (rc)
        return -1;
    int found = 0;
    hod_error_record damage = {0}; /* of the newest that is damaged */
    for (int64_t i = 0; i < all.n && !found; i++) {
        char *candidate = path_of(dir, all.at[i]);
        hod_tensor_file *f = candidate ? hod_tensor_file_open(candidate) : NULL;
        if (f && strlen(candidate) >= cap) {
            HOD_FAIL(ARGUMENT, "%s: a path of %zu bytes, there is room for %zu", candidate,
                     strlen(candidate), cap);
            found = -1;
        } else if (f && hod__tensor_file_verify(f) == 0) {
            strcpy(path, candidate);
            found = 1;
        } else if (hod_error_kind_pending() == HOD_ERROR_FORMAT) {
            hod_error_take(damage.kind ? NULL : &damage); /* an older one will do */
        } else {
            found = -1;
        }
        hod_tensor_file_close(&f);
        free(candidate);
    }
    free(all.at);
    if (!found && damage.kind)
        return HOD_FAIL_RC(FORMAT, "%s", damage.text);
    if (found == 1 && damage.kind)
        fprintf(stderr, "hod: passed over %s\n", damage.text);
    return found;
}
