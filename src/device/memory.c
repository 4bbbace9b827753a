/* The caching allocator.
 *
 *     segment   [ live | free      | live | free ]       blocks in address order, doubly linked
 *     bins      64.. 80.. 96.. 112.. 128.. 160.. ...     free blocks by size, four bins an octave
 *     table     address -> live block                    open addressing
 *
 * Fresh pages are what costs (a page fault is a hundred times dearer than the store it serves), so
 * a segment is faulted in once, when it is made, and given back only on request or when the limit
 * or the system leaves no other way. A request takes the smallest free block that holds it, the
 * rest is cut off and stays free; a released block melts with its free neighbours.
 *
 * Requests below 256 KiB live in segments of 1 MiB of their own, so that a small, long-lived tensor
 * does not nail down a large segment. A large segment is the request rounded up to 2 MiB, or just
 * to a page when only that fits under the limit; it asks for huge pages, because streaming over
 * 16 MiB of small ones costs a third more.
 *
 * Block descriptions lie outside the blocks: an arena of exactly 96 MiB takes exactly that.
 */
#include "device/memory.h"
#include "base/base.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HOD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOD_ASAN 1
#endif
#endif
#ifdef HOD_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, (size_t)(n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, (size_t)(n))
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels answer EINVAL */
#endif

enum {
    ALIGN = 64,
    SMALL = 256 << 10,       /* requests below live in small segments */
    SMALL_SEGMENT = 1 << 20, /* bytes */
    LARGE_STEP = 2 << 20,    /* a large segment is a multiple of this, if it can be */
    BINS = 4 * 48,           /* sizes to 2^54 */
    POOLS = 2,               /* 0: small segments, 1: large ones */
};

typedef struct block {
    char *p;
    int64_t bytes;
    struct block *before, *after; /* neighbours in the segment */
    struct block *prev, *next;    /* in its bin, while free */
    bool live;
    uint8_t pool;
} block;

enum { CHUNK = 64 };

typedef struct chunk {
    struct chunk *next;
    block blocks[CHUNK];
} chunk;

