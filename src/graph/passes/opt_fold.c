/* Constants: what only `full` values decide is computed now, by the eager kernel on one element.
 *
 *     %1 full f32 () {value=2}   %2 sqrt f32 () %1   %3 mul %0 %2
 *       ->   %1 full f32 () {value=1.4142135381698608}   %2 mul %0 %1
 *
 * Only pointwise operators, views, and those reductions whose result is certain whatever the order
 * of summation: extremes, and sums of whole numbers that the type counts exactly. A value that a
 * double cannot hold (i64 beyond 2^53) stays as it is.
 */
#include "graph/passes.h"
#include "graph/rewrite.h"
#include "ops/rules.h"

#include <math.h>

static const double DOUBLE_WHOLE = 9007199254740992.0; /* 2^53 */

/* Largest whole number up to which the type has all of them. */
static double whole_limit(hod_dtype dtype)
{
    switch (dtype) {
    case HOD_F32: return 16777216;
    case HOD_F16: return 2048;
    case HOD_BF16: return 256;
    default: return DOUBLE_WHOLE;
    }
}

static hod_tensor *scalar(hod_dtype dtype, double value)
{
    hod_meta meta = {.dtype = dtype};
    hod_attrs attrs = {.full = {.value = value, .dtype = dtype}};
    hod_tensor *t = hod__eval_temporary(&meta);
    if (t && hod__op_eval_into(HOD_OP_full, &attrs, 0, NULL, t) == 0)
        return t;
    hod_tensor_release(t);
    return NULL;
}

/* The op of single constants; false when it fails or a double cannot hold the result. */
static bool evaluate(const hod_graph *g, hod_ref r, double *out)
{
    const hod_node *node = hod__node(g, r);
    hod_meta meta = {.dtype = (hod_dtype)node->dtype};
    hod_tensor *in[4] = {0}, *y = hod__eval_temporary(&meta);
    bool ok = y && node->n_in <= HOD_COUNT(in);
    for (int i = 0; ok && i < node->n_in; i++) {
        const hod_node *full = hod__node(g, hod__node_in(g, r)[i]);
        in[i] = scalar((hod_dtype)full->dtype, full->attrs.full.value);
        ok = in[i] != NULL;
    }
    ok = ok && hod__op_eval_into((hod_op)node->op, &node->attrs, node->n_in, in, y) == 0 &&
         hod_read_doubles(y, out, 1) == 0;
    for (int i = 0; i < HOD_COUNT(in); i++)
        hod_tensor_release(in[i]);
    hod_tensor_release(y);
    return ok && (meta.dtype != HOD_I64 || fabs(*out) < DOUBLE_WHOLE);
}

/* Is the sum of n times x certain? Then *out is it. */
static bool fold_sum(const hod_graph *g, hod_ref r, double x, double *out)
{
    hod_ref in = hod__node_in(g, r)[0];
    int64_t from = hod__node_numel(g, in), to = hod__node_numel(g, r);
    if (to == 0 || x != nearbyint(x) || (x == 0 && signbit(x)))
        return false;
    *out = x * (double)(from / to);
    return fabs(*out) <= whole_limit((hod_dtype)g->nodes[r].dtype);
}

static hod_ref fold(hod_rewrite *w, hod_ref r)
{
    const hod_graph *g = w->g;
    const hod_node *node = hod__node(g, r);
    hod_op_class class = hod__node_info(g, r)->class;
    if (node->n_in == 0)
        return r;
    for (int i = 0; i < node->n_in; i++)
        if (!hod__node_is(g, hod__node_in(g, r)[i], HOD_OP_full))
            return r;
    hod_meta meta = hod__node_meta(g, r);
    double value = hod__node(g, hod__node_in(g, r)[0])->attrs.full.value;
    bool ok = class == HOD_VIEW || node->op == HOD_OP_contiguous || node->op == HOD_OP_amax ||
              node->op == HOD_OP_amin;
    if (class == HOD_POINTWISE)
        ok = evaluate(g, r, &value);
    if (node->op == HOD_OP_sum)
        ok = fold_sum(g, r, value, &value);
    return ok ? hod__rewrite_full(w, value, &meta) : r;
}

bool hod__opt_fold(hod_graph *g)
{
    return hod__rewrite(g, fold, NULL);
}
