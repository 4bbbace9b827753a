/* The kernels of FUSED rows for one `real`; rows_tmpl.c includes it for f32 and f64. Each is a few
 * loops over w neighbouring lines (fused.h), written once for lines that lie densely, where the
 * elements of one are folded side by side, and for lines across, where neighbours are:
 *
 *     GREATEST(m, x[e])        m[j]: the greatest of line j; NaN counts for nothing
 *     SUM(s, x[e] * y[e])      s[j]: a sum over line j, in f64
 *     MAP(y[e] = x[e] / s[j])  for every element
 *     PER_LINE(s[j] = ...)     for every line
 *
 * e is an element's place in the block, i that in its line, j its line's.
 * The order of sums depends on sizes alone. */

#define FUSED_ROW(name)                                                                            \
    static void T(fused_##name)(const hod_fused_call *c, int64_t o, int64_t j0, int64_t w)
/* Where the block begins, in what has n elements a line, and in what has one. */
#define BLOCK                                                                                      \
    const int64_t n = c->lines.n, inner = c->lines.inner;                                          \
    const int64_t at = o * n * inner + j0, at_line = o * inner + j0;                               \
    (void)at, (void)at_line, (void)w
#define EACH(k)   ((const real *)c->in[k] + at)
#define EACH_OUT  ((real *)c->out + at)
#define LINE(k)   ((const real *)c->in[k] + at_line)
#define LINE_OUT  ((real *)c->out + at_line)
#define PER_BLOCK HOD_LINES_AT_ONCE

#define PER_LINE(statement)                                                                        \
    for (int64_t j = 0; j < w; j++)                                                                \
    statement
#define MAP(statement)                                                                             \
    {                                                                                              \
        if (inner == 1) {                                                                          \
            const int64_t j = 0;                                                                   \
            (void)j;                                                                               \
            for (int64_t i = 0, e = 0; i < n; i++, e++)                                            \
                statement;                                                                         \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                for (int64_t j = 0, e = i * inner; j < w; j++, e++)                                \
                    statement;                                                                     \
        }                                                                                          \
    }
/* acc[j] begins as `start` and becomes `next`, over `a`, what it was, for each element; `how` is
 * OpenMP's name for that, which lets a line's elements be folded side by side. */
#define FOLD(type, acc, start, next, how)                                                          \
    {                                                                                              \
        if (inner == 1) {                                                                          \
            const int64_t j = 0;                                                                   \
            (void)j;                                                                               \
            type a = start;                                                                        \
            PRAGMA(omp simd reduction(how : a))                                                    \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const int64_t e = i;                                                               \
                a = next;                                                                          \
            }                                                                                      \
            acc[0] = a;                                                                            \
        } else {                                                                                   \
            for (int64_t j = 0; j < w; j++)                                                        \
                acc[j] = start;                                                                    \
            for (int64_t i = 0; i < n; i++)                                                        \
                for (int64_t j = 0, e = i * inner; j < w; j++, e++) {                              \
                    type a = acc[j];                                                               \
                    acc[j] = next;                                                                 \
                }                                                                                  \
        }                                                                                          \
    }
#define PRAGMA(text)         _Pragma(#text)
#define GREATER(a, b)        ((b) > (a) ? (b) : (a))
#define GREATEST(acc, value) FOLD(real, acc, LOWEST, GREATER(a, value), max)
#define SUM(acc, value)      FOLD(wide, acc, 0, a + (wide)(value), +)

/* ---- softmax ---- */

/* What to subtract before exp: the greatest, or 0 where that is -inf. A NaN shows in the sum of
 * exponentials, and so does inf, less itself. Is nothing infinite, then no exponent is above 0:
 * `down`. */
#define SHIFTS(shift, x)                                                                           \
    real shift[PER_BLOCK];                                                                         \
    bool down = true;                                                                              \
    GREATEST(shift, x)                                                                             \
    PER_LINE(down = down && shift[j] < HIGHEST);                                                   \
    PER_LINE(shift[j] = shift[j] > LOWEST ? shift[j] : 0)

