/* Compiled functions when things go wrong or run side by side: failures, nesting, threads, limits;
 * the modes and switches of a function; and that a replay allocates nothing. */
#include "base/scope.h"
#include "compile_twins.h"
#include <hod/memory.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool interpreted(void)
{
    const char *mode = getenv("HOD_COMPILE");
    return mode && strcmp(mode, "interpret") == 0;
}

/* ---- randomness ---- */

static int draws(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_dropout(hod_exp(in[0]), .5);
    out[1] = hod_dropout(hod_exp(in[0]), .5);
    return 0;
}

/* Nobody begins a new key: every call draws anew, and eager mode draws the same. */
TEST(compile_sound_randomness_without_begin)
{
    HOD_SCOPE(s);
    hod_tensor *x = row(40, 1), *y[2][8][2];
    for (int eager = 0; eager < 2; eager++) {
        hod_fn *f = hod_compile(draws, NULL, .inputs = 1, .outputs = 2,
                                .mode = eager ? HOD_COMPILE_EAGER : HOD_COMPILE_DEFAULT);
        CHECK(hod_random_begin(5, 1, NULL) == 0);
        for (int i = 0; i < 8; i++)
            CHECK(hod_fn_call(f, &x, y[eager][i]) == 0);
        EQ_INT(hod_fn_report(f).traces, !eager);
        hod_fn_free(f);
    }
    for (int i = 0; i < 8; i++) {
        NEAR(apart(y[0][i][0], y[1][i][0]), 0, CLOSE);
        NEAR(apart(y[0][i][1], y[1][i][1]), 0, CLOSE);
        CHECK(apart(y[0][i][0], y[0][i][1]) > .1);
        for (int j = 0; j < i; j++)
            CHECK(apart(y[0][i][0], y[0][j][0]) > .1);
    }
}

/* ---- failures ---- */

typedef struct failing {
    state s;
    int mode;
} failing;

static int fails(void *job, hod_tensor *const *in, hod_tensor **out)
{
    failing *j = job;
    state *s = &j->s;
    hod_tensor *l = loss_of(s, in[0]);
    if (j->mode == 1)
        return -1;
    if (hod_backward(l) != 0)
        return -1;
    hod__assign(s->s, hod_add(s->s, in[0]));
    if (j->mode == 2)
        return hod_add(l, row(3, 1)) && hod_matmul(l, l) ? 0 : -1;
    if (j->mode == 3 && hod_item(l) > 0)
        return -1;
    out[0] = l;
    if (j->mode == 4)
        out[0] = NULL;
    return 0;
}

TEST(compile_sound_failures_leave_no_trace)
{
    HOD_SCOPE(s);
    failing a = {.s = state_new()}, b = {.s = state_new()};
    hod_fn *f = hod_compile(fails, &a, .inputs = 1, .outputs = 1);
    hod_tensor *x = row(6, 1), *y, *e;
    for (int i = 0; i < 15; i++) {
        a.mode = i % 5;
        if (a.mode == 0) {
            CHECK(hod_fn_call(f, &x, &y) == 0);
            CHECK(fails(&b, &x, &e) == 0);
            NEAR(apart(y, e), 0, CLOSE);
        } else {
            CHECK(hod_fn_call(f, &x, &y) == -1);
            CHECK(hod_error_take(NULL));
            CHECK(y == NULL);
            if (a.mode == 3) { /* the part before the break had run */
                CHECK(fails(&b, &x, &e) == 0);
            }
        }
        if (hod_grad(b.s.w))
            NEAR(apart(hod_grad(a.s.w), hod_grad(b.s.w)), 0, CLOSE * 100);
        NEAR(apart(a.s.s, b.s.s), 0, CLOSE * 100);
    }
    hod_fn_free(f);
    state_free(&a.s);
    state_free(&b.s);
}

/* The n-th allocation fails, for all n: an error, and the next call is right. */
static int allocates(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *h = loss_of(s, hod_reshape(hod_reshape(in[0], HOD_SHAPE(2, 3)), HOD_SHAPE(6)));
    if (!hod__assign(s->s, hod_add(s->s, in[0])))
        return -1;
    s->host = hod_item(h);
    out[0] = hod_mul_scalar(h, 2);
    return hod_backward(out[0]);
}

