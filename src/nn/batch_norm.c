/* Batch normalisation, and its running statistics when a batch comes in pieces.
 *
 * A training forward normalises with the mean and variance of the micro-batch it sees. What is
 * declared is when the running statistics, used in evaluation, move:
 *
 *     micro    by each forward: K micro-batches move them K times
 *     pooled   once per update, by mean and variance of all values since the last update
 *     frozen   never, and training normalises with them, too
 *
 * Pooling merges (n, mean, M2) of a micro-batch into (N, mean, M2) of the window by the pairwise
 * rule of Chan, Golub and LeVeque (1979), which is exact and has no cancellation:
 *
 *     d = mean_b - mean      N' = N + n      mean' = mean + d n/N'      M2' = M2 + M2_b + d² N n/N'
 *
 * All of it is operators and assignments without a branch on values, so that a compiled step
 * carries it along. Recomputation of a checkpointed forward counts nothing a second time.
 */
#include "nn/nn.h"

typedef struct batch_norm {
    hod_module base;
    hod_batch_norm_mode mode;
    double eps, momentum;
    hod_tensor *weight, *bias;                          /* (C) */
    hod_tensor *running_mean, *running_var;             /* (C) */
    hod_tensor *tracked;                                /* () i64 */
    hod_tensor *pooled_count, *pooled_mean, *pooled_m2; /* (), (C), (C) */
} batch_norm;

/* t += rate * (to - t) */
static hod_tensor *move_toward(hod_tensor *t, hod_tensor *to, double rate)
{
    return hod_add(t, hod_mul_scalar(hod_sub(to, t), rate));
}

static hod_tensor *put(hod_tensor *t, hod_tensor *value)
{
    return hod__assign_by(t, value, "a batch norm's statistics");
}

static int count_one(batch_norm *m)
{
    return put(m->tracked, hod_add_scalar(m->tracked, 1)) ? 0 : -1;
}

static int move_running(batch_norm *m, hod_tensor *mean, hod_tensor *unbiased)
{
    hod_tensor *new_mean = move_toward(m->running_mean, mean, m->momentum);
    hod_tensor *new_var = move_toward(m->running_var, unbiased, m->momentum);
    return put(m->running_mean, new_mean) && put(m->running_var, new_var) ? 0 : -1;
}

/* Merges a micro-batch of n values a channel; mean, var: (C), var biased. */
static int pool_moments(batch_norm *m, hod_tensor *mean, hod_tensor *var, double n)
{
    hod_tensor *total = hod_add_scalar(m->pooled_count, n);
    hod_tensor *share = hod_div(hod_full_like(total, n), total); /* n / N' */
    hod_tensor *d = hod_sub(mean, m->pooled_mean);
    hod_tensor *new_mean = hod_add(m->pooled_mean, hod_mul(d, share));
    hod_tensor *between = hod_mul(hod_mul(d, d), hod_mul(m->pooled_count, share));
    hod_tensor *new_m2 = hod_add(hod_add(m->pooled_m2, hod_mul_scalar(var, n)), between);
    return put(m->pooled_mean, new_mean) && put(m->pooled_m2, new_m2) && put(m->pooled_count, total)
               ? 0
               : -1;
}

static int note_statistics(batch_norm *m, hod_tensor *mean, hod_tensor *var, int64_t n)
{
    if (hod_recomputing())
        return 0;
    HOD_SCOPE(s);
    HOD_NO_GRAD(g);
    mean = hod_detach(mean);
    var = hod_detach(var);
    if (m->mode == HOD_BN_POOLED)
        return pool_moments(m, mean, var, (double)n);
    hod_tensor *unbiased = hod_mul_scalar(var, (double)n / (double)(n - 1));
    return move_running(m, mean, unbiased) == 0 ? count_one(m) : -1;
}

