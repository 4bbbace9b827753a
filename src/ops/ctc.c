/* Connectionist temporal classification: the probability that frames, read with any alignment,
 * spell the labels, and what each frame's classes contribute to it.
 *
 *     labels  a b        states, one row a frame      from state to state of the next frame:
 *                        0 blank                      itself, the next, and from label to label
 *                        1 a                          past the blank between, unless they are equal
 *                        2 blank
 *                        3 b                          alpha_t(s): all ways to be in s after frame t
 *                        4 blank                      beta_t(s): all ways on from there to the end
 *
 * Blank states and label states are two arrays, B[0..S] and Y[0..S-1], so that a frame is two plain
 * loops. A frame's values are divided by a power of two that its logarithm remembers. What spans
 * more than a double's exponents in one frame (a state that is reachable, can still reach the end
 * and is 2^-960 of the greatest) is computed anew in logarithms: slower, and the twin of the tests.
 *
 * The gradient for log probabilities is -alpha beta / P summed over a class's states; a log_softmax
 * before it adds the softmax. Graves et al., "Connectionist Temporal Classification", ICML 2006.
 */
#include "ops/rules.h"
#include <float.h>
#include <math.h>

/* ---- shapes and fronts ---- */

static int check(const char *name, const hod_attrs_ctc *a, const hod_meta *log_p,
                 const hod_meta *target, const hod_meta *lengths)
{
    bool fits = log_p->ndim == 3 && (target->ndim == 1 || target->ndim == 2) &&
                lengths->ndim == 2 && lengths->shape[0] == 2 &&
                lengths->shape[1] == log_p->shape[1] &&
                (target->ndim == 1 || target->shape[0] == log_p->shape[1]);
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: log probabilities %s with targets %s and lengths %s",
                           name, HOD_META_TEXT(log_p), HOD_META_TEXT(target),
                           HOD_META_TEXT(lengths));
    if (!hod__is_computed(log_p->dtype) || target->dtype != HOD_I64 || lengths->dtype != HOD_I64)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s with targets of %s and lengths of %s", name,
                           hod_dtype_name(log_p->dtype), hod_dtype_name(target->dtype),
                           hod_dtype_name(lengths->dtype));
    if (a->blank < 0 || a->blank >= log_p->shape[2])
        return HOD_FAIL_RC(ARGUMENT, "%s: blank %lld of %lld classes", name, (long long)a->blank,
                           (long long)log_p->shape[2]);
    return 0;
}

int hod__shape_ctc(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    out->dtype = in[0].dtype;
    out->ndim = 1;
    out->shape[0] = in[0].ndim == 3 ? in[0].shape[1] : 0;
    return check("ctc", &c->attrs->ctc, &in[0], &in[1], &in[2]);
}

int hod__shape_ctc_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    *out = in[0];
    if (check("ctc_back", &c->attrs->ctc, &in[0], &in[1], &in[2]) != 0)
        return -1;
    if (in[3].dtype != in[0].dtype || in[3].ndim != 1 || in[3].shape[0] != in[0].shape[1])
        return HOD_FAIL_RC(ARGUMENT, "ctc_back: gradient %s for %s", HOD_META_TEXT(&in[3]),
                           HOD_META_TEXT(&in[0]));
    return 0;
}

static hod_tensor *back(const hod_vjp *v, hod_tensor *g)
{
    return hod__op(HOD_OP_ctc_back, v->attrs, 4, (hod_tensor *[]){v->x[0], v->x[1], v->x[2], g});
}

hod_tensor *hod__vjp_ctc(const hod_vjp *v, int i)
{
    return i > 0 ? HOD_NO_GRADIENT : back(v, v->g);
}

/* Linear in the gradient it was given; for the frames it would take the covariance of
 * alignments. */
hod_tensor *hod__vjp_ctc_back(const hod_vjp *v, int i)
{
    if (i == 0)
        return HOD_FAIL(STATE, "ctc: it can be differentiated once only for the log probabilities");
    if (i < 3)
        return HOD_NO_GRADIENT;
    hod_tensor *one = hod_full((hod_dtype)v->meta[3].dtype, HOD_SHAPE(v->meta[3].shape[0]), 1);
    return hod_sum_dims(hod_mul(v->g, back(v, one)), 0, 2);
}

