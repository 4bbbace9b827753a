/* Row-sparse gradients: the dense ones are the oracle wherever both mean the same. */
#include "harness.h"
#include "optim/optim.h"
#include <hod/compile.h>
#include <hod/memory.h>
#include <hod/nn.h>
#include <hod/trainer.h>
#include <math.h>

static double distance(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b);
    return hod_item(hod_amax(hod_abs(hod_sub(a, b))));
}

static hod_tensor *wave(hod_shape s)
{
    return hod_cast(hod_sin(hod_reshape(hod_arange(HOD_F64, hod__numel(s.n, s.d)), s)), HOD_F32);
}

typedef struct pair {
    hod_module *net[2]; /* dense, row-sparse */
    hod_tensor *w[2];
    hod_optimizer *o[2];
} pair;

static pair pair_new(hod_optimizer_spec spec)
{
    pair p;
    for (int k = 0; k < 2; k++) {
        p.net[k] = hod_nn_embedding(NULL, "table", .rows = 7, .features = 3, .row_sparse = k);
        hod_walk walk = hod_parameters(p.net[k]);
        CHECK(hod_walk_next(&walk));
        p.w[k] = walk.item.tensor;
        HOD_NO_GRAD(n);
        CHECK(hod__assign(p.w[k], wave(HOD_SHAPE(7, 3))));
        p.o[k] = hod_optimizer_new(p.net[k], spec);
        CHECK(p.o[k] != NULL);
    }
    return p;
}

static void pair_free(pair *p)
{
    for (int k = 0; k < 2; k++) {
        hod_optimizer_free(p->o[k]);
        hod_module_free(p->net[k]);
    }
}

static void backward(hod_module *net, const int64_t *index, int64_t n)
{
    hod_tensor *e = hod_call(net, hod_from_ints(index, HOD_SHAPE(n)));
    CHECK(hod_backward(hod_sum(hod_mul(hod_square(e), wave(hod_tensor_shape(e))))) == 0);
}

static const int64_t first[] = {2, 5, 2, 0}, second[] = {5, 6};

TEST(row_gradient_is_the_dense_one)
{
    pair p = pair_new((hod_optimizer_spec){.kind = HOD_SGD});
    for (int k = 0; k < 2; k++) {
        backward(p.net[k], first, 4);
        backward(p.net[k], second, 2);
    }
    CHECK(hod_grad(p.w[1]) == NULL && hod_grad_rows(p.w[0]).rows == NULL);
    EQ_INT(hod_tensor_size(hod_grad_rows(p.w[1]).rows, 0), 6);
    NEAR(hod_gradients_norm(p.o[1]), hod_gradients_norm(p.o[0]), 1e-6);
    CHECK(hod_gradients_scale(p.o[1], 2) == 0 && hod_gradients_scale(p.o[0], 2) == 0);
    CHECK(hod_grad_rows_sum(p.w[1]) == 0);
    ERROR_IS("grad_rows_sum: the tensor is NULL", hod_grad_rows_sum(NULL));
    ERROR_IS("grad_rows_to_dense: the tensor is NULL", hod_grad_rows_to_dense(NULL));
    EQ_INT(hod_tensor_size(hod_grad_rows(p.w[1]).rows, 0), 4);
    CHECK(hod_grad_rows_to_dense(p.w[1]) == 0);
    CHECK(hod_grad_rows(p.w[1]).rows == NULL);
    NEAR(distance(hod_grad(p.w[1]), hod_grad(p.w[0])), 0, 1e-6);
    hod_zero_grad(p.w[1]);
    backward(p.net[1], first, 4);
    hod_zero_grad(p.w[1]);
    CHECK(hod_grad_rows(p.w[1]).rows == NULL && hod_grad_rows(p.w[1]).values == NULL);
    pair_free(&p);
}

