/* LSTM and GRU as users call them: layers, directions and lengths around the operators of rnn.c. */
#include "ops/rules.h"
#include <hod/rnn.h>

typedef struct stack {
    const char *name;
    int64_t gates, layers, directions;
    const hod_rnn_options *o;
    hod_tensor *lengths; /* i64 (N) */
    hod_tensor *h, *c;   /* (layers * directions,N,H) or NULL */
    int64_t n, hidden;
} stack;

/* One direction's outputs and final states. */
typedef struct run {
    hod_tensor *y, *h, *c; /* (T,N,H), (N,H) */
} run;

static hod_tensor *initial(const stack *s, hod_tensor *states, int64_t k, const hod_tensor *x)
{
    return states ? hod_select(states, 0, k)
                  : hod_full((hod_dtype)x->dtype, HOD_SHAPE(s->n, s->hidden), 0);
}

/* x's part of the gates; `b`, a bias that simply adds to it, may be NULL. */
static hod_tensor *input_part(hod_tensor *x, const hod_rnn_weights *w, hod_tensor *b)
{
    hod_tensor *w_ih = hod__cast_like(w->w_ih, x);
    return b ? hod_linear(x, w_ih, hod__cast_like(b, x)) : hod_linear_nobias(x, w_ih);
}

static hod_tensor *no_bias(const stack *s, const hod_tensor *x)
{
    return hod_full((hod_dtype)x->dtype, HOD_SHAPE(s->gates * s->hidden), 0);
}

static run run_lstm(const stack *s, const hod_attrs *a, hod_tensor *x, const hod_rnn_weights *w,
                    int64_t k)
{
    hod_tensor *h = initial(s, s->h, k, x), *c = initial(s, s->c, k, x);
    hod_tensor *state = hod_stack(2, (hod_tensor *[]){h, c}, 0);
    hod_tensor *b = s->o->no_bias ? no_bias(s, x)
                                  : hod_add(hod__cast_like(w->b_ih, x), hod__cast_like(w->b_hh, x));
    hod_tensor *in[] = {hod__cast_like(w->w_hh, x), state, s->lengths, input_part(x, w, NULL), b};
    hod_tensor *r = hod__op(HOD_OP_lstm, a, 5, in);
    int64_t last = a->rnn.reverse ? 0 : -1;
    if (!r || x->shape[0] == 0)
        return (run){r ? hod_select(r, 0, 0) : NULL, h, c};
    run out = {hod_select(r, 0, 0), NULL, hod_select(hod_select(r, 0, 1), 0, last)};
    out.h = hod_select(out.y, 0, last);
    return out;
}

static run run_gru(const stack *s, const hod_attrs *a, hod_tensor *x, const hod_rnn_weights *w,
                   int64_t k)
{
    hod_tensor *h = initial(s, s->h, k, x);
    hod_tensor *b = s->o->no_bias ? no_bias(s, x) : hod__cast_like(w->b_hh, x);
    hod_tensor *part = input_part(x, w, s->o->no_bias ? NULL : w->b_ih);
    hod_tensor *in[] = {hod__cast_like(w->w_hh, x), h, s->lengths, part, b};
    hod_tensor *r = hod__op(HOD_OP_gru, a, 5, in);
    run out = {hod_select(r, 0, 0), h, NULL};
    if (r && x->shape[0] > 0)
        out.h = hod_select(out.y, 0, a->rnn.reverse ? 0 : -1);
    return out;
}

/* 0 beyond a sample's length. The operator reads nothing there and keeps its state; products over
 * all steps (the input's part, gradients of its weights) would let a NaN in. */
static hod_tensor *masked(const stack *s, hod_tensor *y)
{
    if (!y || !s->o->lengths)
        return y;
    hod_tensor *t = hod_iota(HOD_I64, HOD_SHAPE(y->shape[0], 1, 1), 0);
    hod_tensor *inside = hod_lt(t, hod_reshape(s->lengths, HOD_SHAPE(1, s->n, 1)));
    return hod_where(inside, y, hod__number(y, 0));
}