/* Lengths as i64 (N), from (N) or one number. */
static hod_tensor *length_of(hod_tensor *t)
{
    t = hod__cast_to(t, HOD_I64);
    return t && t->ndim == 0 ? hod_unsqueeze(t, 0) : t;
}

hod_tensor *hod_ctc_rows_with(hod_tensor *log_p, hod_tensor *target, hod_tensor *input_length,
                              hod_tensor *target_length, hod_ctc_options o)
{
    if (hod__null("ctc", "log_p", log_p) || hod__null("ctc", "target", target) ||
        hod__null("ctc", "input_length", input_length) ||
        hod__null("ctc", "target_length", target_length))
        return NULL;
    const hod_tensor *ints[] = {target, input_length, target_length};
    for (int i = 0; i < HOD_COUNT(ints); i++)
        if (hod__is_float(ints[i]->dtype))
            return HOD_FAIL(ARGUMENT, "ctc: targets and lengths of %s",
                            hod_dtype_name((hod_dtype)ints[i]->dtype));
    bool one = log_p->ndim == 2;
    log_p = hod__computed(log_p);
    log_p = one ? hod_unsqueeze(log_p, 1) : log_p;
    hod_tensor *lengths[] = {length_of(input_length), length_of(target_length)};
    hod_tensor *both = hod_stack(2, lengths, 0);
    HOD_ATTRS(a);
    a.ctc.blank = o.blank;
    hod_tensor *rows =
        hod__op(HOD_OP_ctc, &a, 3, (hod_tensor *[]){log_p, hod__cast_to(target, HOD_I64), both});
    if (rows && o.zero_infinity)
        rows = hod_where(hod_isinf(rows), hod__number(rows, 0), rows);
    if (rows && o.per_label)
        rows = hod_div(rows, hod_cast(hod_maximum_scalar(lengths[1], 1), (hod_dtype)rows->dtype));
    return one ? hod_squeeze(rows, 0) : rows;
}

hod_loss hod_ctc_with(hod_tensor *log_p, hod_tensor *target, hod_tensor *input_length,
                      hod_tensor *target_length, hod_ctc_options o)
{
    hod_tensor *rows = hod_ctc_rows_with(log_p, target, input_length, target_length, o);
    hod_loss loss = {hod_sum(rows), NULL};
    if (loss.sum)
        loss.weight = hod__number(rows, (double)hod_tensor_numel(rows));
    return loss.weight ? loss : (hod_loss){0};
}

/* ---- one sample ---- */

typedef struct ctc_job {
    const void *log_p, *g;
    void *out;
    bool f64, back;
    const int64_t *target, *lengths; /* lengths: (2,N) */
    const int64_t *start;            /* of each sample's labels in target */
    int64_t t, n, c, s, blank;       /* s: the greatest number of labels */
    double *scratch;
    int64_t *spans; /* 2 (t + 1) a group */
    int64_t each;   /* doubles of scratch a group of samples has */
    int64_t groups;
} ctc_job;

typedef struct sample {
    const ctc_job *job;
    int64_t n, frames, labels;
    const int64_t *label;
    /* Rows of frames, `row` apart. p: probabilities of the blank [0] and the labels [1..S], over
     * the greatest among them; a: alphas, B [0..S] then Y [S+1..2S]. */
    int64_t row_p, row_a;
    double *p, *a, *b; /* b: two rows of betas */
    int64_t *born, *dead;
} sample;

static double log_p_at(const ctc_job *job, int64_t t, int64_t n, int64_t c)
{
    int64_t i = (t * job->n + n) * job->c + c;
    return job->f64 ? ((const double *)job->log_p)[i] : (double)((const float *)job->log_p)[i];
}

static void add_to_out(const ctc_job *job, int64_t t, int64_t n, int64_t c, double v)
{
    int64_t i = (t * job->n + n) * job->c + c;
    if (job->f64)
        ((double *)job->out)[i] += v;
    else
        ((float *)job->out)[i] += (float)v;
}

/* True where label k may follow label k - 1 at once. */
static bool skips(const sample *m, int64_t k)
{
    return k > 0 && m->label[k] != m->label[k - 1];
}

