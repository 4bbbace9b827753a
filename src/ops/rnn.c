/* Recurrent layers: one operator runs all steps of one layer in one direction.
 *
 * x's part of the gates, a matrix product over all steps at once, comes in ready. A step is then
 * one product with the hidden state and one pass over the gates; nothing is unrolled. What backward
 * needs lies in the result, which therefore is more than the outputs:
 *
 *     lstm(w, state, lengths, x, b)  (6,T,N,H): h, c, then i f g o as (T,N,4H)
 *     gru(w, state, lengths, x, b)   (5,T,N,H): h, then r z n as (T,N,3H), then W_n h + b_n
 *
 *     w (4H,H) or (3H,H)   state (2,N,H): h, c; or (N,H)   lengths i64 (N)   x (T,N,4H or 3H)
 *
 * With at_rest the state is 0, so that its products are left out.
 *
 * A sample's steps from its length on keep the state and touch nothing. So the last step holds the
 * final state; and a reversed layer, which walks from T - 1 down, in effect begins at the sample's
 * own end. Gradients go backward through the same steps; the weights' are one product over all
 * steps, afterwards, by operators.
 *
 * The steps of different samples are independent: as long as the weights stay in a core's cache,
 * each thread takes some samples through all steps, without meeting the others.
 *
 * Rows a multiple of a page apart fall into the same few sets of the cache: products over rows of
 * 1024 floats take 1.6 times as long as over rows of 1040. Rows of gradients are therefore padded,
 * and so are those of the weights, which forward turns around once for all steps.
 */
#include "device/dnn.h"
#include "ops/recur.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- shapes ---- */

/* The number of gates of an operator. */
static int64_t gates_of(hod_op op)
{
    return op == HOD_OP_lstm || op == HOD_OP_lstm_back ? 4 : 3;
}

static bool is_shape(const hod_meta *m, hod_dtype dtype, int ndim, const int64_t *shape)
{
    return (hod_dtype)m->dtype == dtype && hod__same_sizes(m->ndim, m->shape, ndim, shape);
}

/* w, state, lengths fit each other and T, N; *h: hidden size. */
static int check(const hod_op_call *c, const hod_meta *in, int64_t n, int64_t *h)
{
    int64_t gates = gates_of(c->op);
    *h = in[0].ndim == 2 ? in[0].shape[1] : 0;
    hod_dtype t = in[0].dtype;
    bool fits = hod__is_computed(t) && in[0].ndim == 2 && in[0].shape[0] == gates * *h;
    const int64_t two[] = {2, n, *h};
    fits = fits && (gates == 4 ? is_shape(&in[1], t, 3, two) : is_shape(&in[1], t, 2, two + 1));
    fits = fits && is_shape(&in[2], HOD_I64, 1, &n);
    return fits ? 0
                : HOD_FAIL_RC(ARGUMENT, "%s: weights %s, state %s and lengths %s for %lld samples",
                              hod__op_name(c), HOD_META_TEXT(&in[0]), HOD_META_TEXT(&in[1]),
                              HOD_META_TEXT(&in[2]), (long long)n);
}

static int forward_shape(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_meta *x = &in[3];
    int64_t h, gates = gates_of(c->op);
    if (check(c, in, x->ndim == 3 ? x->shape[1] : -1, &h) != 0)
        return -1;
    const int64_t bias = gates * h, want[] = {x->shape[0], x->shape[1], bias};
    if (!is_shape(x, in[0].dtype, 3, want) || !is_shape(&in[4], in[0].dtype, 1, &bias))
        return HOD_FAIL_RC(ARGUMENT, "%s: input %s for weights %s", hod__op_name(c),
                           HOD_META_TEXT(x), HOD_META_TEXT(&in[0]));
    *out = (hod_meta){.dtype = in[0].dtype, .ndim = 4};
    out->shape[0] = gates == 4 ? 6 : 5;
    out->shape[1] = x->shape[0];
    out->shape[2] = x->shape[1];
    out->shape[3] = h;
    return 0;
}

int hod__shape_lstm(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return forward_shape(c, in, out);
}

