/* The memory plan: live buffers never meet, and the arena is near its lower bound. */
#include "base/base.h"
#include "codegen/plan.h"
#include "codegen/timeline.h"
#include "harness.h"

enum { MOST = 2000 };

static uint64_t state;

/* 0 .. n - 1, from a multiplicative generator that each test seeds. */
static int64_t draw(int64_t n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* Sizes over several powers of two, most lives short, some long. */
static void random_buffers(hod_plan_buffer *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        b[i].bytes = 1 + draw((int64_t)64 << draw(16));
        b[i].first = (int32_t)draw(n);
        b[i].last = b[i].first + (int32_t)(draw(4) ? draw(20) : draw(n));
        b[i].offset = -1;
    }
}

/* Forward keeps an activation a layer for backward, which also makes a gradient a layer. */
static int64_t step_buffers(hod_plan_buffer *b, int layers)
{
    int64_t n = 0;
    int32_t calls = 4 * layers;
    for (int32_t l = 0; l < layers; l++) {
        int64_t bytes = (1 + draw(8)) << 16;
        b[n++] = (hod_plan_buffer){bytes, 2 * l, calls - 1 - 2 * l, -1};
        b[n++] = (hod_plan_buffer){bytes, 2 * l + 1, l % 2 ? 2 * l + 2 : calls - 2 - 2 * l, -1};
        b[n++] = (hod_plan_buffer){bytes, calls - 2 - 2 * l, HOD_MIN(calls - 1, calls - 2 * l), -1};
        b[n++] = (hod_plan_buffer){1 + draw(1 << 20), calls - 1 - 2 * l, calls - 1, -1};
    }
    return n;
}

static void check_plan(const hod_plan_buffer *b, int64_t n, int64_t arena)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        CHECK(b[i].offset >= 0 && b[i].offset % 64 == 0 && b[i].offset + b[i].bytes <= arena);
        sum += (b[i].bytes + 63) / 64 * 64;
        for (int64_t j = 0; j < i; j++)
            if (b[i].first <= b[j].last && b[j].first <= b[i].last &&
                b[i].offset < b[j].offset + b[j].bytes && b[j].offset < b[i].offset + b[i].bytes)
                FAIL("buffers %ld and %ld of %ld meet", (long)j, (long)i, (long)n);
    }
    CHECK(arena <= sum && arena >= hod__plan_bound(b, n));
}

TEST(plan_random_lives_never_meet)
{
    static hod_plan_buffer b[MOST];
    double ratio = 0;
    enum { ROUNDS = 200 };
    for (int r = 0; r < ROUNDS; r++) {
        state = (uint64_t)r;
        int64_t n = r < 195 ? 1 + draw(150) : MOST, arena;
        random_buffers(b, n);
        EQ_INT(hod__plan(b, n, &arena), 0);
        check_plan(b, n, arena);
        ratio += (double)arena / (double)hod__plan_bound(b, n) / ROUNDS;
    }
    if (ratio > 1.01) /* 1.004 when written */
        FAIL("on average %.4f times the lower bound", ratio);
}

TEST(plan_training_steps_meet_the_bound)
{
    static hod_plan_buffer b[MOST];
    double worst = 0;
    for (int layers = 1; layers < 60; layers++) {
        state = (uint64_t)layers;
        int64_t n = step_buffers(b, layers), arena;
        EQ_INT(hod__plan(b, n, &arena), 0);
        check_plan(b, n, arena);
        worst = HOD_MAX(worst, (double)arena / (double)hod__plan_bound(b, n));
    }
    if (worst > 1.06) /* 1.053 when written */
        FAIL("at worst %.4f times the lower bound", worst);
}

TEST(plan_small_ones_by_hand)
{
    int64_t arena;
    EQ_INT(hod__plan(NULL, 0, &arena), 0);
    EQ_INT(arena, 0);
    /* One after the other share a place; the third lives beside both. */
    hod_plan_buffer b[] = {{1, 0, 0, -1}, {64, 1, 1, -1}, {65, 0, 1, -1}};
    EQ_INT(hod__plan_bound(b, 3), 64 + 128);
    EQ_INT(hod__plan(b, 3, &arena), 0);
    EQ_INT(arena, 64 + 128);
    EQ_INT(b[0].offset, b[1].offset);
    check_plan(b, 3, arena);
    /* The last call of one is the first of the other: they meet there. */
    hod_plan_buffer c[] = {{64, 0, 1, -1}, {64, 1, 2, -1}};
    EQ_INT(hod__plan(c, 2, &arena), 0);
    EQ_INT(arena, 128);
}

TEST(plan_is_the_same_twice)
{
    static hod_plan_buffer a[MOST], b[MOST];
    state = 7;
    random_buffers(a, 300);
    memcpy(b, a, sizeof b);
    int64_t first, second;
    EQ_INT(hod__plan(a, 300, &first), 0);
    EQ_INT(hod__plan(b, 300, &second), 0);
    EQ_INT(memcmp(a, b, sizeof a), 0);
}

TEST(plan_out_of_memory_is_an_error)
{
    hod_plan_buffer b[] = {{64, 0, 1, -1}, {64, 1, 2, -1}};
    int64_t arena;
    int failures = 0;
    for (int64_t k = 0; k < 100; k++) {
        hod__alloc_fail_after = k;
        int rc = hod__plan(b, 2, &arena);
        hod__alloc_fail_after = -1;
        if (rc == 0)
            break;
        EQ_INT(hod_error_kind_pending(), HOD_ERROR_MEMORY);
        hod_error_take(NULL);
        failures++;
    }
    CHECK(failures > 3 && failures < 100);
}

TEST(plan_timeline_draws_every_buffer)
{
    static hod_plan_buffer b[MOST];
    static const char *names[MOST];
    state = 3;
    int64_t n = step_buffers(b, 20), arena, found = 0;
    for (int64_t i = 0; i < n; i++)
        names[i] = i % 3 ? "conv2d" : "a<b & \"c\"";
    EQ_INT(hod__plan(b, n, &arena), 0);
    hod_text t = {0};
    EQ_INT(hod__timeline_svg(b, names, n, 80, arena, &t), 0);
    for (const char *p = t.data; (p = strstr(p, "<title>")); p++)
        found++;
    EQ_INT(found, n);
    CHECK(strncmp(t.data, "<svg ", 5) == 0 && strstr(t.data, "</svg>\n"));
    CHECK(strstr(t.data, "a&#60;b &#38; &#34;c&#34;") && !strstr(t.data, "a<b"));
    CHECK(strstr(t.data, "80 calls"));
    hod__text_free(&t);
}

TEST(plan_timeline_of_nothing)
{
    hod_text t = {0};
    EQ_INT(hod__timeline_svg(NULL, NULL, 0, 0, 0, &t), 0);
    CHECK(strstr(t.data, "</svg>\n") && !strstr(t.data, "nan") && !strstr(t.data, "inf"));
    hod__text_free(&t);
}
