/* Scaled dot-product attention: dropout(softmax(scale q kᵀ + mask)) v.
 *
 * The operators work by blocks, in memory linear in the length. The derivative of `attention` is
 * the kernel attention_back, for an additive mask attention_mask_back; where it is to be
 * differentiated again, it is written in operators, with all scores in memory.
 *
 * Dropout's draws are those of the operator uniform for the scores (B,H,Lq,Lk): what it reads, key
 * and sample indices, are two more inputs, and its stream is an attribute.
 */
#include "ops/attention.h"
#include <hod/attention.h>
#include <math.h>

/* ---- shapes ---- */

static int check_mask(const hod_op_call *c, const hod_meta *mask, const int64_t *scores,
                      hod_dtype dtype)
{
    int64_t out[HOD_MAX_DIMS];
    int n = 0;
    bool fits = mask->ndim <= 4 && hod__broadcast(mask->ndim, mask->shape, 4, scores, &n, out) &&
                n == 4 && memcmp(out, scores, 4 * sizeof *out) == 0;
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: mask %s for scores (%lld,%lld,%lld,%lld)",
                           hod__op_name(c), HOD_META_TEXT(mask), (long long)scores[0],
                           (long long)scores[1], (long long)scores[2], (long long)scores[3]);
    if (mask->dtype != HOD_BOOL && mask->dtype != dtype)
        return HOD_FAIL_RC(ARGUMENT, "%s: a mask of %s for %s", hod__op_name(c),
                           hod_dtype_name((hod_dtype)mask->dtype), hod_dtype_name(dtype));
    return 0;
}

/* `before`: inputs without those of dropout. */
static int check_dropout(const hod_op_call *c, const hod_meta *in, const int64_t *scores,
                         int before)
{
    const hod_attrs_attention *a = &c->attrs->attention;
    int wanted = before + (a->dropout > 0 ? 2 : 0);
    if (c->n != wanted)
        return HOD_FAIL_RC(ARGUMENT, "%s: %d inputs with dropout %g, %d wanted", hod__op_name(c),
                           c->n, a->dropout, wanted);
    if (!(a->dropout >= 0 && a->dropout < 1))
        return HOD_FAIL_RC(ARGUMENT, "%s: dropout %g, must be at least 0 and below 1",
                           hod__op_name(c), a->dropout);
    if (a->dropout == 0)
        return 0;
    HOD_ATTRS(draws);
    draws.uniform.shape = hod_shape_of(4, scores);
    hod_meta out;
    return hod__op_shape(HOD_OP_uniform, &draws, 2, in + before, &out);
}

/* What about the three does not fit, in words; NULL: they do. */
static const char *misfit(const hod_meta *q, const hod_meta *k, const hod_meta *v)
{
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return "four dimensions each are wanted";
    if (k->shape[0] != q->shape[0] || v->shape[0] != q->shape[0])
        return "batch sizes differ";
    if (k->shape[3] != q->shape[3])
        return "last sizes of queries and keys differ";
    if (v->shape[1] != k->shape[1])
        return "keys and values differ in heads";
    return v->shape[2] != k->shape[2] ? "keys and values differ in number" : NULL;
}

/* `more`: inputs between mask and those of dropout. */
static int check(const hod_op_call *c, const hod_meta *in, int more)
{
    if (c->n < ATTENTION_INPUTS + more)
        return HOD_FAIL_RC(ARGUMENT, "%s: %d inputs, at least %d wanted", hod__op_name(c), c->n,
                           ATTENTION_INPUTS + more);
    const hod_meta *q = &in[0], *k = &in[1], *v = &in[2];
    const char *wrong = misfit(q, k, v);
    if (wrong)
        return HOD_FAIL_RC(ARGUMENT, "%s: queries %s, keys %s and values %s: %s", hod__op_name(c),
                           HOD_META_TEXT(q), HOD_META_TEXT(k), HOD_META_TEXT(v), wrong);
    int64_t heads = q->shape[1], shared = k->shape[1];
    if (shared == 0 ? heads != 0 : heads % shared != 0)
        return HOD_FAIL_RC(ARGUMENT, "%s: %lld heads of queries do not share %lld of keys evenly",
                           hod__op_name(c), (long long)heads, (long long)shared);
    hod_dtype t = (hod_dtype)q->dtype;
    if (!hod__is_computed(t) || k->dtype != q->dtype || v->dtype != q->dtype)
        return HOD_FAIL_RC(ARGUMENT, "%s: of %s, %s and %s", hod__op_name(c), hod_dtype_name(t),
                           hod_dtype_name((hod_dtype)k->dtype),
                           hod_dtype_name((hod_dtype)v->dtype));
    const int64_t scores[] = {q->shape[0], heads, q->shape[2], k->shape[2]};
    if (check_dropout(c, in, scores, ATTENTION_INPUTS + more) != 0)
        return -1;
    return check_mask(c, &in[3], scores, t);
}