int hod__shape_gru(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return forward_shape(c, in, out);
}

/* Elements from row to row of gradients of g gates. */
static int64_t pitch_of(int64_t g)
{
    return g % 512 == 0 ? g + 16 : g;
}

/* Inputs w, state, lengths, the forward result, its gradient. Result, in a row: gradients of x, for
 * gru of W h + b, both with padded rows, and of the state. */
static int back_shape(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_meta *y = &in[3], *g = &in[4];
    int64_t h, gates = gates_of(c->op);
    if (check(c, in, y->ndim == 4 ? y->shape[2] : -1, &h) != 0)
        return -1;
    if (!is_shape(g, y->dtype, y->ndim, y->shape) || y->dtype != in[0].dtype)
        return HOD_FAIL_RC(ARGUMENT, "%s: gradient %s for %s", hod__op_name(c), HOD_META_TEXT(g),
                           HOD_META_TEXT(y));
    int64_t n = y->shape[2], rows = y->shape[1] * n * pitch_of(gates * h);
    *out = (hod_meta){.dtype = y->dtype, .ndim = 1};
    out->shape[0] = gates == 4 ? rows + 2 * n * h : 2 * rows + n * h;
    return 0;
}

int hod__shape_lstm_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return back_shape(c, in, out);
}

int hod__shape_gru_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return back_shape(c, in, out);
}

/* ---- derivatives ---- */

/* Part of the row of gradients, from `from` on, in the given shape. */
static hod_tensor *part(hod_tensor *row, int64_t from, int64_t size, hod_shape shape)
{
    return hod_reshape(hod_slice(row, 0, from, from + size), shape);
}

/* The k-th (T,N,G) of the row, a view between the paddings. */
static hod_tensor *gates_part(hod_tensor *row, int64_t k, int64_t t, int64_t n, int64_t g)
{
    int64_t size = t * n * pitch_of(g);
    hod_tensor *padded = part(row, k * size, size, HOD_SHAPE(t, n, pitch_of(g)));
    return hod_slice(padded, 2, 0, g);
}

/* dz (T,N,G) times the states the steps began with: the planes h, shifted by a step, and h0. */
static hod_tensor *weight_gradient(hod_tensor *dz, hod_tensor *y, hod_tensor *h0,
                                   const hod_attrs_rnn *a)
{
    if (!dz || !y || !h0)
        return NULL;
    bool reverse = a->reverse;
    int64_t t = dz->shape[0], g = dz->shape[2], h = y->shape[3];
    int64_t first = reverse ? t - 1 : 0;
    hod_tensor *begin = NULL;
    if (!a->at_rest || t == 1)
        begin = hod_matmul(hod_transpose(hod_select(dz, 0, first), 0, 1), h0);
    if (t == 1)
        return begin;
    hod_tensor *states = hod_select(y, 0, 0);
    hod_tensor *before = hod_slice(states, 0, reverse ? 1 : 0, reverse ? t : t - 1);
    hod_tensor *rest = hod_slice(dz, 0, reverse ? 0 : 1, reverse ? t - 1 : t);
    rest = hod_reshape(rest, HOD_SHAPE(-1, g));
    hod_tensor *later =
        hod_matmul(hod_transpose(rest, 0, 1), hod_reshape(before, HOD_SHAPE(-1, h)));
    return a->at_rest ? later : hod_add(later, begin);
}

/* The row of gradients, computed once for all inputs that ask. */
static hod_tensor *row_of(const hod_vjp *v, hod_op op)
{
    hod_tensor *row = v->shared ? *v->shared : NULL;
    if (!row)
        row = hod__op(op, v->attrs, 5, (hod_tensor *[]){v->x[0], v->x[1], v->x[2], v->y, v->g});
    if (v->shared)
        *v->shared = row;
    return row;
}

/* Gradient i of a layer with G gates in all; the row's first part is that of x, and with `two` the
 * second that of W h + b. */