/* The sum of e^(x - shift), put into y first where `put` says so. */
#define SUM_EXP(sum, put)                                                                          \
    if (down)                                                                                      \
        SUM(sum, put R(exp_down)(x[e] - shift[j]))                                                 \
    else                                                                                           \
        SUM(sum, put r_exp(x[e] - shift[j]))

FUSED_ROW(softmax)
{
    BLOCK;
    const real *restrict x = EACH(0);
    real *restrict y = EACH_OUT, by[PER_BLOCK];
    wide sum[PER_BLOCK];
    SHIFTS(shift, x[e]);
    SUM_EXP(sum, y[e] =)
    PER_LINE(by[j] = sum[j] == 0 ? 1 : (real)sum[j]);
    MAP(y[e] /= by[j])
}

FUSED_ROW(softmax_back)
{
    BLOCK;
    const real *restrict y = EACH(0), *restrict g = EACH(1);
    real *restrict dx = EACH_OUT, share[PER_BLOCK];
    wide sum[PER_BLOCK];
    SUM(sum, y[e] * g[e])
    PER_LINE(share[j] = (real)sum[j]);
    MAP(dx[e] = y[e] * (g[e] - share[j]))
}

FUSED_ROW(log_softmax)
{
    BLOCK;
    const real *restrict x = EACH(0);
    real *restrict y = EACH_OUT, less[PER_BLOCK];
    wide sum[PER_BLOCK];
    SHIFTS(shift, x[e]);
    SUM_EXP(sum, )
    PER_LINE(less[j] = r_log((real)sum[j]));
    MAP(y[e] = (x[e] - shift[j]) - less[j])
}

FUSED_ROW(log_softmax_back)
{
    BLOCK;
    const real *restrict y = EACH(0), *restrict g = EACH(1);
    real *restrict dx = EACH_OUT, share[PER_BLOCK];
    wide sum[PER_BLOCK];
    SUM(sum, g[e])
    PER_LINE(share[j] = (real)sum[j]);
    MAP(dx[e] = g[e] - R(exp_down)(y[e]) * share[j])
}

FUSED_ROW(logsumexp)
{
    BLOCK;
    const real *restrict x = EACH(0);
    real *restrict y = LINE_OUT;
    wide sum[PER_BLOCK];
    SHIFTS(shift, x[e]);
    PER_LINE(shift[j] = shift[j] < HIGHEST ? shift[j] : 0); /* the sum of inf is inf */
    SUM_EXP(sum, )
    PER_LINE(y[j] = sum[j] == 0 ? LOWEST : r_log((real)sum[j]) + shift[j]);
}

/* Nothing comes back into a line of -inf. */
FUSED_ROW(logsumexp_back)
{
    BLOCK;
    const real *restrict x = EACH(0), *restrict y = LINE(1), *restrict g = LINE(2);
    real *restrict dx = EACH_OUT, shift[PER_BLOCK], by[PER_BLOCK];
    PER_LINE(shift[j] = y[j] == LOWEST ? 0 : y[j]);
    PER_LINE(by[j] = y[j] == LOWEST ? 0 : g[j]);
    MAP(dx[e] = by[j] * R(exp_down)(x[e] - shift[j]))
}

/* ---- length ---- */

FUSED_ROW(norm2)
{
    BLOCK;
    const real *restrict x = EACH(0);
    real *restrict y = LINE_OUT;
    wide sum[PER_BLOCK];
    SUM(sum, x[e] * x[e])
    PER_LINE(y[j] = r_sqrt((real)sum[j]));
}

/* ---- cross entropy ----
 *
 * With q, the weight of each class in the loss: (1 - s) w of the label there, and s w / n anywhere,
 *
 *     loss = sum_i q_i (log sum exp z - z_i)        dx_i = g (p_i sum q - q_i)
 *
 * Labels that are ignored have loss and gradient 0, whatever the logits are. */

#define WEIGHT(w, i) ((w) ? (w)[i] : 1)