/* (B,H,Lq,E+1): the result, then log Σ exp of the scores. */
static hod_meta result_of(const hod_meta *in)
{
    hod_meta y = in[0];
    y.shape[3] = in[2].shape[3] + 1;
    return y;
}

int hod__shape_attention(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (check(c, in, 0) != 0)
        return -1;
    *out = result_of(in);
    return 0;
}

/* Inputs q, k, v, mask, the result, its gradient; with dropout key and indices. */
static int check_back(const hod_op_call *c, const hod_meta *in)
{
    if (check(c, in, 2) != 0)
        return -1;
    hod_meta want = result_of(in);
    for (int i = ATTENTION_INPUTS; i < ATTENTION_INPUTS + 2; i++)
        if (hod__check_like(hod__op_name(c), &in[i], &want) != 0)
            return -1;
    return 0;
}

/* Gradients of q, k, v in a row. */
int hod__shape_attention_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (check_back(c, in) != 0)
        return -1;
    *out = (hod_meta){.dtype = in[0].dtype, .ndim = 1};
    for (int i = 0; i < 3; i++)
        out->shape[0] += hod__numel(4, in[i].shape);
    return 0;
}

int hod__shape_attention_mask_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (check_back(c, in) != 0)
        return -1;
    const hod_meta *mask = &in[ATTENTION_MASK];
    if (mask->dtype == HOD_BOOL)
        return HOD_FAIL_RC(ARGUMENT, "attention_mask_back: of a bool mask");
    *out = *mask;
    return 0;
}

/* ---- by operators ---- */

/* x (B,K,L,W) as (B,H,L,W): each head of keys for those of queries that share it. */
static hod_tensor *for_heads(hod_tensor *x, int64_t heads)
{
    if (!x || x->shape[1] == heads)
        return x;
    hod_shape s = hod_tensor_shape(x);
    hod_tensor *each =
        hod_expand(hod_unsqueeze(x, 2), HOD_SHAPE(s.d[0], s.d[1], heads / s.d[1], s.d[2], s.d[3]));
    return hod_reshape(each, HOD_SHAPE(s.d[0], heads, s.d[2], s.d[3]));
}

/* Sums what for_heads repeated. */
static hod_tensor *of_heads(hod_tensor *g, int64_t shared)
{
    if (!g || g->shape[1] == shared)
        return g;
    hod_shape s = hod_tensor_shape(g);
    return hod_sum_dims(hod_reshape(g, HOD_SHAPE(s.d[0], shared, s.d[1] / shared, s.d[2], s.d[3])),
                        2);
}

/* softmax(scale q kᵀ + mask), k for all heads; 0 in rows that see no key. */
static hod_tensor *probabilities(hod_tensor *q, hod_tensor *k, hod_tensor *mask,
                                 const hod_attrs_attention *a)
{
    hod_tensor *s = hod_matmul(q, hod_transpose(k, -1, -2));
    s = s ? hod_mul_scalar(s, a->scale) : NULL;
    if (!s)
        return NULL;
    hod_tensor *none = hod__number(s, -(double)INFINITY);
    if (mask->ndim > 0)
        s = mask->dtype == HOD_BOOL ? hod_where(mask, s, none) : hod_add(s, mask);
    if (s && a->causal) {
        hod_tensor *i = hod_iota(HOD_I64, HOD_SHAPE(s->shape[2], 1), 0);
        hod_tensor *j = hod_iota(HOD_I64, HOD_SHAPE(1, s->shape[3]), 1);
        s = hod_where(hod_ge(i, j), s, none);
    }
    return hod_softmax(s, -1);
}

/* What dropout leaves of p, or of its gradient; draws NULL: all. */
static hod_tensor *dropped(hod_tensor *p, hod_tensor *draws, const hod_attrs_attention *a)
{
    if (!p || a->dropout == 0)
        return p;
    hod_tensor *zero = hod__number(p, 0);
    return hod_where(hod_ge_scalar(draws, a->dropout), hod_mul_scalar(p, 1 / (1 - a->dropout)),
                     zero);
}

hod_tensor *hod__attention_composed(hod_tensor *q, hod_tensor *k, hod_tensor *v, hod_tensor *mask,
                                    const hod_attrs_attention *a, hod_tensor *draws)
{
    if (!q || !k || !v || !mask)
        return NULL;
    hod_tensor *p = probabilities(q, for_heads(k, q->shape[1]), mask, a);
    return hod_matmul(dropped(p, draws, a), for_heads(v, q->shape[1]));
}

