/* Kernels come from three places, tried in this order: a table of this process, the disk cache,
 * the compiler.
 *
 *     texts --> keys --> table? --> directory? --> groups --> cc, cc, ... --> seal --> publish
 *                          ^                                                             |
 *                          +-------------------------- dlopen, dlsym <-------------------+
 *
 * The compiler gets one file for each core, so that its start and the preamble are paid once a
 * file, not once a kernel. It works in the cache directory, or where that cannot be written
 * (read-only, full, not ours) or not be executed from, in a private directory under $TMPDIR, /tmp
 * or /dev/shm: each place is tried in turn before a failure is reported.
 */
#include "codegen/toolchain.h"
#include "codegen/cache.h"
#include "codegen/compiler.h"
#include "codegen/curve_text.h"
#include "codegen/float_text.h"
#include "codegen/uniform_text.h"
#include "codegen/wide_text.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#ifndef HOD_VERSION
#define HOD_VERSION "0"
#endif

enum { MAX_GROUPS = 64, MAX_PLACES = 4 };

static pthread_mutex_t build_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */

/* ---- the table of this process: open addressing, never more than half full ---- */

typedef struct loaded {
    hod_kernel_key key;
    hod_kernel *call; /* NULL: free slot */
} loaded;

static struct {
    loaded *slots;
    size_t cap, n; /* cap: 0 or a power of two */
} table;

static loaded *table_slot(loaded *slots, size_t cap, hod_kernel_key key)
{
    for (size_t i = key.lo;; i++) {
        loaded *s = &slots[i & (cap - 1)];
        if (!s->call || (s->key.lo == key.lo && s->key.hi == key.hi))
            return s;
    }
}

static hod_kernel *table_find(hod_kernel_key key)
{
    return table.cap ? table_slot(table.slots, table.cap, key)->call : NULL;
}

static int table_add(hod_kernel_key key, hod_kernel *call)
{
    if (2 * (table.n + 1) > table.cap) {
        size_t cap = table.cap ? 2 * table.cap : 256;
        loaded *slots = hod__alloc(cap, sizeof *slots);
        if (!slots)
            return -1;
        for (size_t i = 0; i < table.cap; i++)
            if (table.slots[i].call)
                *table_slot(slots, cap, table.slots[i].key) = table.slots[i];
        free(table.slots);
        table.slots = slots;
        table.cap = cap;
    }
    *table_slot(table.slots, table.cap, key) = (loaded){key, call};
    table.n++;
    return 0;
}

/* ---- loading ---- */

/* A kernel that this build still lacks. */
typedef struct wanted {
    const hod_kernel_source *source;
    hod_kernel_key key;
    hod_kernel *call;
    int group;
} wanted;

/* Handles are never closed: a kernel's address is good for the rest of the process. */
static bool load(const char *path, wanted *w)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *address = handle ? dlsym(handle, w->source->name) : NULL;
    memcpy(&w->call, &address, sizeof address); /* ISO C has no cast from object to function */
    return address != NULL;
}

static int load_from_cache(const char *dir, wanted *w, int n)
{
    int found = 0;
    char path[HOD_CACHE_PATH];
    for (int i = 0; i < n; i++)
        if (!w[i].call && hod__cache_find(dir, w[i].key, path) && load(path, &w[i]))
            found++;
    return found;
}

/* ---- compiling ---- */

typedef struct group {
    hod_kernel_key *keys; /* of its kernels */
    int n;
    int64_t weight;            /* bytes of text, what its compile time follows */
    char base[HOD_CACHE_PATH]; /* <place>/.make-<pid>-<serial>; .c and .so are its files */
    hod_compilation job;
} group;

static void path_of(const group *g, const char *suffix, char path[HOD_CACHE_PATH + 4])
{
    snprintf(path, HOD_CACHE_PATH + 4, "%s%s", g->base, suffix);
}

static void kernel_text(hod_text *t, const hod_kernel_source *s)
{
    hod__text(t, "#line 1 \"%s\"\n%s\n", s->name, s->text);
}

/* What every generated kernel starts with: see ops/kernel_math.h. */
static void preamble_text(hod_text *t)
{
    hod__text(t, "%s\n%s\n%s\n%s\n#pragma GCC visibility push(default)\n", hod__float_text,
              hod__curve_text, hod__wide_text, hod__uniform_text);
}

char *hod__toolchain_text(const hod_kernel_source *source)
{
    hod_text t = {0};
    preamble_text(&t);
    hod__text(&t, "\n%s\n", source->text);
    return hod__text_take(&t);
}