static hod_tensor *batch_norm_forward(hod_module *self, hod_tensor *x) /* (N,C,...) */
{
    batch_norm *m = (batch_norm *)self;
    int64_t channels = m->weight->shape[0];
    if (x->ndim < 2 || x->shape[1] != channels)
        return HOD_FAIL(ARGUMENT, "batch_norm2d: %s given, (N,%lld,...) wanted", HOD_SHAPE_TEXT(x),
                        (long long)channels);
    int64_t n = hod_tensor_numel(x) / channels;
    if (!self->training || m->mode == HOD_BN_FROZEN || n == 0)
        return hod_batch_norm(x, m->running_mean, m->running_var, m->weight, m->bias, m->eps);
    if (n == 1)
        return HOD_FAIL(ARGUMENT,
                        "batch_norm2d: %s has one value per channel, training needs two or more",
                        HOD_SHAPE_TEXT(x));
    hod_shape dims = {.n = x->ndim - 1};
    for (int i = 1; i < dims.n; i++)
        dims.d[i] = i + 1;
    hod_tensor *mean = hod_mean_over(x, dims, false);
    hod_tensor *var = hod_var_over(x, dims, false, 0);
    hod_tensor *y = hod_batch_norm(x, mean, var, m->weight, m->bias, m->eps);
    return y && note_statistics(m, mean, var, n) == 0 ? y : NULL;
}

/* ---- once per update ---- */

int hod__batch_norm_discard(hod_module *self)
{
    if (self->forward != batch_norm_forward)
        return 0;
    batch_norm *m = (batch_norm *)self;
    HOD_SCOPE(s);
    return put(m->pooled_count, hod_full_like(m->pooled_count, 0)) &&
                   put(m->pooled_mean, hod_full_like(m->pooled_mean, 0)) &&
                   put(m->pooled_m2, hod_full_like(m->pooled_m2, 0))
               ? 0
               : -1;
}

/* A window without a forward (evaluation only, or a frozen part) moves nothing: `any` is false. */
static int batch_norm_update(hod_module *self)
{
    batch_norm *m = (batch_norm *)self;
    if (m->mode != HOD_BN_POOLED)
        return 0;
    HOD_SCOPE(s);
    hod_tensor *any = hod_gt_scalar(m->pooled_count, 1);
    hod_tensor *degrees = hod_maximum_scalar(hod_sub_scalar(m->pooled_count, 1), 1);
    hod_tensor *unbiased = hod_div(m->pooled_m2, degrees);
    hod_tensor *mean = hod_where(any, m->pooled_mean, m->running_mean);
    hod_tensor *var = hod_where(any, unbiased, m->running_var);
    hod_tensor *tracked = hod_add(m->tracked, hod_cast(any, HOD_I64));
    if (move_running(m, mean, var) != 0 || !put(m->tracked, tracked))
        return -1;
    return hod__batch_norm_discard(self);
}

void hod__batch_norm_set_mode(hod_module *self, hod_batch_norm_mode mode)
{
    if (self->forward == batch_norm_forward)
        ((batch_norm *)self)->mode = mode;
}

hod_module *hod_nn_batch_norm2d_make(hod_module *parent, const char *name, hod_batch_norm_spec spec)
{
    if (spec.channels <= 0)
        hod__fail(HOD_ERROR_ARGUMENT, "batch_norm2d: channels = %lld, must be positive",
                  (long long)spec.channels);
    batch_norm *m =
        (batch_norm *)hod_module_make(parent, name, "batch_norm2d", sizeof *m, batch_norm_forward);
    hod_module *self = &m->base;
    hod_shape c = HOD_SHAPE(spec.channels);
    self->update_statistics = batch_norm_update;
    m->mode = spec.mode;
    m->eps = spec.no_eps ? 0 : spec.eps > 0 ? spec.eps : 1e-5;
    m->momentum = spec.momentum > 0 ? spec.momentum : 0.1;
    m->weight = hod_parameter_new(self, "weight", HOD_NORM_GAIN, c, (hod_init){HOD_INIT_ONES, 0});
    m->bias = hod_parameter_new(self, "bias", HOD_NORM_BIAS, c, (hod_init){HOD_INIT_ZEROS, 0});
    m->running_mean = hod_buffer_new(self, "running_mean", HOD_F32, c, 0);
    m->running_var = hod_buffer_new(self, "running_var", HOD_F32, c, 1);
    m->tracked = hod_buffer_new(self, "num_batches_tracked", HOD_I64, HOD_SHAPE(), 0);
    int64_t saved = self->n_buffers;
    m->pooled_count = hod_buffer_new(self, "pooled_count", HOD_F32, HOD_SHAPE(), 0);
    m->pooled_mean = hod_buffer_new(self, "pooled_mean", HOD_F32, c, 0);
    m->pooled_m2 = hod_buffer_new(self, "pooled_m2", HOD_F32, c, 0);
    for (int64_t i = saved; i < self->n_buffers; i++)
        self->buffers[i].transient = true;
    return hod_module_done(m);
}
