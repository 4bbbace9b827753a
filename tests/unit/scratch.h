/* A directory of the test's own, removed when its process ends. */
#ifndef HOD_TESTS_SCRATCH_H
#define HOD_TESTS_SCRATCH_H

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch_folder[64];
static pid_t scratch_owner;

static inline void scratch_remove(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", scratch_folder);
    if (getpid() == scratch_owner && system(command))
        perror(command);
}

/* "<folder>/<name>"; the text lasts for seven more calls. */
static inline const char *scratch(const char *name)
{
    static char paths[8][160];
    static int next;
    if (!scratch_folder[0]) {
        snprintf(scratch_folder, sizeof scratch_folder, "/tmp/hod-test-XXXXXX");
        CHECK(mkdtemp(scratch_folder));
        scratch_owner = getpid();
        atexit(scratch_remove);
    }
    char *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", scratch_folder, name);
    return p;
}

static inline void scratch_write(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(scratch(name), "wb");
    CHECK(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

/* The file's content, malloc'd, NUL-terminated. */
static inline char *scratch_read(const char *name, size_t *n)
{
    FILE *f = fopen(scratch(name), "rb");
    CHECK(f);
    char *data = malloc(1 << 20);
    CHECK(data);
    *n = fread(data, 1, (1 << 20) - 1, f);
    data[*n] = 0;
    fclose(f);
    return data;
}

#endif
