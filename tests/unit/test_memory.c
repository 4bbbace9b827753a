/* The caching allocator: its invariants under random traffic, its statistics, its limit. */
#include "base/base.h"
#include "device/device.h"
#include "device/memory.h"
#include "harness.h"

#include <pthread.h>
#include <stdio.h>

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

TEST(memory_counts_rounded_blocks)
{
    void *a = hod__memory_alloc(1), *b = hod__memory_alloc(64), *c = hod__memory_alloc(65);
    hod_memory_stats m = hod_memory();
    EQ_INT(m.allocated, 64 + 64 + 128);
    EQ_INT(m.blocks, 3);
    EQ_INT(m.allocations, 3);
    EQ_INT(m.reserved, 1 << 20);
    EQ_INT((int64_t)((uintptr_t)a % 64 + (uintptr_t)b % 64 + (uintptr_t)c % 64), 0);
    hod__memory_release(b);
    EQ_INT(hod_memory().allocated, 192);
    EQ_INT(hod_memory().allocated_peak, 256);
    hod_memory_reset_peak();
    EQ_INT(hod_memory().allocated_peak, 192);
    CHECK(hod__memory_alloc(60) == b); /* best fit: the hole that just holds it */
    CHECK(hod__memory_check());
}

TEST(memory_of_nothing_is_not_null)
{
    void *p = hod__memory_alloc(0);
    CHECK(p);
    hod__memory_release(p);
    hod__memory_release(NULL);
    CHECK(!hod__memory_alloc(-5));
    hod_error_take(NULL);
    EQ_INT(hod_memory().allocated, 0);
}

TEST(memory_large_segments)
{
    void *a = hod__memory_alloc(HOD_MIB(3));
    EQ_INT(hod_memory().reserved, HOD_MIB(4));
    EQ_INT(hod_memory().largest_free, HOD_MIB(1));
    void *b = hod__memory_alloc(HOD_KIB(512)); /* the rest of it */
    EQ_INT(hod_memory().reserved, HOD_MIB(4));
    hod__memory_release(a);
    hod__memory_release(b);
    EQ_INT(hod_memory().largest_free, HOD_MIB(4)); /* melted together */
    void *again = hod__memory_alloc(HOD_MIB(4));
    CHECK(again == a);
    EQ_INT(hod_memory().reserved, HOD_MIB(4));
    hod_memory_empty_cache();
    EQ_INT(hod_memory().reserved, HOD_MIB(4)); /* in use */
    hod__memory_release(again);
    hod_memory_empty_cache();
    EQ_INT(hod_memory().reserved, 0);
    CHECK(hod__memory_check());
}

TEST(memory_limit_is_kept)
{
    EQ_INT(hod_memory_limit(HOD_MIB(8)), 0);
    void *a = hod__memory_alloc(HOD_MIB(5));
    EQ_INT(hod_memory().reserved, HOD_MIB(6));
    /* 2 MiB are left: rounding up would not fit, the exact size does */
    void *b = hod__memory_alloc(HOD_MIB(2) - 4096);
    CHECK(b);
    EQ_INT(hod_memory().reserved, HOD_MIB(8));
    ERROR_IS("memory: 12582912 bytes wanted, 8.0 MiB limit, 7.0 MiB allocated, 8.0 MiB reserved",
             hod__memory_alloc(HOD_MIB(12)));
    /* a cached segment of the wrong size makes room */
    hod__memory_release(a);
    void *c = hod__memory_alloc(HOD_MIB(6));
    CHECK(c);
    CHECK(hod_memory().reserved <= HOD_MIB(8));
    CHECK(hod__memory_check());
    ERROR_IS("memory: limit 1.0 MiB, but 8.0 MiB allocated, 8.0 MiB reserved",
             hod_memory_limit(HOD_MIB(1)));
    EQ_INT(hod_memory().limit, HOD_MIB(8));
    EQ_INT(hod_memory_limit(0), 0);
    CHECK(hod__memory_alloc(HOD_MIB(12)));
}

TEST(memory_limit_trades_cached_segments)
{
    EQ_INT(hod_memory_limit(HOD_MIB(8)), 0);
    hod__memory_release(hod__memory_alloc(HOD_MIB(5)));
    EQ_INT(hod_memory().reserved, HOD_MIB(6));
    CHECK(hod__memory_alloc(HOD_MIB(7))); /* only once the cached 6 MiB have gone back */
    EQ_INT(hod_memory().reserved, HOD_MIB(8));
    CHECK(hod__memory_check());
}

TEST(memory_takes_the_best_fit)
{
    /* two holes of the same bin (704 and 640 bytes), the larger one first by address and in age */
    void *large = hod__memory_alloc(704), *wall = hod__memory_alloc(64);
    void *close = hod__memory_alloc(640), *end = hod__memory_alloc(64);
    CHECK(wall && end);
    hod__memory_release(close);
    hod__memory_release(large);
    CHECK(hod__memory_alloc(640) == close);
    CHECK(hod__memory_alloc(640) == large);
}