static hod_tensor *gradient(const hod_vjp *v, int i, hod_op op, bool two)
{
    if (i == 2)
        return HOD_NO_GRADIENT;
    int64_t t = v->meta[3].shape[0], n = v->meta[3].shape[1], g = v->meta[3].shape[2];
    if (t == 0) /* the result is empty and says nothing of them */
        return hod__full_like_meta(&v->meta[i], 0);
    hod_tensor *row = row_of(v, op);
    if (i == 1) {
        int64_t from = (two ? 2 : 1) * t * n * pitch_of(g);
        hod_shape state = hod_shape_of(v->meta[1].ndim, v->meta[1].shape);
        return part(row, from, hod__numel(state.n, state.d), state);
    }
    if (i == 3)
        return gates_part(row, 0, t, n, g);
    hod_tensor *dz = gates_part(row, two, t, n, g);
    if (i == 4)
        return hod_sum_dims(dz, 0, 1);
    hod_tensor *h0 = two ? v->x[1] : hod_select(v->x[1], 0, 0);
    return weight_gradient(dz, v->y, h0, &v->attrs->rnn);
}

hod_tensor *hod__vjp_lstm(const hod_vjp *v, int i)
{
    return gradient(v, i, HOD_OP_lstm_back, false);
}

hod_tensor *hod__vjp_gru(const hod_vjp *v, int i)
{
    return gradient(v, i, HOD_OP_gru_back, true);
}

hod_tensor *hod__vjp_lstm_back(const hod_vjp *v, int i)
{
    (void)v;
    return i == 2 ? HOD_NO_GRADIENT : HOD_FAIL(STATE, "lstm: it can be differentiated once only");
}

hod_tensor *hod__vjp_gru_back(const hod_vjp *v, int i)
{
    (void)v;
    return i == 2 ? HOD_NO_GRADIENT : HOD_FAIL(STATE, "gru: it can be differentiated once only");
}

/* ---- a run over samples ---- */

typedef struct rnn_job {
    const hod_recur_rows *rows;
    bool lstm, back, reverse, f64, whole; /* whole: every length is T */
    bool at_rest;
    int64_t t, n, h, gates, size; /* size: bytes of an element */
    int64_t groups;               /* that samples are shared among */
    int64_t pitch;                /* elements between rows of dx and dg */
    char *turned;                 /* w as (H,G) with rows `pitch` apart; forward in f32 */
    const int64_t *lengths;
    const char *w, *state, *x, *b;
    char *y, *c, *g, *inner; /* planes of the forward result; g: the gates */
    const char *dy, *dc;     /* gradients of the planes h and c */
    char *dx, *dg, *dstate;  /* results of backward; lstm: dg is dx */
    char *dh;                /* scratch (2,N,H): gradients on their way back: h, and c */
    _Atomic bool failed;
} rnn_job;

/* Element (row, 0) of an array of rows of `width`. */
static const char *at(const rnn_job *job, const char *base, int64_t row, int64_t width)
{
    return base + row * width * job->size;
}

static char *to(const rnn_job *job, char *base, int64_t row, int64_t width)
{
    return base + row * width * job->size;
}

enum { AT_ONCE = 16 }; /* rows: a tile of the copier */

/* W (G,H) into rows of H: the products of a step then read both operands along their rows.
 * [begin, end): of these rows, so many at once. */
static void turn(void *context, int64_t begin, int64_t end)
{
    const rnn_job *job = context;
    int64_t h = job->h, first = AT_ONCE * begin, m = HOD_MIN(AT_ONCE * end, h) - first;
    hod__copy_turned(job->size, m, job->gates * h, to(job, job->turned, first, job->pitch),
                     job->pitch, at(job, job->w, first, 1), h);
}

/* gates (m,G) = y (m,H) W^T */
static int product_forward(const rnn_job *job, int64_t m, const void *y, void *gates)
{
    int64_t h = job->h, g = job->gates * h;
    if (!job->f64) {
        hod_matmul_geometry geometry = {
            .batch = 1, .m = m, .n = g, .k = h, .lda = h, .ldb = job->pitch, .ldc = g};
        return hod__dnn_matmul(&geometry, y, (const float *)job->turned, gates, 0);
    }
    const double *a = y, *w = (const double *)job->w;
    double *out = gates;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < g; j++) {
            double sum = 0;
            for (int64_t k = 0; k < h; k++)
                sum += a[i * h + k] * w[j * h + k];
            out[i * g + j] = sum;
        }
    return 0;
}