/* The operator's draws; NULL without dropout. */
static hod_tensor *draws_of(const hod_vjp *v)
{
    const hod_attrs_attention *a = &v->attrs->attention;
    if (a->dropout == 0)
        return NULL;
    HOD_ATTRS(draws);
    const int64_t *q = v->meta[0].shape, *k = v->meta[1].shape;
    draws.uniform.shape = HOD_SHAPE(q[0], q[1], q[2], k[2]);
    draws.uniform.stream = a->stream;
    return hod__op(HOD_OP_uniform, &draws, 2, (hod_tensor *[]){v->x[4], v->x[5]});
}

/* Gradient i of the operator, by operators. */
static hod_tensor *composed_gradient(const hod_vjp *v, int i)
{
    const hod_attrs_attention *a = &v->attrs->attention;
    hod_tensor *q = v->x[0], *k = for_heads(v->x[1], q->shape[1]), *draws = draws_of(v);
    int64_t e = v->meta[2].shape[3], shared = v->meta[1].shape[1];
    hod_tensor *g = hod_slice(v->g, 3, 0, e), *g_log = hod_slice(v->g, 3, e, e + 1);
    hod_tensor *p = probabilities(q, k, v->x[3], a);
    if (!p || !g)
        return NULL;
    if (i == 2)
        return of_heads(hod_matmul(hod_transpose(dropped(p, draws, a), -1, -2), g), shared);
    hod_tensor *dp = hod_matmul(g, hod_transpose(for_heads(v->x[2], q->shape[1]), -1, -2));
    dp = dropped(dp, draws, a);
    hod_tensor *share = hod_sum_keep(hod_mul(p, dp), -1);
    hod_tensor *ds = hod_mul(p, hod_add(hod_sub(dp, share), g_log));
    if (i == 3)
        return ds ? hod__unbroadcast(ds, &v->meta[3]) : NULL;
    ds = ds ? hod_mul_scalar(ds, a->scale) : NULL;
    return i == 0 ? hod_matmul(ds, k) : of_heads(hod_matmul(hod_transpose(ds, -1, -2), q), shared);
}

/* ---- derivative ---- */

static hod_tensor *by_blocks(const hod_vjp *v, hod_op op)
{
    hod_tensor *in[] = {v->x[0], v->x[1], v->x[2], v->x[3], v->y, v->g, NULL, NULL};
    for (int i = ATTENTION_INPUTS; i < v->n; i++)
        in[i + 2] = v->x[i];
    return hod__op(op, v->attrs, v->n + 2, in);
}

/* The row of gradients, computed once for all inputs that ask. */
static hod_tensor *row_of(const hod_vjp *v)
{
    hod_tensor *row = v->shared ? *v->shared : NULL;
    if (!row)
        row = by_blocks(v, HOD_OP_attention_back);
    if (v->shared)
        *v->shared = row;
    return row;
}

hod_tensor *hod__vjp_attention(const hod_vjp *v, int i)
{
    if (i > ATTENTION_MASK || v->meta[i].dtype == HOD_BOOL)
        return HOD_NO_GRADIENT;
    if (hod__tape_listens())
        return composed_gradient(v, i);
    if (i == ATTENTION_MASK)
        return by_blocks(v, HOD_OP_attention_mask_back);
    int64_t from = 0;
    for (int k = 0; k < i; k++)
        from += hod__numel(4, v->meta[k].shape);
    int64_t n = hod__numel(4, v->meta[i].shape);
    return hod_reshape(hod_slice(row_of(v), 0, from, from + n), hod_shape_of(4, v->meta[i].shape));
}

/* ---- fronts ---- */

/* t of n dimensions, a batch without heads where these are three, as (B,H,L,W). */
static hod_tensor *with_heads(hod_tensor *t, int n)
{
    while (t && t->ndim < n)
        t = hod_unsqueeze(t, 0);
    if (n == 3)
        return hod_unsqueeze(t, 1);
    return n == 2 ? hod_unsqueeze(hod_unsqueeze(t, 0), 0) : t;
}

/* t with dimension d, where it is 1, repeated as often as `like` has it. */
static hod_tensor *repeated(hod_tensor *t, int d, const hod_tensor *like)
{
    if (!t || !like || t->shape[d] != 1 || like->shape[d] == 1)
        return t;
    hod_shape s = hod_tensor_shape(t);
    s.d[d] = like->shape[d];
    return hod_expand(t, s);
}

/* Batches of one serve all others; so does one head of keys or values for several of the other, and
 * of queries for several of keys. What shares heads of keys is not repeated. */