FUSED_ROW(cross_entropy)
{
    BLOCK;
    const hod_attrs_cross_entropy *a_ = &c->attrs->cross_entropy;
    const real *restrict x = EACH(0), *weight = c->in[2];
    const int64_t *label = (const int64_t *)c->in[1] + at_line;
    const real s = (real)a_->smoothing;
    real *restrict y = LINE_OUT, less[PER_BLOCK];
    wide sum[PER_BLOCK], all[PER_BLOCK];
    SHIFTS(shift, x[e]);
    SUM_EXP(sum, )
    PER_LINE(less[j] = r_log((real)sum[j]));
    if (s != 0 && weight)
        SUM(all, weight[i] * (less[j] - (x[e] - shift[j])))
    else if (s != 0)
        SUM(all, less[j] - (x[e] - shift[j]))
    PER_LINE({
        bool there = label[j] >= 0 && label[j] < n;
        real z = there ? x[label[j] * inner + j] - shift[j] : 0;
        real loss = there ? WEIGHT(weight, label[j]) * (less[j] - z) : less[j];
        if (s != 0)
            loss = (1 - s) * loss + s * (real)(all[j] / (wide)n);
        y[j] = label[j] == a_->ignored ? 0 : loss;
    })
}

FUSED_ROW(cross_entropy_back)
{
    BLOCK;
    const hod_attrs_cross_entropy *a_ = &c->attrs->cross_entropy;
    const real *restrict x = EACH(0), *restrict g = LINE(2), *weight = c->in[3];
    const int64_t *label = (const int64_t *)c->in[1] + at_line;
    const real s = (real)a_->smoothing;
    real *restrict dx = EACH_OUT, by[PER_BLOCK], each[PER_BLOCK], total = (real)n;
    wide sum[PER_BLOCK];
    SHIFTS(shift, x[e]);
    SUM_EXP(sum, dx[e] =)
    if (s != 0 && weight) {
        total = 0;
        for (int64_t i = 0; i < n; i++)
            total += weight[i];
    }
    PER_LINE({
        bool there = label[j] >= 0 && label[j] < n;
        real own = there ? (1 - s) * WEIGHT(weight, label[j]) : 0;
        each[j] = label[j] == a_->ignored ? 0 : g[j] * s / (real)n;
        by[j] = label[j] == a_->ignored ? 0 : g[j] * (own + s * total / (real)n) / (real)sum[j];
    })
    if (s != 0 && weight)
        MAP(dx[e] = dx[e] * by[j] - each[j] * weight[i])
    else if (s != 0)
        MAP(dx[e] = dx[e] * by[j] - each[j])
    else
        MAP(dx[e] *= by[j])
    for (int64_t j = 0; j < w; j++) {
        if (label[j] == a_->ignored)
            for (int64_t i = 0; i < n; i++)
                dx[i * inner + j] = 0;
        else if (label[j] >= 0 && label[j] < n)
            dx[label[j] * inner + j] -= g[j] * (1 - s) * WEIGHT(weight, label[j]);
    }
}
#undef WEIGHT

static hod_fused_run *const T(fused)[HOD_OPS] = {
    [HOD_OP_softmax] = T(fused_softmax),
    [HOD_OP_softmax_back] = T(fused_softmax_back),
    [HOD_OP_log_softmax] = T(fused_log_softmax),
    [HOD_OP_log_softmax_back] = T(fused_log_softmax_back),
    [HOD_OP_logsumexp] = T(fused_logsumexp),
    [HOD_OP_logsumexp_back] = T(fused_logsumexp_back),
    [HOD_OP_norm2] = T(fused_norm2),
    [HOD_OP_cross_entropy] = T(fused_cross_entropy),
    [HOD_OP_cross_entropy_back] = T(fused_cross_entropy_back),
};

#undef FUSED_ROW
#undef BLOCK
#undef EACH
#undef EACH_OUT
#undef LINE
#undef LINE_OUT
#undef PER_BLOCK
#undef PER_LINE
#undef MAP
#undef FOLD
#undef GREATER
#undef PRAGMA
#undef GREATEST
#undef SUM
#undef SHIFTS
#undef SUM_EXP