/* dh (m,H) = dg (m,G) W */
static int product_back(const rnn_job *job, int64_t m, const void *dg, void *dh)
{
    int64_t h = job->h, g = job->gates * h;
    if (!job->f64) {
        hod_matmul_geometry geometry = {
            .batch = 1, .m = m, .n = h, .k = g, .lda = job->pitch, .ldb = h, .ldc = h};
        return hod__dnn_matmul(&geometry, dg, (const float *)job->w, dh, 0);
    }
    const double *a = dg, *w = (const double *)job->w;
    double *out = dh;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < h; j++) {
            double sum = 0;
            for (int64_t k = 0; k < g; k++)
                sum += a[i * job->pitch + k] * w[k * h + j];
            out[i * h + j] = sum;
        }
    return 0;
}

/* Where step `s` (0 the first to be taken) is in time, and the row its state comes from. */
static int64_t time_of(const rnn_job *job, int64_t s)
{
    return job->reverse ? job->t - 1 - s : s;
}

static const char *before(const rnn_job *job, const char *plane, int64_t s, int64_t which)
{
    return s == 0 ? job->state + which * job->n * job->h * job->size
                  : at(job, plane, time_of(job, s - 1) * job->n, job->h);
}

static void forward_row(const rnn_job *job, int64_t s, int64_t i)
{
    int64_t t = time_of(job, s), row = t * job->n + i, h = job->h, g = job->gates * h;
    size_t bytes = (size_t)(h * job->size);
    const char *y_old = at(job, before(job, job->y, s, 0), i, h);
    const char *c_old = job->lstm ? at(job, before(job, job->c, s, 1), i, h) : NULL;
    char *y = to(job, job->y, row, h), *gates = to(job, job->g, row, g);
    if (!job->whole && t >= job->lengths[i]) {
        memcpy(y, y_old, bytes);
        if (job->lstm)
            memcpy(to(job, job->c, row, h), c_old, bytes);
        else
            memset(to(job, job->inner, row, h), 0, bytes);
        memset(gates, 0, (size_t)(g * job->size));
        return;
    }
    if (job->lstm)
        job->rows->lstm(h, at(job, job->x, row, g), job->b, gates, c_old, to(job, job->c, row, h),
                        y);
    else
        job->rows->gru(h, at(job, job->x, row, g), job->b, gates, y_old,
                       to(job, job->inner, row, h), y);
}

/* Gradients `from` somewhere else are added. */
static void arrive(const rnn_job *job, char *into, const char *from)
{
    for (int64_t j = 0; j < job->h; j++)
        if (job->f64)
            ((double *)into)[j] += ((const double *)from)[j];
        else
            ((float *)into)[j] += ((const float *)from)[j];
}

/* `kept`: where the part of dh that passes W by is left, for what comes out of W to be added. An
 * LSTM's steps have none. */
static void backward_row(const rnn_job *job, int64_t s, int64_t i, char *kept)
{
    int64_t t = time_of(job, s), row = t * job->n + i, h = job->h, g = job->gates * h;
    size_t bytes = (size_t)(h * job->size);
    char *dh = to(job, job->dh, i, h), *dx = to(job, job->dx, row, job->pitch);
    char *dg = to(job, job->dg, row, job->pitch), *dc = to(job, job->dh, job->n + i, h);
    const char *dy = at(job, job->dy, row, h), *dc_new = at(job, job->dc, row, h);
    if (!job->whole && t >= job->lengths[i]) {
        arrive(job, dh, dy);
        if (job->lstm)
            arrive(job, dc, dc_new);
        memset(dx, 0, (size_t)(g * job->size));
        memset(dg, 0, (size_t)(g * job->size));
        memcpy(kept, dh, bytes);
        return;
    }
    if (job->lstm) {
        job->rows->lstm_back(h, at(job, job->g, row, g), at(job, before(job, job->c, s, 1), i, h),
                             at(job, job->c, row, h), dh, dy, dc, dc_new, dx);
        if (!job->whole)
            memset(kept, 0, bytes);
        return;
    }
    job->rows->gru_back(h, at(job, job->g, row, g), at(job, job->inner, row, h),
                        at(job, before(job, job->y, s, 0), i, h), dh, dy, dx, dg);
    memcpy(kept, dh, bytes);
}