/* The states that matter in frame t: reachable from the beginning, and the end reachable from them.
 * A label can be left for the next one frame later, or two when they are equal; m->born and m->dead
 * hold that for the labels, and a blank is there a frame after the label before it and until the
 * frame before the label after it is gone. Blanks [b0, b1), labels [y0, y1). */
typedef struct span {
    int64_t b0, b1, y0, y1;
} span;

static span span_of(const sample *m, int64_t t)
{
    return (span){.b0 = m->dead[t + 1],
                  .b1 = (t > 0 ? m->born[t - 1] : 0) + 1,
                  .y0 = m->dead[t],
                  .y1 = m->born[t]};
}

/* born[t]: how many labels can have been reached by frame t; dead[t], t up to `frames`: how many
 * have come too late for the end. */
static void find_spans(const sample *m)
{
    int64_t s = m->labels, born = 0, dead = 0, next = 0, left = s - 1;
    for (int64_t k = 1; k < s; k++)
        left += !skips(m, k);
    for (int64_t t = 0; t <= m->frames; t++) {
        for (; born < s && next <= t; born++)
            next += 1 + (born + 1 < s && !skips(m, born + 1));
        for (; dead < s && left > m->frames - 1 - t; dead++)
            left -= 1 + (dead + 1 < s && !skips(m, dead + 1));
        m->born[t] = born;
        m->dead[t] = dead;
    }
}

/* Probabilities of frame t into p, over the greatest; returns its logarithm. */
static double emit(const sample *m, int64_t t, double *p)
{
    const ctc_job *job = m->job;
    p[0] = log_p_at(job, t, m->n, job->blank);
    double top = p[0];
    for (int64_t k = 0; k < m->labels; k++) {
        p[k + 1] = log_p_at(job, t, m->n, m->label[k]);
        top = p[k + 1] > top ? p[k + 1] : top;
    }
    double shift = top > -INFINITY ? top : 0;
    for (int64_t k = 0; k <= m->labels; k++)
        p[k] = exp(p[k] - shift);
    return shift;
}

/* ---- in doubles with one exponent a frame ---- */

static const double least = 0x1p-960;

/* Divides the states of a span by a power of two so that the greatest is in [1/2, 1); returns the
 * power. *fits: none of them is so small beside it that digits may be lost. */
static int rescale(double *row, int64_t labels, const span *w, bool *fits)
{
    double *blank = row, *label = row + labels + 1, top = 0, low = INFINITY;
    for (int64_t k = w->b0; k < w->b1; k++) {
        top = blank[k] > top ? blank[k] : top;
        low = blank[k] < low ? blank[k] : low;
    }
    for (int64_t k = w->y0; k < w->y1; k++) {
        top = label[k] > top ? label[k] : top;
        low = label[k] < low ? label[k] : low;
    }
    int exponent = 0;
    *fits = top < INFINITY && low >= top * least && top > DBL_MIN;
    if (!*fits)
        return 0;
    frexp(top, &exponent);
    double by = ldexp(1, -exponent);
    for (int64_t k = w->b0; k < w->b1; k++)
        blank[k] *= by;
    for (int64_t k = w->y0; k < w->y1; k++)
        label[k] *= by;
    return exponent;
}

/* Alphas of frame t from those of the frame before, which are 0 outside its span. */
static void step(const sample *m, const span *w, const double *p, const double *old, double *row)
{
    int64_t s = m->labels;
    const double *ob = old, *oy = old + s + 1;
    double *nb = row, *ny = row + s + 1;
    memset(row, 0, (size_t)m->row_a * sizeof *row);
    if (w->b0 == 0)
        nb[0] = ob[0] * p[0];
    for (int64_t k = HOD_MAX(w->b0, 1); k < w->b1; k++)
        nb[k] = (ob[k] + oy[k - 1]) * p[0];
    for (int64_t k = w->y0; k < w->y1; k++)
        ny[k] = (oy[k] + ob[k] + (skips(m, k) ? oy[k - 1] : 0)) * p[k + 1];
}

/* Runs forward; keeps all rows when `keep`, else two. False: logarithms are needed. *loss: -log P.
 * The target must fit: at least one alignment. */
