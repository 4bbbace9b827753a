/* Random moves over sequences: CTC, recurrent layers, attention. Their inputs are fresh, small, and
 * such that no result is infinite: every target has an alignment, every sample all steps. */
#include "graph/random_graph.h"

/* All inputs of a move are of x's type where the operators take it. */
static hod_dtype sequence_type(const hod_drawing *d, hod_ref x)
{
    return hod__node(d->g, x)->dtype == HOD_F64 ? HOD_F64 : HOD_F32;
}

static hod_ref fresh(hod_drawing *d, hod_dtype dtype, hod_shape shape)
{
    hod_meta m = {.dtype = dtype, .ndim = shape.n};
    memcpy(m.shape, shape.d, (size_t)shape.n * sizeof *m.shape);
    return hod__draw_fresh(d, &m);
}

static hod_ref filled(hod_drawing *d, double value, hod_shape shape)
{
    hod_attrs attrs = {.full = {.value = value, .dtype = HOD_I64, .shape = shape}};
    return hod__draw_op(d, HOD_OP_full, &attrs, 0, NULL, value, true);
}

static hod_ref indices(hod_drawing *d, int64_t below, hod_shape shape)
{
    hod_meta m = {.dtype = HOD_I64, .ndim = shape.n};
    memcpy(m.shape, shape.d, (size_t)shape.n * sizeof *m.shape);
    return hod__draw_input(d, &m, 'j', below, HOD_INPUT_DATA);
}

static bool all_drawn(const hod_ref *in, int n)
{
    for (int i = 0; i < n; i++)
        if (in[i] == HOD_NO_REF)
            return false;
    return true;
}

/* Targets of none or one label, which one frame can hold; the blank is the last class. */
hod_ref hod__draw_ctc(hod_drawing *d, hod_ref x)
{
    hod_dtype dtype = sequence_type(d, x);
    int64_t t = 1 + hod__draw(d, 5), n = 1 + hod__draw(d, 3), classes = 2 + hod__draw(d, 3);
    hod_ref rows[] = {filled(d, (double)t, HOD_SHAPE(1, n)), indices(d, 2, HOD_SHAPE(1, n))};
    hod_attrs stack = {.dim = {.dim = 0}}, attrs = {.ctc = {.blank = classes - 1}};
    if (!all_drawn(rows, 2))
        return HOD_NO_REF;
    hod_ref in[] = {fresh(d, dtype, HOD_SHAPE(t, n, classes)),
                    indices(d, classes - 1, HOD_SHAPE(n, 1 + hod__draw(d, 2))),
                    hod__draw_op(d, HOD_OP_concat, &stack, 2, rows, (double)t, true),
                    fresh(d, dtype, HOD_SHAPE(n))};
    if (!all_drawn(in, 4))
        return HOD_NO_REF;
    bool back = hod__draw_one_in(d, 2);
    double bound = back ? d->values[in[3]].bound : (double)t * (d->values[in[0]].bound + 2);
    return hod__draw_tame(d, hod__draw_op(d, back ? HOD_OP_ctc_back : HOD_OP_ctc, &attrs,
                                          back ? 4 : 3, in, bound, false));
}

/* One layer, or its gradient from a result. */
hod_ref hod__draw_recurrent(hod_drawing *d, hod_ref x)
{
    hod_dtype dtype = sequence_type(d, x);
    bool lstm = hod__draw_one_in(d, 2);
    int64_t t = 1 + hod__draw(d, 3), n = 1 + hod__draw(d, 3), h = 1 + hod__draw(d, 4);
    int64_t gates = lstm ? 4 : 3;
    hod_attrs attrs = {.rnn = {.reverse = hod__draw_one_in(d, 2)}};
    hod_ref in[] = {fresh(d, dtype, HOD_SHAPE(gates * h, h)),
                    fresh(d, dtype, lstm ? HOD_SHAPE(2, n, h) : HOD_SHAPE(n, h)),
                    filled(d, (double)t, HOD_SHAPE(n)), fresh(d, dtype, HOD_SHAPE(t, n, gates * h)),
                    fresh(d, dtype, HOD_SHAPE(gates * h))};
    if (!all_drawn(in, 5))
        return HOD_NO_REF;
    double bound = d->values[in[1]].bound + (double)t, step = d->values[in[0]].bound * (double)h;
    hod_ref y = hod__draw_op(d, lstm ? HOD_OP_lstm : HOD_OP_gru, &attrs, 5, in,
                             HOD_MAX(bound, step * bound + d->values[in[4]].bound), false);
    if (y == HOD_NO_REF || hod__draw_one_in(d, 2))
        return y == HOD_NO_REF ? y : hod__draw_tame(d, y);
    in[3] = y;
    in[4] = fresh(d, dtype, HOD_SHAPE(lstm ? 6 : 5, t, n, h));
    if (in[4] == HOD_NO_REF)
        return in[4];
    double g = d->values[in[4]].bound;
    for (int64_t i = 0; i < t; i++)
        g = d->values[in[4]].bound + g * (1 + bound) * (1 + (double)gates * step);
    return hod__draw_tame(
        d, hod__draw_op(d, lstm ? HOD_OP_lstm_back : HOD_OP_gru_back, &attrs, 5, in, g, false));
}