/* Deals the kernels still missing out to groups of about equal weight. */
static void deal(wanted *w, int n, group *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++)
        groups[g].n = 0, groups[g].weight = 0;
    for (int i = 0; i < n; i++) {
        w[i].group = -1;
        if (w[i].call)
            continue;
        int best = 0;
        for (int g = 1; g < n_groups; g++)
            if (groups[g].weight < groups[best].weight)
                best = g;
        w[i].group = best;
        groups[best].keys[groups[best].n++] = w[i].key;
        groups[best].weight += 500 + (int64_t)strlen(w[i].source->text);
    }
}

/* Writes a group's file and starts its compiler; on failure job.pid is -1. */
static void start(group *g, int index, const wanted *w, int n, const hod_compiler *cc,
                  const char *dir)
{
    static atomic_int serial;
    char source[HOD_CACHE_PATH + 4], object[HOD_CACHE_PATH + 4];
    snprintf(g->base, sizeof g->base, "%.*s/.make-%ld-%d", HOD_CACHE_PATH - 64, dir, (long)getpid(),
             atomic_fetch_add(&serial, 1));
    path_of(g, ".c", source);
    path_of(g, ".so", object);
    g->job = (hod_compilation){.pid = -1, .out = -1};
    hod_text t = {0};
    preamble_text(&t);
    for (int i = 0; i < n; i++)
        if (w[i].group == index)
            kernel_text(&t, w[i].source);
    FILE *f = t.failed ? NULL : fopen(source, "wxe");
    bool written = f && fwrite(t.data, 1, (size_t)t.n, f) == (size_t)t.n;
    if (f && fclose(f) != 0)
        written = false;
    hod__text_free(&t);
    if (written)
        g->job = hod__compiler_start(cc, source, object, dir);
}

/* Ends a group's compiler, publishes and loads what it made. */
static void finish(group *g, int index, wanted *w, int n, const char *dir, bool is_cache)
{
    char source[HOD_CACHE_PATH + 4], object[HOD_CACHE_PATH + 4], path[HOD_CACHE_PATH];
    path_of(g, ".c", source);
    path_of(g, ".so", object);
    if (hod__compiler_wait(&g->job)) {
        if (is_cache && hod__cache_seal(object, g->keys, g->n) == 0)
            hod__cache_publish(dir, object, g->keys, g->n);
        for (int i = 0; i < n; i++)
            if (w[i].group == index &&
                !(is_cache && hod__cache_find(dir, w[i].key, path) && load(path, &w[i])))
                load(object, &w[i]);
    }
    unlink(source);
    unlink(object);
}

/* Compiles in one place all that is missing. Returns how many kernels still are; `said` gets the
 * first complaint that names a line of a kernel, else the first line of any. */
static int compile_in(const char *dir, bool is_cache, wanted *w, int n, group *groups,
                      int n_groups, const hod_compiler *cc, char said[HOD_ERROR_TEXT])
{
    deal(w, n, groups, n_groups);
    for (int g = 0; g < n_groups; g++)
        if (groups[g].n)
            start(&groups[g], g, w, n, cc, dir);
    for (int g = 0; g < n_groups; g++) {
        if (!groups[g].n)
            continue;
        finish(&groups[g], g, w, n, dir, is_cache);
        const char *text = groups[g].job.said, *error = strstr(text, " error: ");
        while (error && error > text && error[-1] != '\n')
            error--;
        if (!error && !*said)
            error = text;
        if (error && !(*said && strstr(said, " error: ")))
            snprintf(said, HOD_ERROR_TEXT, "%.*s", (int)HOD_MIN(strcspn(error, "\n"), 400u), error);
    }
    int missing = 0;
    for (int i = 0; i < n; i++)
        missing += !w[i].call;
    return missing;
}

/* Tries place after place. A kernel that does not compile is known by its name at the start of the
 * complaint; no other place can help it. */
static int compile_somewhere(const char *cache, wanted *w, int n, group *groups, int n_groups,
                             const hod_compiler *cc)
{
    const char *tmp = getenv("TMPDIR");
    const char *places[MAX_PLACES] = {cache, tmp && *tmp == '/' ? tmp : NULL, "/tmp", "/dev/shm"};
    char said[HOD_ERROR_TEXT] = "";
    for (int p = 0; p < MAX_PLACES; p++) {
        char dir[HOD_CACHE_PATH];
        bool is_cache = p == 0;
        if (!places[p] ||
            snprintf(dir, sizeof dir, is_cache ? "%s" : "%s/hod-XXXXXX", places[p]) >=
                HOD_CACHE_PATH - 128 ||
            (is_cache ? access(dir, W_OK) != 0 : !mkdtemp(dir)))
            continue;
        int missing = compile_in(dir, is_cache, w, n, groups, n_groups, cc, said);
        if (!is_cache)
            rmdir(dir);
        if (!missing)
            return 0;
        for (int i = 0; i < n; i++) {
            size_t length = strlen(w[i].source->name);
            if (strncmp(said, w[i].source->name, length) == 0 && said[length] == ':')
                p = MAX_PLACES;
        }
    }
    return HOD_FAIL_RC(COMPILE, "compiler: %s", *said ? said : "no directory to work in");
}