static bool forward(const sample *m, bool keep, double *loss)
{
    int64_t s = m->labels, exponents = 0;
    double log_scale = 0;
    bool fits = true;
    for (int64_t t = 0; t < m->frames; t++) {
        double *p = m->p + (keep ? t : 0) * m->row_p;
        double *row = m->a + (keep ? t : t % 2) * m->row_a;
        const double *old = m->a + (keep ? t - 1 : (t + 1) % 2) * m->row_a;
        span w = span_of(m, t);
        log_scale += emit(m, t, p);
        if (t > 0) {
            step(m, &w, p, old, row);
        } else {
            memset(row, 0, (size_t)m->row_a * sizeof *row);
            if (w.b0 == 0)
                row[0] = p[0];
            if (w.y0 < w.y1)
                row[s + 1] = p[1];
        }
        exponents += rescale(row, s, &w, &fits);
        if (!fits)
            return false;
    }
    const double *end = m->a + (keep ? m->frames - 1 : (m->frames - 1) % 2) * m->row_a;
    double p = end[s] + (s > 0 ? end[2 * s] : 0);
    *loss = -(log(p) + log_scale + (double)exponents * 0.69314718055994531);
    return true;
}

/* Betas of frame t from those of t + 1: without the probability of frame t itself. */
static void step_back(const sample *m, const span *w, const double *p, const double *next,
                      double *row)
{
    int64_t s = m->labels;
    const double *xb = next, *xy = next + s + 1;
    double *nb = row, *ny = row + s + 1;
    memset(row, 0, (size_t)m->row_a * sizeof *row);
    for (int64_t k = w->b0; k < HOD_MIN(w->b1, s); k++)
        nb[k] = p[0] * xb[k] + p[k + 1] * xy[k];
    if (w->b1 > s)
        nb[s] = p[0] * xb[s];
    for (int64_t k = w->y0; k < w->y1; k++)
        ny[k] = p[k + 1] * xy[k] + p[0] * xb[k + 1] +
                (k + 1 < s && skips(m, k + 1) ? p[k + 2] * xy[k + 1] : 0);
}

/* Adds -g alpha beta / P of frame t. False when the products' sum does not hold its digits. */
static bool deposit(const sample *m, int64_t t, const double *a, const double *b, double g)
{
    int64_t s = m->labels;
    double blank = 0, sum = 0;
    for (int64_t k = 0; k <= s; k++)
        blank += a[k] * b[k];
    for (int64_t k = s + 1; k <= 2 * s; k++)
        sum += a[k] * b[k];
    sum += blank;
    if (!(sum >= least && sum < INFINITY))
        return false;
    double by = -g / sum;
    add_to_out(m->job, t, m->n, m->job->blank, by * blank);
    for (int64_t k = 0; k < s; k++)
        add_to_out(m->job, t, m->n, m->label[k], by * a[s + 1 + k] * b[s + 1 + k]);
    return true;
}

/* Frames' gradients from the last to the first, after forward(keep). */
static bool backward(const sample *m, double g)
{
    int64_t s = m->labels;
    bool fits = true;
    double *row = m->b, *next = m->b + m->row_a;
    for (int64_t t = m->frames - 1; t >= 0; t--) {
        span w = span_of(m, t);
        double *swap = row;
        row = next;
        next = swap;
        if (t < m->frames - 1) {
            step_back(m, &w, m->p + (t + 1) * m->row_p, next, row);
        } else {
            memset(row, 0, (size_t)m->row_a * sizeof *row);
            if (w.b0 < w.b1)
                row[s] = 1;
            if (w.y0 < w.y1)
                row[2 * s] = 1;
        }
        rescale(row, s, &w, &fits);
        if (!fits || !deposit(m, t, m->a + t * m->row_a, row, g))
            return false;
    }
    return true;
}

/* ---- in logarithms ---- */

static double log_add(double a, double b)
{
    double top = a > b ? a : b, low = a > b ? b : a;
    return top == -INFINITY ? top : a != a || b != b ? NAN : top + log1p(exp(low - top));
}

static int64_t class_of(const sample *m, int64_t state)
{
    return state % 2 ? m->label[state / 2] : m->job->blank;
}