typedef struct rnn_step {
    rnn_job *job;
    int64_t s;
} rnn_step;

/* Scratch of the part of dh that passes W by: (N,H) after dh's two. */
static char *kept_of(const rnn_job *job, int64_t i)
{
    return to(job, job->dh, 2 * job->n + i, job->h);
}

static void step_rows(void *context, int64_t begin, int64_t end)
{
    const rnn_step *step = context;
    for (int64_t i = begin; i < end; i++)
        if (step->job->back)
            backward_row(step->job, step->s, i, kept_of(step->job, i));
        else
            forward_row(step->job, step->s, i);
}

static void add_rows(void *context, int64_t begin, int64_t end)
{
    const rnn_job *job = ((const rnn_step *)context)->job;
    for (int64_t i = begin; i < end; i++)
        arrive(job, to(job, job->dh, i, job->h), kept_of(job, i));
}

enum { STEP_WORK = 4096 }; /* units whose gates are worth waking a thread */

/* Samples [begin, end) through all steps. `alone`: nobody else runs, so steps may be shared out. */
static void run_samples(rnn_job *job, int64_t begin, int64_t end, bool alone)
{
    int64_t h = job->h, g = job->gates * h, m = end - begin;
    int64_t grain = alone ? hod__grain_of(STEP_WORK, h) : m;
    for (int64_t k = 0; k < job->t && m > 0; k++) {
        rnn_step step = {job, job->back ? job->t - 1 - k : k};
        int64_t row = time_of(job, step.s) * job->n + begin;
        char *gates = to(job, job->g, row, g);
        if (!job->back && job->at_rest && k == 0)
            memset(gates, 0, (size_t)(m * g * job->size));
        else if (!job->back &&
                 product_forward(job, m, at(job, before(job, job->y, step.s, 0), begin, h),
                                 gates) != 0)
            job->failed = true;
        if (alone)
            hod__parallel(job->n, grain, step_rows, &step);
        else
            step_rows(&step, begin, end);
        if (!job->back)
            continue;
        if (product_back(job, m, at(job, job->dg, row, job->pitch), to(job, job->dh, begin, h)) !=
            0)
            job->failed = true;
        if (job->lstm && job->whole)
            continue;
        if (alone)
            hod__parallel(job->n, grain, add_rows, &step);
        else
            add_rows(&step, begin, end);
    }
}

/* One of `groups` equal shares of the samples. */
static void some_samples(void *context, int64_t begin, int64_t end)
{
    rnn_job *job = context;
    for (int64_t i = begin; i < end; i++)
        run_samples(job, i * job->n / job->groups, (i + 1) * job->n / job->groups, false);
}

enum {
    CACHED_WEIGHTS = 2 << 20, /* bytes of weights that each thread may read in every step */
    SMALL_WORK = 1 << 16,     /* multiplications a step, below which one thread does all */
    /* Of a share. The product of one row alone rounds differently, and so do tiny ones. */
    LEAST_ROWS = 4,
    LEAST_WORK = 1 << 14,
};

static int run(rnn_job *job)
{
    int threads = hod__cpu()->threads;
    int64_t weights = job->gates * job->h * job->h;
    if (weights * job->n < SMALL_WORK || threads == 1)
        run_samples(job, 0, job->n, false);
    else if (job->n >= LEAST_ROWS * threads && weights * (job->n / threads) >= LEAST_WORK &&
             weights * job->size <= CACHED_WEIGHTS)
        hod__parallel(job->groups = threads, 1, some_samples, job);
    else
        run_samples(job, 0, job->n, true);
    return job->failed ? HOD_FAIL_RC(ARGUMENT, "rnn: the library refuses a product") : 0;
}

/* ---- the call ---- */