TEST(row_gradient_is_dense_where_a_tensor_is_asked_for)
{
    hod_tensor *w = wave(HOD_SHAPE(4, 2)), *dw;
    CHECK(hod_requires_grad(w, true));
    hod_tensor *e = hod_embedding_rows(w, hod_from_ints((int64_t[]){1, 1}, HOD_SHAPE(2)));
    CHECK(hod_grad_of(hod_sum(e), 1, &w, &dw, HOD_ONES) == 0);
    NEAR(hod_item(hod_sum(dw)), 4, 0);
    CHECK(hod_grad_rows(w).rows == NULL && hod_grad(w) == NULL);
    hod_tensor *twice = hod_mul_scalar(w, 2); /* not a leaf */
    e = hod_embedding_rows(twice, hod_from_ints((int64_t[]){3}, HOD_SHAPE(1)));
    CHECK(hod_backward(hod_sum(e)) == 0);
    NEAR(hod_item(hod_sum(hod_grad(w))), 4, 0);
    hod_tensor *index = hod_from_ints((int64_t[]){3}, HOD_SHAPE(1));
    e = hod_embedding_rows(w, index);
    CHECK(hod__assign(index, hod_full(HOD_I64, HOD_SHAPE(), 1)) != NULL);
    ERROR_IS("backward of embedding_rows: the index (1) was changed in place",
             hod_backward(hod_sum(e)));
    ERROR_IS("embedding: index 4 at element 0 is outside 0..3",
             hod_embedding_rows(w, hod_from_ints((int64_t[]){4}, HOD_SHAPE(1))));
}

/* With a gradient in every row the rules are the same; clipping, decay, averages included. */
TEST(row_gradient_steps_as_the_dense_one_where_all_rows_are_there)
{
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 3, 3};
    const hod_optimizer_spec specs[] = {
        {.kind = HOD_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
        {.kind = HOD_ADAM, .weight_decay = 0.1, .ema = 0.9},
        {.kind = HOD_ADAMW, .weight_decay = 0.1}};
    for (int i = 0; i < HOD_COUNT(specs); i++) {
        pair p = pair_new(specs[i]);
        for (int step = 0; step < 3; step++)
            for (int k = 0; k < 2; k++) {
                hod_update_result r;
                backward(p.net[k], all, 9);
                CHECK(hod_update(p.o[k], &r, .factor = 0.5, .clip_norm = 0.3) == 0);
                CHECK(!r.skipped && r.present == 1);
            }
        NEAR(distance(p.w[0], p.w[1]), 0, 1e-6);
        hod_optimizer_entry a = hod_optimizer_at(p.o[0], 0), b = hod_optimizer_at(p.o[1], 0);
        EQ_INT(b.step, 3);
        for (int k = 0; k < a.n_state; k++)
            NEAR(distance(a.state[k], b.state[k]), 0, 1e-6);
        if (a.ema)
            NEAR(distance(a.ema, b.ema), 0, 1e-6);
        pair_free(&p);
    }
}

/* Adam by PyTorch's SparseAdam: moments of absent rows stand still, steps count for the table. */
TEST(row_gradient_leaves_other_rows_alone)
{
    pair p = pair_new((hod_optimizer_spec){.kind = HOD_ADAM, .lr = 0.1});
    hod_tensor *before = hod_copy(p.w[1]);
    backward(p.net[1], second, 2);
    CHECK(hod_update_all(p.o[1]) == 0);
    backward(p.net[1], first, 4);
    hod_tensor *middle = hod_copy(p.w[1]), *m = hod_copy(hod_optimizer_at(p.o[1], 0).state[0]);
    CHECK(hod_update_all(p.o[1]) == 0);
    static const bool moved[2][7] = {{0, 0, 0, 0, 0, 1, 1}, {1, 0, 1, 0, 0, 1, 0}};
    hod_tensor *at[] = {before, middle, p.w[1]};
    for (int u = 0; u < 2; u++)
        for (int i = 0; i < 7; i++)
            CHECK((distance(hod_select(at[u], 0, i), hod_select(at[u + 1], 0, i)) > 0) ==
                  moved[u][i]);
    hod_tensor *now = hod_optimizer_at(p.o[1], 0).state[0];
    NEAR(distance(hod_select(m, 0, 6), hod_select(now, 0, 6)), 0, 0);
    /* Row 0 at its first gradient, at step 2: lr * (0.1 g / 0.19) / (sqrt(0.001 g² / 0.001999)). */
    double step = 0.1 * (0.1 / 0.19) / sqrt(0.001 / 0.001999);
    hod_tensor *d = hod_abs(hod_sub(hod_select(before, 0, 0), hod_select(p.w[1], 0, 0)));
    NEAR(hod_item(hod_amax(d)), step, 1e-5);
    pair_free(&p);
}