/* Finds or makes all of w. 0 or -1; `report` has been added to either way. */
static int provide(wanted *w, int n, const hod_compiler *cc, hod_toolchain_report *report)
{
    char path[HOD_CACHE_PATH];
    const char *cache = hod__cache_directory(path) ? path : NULL;
    int found = cache ? load_from_cache(cache, w, n) : 0, rc = 0;
    if (found < n) {
        int lock = cache ? hod__cache_lock(cache, 10) : -1;
        found += cache ? load_from_cache(cache, w, n) : 0;
        int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
        int n_groups = HOD_MIN(HOD_MIN(HOD_MAX(cores, 1), MAX_GROUPS), n - found);
        group *groups = hod__alloc((size_t)HOD_MAX(n_groups, 1), sizeof *groups);
        hod_kernel_key *keys = hod__alloc((size_t)HOD_MAX(n_groups, 1) * (size_t)n, sizeof *keys);
        for (int g = 0; g < n_groups && groups && keys; g++)
            groups[g].keys = keys + (size_t)g * (size_t)n;
        double begin = hod__seconds();
        if (!groups || !keys)
            rc = -1;
        else if (found < n) {
            if (cache) {
                hod__cache_sweep(cache);
                hod__cache_prune(cache, hod__cache_most());
            }
            rc = compile_somewhere(cache, w, n, groups, n_groups, cc);
            report->seconds += hod__seconds() - begin;
            report->compiled += rc == 0 ? n - found : 0;
        }
        free(groups);
        free(keys);
        hod__cache_unlock(lock);
    }
    report->from_disk += found;
    return rc;
}

static uint64_t environment_of(const hod_compiler *cc)
{
    uint64_t h = hod__hash(HOD_VERSION, sizeof HOD_VERSION, cc->identity);
    h = hod__hash(hod__float_text, sizeof hod__float_text, h);
    h = hod__hash(hod__curve_text, sizeof hod__curve_text, h);
    h = hod__hash(hod__wide_text, sizeof hod__wide_text, h);
    return hod__hash(hod__uniform_text, sizeof hod__uniform_text, h);
}

static int build(const hod_kernel_source *sources, int n, hod_kernel **out, wanted *w,
                 hod_kernel_key *keys, hod_toolchain_report *report)
{
    hod_compiler cc;
    if (hod__compiler_find(&cc) != 0)
        return -1;
    uint64_t environment = environment_of(&cc);
    int n_wanted = 0;
    for (int i = 0; i < n; i++) {
        keys[i] = hod__cache_key(environment, sources[i].text);
        bool have = table_find(keys[i]) != NULL;
        for (int j = 0; j < n_wanted && !have; j++)
            have = w[j].key.lo == keys[i].lo && w[j].key.hi == keys[i].hi;
        if (have)
            report->from_memory++;
        else
            w[n_wanted++] = (wanted){.source = &sources[i], .key = keys[i]};
    }
    if (n_wanted && provide(w, n_wanted, &cc, report) != 0)
        return -1;
    for (int i = 0; i < n_wanted; i++)
        if (table_add(w[i].key, w[i].call) != 0)
            return -1;
    for (int i = 0; i < n; i++)
        out[i] = table_find(keys[i]);
    return 0;
}

int hod__toolchain_build(const hod_kernel_source *sources, int n, hod_kernel **out,
                         hod_toolchain_report *report)
{
    if (n <= 0)
        return 0;
    hod_toolchain_report unread = {0};
    wanted *w = hod__alloc((size_t)n, sizeof *w);
    hod_kernel_key *keys = hod__alloc((size_t)n, sizeof *keys);
    int rc = -1;
    if (w && keys) {
        pthread_mutex_lock(&build_lock);
        rc = build(sources, n, out, w, keys, report ? report : &unread);
        pthread_mutex_unlock(&build_lock);
    }
    free(w);
    free(keys);
    return rc;
}
