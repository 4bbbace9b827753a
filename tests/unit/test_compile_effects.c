/* Compiled functions that change tensors in place: order, aliases, reads and writes of the host. */
#include "compile_twins.h"
#include <hod/memory.h>

/* Reads before a change see the old value, reads after it the new one. */
static int read_write_read(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *before = hod_mul_scalar(s->s, 2);
    if (!hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5)))
        return -1;
    out[0] = before;
    out[1] = hod_mul_scalar(s->s, 3);
    return 0;
}
TWINS(compile_effects_state_is_read_and_written, read_write_read, 2, 1, 0)

static int write_twice(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    hod_tensor *mid = hod_mul_scalar(s->s, 1);
    hod__assign(s->s, hod_mul_scalar(hod_sub(s->s, in[0]), .5));
    out[0] = hod_add(mid, s->s);
    return 0;
}
TWINS(compile_effects_state_is_written_twice, write_twice, 1, 1, 0)

/* A view made inside before the change shows the change. */
static int view_before_write(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *v = hod_reshape(s->s, HOD_SHAPE(2, 3));
    hod_tensor *old = hod_sum(v);
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    out[0] = old;
    out[1] = hod_mul_scalar(v, 2);
    return 0;
}
TWINS(compile_effects_views_see_later_changes, view_before_write, 2, 1, 0)

/* A view made outside shares memory with what is changed: a break keeps the order. */
static int outside_view(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *old = hod_mul_scalar(s->view, 2);
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    out[0] = old;
    out[1] = hod_mul_scalar(s->view, 3);
    return 0;
}
TWINS(compile_effects_outside_view_of_changed, outside_view, 2, 1, 2)

static int change_a_view(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *part = hod_slice(s->s, 0, 2, 5);
    hod__assign(part, hod_mul_scalar(hod_slice(in[0], 0, 0, 3), .5));
    out[0] = hod_mul_scalar(s->s, 2);
    return 0;
}
TWINS(compile_effects_view_is_changed, change_a_view, 1, 1, -1)

static int change_a_result(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *h = hod_mul_scalar(in[0], 2), *v = hod_reshape(h, HOD_SHAPE(3, 2));
    hod__assign(h, hod_add(h, in[0]));
    out[0] = hod_exp(h);
    out[1] = hod_mul_scalar(v, 1); /* sees the change */
    hod__assign(h, in[0]);         /* a copy, not the input itself */
    out[2] = h;
    return 0;
}
TWINS(compile_effects_result_is_changed, change_a_result, 3, 1, 0)

/* The host reads a tensor whose change is only recorded so far. */
static int host_reads_state(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    s->host += hod_item(hod_select(s->s, 0, 1));
    float v[6];
    hod__assign(s->s, hod_mul_scalar(s->s, .5));
    CHECK(hod_read_floats(s->s, v, 6) == 0);
    s->host += v[2];
    out[0] = hod_mul_scalar(s->s, 2);
    return 0;
}
TWINS(compile_effects_host_reads_changed_state, host_reads_state, 1, 1, 2)

/* The host writes a tensor that was read: what was recorded before runs first. */
static int host_writes_state(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *old = hod_add(s->s, in[0]);
    float *p = hod_tensor_mutable_data(s->s);
    CHECK(p);
    p[0] = (float)++s->calls;
    out[0] = old;
    out[1] = hod_add(s->s, in[0]);
    return 0;
}
TWINS(compile_effects_host_writes_what_was_read, host_writes_state, 2, 1, 1)

static int shift_itself(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod__assign(s->s, hod_add(s->s, in[0]));
    hod__assign(hod_slice(s->s, 0, 1, 6), hod_slice(s->s, 0, 0, 5));
    out[0] = hod_mul_scalar(s->s, 2);
    return 0;
}
TWINS(compile_effects_assigned_to_a_part_of_itself, shift_itself, 1, 1, -1)

/* ---- inputs that are each other ---- */

static int two_inputs(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod__assign(in[0], hod_mul_scalar(in[1], 2));
    out[0] = hod_add(in[0], in[1]);
    return 0;
}

TEST(compile_effects_inputs_may_be_one_tensor)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(two_inputs, NULL, .inputs = 2, .outputs = 1);
    for (int i = 0; i < 9; i++) {
        hod_tensor *a = row(6, 1 + i), *b = row(6, 2 + i), *y, *e;
        hod_tensor *c = row(6, 1 + i), *d = row(6, 2 + i);
        if (i % 3 == 1) { /* the same tensor */
            b = a, d = c;
        } else if (i % 3 == 2) { /* two views of one memory, shifted */
            hod_tensor *m = row(7, 1 + i), *n = row(7, 1 + i);
            a = hod_slice(m, 0, 0, 6), b = hod_slice(m, 0, 1, 7);
            c = hod_slice(n, 0, 0, 6), d = hod_slice(n, 0, 1, 7);
        }
        CHECK(hod_fn_call(f, (hod_tensor *[]){a, b}, &y) == 0);
        CHECK(two_inputs(NULL, (hod_tensor *[]){c, d}, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE);
        NEAR(apart(a, c), 0, CLOSE);
    }
    hod_fn_free(f);
}

TEST(compile_effects_leave_nothing_behind)
{
    int64_t live = hod_memory().allocated;
    {
        HOD_SCOPE(s);
        state a = state_new(), b = state_new();
        run_twins((twin){host_reads_state, &a, &b, 1, 3, 1, 2});
        run_twins((twin){view_before_write, &a, &b, 2, 3, 1, 0});
        state_free(&a);
        state_free(&b);
        CHECK(hod_random_begin(0, 0, NULL) == 0);
    }
    CHECK(hod_memory().allocated <= live + 64); /* this thread's random key */
}