/* Alphas of all states in logarithms, row after row when `keep`; returns -log P. */
static double log_forward(const sample *m, bool keep)
{
    int64_t states = 2 * m->labels + 1;
    for (int64_t t = 0; t < m->frames; t++) {
        double *row = m->a + (keep ? t : t % 2) * m->row_a;
        const double *old = m->a + (keep ? t - 1 : (t + 1) % 2) * m->row_a;
        for (int64_t i = 0; i < states; i++) {
            double v = t == 0 ? (i < 2 ? 0 : -INFINITY) : old[i];
            if (t > 0 && i > 0)
                v = log_add(v, old[i - 1]);
            if (t > 0 && i % 2 && skips(m, i / 2))
                v = log_add(v, old[i - 2]);
            row[i] = v + log_p_at(m->job, t, m->n, class_of(m, i));
        }
    }
    const double *end = m->a + (keep ? m->frames - 1 : (m->frames - 1) % 2) * m->row_a;
    return -log_add(end[states - 1], states > 1 ? end[states - 2] : -INFINITY);
}

/* Betas with the probability of their own frame taken in at the frame before. */
static void log_backward(const sample *m, double loss, double g)
{
    int64_t states = 2 * m->labels + 1;
    double *row = m->b, *next = m->b + m->row_a;
    for (int64_t t = m->frames - 1; t >= 0; t--) {
        double *swap = row;
        row = next;
        next = swap;
        for (int64_t i = 0; i < states; i++) {
            double v = t < m->frames - 1 ? next[i] : i >= states - 2 ? 0 : -INFINITY;
            if (t < m->frames - 1 && i + 1 < states)
                v = log_add(v, next[i + 1]);
            if (t < m->frames - 1 && i % 2 && i + 2 < states && skips(m, i / 2 + 1))
                v = log_add(v, next[i + 2]);
            double share = exp(m->a[t * m->row_a + i] + v + loss);
            add_to_out(m->job, t, m->n, class_of(m, i), -g * share);
            row[i] = v;
        }
        for (int64_t i = 0; i < states; i++)
            row[i] += log_p_at(m->job, t, m->n, class_of(m, i));
    }
}

/* ---- samples ---- */

/* Frames that the labels need: one each, and a blank between equal neighbours. */
static bool can_align(const sample *m)
{
    int64_t need = m->labels;
    for (int64_t k = 1; k < m->labels; k++)
        need += m->label[k] == m->label[k - 1];
    return m->frames >= need;
}

static void clear(const sample *m)
{
    const ctc_job *job = m->job;
    size_t size = job->f64 ? 8 : 4;
    for (int64_t t = 0; t < job->t; t++)
        memset((char *)job->out + (size_t)((t * job->n + m->n) * job->c) * size, 0,
               (size_t)job->c * size);
}

static void run_sample(const sample *m)
{
    const ctc_job *job = m->job;
    double loss = m->labels == 0 && m->frames == 0 ? 0 : INFINITY;
    if (job->back)
        clear(m);
    bool some = m->frames > 0 && can_align(m);
    if (some)
        find_spans(m);
    if (!job->back) {
        if (some && !forward(m, false, &loss))
            loss = log_forward(m, false);
        if (job->f64)
            ((double *)job->out)[m->n] = loss;
        else
            ((float *)job->out)[m->n] = (float)loss;
        return;
    }
    double g = job->f64 ? ((const double *)job->g)[m->n] : (double)((const float *)job->g)[m->n];
    if (!some || g == 0 || (forward(m, true, &loss) && backward(m, g)))
        return;
    clear(m);
    loss = log_forward(m, true);
    if (loss < INFINITY || loss != loss)
        log_backward(m, loss, g);
}

/* Group i has the samples i, i + groups, ...: lengths are often sorted. */
static void run_groups(void *context, int64_t begin, int64_t end)
{
    const ctc_job *job = context;
    for (int64_t i = begin; i < end; i++)
        for (int64_t n = i; n < job->n; n += job->groups) {
            sample m = {.job = job, .n = n, .label = job->target + job->start[n]};
            m.frames = job->lengths[n];
            m.labels = job->lengths[job->n + n];
            m.row_p = m.labels + 1;
            m.row_a = 2 * m.labels + 1;
            m.b = job->scratch + i * job->each;
            m.p = m.b + 2 * (2 * job->s + 1);
            m.a = m.p + (job->back ? job->t : 1) * (job->s + 1);
            m.born = job->spans + i * 2 * (job->t + 1);
            m.dead = m.born + job->t + 1;
            run_sample(&m);
        }
}