TEST(compile_sound_allocation_failures)
{
    HOD_SCOPE(s);
    hod_tensor *x = row(6, 1);
    int failures = 0;
    for (int64_t n = 0, done = 0; done < 20; n++) {
        HOD_SCOPE(t);
        state a = state_new(), b = state_new();
        hod_fn *f = hod_compile(allocates, &a, .inputs = 1, .outputs = 1);
        hod_tensor *y, *e;
        hod__alloc_fail_after = n;
        int rc = f ? hod_fn_call(f, &x, &y) : -1;
        hod__alloc_fail_after = -1;
        done += rc == 0;
        failures += rc != 0;
        if ((rc != 0) != (hod_error() != NULL))
            FAIL("allocation %d: %d, %s", (int)n, rc, hod_error());
        hod_error_take(NULL);
        /* What ran before the break stays done: start the states from the same place again. */
        hod__assign(a.s, b.s);
        hod_zero_grad(a.w);
        for (int i = 0; f && i < 3; i++) {
            CHECK(hod_fn_call(f, &x, &y) == 0);
            CHECK(allocates(&b, &x, &e) == 0);
            NEAR(apart(y, e), 0, CLOSE);
            NEAR(apart(a.s, b.s), 0, CLOSE);
            if (!hod_grad(a.w))
                FAIL("no gradient after failed allocation %d, call %d", (int)n, i);
            NEAR(apart(hod_grad(a.w), hod_grad(b.w)), 0, CLOSE);
        }
        hod_fn_free(f);
        state_free(&a);
        state_free(&b);
    }
    CHECK(failures > 50);
}

static int survives_an_error(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *h = hod_exp(in[0]);
    if (!hod_matmul(h, row(4, 1)))
        hod_error_take(NULL);
    out[0] = hod_mul(h, h);
    return 0;
}
TWINS(compile_sound_operator_refused_and_survived, survives_an_error, 1, 1, 0)

TEST(compile_sound_value_of_a_dead_call_is_an_error)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(inner_body, NULL, .inputs = 0, .outputs = 0);
    hod_tensor *x = hod_placeholder(HOD_F32, HOD_SHAPE(2, 3));
    float v[6];
    ERROR_IS("read: the values of this (2,3) tensor were never computed", hod_read_floats(x, v, 6));
    hod_fn_free(f);
}

/* ---- nesting, threads ---- */

typedef struct nested {
    state s;
    hod_fn *inner;
} nested;

static int outer_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    nested *n = job;
    hod_tensor *l;
    if (hod_fn_call(n->inner, in, &l) != 0)
        return -1;
    out[0] = hod_mul_scalar(l, 2);
    return hod_backward(out[0]);
}

TEST(compile_sound_nested_function_is_a_part_of_the_outer)
{
    HOD_SCOPE(s);
    nested a = {.s = state_new()}, b = {.s = state_new()};
    a.inner = hod_compile(inner_body, &a.s, .inputs = 1, .outputs = 1);
    b.inner = hod_compile(inner_body, &b.s, .inputs = 1, .outputs = 1, .mode = HOD_COMPILE_EAGER);
    run_twins((twin){outer_body, &a, &b, 1, 4, 1, 0});
    NEAR(apart(hod_grad(a.s.w), hod_grad(b.s.w)), 0, CLOSE);
    EQ_INT(hod_fn_report(a.inner).traces, 0);
    hod_fn_free(a.inner);
    hod_fn_free(b.inner);
    state_free(&a.s);
    state_free(&b.s);
}