/* All layers over x (T,N,I); states go to h[] and c[]. */
static hod_tensor *run_layers(const stack *s, hod_tensor *x, const hod_rnn_weights *w,
                              hod_tensor **h, hod_tensor **c)
{
    for (int64_t layer = 0; layer < s->layers && x; layer++) {
        if (layer > 0 && s->o->dropout > 0) /* by sample: they are rows of (N,T,...) */
            x = hod_transpose(hod_dropout(hod_transpose(x, 0, 1), s->o->dropout), 0, 1);
        hod_tensor *y[2] = {NULL};
        for (int64_t d = 0; d < s->directions && x; d++) {
            int64_t k = layer * s->directions + d;
            HOD_ATTRS(a);
            a.rnn.reverse = d == 1;
            a.rnn.at_rest = !s->h;
            run r = s->gates == 4 ? run_lstm(s, &a, x, &w[k], k) : run_gru(s, &a, x, &w[k], k);
            y[d] = masked(s, r.y);
            h[k] = r.h;
            c[k] = r.c;
        }
        x = s->directions == 2 ? hod_concat(2, y, 2) : y[0];
    }
    return x;
}

/* ---- arguments ---- */

static int check_weights(const stack *s, const hod_tensor *x, const hod_rnn_weights *w)
{
    for (int64_t k = 0; k < s->layers * s->directions; k++) {
        if (!w[k].w_ih || !w[k].w_hh || (!s->o->no_bias && (!w[k].b_ih || !w[k].b_hh)))
            return hod_error_kind_pending() != HOD_ERROR_NONE
                       ? -1
                       : HOD_FAIL_RC(ARGUMENT,
                                     "%s: weights or biases of layer %lld are missing; "
                                     "without biases: .no_bias",
                                     s->name, (long long)(k / s->directions));
        int64_t in = k < s->directions ? x->shape[2] : s->directions * s->hidden;
        int64_t g = s->gates * s->hidden;
        const hod_tensor *a = w[k].w_ih, *b = w[k].w_hh;
        if (k < s->directions && a->ndim == 2 && a->shape[0] == g && a->shape[1] != in)
            return HOD_FAIL_RC(ARGUMENT, "%s: input %s has %lld features, weights %s want %lld",
                               s->name, HOD_SHAPE_TEXT(x), (long long)in, HOD_SHAPE_TEXT(a),
                               (long long)a->shape[1]);
        if (a->ndim != 2 || a->shape[0] != g || a->shape[1] != in || b->ndim != 2 ||
            b->shape[0] != g || b->shape[1] != s->hidden)
            return HOD_FAIL_RC(ARGUMENT,
                               "%s: layer %lld has weights %s and %s, not (%lld,%lld) and "
                               "(%lld,%lld)",
                               s->name, (long long)(k / s->directions), HOD_SHAPE_TEXT(a),
                               HOD_SHAPE_TEXT(b), (long long)g, (long long)in, (long long)g,
                               (long long)s->hidden);
        a = w[k].b_ih, b = w[k].b_hh;
        if (!s->o->no_bias &&
            (a->ndim != 1 || a->shape[0] != g || b->ndim != 1 || b->shape[0] != g))
            return HOD_FAIL_RC(ARGUMENT, "%s: layer %lld has biases %s and %s, wanted (%lld)",
                               s->name, (long long)(k / s->directions), HOD_SHAPE_TEXT(a),
                               HOD_SHAPE_TEXT(b), (long long)g);
    }
    return 0;
}

/* States in x's type, as (layers * directions,N,H). */
static int state_of(const stack *s, hod_tensor *given, const hod_tensor *x, bool one,
                    hod_tensor **out)
{
    *out = NULL;
    if (!given)
        return 0;
    hod_tensor *t = one ? hod_unsqueeze(given, 1) : given;
    int64_t k = s->layers * s->directions;
    if (t && (t->ndim != 3 || t->shape[0] != k || t->shape[1] != s->n || t->shape[2] != s->hidden))
        return HOD_FAIL_RC(ARGUMENT, "%s: initial state %s, not (%lld,%lld,%lld)", s->name,
                           HOD_SHAPE_TEXT(t), (long long)k, (long long)s->n, (long long)s->hidden);
    *out = hod__cast_like(t, x);
    return *out ? 0 : -1;
}