TEST(row_gradient_of_a_window_that_is_not_finite_changes_nothing)
{
    pair p = pair_new((hod_optimizer_spec){.kind = HOD_ADAM});
    hod_tensor *before = hod_copy(p.w[1]);
    hod_tensor *e = hod_call(p.net[1], hod_from_ints(second, HOD_SHAPE(2)));
    CHECK(hod_backward(hod_sum(hod_mul_scalar(e, INFINITY))) == 0);
    hod_update_result r;
    CHECK(hod_update(p.o[1], &r, .clip_norm = 1) == 0 && r.skipped);
    NEAR(distance(before, p.w[1]), 0, 0);
    EQ_INT(hod_optimizer_at(p.o[1], 0).step, 0);
    CHECK(hod_grad_rows(p.w[1]).rows == NULL);
    pair_free(&p);
}

static int step_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_tensor *e = hod_call(job, in[0]);
    out[0] = hod_sum(hod_mul(hod_square(e), wave(hod_tensor_shape(e))));
    return hod_backward(out[0]);
}

/* Inside a compiled function the list grows behind a graph break; lengths differ between calls. */
TEST(row_gradient_in_a_compiled_step)
{
    pair p = pair_new((hod_optimizer_spec){.kind = HOD_ADAMW, .lr = 0.1});
    hod_fn *f = hod_compile(step_body, p.net[1], .inputs = 1, .outputs = 1);
    pair q = pair_new((hod_optimizer_spec){.kind = HOD_ADAMW, .lr = 0.1});
    CHECK(f != NULL);
    for (int i = 0; i < 4; i++) {
        HOD_SCOPE(s);
        const int64_t *index[] = {first, second};
        for (int k = 0; k < 2; k++) {
            hod_tensor *in = hod_from_ints(index[k], HOD_SHAPE(k ? 2 : 4)), *out;
            CHECK(hod_fn_call(f, &in, &out) == 0);
            backward(q.net[1], index[k], k ? 2 : 4);
        }
        EQ_INT(hod_tensor_size(hod_grad_rows(p.w[1]).rows, 0), 6);
        CHECK(hod_update_all(p.o[1]) == 0 && hod_update_all(q.o[1]) == 0);
        NEAR(distance(p.w[1], q.w[1]), 0, 1e-6);
    }
    hod_fn_free(f);
    pair_free(&p);
    pair_free(&q);
}

/* A table of 256 MB, a thousand rows of it: backward and update take what the rows take. */
TEST(row_gradient_makes_no_dense_one)
{
    enum { ROWS = 1000000, WIDE = 64, USED = 1000 };
    hod_module *net =
        hod_nn_embedding(NULL, "table", .rows = ROWS, .features = WIDE, .row_sparse = true);
    hod_optimizer *o = hod_optimizer_new(net, (hod_optimizer_spec){.kind = HOD_SGD});
    CHECK(o != NULL);
    int64_t index[USED];
    for (int i = 0; i < USED; i++)
        index[i] = (int64_t)i * 999;
    hod_tensor *at = hod_from_ints(index, HOD_SHAPE(USED));
    int64_t before = hod_memory().allocated;
    hod_memory_reset_peak();
    CHECK(hod_backward(hod_sum(hod_square(hod_call(net, at)))) == 0);
    CHECK(hod_update_all(o) == 0);
    int64_t used = hod_memory().allocated_peak - before;
    if (used > 20 * USED * WIDE * 4) /* of 1,000 rows some twenty values; the table is 1,000 such */
        FAIL("%lld bytes", (long long)used);
    hod_optimizer_free(o);
    hod_module_free(net);
}