static void repeat(hod_tensor **in)
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            in[i] = repeated(in[i], 0, in[k]);
    in[1] = repeated(in[1], 1, in[2]);
    in[2] = repeated(in[2], 1, in[1]);
    in[0] = repeated(in[0], 1, in[1]);
}

/* Dropout's inputs, as hod_uniform would have them for the scores. 0 or -1. */
static int draw(hod_tensor **in, double p, hod_attrs_attention *a)
{
    hod_random_key *k = hod__random();
    if (!k || !in[0])
        return -1;
    in[4] = k->key;
    in[5] = k->index ? k->index : hod_arange(HOD_I64, in[0]->shape[0]);
    a->dropout = p;
    a->stream = k->stream++;
    return in[5] ? 0 : -1;
}

/* `mask` of bool or like q; 0-d: none. */
static hod_tensor *attend(hod_tensor *q, hod_tensor *k, hod_tensor *v, hod_tensor *mask,
                          hod_attention_options o)
{
    int n = HOD_MAX(q->ndim, HOD_MAX(k->ndim, v->ndim));
    if (n > 4 || q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
        return HOD_FAIL(ARGUMENT,
                        "attention: queries %s, keys %s and values %s: of 2 to 4 dimensions",
                        HOD_SHAPE_TEXT(q), HOD_SHAPE_TEXT(k), HOD_SHAPE_TEXT(v));
    if (!(o.dropout >= 0 && o.dropout < 1))
        return HOD_FAIL(ARGUMENT, "attention: dropout %g, must be at least 0 and below 1",
                        o.dropout);
    if (!isfinite(o.scale))
        return HOD_FAIL(ARGUMENT, "attention: scale %g, must be finite", o.scale);
    HOD_ATTRS(a);
    a.attention.causal = o.causal;
    int64_t d = q->shape[q->ndim - 1], e = v->shape[v->ndim - 1];
    a.attention.scale = o.scale != 0 ? o.scale : d > 0 ? 1 / sqrt((double)d) : 1;
    hod_tensor *in[6] = {with_heads(q, n), with_heads(k, n), with_heads(v, n), mask};
    repeat(in);
    if (o.dropout > 0 && draw(in, o.dropout, &a.attention) != 0)
        return NULL;
    hod_tensor *y = hod_slice(hod__op(HOD_OP_attention, &a, o.dropout > 0 ? 6 : 4, in), 3, 0, e);
    if (n == 4)
        return y;
    y = hod_squeeze(y, 1);
    return n == 2 ? hod_squeeze(y, 0) : y;
}

/* Halves are computed in f32. */
static hod_tensor *brought(hod_tensor *q, hod_tensor *k, hod_tensor *v, hod_tensor *mask,
                           hod_attention_options o)
{
    hod_dtype t = hod__promote_all(3, (hod_tensor *[]){q, k, v});
    hod_dtype in = t == HOD_F64 ? HOD_F64 : HOD_F32;
    if (mask->dtype != HOD_BOOL)
        mask = hod__cast_to(mask, in);
    q = hod__cast_to(q, in);
    k = hod__cast_to(k, in);
    v = hod__cast_to(v, in);
    return q && k && v && mask ? hod__narrowed(attend(q, k, v, mask, o), t) : NULL;
}

hod_tensor *hod_attention_with(hod_tensor *q, hod_tensor *k, hod_tensor *v, hod_attention_options o)
{
    if (hod__null("attention", "q", q) || hod__null("attention", "k", k) ||
        hod__null("attention", "v", v))
        return NULL;
    hod_tensor *none = hod_full(HOD_F32, HOD_SHAPE(), 0);
    return none ? brought(q, k, v, none, o) : NULL;
}

hod_tensor *hod_attention_masked_with(hod_tensor *q, hod_tensor *k, hod_tensor *v, hod_tensor *mask,
                                      hod_attention_options o)
{
    if (hod__null("attention", "q", q) || hod__null("attention", "k", k) ||
        hod__null("attention", "v", v) || hod__null("attention", "mask", mask))
        return NULL;
    if (mask->dtype != HOD_BOOL && !hod__is_float(mask->dtype))
        return HOD_FAIL(ARGUMENT, "attention: a mask of %s is neither bool nor real",
                        hod_dtype_name((hod_dtype)mask->dtype));
    if (mask->ndim == 0)
        mask = hod_unsqueeze(mask, 0);
    else if (mask->ndim == 3 && q->ndim == 3 && k->ndim == 3 && v->ndim == 3)
        mask = hod_unsqueeze(mask, 1);
    return mask ? brought(q, k, v, mask, o) : NULL;
}