/* ---- checks of the data, and the call ---- */

/* Fills start[] and *longest; -1 with an error that names the sample. */
static int check_data(const ctc_job *job, const hod_tensor *target, int64_t *start,
                      int64_t *longest)
{
    int64_t room = target->ndim == 2 ? target->shape[1] : target->shape[0], at = 0;
    *longest = 0;
    for (int64_t n = 0; n < job->n; n++) {
        int64_t frames = job->lengths[n], labels = job->lengths[job->n + n];
        if (frames < 0 || frames > job->t)
            return HOD_FAIL_RC(VALUE, "ctc: input length %lld of sample %lld is outside 0..%lld",
                               (long long)frames, (long long)n, (long long)job->t);
        if (labels < 0 || labels > room - (target->ndim == 2 ? 0 : at))
            return HOD_FAIL_RC(VALUE,
                               "ctc: target length %lld of sample %lld, with targets %s of which "
                               "%lld are left",
                               (long long)labels, (long long)n, HOD_SHAPE_TEXT(target),
                               (long long)(room - (target->ndim == 2 ? 0 : at)));
        start[n] = target->ndim == 2 ? n * room : at;
        at += labels;
        *longest = HOD_MAX(*longest, labels);
        for (int64_t k = 0; k < labels; k++) {
            int64_t label = job->target[start[n] + k];
            if (label < 0 || label >= job->c || label == job->blank)
                return HOD_FAIL_RC(VALUE, "ctc: label %lld of sample %lld is %s of %lld classes",
                                   (long long)label, (long long)n,
                                   label == job->blank ? "the blank" : "none", (long long)job->c);
        }
    }
    return 0;
}

static hod_tensor *temporary(hod_dtype dtype, int64_t n)
{
    hod_meta m = {.dtype = dtype, .ndim = 1, .shape = {n}};
    return hod__eval_temporary(&m);
}

/* `in`: log_p, target, lengths, all row-major. */
static int run_job(ctc_job *job, hod_tensor *const *in, const hod_tensor *shape)
{
    job->log_p = hod__data(in[0]);
    job->target = hod__data(in[1]);
    job->lengths = hod__data(in[2]);
    job->f64 = in[0]->dtype == HOD_F64;
    job->t = in[0]->shape[0];
    job->n = in[0]->shape[1];
    job->c = in[0]->shape[2];
    hod_tensor *start = temporary(HOD_I64, job->n), *scratch = NULL, *spans = NULL;
    int rc = start ? check_data(job, shape, hod__data(start), &job->s) : -1;
    if (rc == 0) {
        job->start = hod__data(start);
        job->groups = HOD_MIN(job->n, hod__cpu()->threads);
        job->each = 2 * (2 * job->s + 1) + (job->back ? job->t : 1) * (job->s + 1) +
                    (job->back ? job->t : 2) * (2 * job->s + 1);
        scratch = temporary(HOD_F64, job->each * job->groups);
        spans = temporary(HOD_I64, 2 * (job->t + 1) * job->groups);
        rc = scratch && spans ? 0 : -1;
    }
    if (rc == 0) {
        job->scratch = hod__data(scratch);
        job->spans = hod__data(spans);
        bool small = job->t * job->n * (job->s + 1) < 2048;
        hod__parallel(job->groups, small ? job->groups : 1, run_groups, job);
    }
    hod_tensor_release(start);
    hod_tensor_release(scratch);
    hod_tensor_release(spans);
    return rc;
}

static int eval(const hod_op_call *c, hod_tensor *out, bool back)
{
    ctc_job job = {.back = back, .blank = c->attrs->ctc.blank, .out = hod__data(out)};
    hod_tensor *in[4];
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0 && hod_tensor_numel(out) > 0) {
        job.g = back ? hod__data(in[3]) : NULL;
        rc = run_job(&job, in, in[1]);
    }
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_ctc(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false);
}

int hod__eval_ctc_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, true);
}