/* Key and sample indices for draws over n rows; HOD_NO_REF among them: failed. */
static void random_inputs(hod_drawing *d, int64_t n, hod_ref in[2])
{
    hod_meta key = {.dtype = HOD_I64, .ndim = 1, .shape = {2}};
    in[0] = hod__draw_input(d, &key, 'k', 0, HOD_INPUT_DATA);
    in[1] = indices(d, 1000, HOD_SHAPE(n));
}

/* Gradients of a call of attention for q, k and v, or for its mask: of n inputs, g behind them. */
static hod_ref attention_back(hod_drawing *d, const hod_attrs *attrs, const hod_ref *in, int n,
                              hod_ref y, hod_ref g, double bound)
{
    hod_ref back[8];
    memcpy(back, in, 4 * sizeof *in);
    back[4] = y;
    back[5] = g;
    memcpy(back + 6, in + 4, (size_t)(n - 4) * sizeof *in);
    bool of_mask = hod__node(d->g, in[3])->ndim > 0 && hod__draw_one_in(d, 2);
    hod_op op = of_mask ? HOD_OP_attention_mask_back : HOD_OP_attention_back;
    return hod__draw_op(d, op, attrs, n + 2, back, bound, false);
}

/* Attention with no mask, an added one or the causal one, with dropout or without, or its gradient:
 * every query sees a key. */
hod_ref hod__draw_attention(hod_drawing *d, hod_ref x)
{
    hod_dtype dtype = sequence_type(d, x);
    int64_t n = 1 + hod__draw(d, 2), shared = 1 + hod__draw(d, 2), e = 1 + hod__draw(d, 4);
    int64_t heads = shared * (1 + hod__draw(d, 2)), l = 1 + hod__draw(d, 4),
            s = 1 + hod__draw(d, 4);
    int64_t ev = 1 + hod__draw(d, 3);
    hod_attrs attrs = {.attention = {.scale = 0.5, .causal = hod__draw_one_in(d, 3)}};
    hod_ref in[6] = {
        fresh(d, dtype, HOD_SHAPE(n, heads, l, e)), fresh(d, dtype, HOD_SHAPE(n, shared, s, e)),
        fresh(d, dtype, HOD_SHAPE(n, shared, s, ev)),
        hod__draw_one_in(d, 2) ? fresh(d, dtype, HOD_SHAPE(l, s)) : hod__draw_full(d, dtype, 0)};
    if (!all_drawn(in, 4))
        return HOD_NO_REF;
    int inputs = hod__draw_one_in(d, 3) ? 6 : 4;
    if (inputs == 6) {
        attrs.attention.dropout = 0.5;
        attrs.attention.stream = hod__draw(d, 100);
        random_inputs(d, n, in + 4);
        if (!all_drawn(in, 6))
            return HOD_NO_REF;
    }
    double q = d->values[in[0]].bound, k = d->values[in[1]].bound, v = 2 * d->values[in[2]].bound;
    double score = 0.5 * (double)e * q * k + d->values[in[3]].bound;
    hod_ref y = hod__draw_op(d, HOD_OP_attention, &attrs, inputs, in, HOD_MAX(v, score + 2), false);
    if (y == HOD_NO_REF || hod__draw_one_in(d, 2))
        return y == HOD_NO_REF ? y : hod__draw_tame(d, y);
    hod_ref gradient = fresh(d, dtype, HOD_SHAPE(n, heads, l, ev + 1));
    if (gradient == HOD_NO_REF)
        return gradient;
    double g = d->values[gradient].bound, slope = 2 * g * (double)ev * v + g;
    double bound = (double)(n * l * heads) * HOD_MAX(2 * g, slope * HOD_MAX(1, HOD_MAX(q, k)));
    return hod__draw_tame(d, attention_back(d, &attrs, in, inputs, y, gradient, bound));
}