TEST(memory_small_request_under_a_full_limit)
{
    EQ_INT(hod_memory_limit(HOD_MIB(4)), 0);
    void *a = hod__memory_alloc(HOD_MIB(4) - HOD_KIB(64));
    CHECK(a); /* its segment is 4 MiB: no room for a small one, but for a block in this one */
    void *b = hod__memory_alloc(1000);
    CHECK(b);
    EQ_INT(hod_memory().reserved, HOD_MIB(4));
    hod__memory_release(b);
    hod__memory_release(a);
    EQ_INT(hod_memory().largest_free, HOD_MIB(4));
    CHECK(hod__memory_check());
}

TEST(memory_exact_arena_under_an_odd_limit)
{
    EQ_INT(hod_memory_limit(HOD_MIB(96) + 12345), 0);
    void *a = hod__memory_alloc(HOD_MIB(95) + HOD_KIB(4));
    CHECK(a);
    CHECK(hod_memory().reserved <= HOD_MIB(96) + 12345);
}

/* Random traffic with a pattern in every block: any overlap or move would tear one. */
static void traffic(uint64_t seed, int steps)
{
    enum { SLOTS = 96 };
    struct {
        unsigned char *p;
        int64_t n;
        unsigned char mark;
    } slot[SLOTS] = {0};
    for (int i = 0; i < steps; i++) {
        int s = (int)(next(&seed) % SLOTS);
        if (slot[s].p) {
            for (int64_t k = 0; k < slot[s].n; k += 37)
                CHECK(slot[s].p[k] == slot[s].mark);
            hod__memory_release(slot[s].p);
            slot[s].p = NULL;
            continue;
        }
        int64_t n = 1 + (int64_t)(next(&seed) % (1u << (4 + next(&seed) % 16)));
        slot[s].p = hod__memory_alloc(n);
        CHECK(slot[s].p);
        slot[s].n = n;
        slot[s].mark = (unsigned char)next(&seed);
        memset(slot[s].p, slot[s].mark, (size_t)n);
    }
    for (int s = 0; s < SLOTS; s++)
        hod__memory_release(slot[s].p);
}

TEST(memory_random_traffic)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        traffic(seed, 500);
        CHECK(hod__memory_check());
        EQ_INT(hod_memory().allocated, 0);
        EQ_INT(hod_memory().blocks, 0);
    }
    hod_memory_empty_cache();
    EQ_INT(hod_memory().reserved, 0);
}

static void *traffic_thread(void *seed)
{
    traffic(*(uint64_t *)seed, 2000);
    return NULL;
}

TEST(memory_from_many_threads)
{
    pthread_t t[4];
    uint64_t seed[4] = {11, 22, 33, 44};
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, traffic_thread, &seed[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    CHECK(hod__memory_check());
    EQ_INT(hod_memory().allocated, 0);
}

TEST(memory_fails_when_told)
{
    hod__alloc_fail_after = 0;
    CHECK(!hod__memory_alloc(64));
    EQ_INT(hod_error_kind_pending(), HOD_ERROR_MEMORY);
    hod_error_take(NULL);
    CHECK(hod__memory_alloc(64));
}

TEST(memory_prints_a_table)
{
    hod_memory_limit(HOD_MIB(64));
    void *a = hod__memory_alloc(HOD_MIB(3)), *b = hod__memory_alloc(HOD_MIB(6));
    hod__memory_release(b);
    CHECK(a);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    hod_memory_print(f);
    fclose(f);
    EQ_STR(text, "memory, MiB      now      peak\n"
                 "allocated        3.0       9.0\n"
                 "reserved        10.0      10.0\n"
                 "free             7.0           largest block 6.0\n"
                 "limit           64.0\n"
                 "1 live blocks, 2 handed out since start\n");
    free(text);
}

/* ---- launching ---- */

static void mark_chunk(void *const *buf, const int64_t *arg, int64_t begin, int64_t end)
{
    int64_t *owner = buf[0];
    (void)arg;
    for (int64_t i = begin; i < end; i++)
        owner[i] += 1000000 + end - begin;
}

TEST(device_launch_covers_the_range_once)
{
    hod_device *d = hod__cpu();
    EQ_INT(hod_set_threads(3), 0);
    for (int64_t n = 0; n < 40; n++)
        for (int64_t grain = 1; grain < 20; grain += 6) {
            int64_t owner[40] = {0};
            d->launch(d, mark_chunk, (void *[]){owner}, NULL, n, grain);
            int64_t chunks = HOD_MAX(HOD_MIN(3, n / grain), 1);
            for (int64_t i = 0; i < n; i++) {
                CHECK(owner[i] / 1000000 == 1);
                int64_t size = owner[i] % 1000000;
                CHECK(size == n / chunks || size == n / chunks + 1);
                CHECK(size >= grain || chunks == 1);
            }
        }
}

TEST(device_threads_are_checked)
{
    ERROR_IS("set_threads: 0, wanted 1 to 4096", hod_set_threads(0));
}
