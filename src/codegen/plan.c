/* Offsets for lifetimes: greedy placement in several orders, the smallest arena wins.
 *
 *   offset
 *     ^   +-------+            One buffer is a rectangle: calls from left to right, bytes upwards.
 *     |   |   b   |  +-----+   Two rectangles must not meet. A buffer goes into the smallest gap
 *     | +-+---+---+--+  d  |   that holds it among those placed before whose lifetimes meet its
 *     | |  a  |   c  |     |   own, else on top of them.
 *     +-+-----+------+-----+-> call
 *
 * The problem (dynamic storage allocation) is NP-hard. Which greedy order is good depends on the
 * graph: big ones first wastes least where sizes differ, long-lived ones first where they do not,
 * by start when lifetimes nest, as in forward and backward. All are tried. Then the best order is
 * bettered: the buffer that reaches the arena's top is moved to the front, placed first and so low,
 * until the lower bound is met or the work is used up. Work is counted, not timed: one input has
 * one plan.
 */
#include "codegen/plan.h"

enum { ALIGN = 64 };
#define WORK 6000000 /* pairs of buffers looked at while bettering: a few milliseconds */

typedef struct order {
    int32_t *index; /* a permutation of the buffers */
    int64_t *key;   /* what it is sorted by, greatest first */
} order;

static int64_t rounded(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static bool before(const order *o, int32_t a, int32_t b)
{
    return o->key[a] != o->key[b] ? o->key[a] > o->key[b] : a < b;
}

/* Heap sort, because qsort has no place for a context:
 * the heap's top is the one that comes last. */
static void sort(const order *o, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        o->index[i] = (int32_t)i;
    for (int64_t end = n, start = n / 2; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            end--;
            int32_t t = o->index[end];
            o->index[end] = o->index[0];
            o->index[0] = t;
        }
        for (int64_t i = start, c; (c = 2 * i + 1) < end; i = c) {
            if (c + 1 < end && before(o, o->index[c], o->index[c + 1]))
                c++;
            if (!before(o, o->index[i], o->index[c]))
                break;
            int32_t t = o->index[i];
            o->index[i] = o->index[c];
            o->index[c] = t;
        }
    }
}

typedef struct placed {
    int64_t offset, end;
    int32_t first, last;
} placed;

/* Places all buffers in the given order. `by_offset` is room for n. Returns the arena's size. */
static int64_t place(const hod_plan_buffer *b, int64_t n, const int32_t *index, placed *by_offset,
                     int64_t *offset)
{
    int64_t arena = 0;
    for (int64_t k = 0; k < n; k++) {
        const hod_plan_buffer *x = &b[index[k]];
        int64_t bytes = rounded(x->bytes), top = 0, best = -1, best_gap = INT64_MAX;
        for (int64_t j = 0; j < k; j++) {
            const placed *p = &by_offset[j];
            if (p->last < x->first || p->first > x->last)
                continue;
            int64_t gap = p->offset - top;
            if (gap >= bytes && gap < best_gap) {
                best = top;
                best_gap = gap;
            }
            top = HOD_MAX(top, p->end);
        }
        if (best < 0)
            best = top;
        int64_t j = k;
        for (; j > 0 && by_offset[j - 1].offset > best; j--)
            by_offset[j] = by_offset[j - 1];
        by_offset[j] = (placed){best, best + bytes, x->first, x->last};
        offset[index[k]] = best;
        arena = HOD_MAX(arena, best + bytes);
    }
    return arena;
}

int64_t hod__plan_bound(const hod_plan_buffer *b, int64_t n)
{
    int32_t calls = 0;
    for (int64_t i = 0; i < n; i++)
        calls = HOD_MAX(calls, b[i].last + 1);
    int64_t *change = hod__alloc((size_t)calls + 1, sizeof *change), alive = 0, peak = 0;
    if (!change)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        change[b[i].first] += rounded(b[i].bytes);
        change[b[i].last + 1] -= rounded(b[i].bytes);
    }
    for (int32_t c = 0; c < calls; c++) {
        alive += change[c];
        peak = HOD_MAX(peak, alive);
    }
    free(change);
    return peak;
}

/* What an order sorts by, greatest first. */
static int64_t size_key(const hod_plan_buffer *b)
{
    return b->bytes;
}

static int64_t lifetime_key(const hod_plan_buffer *b)
{
    return (int64_t)b->last - b->first;
}

static int64_t area_key(const hod_plan_buffer *b)
{
    int64_t area;
    return hod__mul_size(b->bytes, (int64_t)b->last - b->first + 1, &area) ? area : INT64_MAX;
}

static int64_t start_key(const hod_plan_buffer *b)
{
    return -(int64_t)b->first;
}

static int64_t (*const keys[])(const hod_plan_buffer *b) = {size_key, area_key, lifetime_key,
                                                            start_key};

/* Moves the buffer that ends at the arena's top to the front of the order. */
static void promote_top(const hod_plan_buffer *b, int64_t n, int32_t *index, const int64_t *offset,
                        int64_t arena)
{
    int64_t k = 0;
    while (k < n - 1 && offset[index[k]] + rounded(b[index[k]].bytes) != arena)
        k++;
    int32_t top = index[k];
    memmove(index + 1, index, (size_t)k * sizeof *index);
    index[0] = top;
}

/* The search: `best` gets the offsets of the smallest arena, whose size is returned. */
static int64_t search(const hod_plan_buffer *b, int64_t n, int64_t bound, order o, int32_t *good,
                      placed *room, int64_t *trial, int64_t *best)
{
    int64_t smallest = INT64_MAX;
    for (int k = 0; k < HOD_COUNT(keys) && smallest > bound; k++) {
        for (int64_t i = 0; i < n; i++)
            o.key[i] = keys[k](&b[i]);
        sort(&o, n);
        int64_t arena = place(b, n, o.index, room, trial);
        if (arena < smallest) {
            smallest = arena;
            memcpy(best, trial, (size_t)n * sizeof *best);
            memcpy(good, o.index, (size_t)n * sizeof *good);
        }
    }
    int64_t last = smallest;
    memcpy(trial, best, (size_t)n * sizeof *best);
    for (int64_t tries = WORK / (n * n + 1); tries > 0 && smallest > bound; tries--) {
        promote_top(b, n, good, trial, last);
        last = place(b, n, good, room, trial);
        if (last < smallest) {
            smallest = last;
            memcpy(best, trial, (size_t)n * sizeof *best);
        }
    }
    return smallest;
}

int hod__plan(hod_plan_buffer *b, int64_t n, int64_t *arena_bytes)
{
    *arena_bytes = 0;
    if (n <= 0)
        return 0;
    size_t count = (size_t)n;
    int64_t bound = hod__plan_bound(b, n);
    order o = {hod__alloc(count, sizeof *o.index), hod__alloc(count, sizeof *o.key)};
    int32_t *good = hod__alloc(count, sizeof *good);
    placed *room = hod__alloc(count, sizeof *room);
    int64_t *trial = hod__alloc(count, sizeof *trial), *best = hod__alloc(count, sizeof *best);
    int rc = -1;
    if (bound >= 0 && o.index && o.key && good && room && trial && best) {
        *arena_bytes = search(b, n, bound, o, good, room, trial, best);
        for (int64_t i = 0; i < n; i++)
            b[i].offset = best[i];
        rc = 0;
    }
    free(o.index);
    free(o.key);
    free(good);
    free(room);
    free(trial);
    free(best);
    return rc;
}