static struct {
    pthread_mutex_t lock;
    hod_memory_stats stats; /* all but largest_free */
    block *bins[POOLS][BINS];
    uint64_t used[POOLS][(BINS + 63) / 64]; /* bit b: bins[b] is not empty */
    block **table; /* live blocks by address; a power of two long, at most half full */
    int64_t table_cap;
    block *spare;  /* unused descriptions, p NULL, linked by next */
    chunk *chunks; /* where descriptions come from; never freed */
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- descriptions ---- */

/* NULL when the host has no more; callers then do without or say what was wanted. */
static block *description_new(void)
{
    if (!heap.spare) {
        chunk *c = calloc(1, sizeof *c);
        if (!c)
            return NULL;
        c->next = heap.chunks;
        heap.chunks = c;
        for (int i = 0; i < CHUNK; i++) {
            c->blocks[i].next = heap.spare;
            heap.spare = &c->blocks[i];
        }
    }
    block *b = heap.spare;
    heap.spare = b->next;
    *b = (block){0};
    return b;
}

static void description_free(block *b)
{
    *b = (block){.next = heap.spare};
    heap.spare = b;
}

/* ---- bins ---- */

/* Four bins an octave: 64 80 96 112 128 160 ... */
static int bin_of(int64_t bytes)
{
    int octave = 63 - __builtin_clzll((uint64_t)bytes);
    int quarter = (int)(bytes >> (octave - 2)) & 3;
    return 4 * (octave - 6) + quarter;
}

static void bin_add(block *b)
{
    int i = bin_of(b->bytes);
    block **head = &heap.bins[b->pool][i];
    b->prev = NULL;
    b->next = *head;
    if (*head)
        (*head)->prev = b;
    *head = b;
    heap.used[b->pool][i / 64] |= 1ull << (i % 64);
}

static void bin_remove(block *b)
{
    int i = bin_of(b->bytes);
    block **head = &heap.bins[b->pool][i];
    if (b->prev)
        b->prev->next = b->next;
    else
        *head = b->next;
    if (b->next)
        b->next->prev = b->prev;
    if (!*head)
        heap.used[b->pool][i / 64] &= ~(1ull << (i % 64));
}

enum { LOOK = 32 };

/* The smallest free block of at least `bytes`, the lowest address among equals; of each bin the
 * first `look` are looked at, because a long loop may leave thousands of holes of one size. */
static block *bin_fit(int pool, int64_t bytes, int look)
{
    for (int i = bin_of(bytes); i < BINS; i++) {
        if (!(heap.used[pool][i / 64] >> (i % 64))) {
            i |= 63; /* nothing in the rest of this word */
            continue;
        }
        block *best = NULL;
        int seen = 0;
        for (block *b = heap.bins[pool][i]; b && seen < look; b = b->next, seen++)
            if (b->bytes >= bytes &&
                (!best || b->bytes < best->bytes || (b->bytes == best->bytes && b->p < best->p)))
                best = b;
        if (best)
            return best;
    }
    return NULL;
}

/* ---- the table of live blocks ---- */

static int64_t slot_of(const void *p, int64_t cap)
{
    return (int64_t)((((uintptr_t)p / ALIGN) * 0x9e3779b97f4a7c15ull) >> 20) & (cap - 1);
}

static void table_put(block **table, int64_t cap, block *b)
{
    int64_t i = slot_of(b->p, cap);
    while (table[i])
        i = (i + 1) & (cap - 1);
    table[i] = b;
}

/* Makes sure one more block fits. */
static int table_reserve(void)
{
    if (2 * (heap.stats.blocks + 1) <= heap.table_cap)
        return 0;
    int64_t cap = heap.table_cap ? 2 * heap.table_cap : 256;
    block **table = calloc((size_t)cap, sizeof *table);
    if (!table)
        return -1;
    for (int64_t i = 0; i < heap.table_cap; i++)
        if (heap.table[i])
            table_put(table, cap, heap.table[i]);
    free(heap.table);
    heap.table = table;
    heap.table_cap = cap;
    return 0;
}

/* Takes the block at p out of the table; NULL when there is none. Entries behind it move up, so
 * that no search meets a hole (Knuth, TAOCP 3, 6.4 R). */
static block *table_take(const void *p)
{
    if (!heap.table_cap)
        return NULL;
    int64_t mask = heap.table_cap - 1, i = slot_of(p, heap.table_cap);
    while (heap.table[i] && heap.table[i]->p != p)
        i = (i + 1) & mask;
    block *found = heap.table[i];
    if (!found)
        return NULL;
    for (int64_t j = (i + 1) & mask; heap.table[j]; j = (j + 1) & mask) {
        int64_t home = slot_of(heap.table[j]->p, heap.table_cap);
        if (((j - home) & mask) >= ((j - i) & mask)) {
            heap.table[i] = heap.table[j];
            i = j;
        }
    }
    heap.table[i] = NULL;
    return found;
}

/* ---- segments ---- */

/* Faults all pages in now, in one call where the kernel can. */
static void prefault(char *p, int64_t bytes)
{
    if (madvise(p, (size_t)bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (int64_t i = 0; i < bytes; i += 4096)
        ((volatile char *)p)[i] = 0;
}

static bool fits(int64_t bytes)
{
    return !heap.stats.limit || bytes <= heap.stats.limit - heap.stats.reserved;
}

/* A free block that is a whole new segment, in its bin. NULL, without an error, when it does not
 * fit or the system refuses. */
static block *segment_new(int pool, int64_t bytes)
{
    if (!fits(bytes))
        return NULL;
    block *b = description_new();
    if (!b)
        return NULL;
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        description_free(b);
        return NULL;
    }
    if (pool == 1) /* a hint: where it is refused, pages are small */
        madvise(p, (size_t)bytes, MADV_HUGEPAGE);
    prefault(p, bytes);
    POISON(p, bytes);
    *b = (block){.p = p, .bytes = bytes, .pool = (uint8_t)pool};
    bin_add(b);
    heap.stats.reserved += bytes;
    heap.stats.reserved_peak = HOD_MAX(heap.stats.reserved_peak, heap.stats.reserved);
    return b;
}

/* Gives every segment that is one free block back to the system. True if there was one. */
static bool trim(void)
{
    bool any = false;
    for (int pool = 0; pool < POOLS; pool++)
        for (int i = 0; i < BINS; i++)
            for (block *b = heap.bins[pool][i], *next; b; b = next) {
                next = b->next;
                if (b->before || b->after)
                    continue;
                bin_remove(b);
                UNPOISON(b->p, b->bytes);
                munmap(b->p, (size_t)b->bytes);
                heap.stats.reserved -= b->bytes;
                description_free(b);
                any = true;
            }
    return any;
}

static int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* A free block of at least `bytes` from a new segment: of the usual size, else of the smallest
 * that serves, else of either after the cached ones have gone. */
static block *segment_for(int pool, int64_t bytes)
{
    int64_t usual = pool == 0 ? SMALL_SEGMENT : round_up(bytes, LARGE_STEP);
    int64_t exact = round_up(bytes, 4096);
    do {
        block *b = segment_new(pool, usual);
        if (!b)
            b = segment_new(pool, exact);
        if (b)
            return b;
    } while (trim());
    return NULL;
}

/* ---- blocks ---- */

/* Cuts what is beyond `bytes` off a free block that is in no bin. Without memory for the
 * description the block simply stays larger. */
static void block_cut(block *b, int64_t bytes)
{
    if (b->bytes == bytes)
        return;
    block *rest = description_new();
    if (!rest)
        return;
    *rest = (block){.p = b->p + bytes,
                    .bytes = b->bytes - bytes,
                    .pool = b->pool,
                    .before = b,
                    .after = b->after};
    if (b->after)
        b->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    bin_add(rest);
}

/* Appends the next block to b, and forgets it. */
static void block_swallow_next(block *b)
{
    block *next = b->after;
    b->bytes += next->bytes;
    b->after = next->after;
    if (b->after)
        b->after->before = b;
    description_free(next);
}

static void *fail_wanted(int64_t bytes)
{
    char limit[48] = "which the system does not have";
    if (heap.stats.limit)
        snprintf(limit, sizeof limit, "%.1f MiB limit", (double)heap.stats.limit / 1048576.0);
    return HOD_FAIL(MEMORY, "memory: %lld bytes wanted, %s, %.1f MiB allocated, %.1f MiB reserved",
                    (long long)bytes, limit, (double)heap.stats.allocated / 1048576.0,
                    (double)heap.stats.reserved / 1048576.0);
}

static void *alloc_locked(int64_t wanted)
{
    if (wanted < 0 || wanted > INT64_MAX / 2 || hod__alloc_fails())
        return fail_wanted(wanted);
    int64_t bytes = round_up(HOD_MAX(wanted, 1), ALIGN);
    int pool = bytes >= SMALL;
    if (table_reserve())
        return fail_wanted(wanted);
    block *b = bin_fit(pool, bytes, LOOK);
    if (!b)
        b = bin_fit(pool, bytes, INT_MAX);
    if (!b)
        b = segment_for(pool, bytes);
    if (!b && pool == 0)
        b = bin_fit(1, bytes,
                    INT_MAX); /* no room for a small segment: a free part of a large one */
    if (!b)
        return fail_wanted(wanted);
    bin_remove(b);
    block_cut(b, bytes);
    b->live = true;
    hod_memory_stats *s = &heap.stats;
    s->allocated += b->bytes;
    s->allocated_peak = HOD_MAX(s->allocated_peak, s->allocated);
    s->blocks++;
    s->allocations++;
    table_put(heap.table, heap.table_cap, b);
    UNPOISON(b->p, wanted);
    return b->p;
}

void *hod__memory_alloc(int64_t bytes)
{
    pthread_mutex_lock(&heap.lock);
    void *p = alloc_locked(bytes);
    pthread_mutex_unlock(&heap.lock);
#ifndef NDEBUG
    if (p)
        memset(p, 0xff, (size_t)bytes); /* NaN, -1: what reads before it writes shows */
#endif
    return p;
}

void hod__memory_release(void *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&heap.lock);
    block *b = table_take(p);
    if (b) {
        b->live = false;
        heap.stats.allocated -= b->bytes;
        heap.stats.blocks--;
        POISON(b->p, b->bytes);
        if (b->after && !b->after->live) {
            bin_remove(b->after);
            block_swallow_next(b);
        }
        if (b->before && !b->before->live) {
            b = b->before;
            bin_remove(b);
            block_swallow_next(b);
        }
        bin_add(b);
    }
    pthread_mutex_unlock(&heap.lock);
}

/* ---- the public face ---- */

static int64_t largest_free(void)
{
    int64_t largest = 0;
    for (int pool = 0; pool < POOLS; pool++)
        for (int i = BINS - 1; i >= 0; i--)
            for (block *b = heap.bins[pool][i]; b; b = b->next)
                largest = HOD_MAX(largest, b->bytes);
    return largest;
}

hod_memory_stats hod_memory(void)
{
    pthread_mutex_lock(&heap.lock);
    hod_memory_stats s = heap.stats;
    s.largest_free = largest_free();
    pthread_mutex_unlock(&heap.lock);
    return s;
}

void hod_memory_reset_peak(void)
{
    pthread_mutex_lock(&heap.lock);
    heap.stats.allocated_peak = heap.stats.allocated;
    heap.stats.reserved_peak = heap.stats.reserved;
    pthread_mutex_unlock(&heap.lock);
}

void hod_memory_empty_cache(void)
{
    pthread_mutex_lock(&heap.lock);
    trim();
    pthread_mutex_unlock(&heap.lock);
}

int hod_memory_limit(int64_t bytes)
{
    if (bytes < 0)
        return HOD_FAIL_RC(ARGUMENT, "memory: limit %lld, wanted 0 or more", (long long)bytes);
    pthread_mutex_lock(&heap.lock);
    if (bytes && heap.stats.reserved > bytes)
        trim();
    int64_t reserved = heap.stats.reserved, allocated = heap.stats.allocated;
    bool ok = !bytes || reserved <= bytes;
    if (ok)
        heap.stats.limit = bytes;
    pthread_mutex_unlock(&heap.lock);
    if (ok)
        return 0;
    return HOD_FAIL_RC(MEMORY, "memory: limit %.1f MiB, but %.1f MiB allocated, %.1f MiB reserved",
                       (double)bytes / 1048576.0, (double)allocated / 1048576.0,
                       (double)reserved / 1048576.0);
}

void hod_memory_print(FILE *out)
{
    if (!out)
        return;
    hod_memory_stats s = hod_memory();
    const double mib = 1048576.0;
    fprintf(out, "memory, MiB      now      peak\n");
    fprintf(out, "allocated  %9.1f %9.1f\n", (double)s.allocated / mib,
            (double)s.allocated_peak / mib);
    fprintf(out, "reserved   %9.1f %9.1f\n", (double)s.reserved / mib,
            (double)s.reserved_peak / mib);
    fprintf(out, "free       %9.1f           largest block %.1f\n",
            (double)(s.reserved - s.allocated) / mib, (double)s.largest_free / mib);
    if (s.limit)
        fprintf(out, "limit      %9.1f\n", (double)s.limit / mib);
    else
        fprintf(out, "limit           none\n");
    fprintf(out, "%lld live blocks, %lld handed out since start\n", (long long)s.blocks,
            (long long)s.allocations);
}

/* ---- invariants, for the tests ---- */

/* Walks the segment that b begins; adds to live and total. */
static bool segment_check(const block *b, int64_t *live, int64_t *total)
{
    for (; b; b = b->after) {
        if (b->bytes <= 0 || b->bytes % ALIGN || (uintptr_t)b->p % ALIGN)
            return false;
        if (b->after && (b->after->before != b || b->after->p != b->p + b->bytes))
            return false;
        if (b->after && !b->live && !b->after->live)
            return false;
        *live += b->live ? b->bytes : 0;
        *total += b->bytes;
    }
    return true;
}

bool hod__memory_check(void)
{
    pthread_mutex_lock(&heap.lock);
    int64_t live = 0, total = 0;
    bool ok = true;
    for (const chunk *c = heap.chunks; ok && c; c = c->next)
        for (int i = 0; ok && i < CHUNK; i++)
            if (c->blocks[i].p && !c->blocks[i].before)
                ok = segment_check(&c->blocks[i], &live, &total);
    ok = ok && live == heap.stats.allocated && total == heap.stats.reserved && live <= total &&
         (!heap.stats.limit || total <= heap.stats.limit);
    pthread_mutex_unlock(&heap.lock);
    return ok;
}

char *hod_bytes_text(int64_t bytes, char buf[32])
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double x = (double)bytes / 1024;
    int u = 0;
    for (; x >= 1024 && u + 1 < HOD_COUNT(units); u++)
        x /= 1024;
    if (bytes < 1024)
        snprintf(buf, 32, "%lld B", (long long)bytes);
    else
        snprintf(buf, 32, "%.*f %s", u == 2 ? 2 : 1, x, units[u]);
    return buf;
}