const hod_recur_rows *hod__recur_rows(hod_dtype dtype)
{
    static const hod_recur_rows *const f32[] = {HOD_ROW_SETS(hod__recur)};
    return dtype == HOD_F64 ? &hod__recur_f64 : f32[hod__rows_set()];
}

static int check_lengths(const hod_op_call *c, rnn_job *job)
{
    job->whole = true;
    for (int64_t i = 0; i < job->n; i++) {
        int64_t length = job->lengths[i];
        if (length < 0 || length > job->t)
            return HOD_FAIL_RC(VALUE, "%s: length %lld of sample %lld is outside 0..%lld",
                               hod__op_name(c), (long long)length, (long long)i, (long long)job->t);
        job->whole = job->whole && length == job->t;
    }
    return 0;
}

/* The planes of a forward result; `base` may be const for backward, which only reads them. */
static void set_planes(rnn_job *job, char *base)
{
    int64_t plane = job->t * job->n * job->h * job->size;
    job->y = base;
    job->c = base + plane;
    job->g = base + (job->lstm ? 2 : 1) * plane;
    job->inner = base + 4 * plane;
}

static hod_tensor *temporary(const rnn_job *job, int64_t n)
{
    hod_meta m = {.dtype = job->f64 ? HOD_F64 : HOD_F32, .ndim = 1, .shape = {n}};
    return hod__eval_temporary(&m);
}

static int run_forward(rnn_job *job, hod_tensor *const *in, hod_tensor *out)
{
    set_planes(job, hod__data(out));
    job->x = hod__data(in[3]);
    job->b = hod__data(in[4]);
    if (job->f64)
        return run(job);
    hod_tensor *turned = temporary(job, job->h * job->pitch);
    if (!turned)
        return -1;
    job->turned = hod__data(turned);
    hod__parallel((job->h + AT_ONCE - 1) / AT_ONCE, hod__grain(AT_ONCE * job->gates * job->h), turn,
                  job);
    int rc = run(job);
    hod_tensor_release(turned);
    return rc;
}

static int run_backward(rnn_job *job, hod_tensor *const *in, hod_tensor *out)
{
    int64_t states = job->n * job->h, rows = job->t * job->n * job->pitch;
    set_planes(job, hod__data(in[3]));
    job->dy = hod__data(in[4]);
    job->dc = job->dy + job->t * states * job->size;
    job->dx = hod__data(out);
    job->dg = job->lstm ? job->dx : job->dx + rows * job->size;
    job->dstate = job->dg + rows * job->size;
    hod_tensor *scratch = temporary(job, 3 * states);
    int rc = scratch ? hod__eval_zero(scratch) : -1;
    if (rc == 0) {
        job->dh = hod__data(scratch);
        rc = run(job);
        memcpy(job->dstate, job->dh, (size_t)((job->lstm ? 2 : 1) * states * job->size));
    }
    hod_tensor_release(scratch);
    return rc;
}

static int eval(const hod_op_call *c, hod_tensor *out, bool back)
{
    hod_tensor *in[5];
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0) {
        const int64_t *steps = in[3]->shape + (back ? 1 : 0);
        rnn_job job = {.rows = hod__recur_rows((hod_dtype)out->dtype), .back = back};
        job.gates = gates_of(c->op);
        job.lstm = job.gates == 4;
        job.reverse = c->attrs->rnn.reverse;
        job.at_rest = c->attrs->rnn.at_rest;
        job.f64 = out->dtype == HOD_F64;
        job.size = job.f64 ? 8 : 4;
        job.t = steps[0];
        job.n = steps[1];
        job.h = in[0]->shape[1];
        job.pitch = pitch_of(job.gates * job.h);
        job.w = hod__data(in[0]);
        job.state = hod__data(in[1]);
        job.lengths = hod__data(in[2]);
        rc = check_lengths(c, &job);
        if (rc == 0 && hod_tensor_numel(out) > 0)
            rc = back ? run_backward(&job, in, out) : run_forward(&job, in, out);
    }
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_lstm(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false);
}

int hod__eval_gru(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false);
}

int hod__eval_lstm_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, true);
}

int hod__eval_gru_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, true);
}