static int prepare(stack *s, hod_tensor *x, const hod_rnn_weights *w, bool one)
{
    const hod_rnn_options *o = s->o;
    if (x->ndim != 3 || !hod__is_float(x->dtype))
        return HOD_FAIL_RC(ARGUMENT, "%s: input %s %s, not floats (T,N,I)", s->name,
                           hod_dtype_name((hod_dtype)x->dtype), HOD_SHAPE_TEXT(x));
    if (o->layers < 0 || !(o->dropout >= 0 && o->dropout <= 1))
        return HOD_FAIL_RC(ARGUMENT, "%s: %d layers, dropout %g; wanted 1 or more, and 0 to 1",
                           s->name, o->layers, o->dropout);
    s->layers = o->layers ? o->layers : 1;
    s->directions = o->bidirectional ? 2 : 1;
    s->n = x->shape[1];
    bool is_table = w[0].w_hh && w[0].w_hh->ndim == 2;
    s->hidden = is_table ? w[0].w_hh->shape[1] : 0;
    if (is_table && s->hidden < 1)
        return HOD_FAIL_RC(ARGUMENT, "%s: weights %s have no hidden units", s->name,
                           HOD_SHAPE_TEXT(w[0].w_hh));
    if (check_weights(s, x, w) != 0 || state_of(s, o->h, x, one, &s->h) != 0 ||
        state_of(s, o->c, x, one, &s->c) != 0)
        return -1;
    hod_tensor *lengths = o->lengths;
    if (lengths && hod__is_float(lengths->dtype))
        return HOD_FAIL_RC(ARGUMENT, "%s: lengths of %s, wanted integers", s->name,
                           hod_dtype_name((hod_dtype)lengths->dtype));
    if (lengths && lengths->ndim == 0)
        lengths = hod_unsqueeze(lengths, 0);
    if (lengths && (lengths->ndim != 1 || lengths->shape[0] != s->n))
        return HOD_FAIL_RC(ARGUMENT, "%s: lengths %s for %lld samples", s->name,
                           HOD_SHAPE_TEXT(lengths), (long long)s->n);
    s->lengths = lengths ? hod__cast_to(lengths, HOD_I64)
                         : hod_full(HOD_I64, HOD_SHAPE(s->n), (double)x->shape[0]);
    return s->lengths ? 0 : -1;
}

/* ---- the two ---- */

static hod_tensor *back_to(hod_tensor *t, hod_dtype type, bool one)
{
    t = one ? hod_squeeze(t, 1) : t;
    return t ? hod__cast_to(t, type) : NULL;
}

static hod_rnn recurrent(stack *s, hod_tensor *x, const hod_rnn_weights *w)
{
    if (hod__null(s->name, "x", x) || hod__null(s->name, "weights", w) || !hod__options_hold())
        return (hod_rnn){0};
    const hod_rnn_options *o = s->o;
    hod_dtype type = (hod_dtype)x->dtype;
    bool one = x->ndim == 2;
    x = one ? hod_unsqueeze(x, 1) : o->batch_first ? hod_transpose(x, 0, 1) : x;
    x = x && hod__is_float(type) ? hod__computed(x) : x;
    if (!x || prepare(s, x, w, one) != 0)
        return (hod_rnn){0};
    int64_t k = s->layers * s->directions;
    hod_tensor **states = hod__alloc((size_t)(2 * k), sizeof *states);
    if (!states)
        return (hod_rnn){0};
    hod_tensor *y = run_layers(s, masked(s, x), w, states, states + k);
    hod_rnn r = {0};
    if (y) {
        r.h = back_to(hod_stack((int)k, states, 0), type, one);
        r.c = s->gates == 4 ? back_to(hod_stack((int)k, states + k, 0), type, one) : NULL;
        y = o->batch_first && !one ? hod_transpose(y, 0, 1) : y;
        r.y = back_to(y, type, one);
    }
    free(states);
    return r.y && r.h && (r.c || s->gates == 3) ? r : (hod_rnn){0};
}

hod_rnn hod_lstm_with(hod_tensor *x, const hod_rnn_weights *w, hod_rnn_options o)
{
    stack s = {.name = "lstm", .gates = 4, .o = &o};
    return recurrent(&s, x, w);
}

hod_rnn hod_gru_with(hod_tensor *x, const hod_rnn_weights *w, hod_rnn_options o)
{
    stack s = {.name = "gru", .gates = 3, .o = &o};
    if (o.c) {
        hod__fail(HOD_ERROR_ARGUMENT, "gru: has no cell state c");
        return (hod_rnn){0};
    }
    return recurrent(&s, x, w);
}