static void *thread_body(void *shared)
{
    state *s = shared;
    hod_fn *f = hod_compile(inner_body, s, .inputs = 1, .outputs = 1);
    for (int i = 0; i < 200; i++) {
        HOD_SCOPE(scope);
        HOD_NO_GRAD(n);
        hod_tensor *x = row(6, 1 + i % 7), *y, *e;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        CHECK(inner_body(s, &x, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE * 100);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
    return NULL;
}

/* Two threads compile functions over the same parameters: the hints on tensors collide. */
TEST(compile_sound_two_threads_share_parameters)
{
    HOD_SCOPE(scope);
    state s = state_new();
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, thread_body, &s) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    state_free(&s);
}

/* ---- limits ---- */

static int many_traces(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = hod_mul_scalar(in[0], 1 + ((state *)job)->calls++ % 6);
    return 0;
}

TEST(compile_sound_trace_limit_falls_back)
{
    HOD_SCOPE(s);
    state a = {0}, b = {0};
    fclose(stderr); /* the warning is not ours to check here */
    hod_fn *f = hod_compile(many_traces, &a, .inputs = 1, .outputs = 1, .max_traces = 3);
    for (int i = 0; i < 18; i++) {
        hod_tensor *x = row(6, 1), *y, *e;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        CHECK(many_traces(&b, &x, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE);
    }
    EQ_INT(hod_fn_report(f).traces, 3);
    hod_fn_free(f);
}

/* ---- prepare ---- */

TEST(compile_sound_prepare_runs_nothing)
{
    HOD_SCOPE(s);
    state a = state_new(), b = state_new();
    hod_fn *f = hod_compile(descend, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = hod_placeholder(HOD_F32, HOD_SHAPE(6)), *y, *e;
    uint32_t version = hod_tensor_version(a.w);
    if (hod_fn_prepare(f, &x) != 0)
        FAIL("%s", hod_error());
    CHECK(hod_grad(a.w) == NULL);
    EQ_INT(hod_tensor_version(a.w), version);
    NEAR(apart(a.w, b.w), 0, 0);
    EQ_INT(hod_fn_report(f).traces, 1);
    ERROR_IS("step: input 0 is a placeholder", hod_fn_call(f, &x, &y));
    ERROR_IS("step: an input is NULL", hod_fn_call(f, (hod_tensor *[]){NULL}, &y));
    ERROR_IS("step: an input is NULL", hod_fn_prepare(f, (hod_tensor *[]){NULL}));
    x = row(6, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(hod_fn_call(f, &x, &y) == 0);
        CHECK(descend(&b, &x, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE);
        NEAR(apart(a.w, b.w), 0, CLOSE);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
    state_free(&a);
    state_free(&b);
}

/* ---- static mode ---- */

/* With `host` set, the body clears the gradient itself and is called every time. */
static int counted(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    s->calls++;
    if (s->host != 0)
        hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    HOD_NO_GRAD(n);
    return hod__assign(s->w, hod_sub(s->w, hod_mul_scalar(hod_grad(s->w), .1))) ? 0 : -1;
}

TEST(compile_sound_static_mode_skips_the_body)
{
    HOD_SCOPE(s);
    for (int clears = 0; clears < 2; clears++) {
        state a = state_new(), b = state_new();
        a.host = b.host = clears;
        hod_fn *f = hod_compile(counted, &a, .inputs = 1, .outputs = 1,
                                .mode = HOD_COMPILE_REDUCE_OVERHEAD);
        for (int i = 0; i < 6; i++) {
            hod_tensor *x = row(6, 1 + .1 * i), *y, *e;
            CHECK(hod_fn_call(f, &x, &y) == 0);
            CHECK(counted(&b, &x, &e) == 0);
            NEAR(apart(y, e), 0, CLOSE);
            NEAR(apart(a.w, b.w), 0, CLOSE);
            NEAR(apart(hod_grad(a.w), hod_grad(b.w)), 0, CLOSE);
            EQ_INT(hod_tensor_version(a.w), hod_tensor_version(b.w));
        }
        EQ_INT(a.calls, clears ? 6 : 1);
        hod_fn_free(f);
        state_free(&a);
        state_free(&b);
    }
}

static int not_static(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    s->calls++;
    out[0] = s->calls < 3   ? hod_exp(in[0])
             : s->calls < 5 ? hod_mul(hod_exp(in[0]), row(6, 1))
                            : hod_tanh(in[0]);
    return 0;
}

TEST(compile_sound_static_promise_is_checked)
{
    HOD_SCOPE(s);
    state a = {0};
    setenv("HOD_CHECK_STATIC", "1", 1);
    hod_fn *f =
        hod_compile(not_static, &a, .inputs = 1, .outputs = 1, .mode = HOD_COMPILE_REDUCE_OVERHEAD);
    hod_tensor *x = row(6, 1), *y;
    CHECK(hod_fn_call(f, &x, &y) == 0);
    CHECK(hod_fn_call(f, &x, &y) == 0);
    ERROR_IS("step: not static: this call took another way than the one before",
             hod_fn_call(f, &x, &y));
    hod_fn_free(f);
}

/* ---- debugging switches, views of a function, shared arenas ---- */

TEST(compile_sound_spans_can_be_checked)
{
    setenv("HOD_CHECK_SPANS", "1", 1);
    HOD_SCOPE(s);
    state a = state_new(), b = state_new();
    run_twins((twin){descend, &a, &b, 1, 4, 1, 0});
    NEAR(apart(a.w, b.w), 0, CLOSE);
    run_twins((twin){break_between, &a, &b, 1, 6, 2, 1});
    state_free(&a);
    state_free(&b);
}

TEST(compile_sound_everything_can_be_printed)
{
    HOD_SCOPE(s);
    state a = state_new();
    hod_fn *f = hod_compile(break_between, &a, .inputs = 1, .outputs = 1, .name = "train");
    hod_tensor *x = row(6, 1), *y;
    ERROR_IS("train: not compiled yet", hod_fn_print(f, HOD_FN_TRACE, stdout));
    CHECK(hod_fn_call(f, &x, &y) == 0);
    const char *expect[] = {"graph train {", "graph train {", "program train {", "void k_", "<svg"};
    for (int view = 0; view <= HOD_FN_TIMELINE && !interpreted(); view++) {
        char *text = NULL;
        size_t n = 0;
        FILE *to = open_memstream(&text, &n);
        CHECK(hod_fn_print(f, (hod_fn_view)view, to) == 0);
        fclose(to);
        if (!strstr(text, expect[view]))
            FAIL("view %d shows no %s: %.200s", view, expect[view], text);
        free(text);
    }
    ERROR_IS("fn_print: no view 9", hod_fn_print(f, (hod_fn_view)9, stdout));
    hod_fn_free(f);
    state_free(&a);
}

TEST(compile_sound_arena_is_shared)
{
    HOD_SCOPE(s);
    state a = state_new(), b = state_new();
    hod_arena *arena = hod_arena_new();
    hod_fn *f = hod_compile(descend, &a, .inputs = 1, .outputs = 1);
    hod_fn *g = hod_compile(break_between, &b, .inputs = 1, .outputs = 1);
    CHECK(hod_fn_set_arena(f, arena) == 0 && hod_fn_set_arena(g, arena) == 0);
    for (int i = 0; i < 3; i++) {
        hod_tensor *x = row(6, 1 + i), *y;
        CHECK(hod_fn_call(f, &x, &y) == 0 && hod_fn_call(g, &x, &y) == 0);
        EQ_INT(hod_arena_bytes(arena),
               HOD_MAX(hod_fn_report(f).arena_bytes, hod_fn_report(g).arena_bytes));
    }
    hod_fn_free(f);
    hod_fn_free(g);
    hod_arena_free(arena);
    state_free(&a);
    state_free(&b);
}

/* ---- nothing is allocated, nothing is slow ---- */

static int long_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *h = in[0];
    for (int i = 0; i < 1000; i++)
        h = hod__op(i % 2 ? HOD_OP_tanh : HOD_OP_neg, &(hod_attrs){0}, 1, &h);
    out[0] = h;
    return 0;
}

TEST(compile_sound_replay_allocates_nothing)
{
    HOD_SCOPE(s);
    if (interpreted())
        SKIP("the slow twin allocates");
    state a = state_new();
    hod_fn *f = hod_compile(descend, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = row(6, 1);
    int64_t allocations = 0;
    size_t used = 0;
    for (int i = 0; i < 20; i++) {
        HOD_SCOPE(t);
        hod_tensor *y;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        if (i == 4) {
            allocations = hod_memory().allocations;
            used = mallinfo2().uordblks;
        }
    }
    EQ_INT(hod_memory().allocations, allocations);
    EQ_INT((int64_t)mallinfo2().uordblks, (int64_t)used);
    hod_fn_free(f);
    state_free(&a);
}

TEST(compile_sound_nothing_is_left_behind)
{
    int64_t live = hod_memory().allocated;
    {
        HOD_SCOPE(s);
        state a = state_new(), b = state_new();
        run_twins((twin){break_between, &a, &b, 1, 9, 2, 1});
        state_free(&a);
        state_free(&b);
        CHECK(hod_random_begin(0, 0, NULL) == 0);
    }
    CHECK(hod_memory().allocated <= live + 64); /* this thread's random key */
}

TEST(compile_sound_replay_time)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(long_body, NULL, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = row(1, 1), *y;
    double best = 1e9;
    for (int i = 0; i < 50; i++) {
        HOD_SCOPE(t);
        double begin = hod__seconds();
        CHECK(hod_fn_call(f, &x, &y) == 0);
        if (i)
            best = fmin(best, hod__seconds() - begin);
    }
    printf("    %.1f ns an operator, its kernel's share included\n", best * 1e6);
    hod_fn_free(f);
}
