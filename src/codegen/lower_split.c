/* Split: a sum of many elements to few results is done in two levels, so that all threads have work
 * and partial sums stay short.
 *
 *     sum {0,2,3} of (N,C,H,W)  ->  sum {2,3} keepdim, then sum {0,2,3}
 *     sum {0} of (n)            ->  reshape (k, n/k), sum {1}, sum {0}
 *
 * Partial sums pass through memory in double, as a sum in one level has them in registers: batch
 * norm's statistics are then those of the eager kernel to the last bit, and every ReLU behind them
 * falls to the same side. (In f32 a few of ten million did not, and gradients differed by 1e-3.)
 */
#include "codegen/lower_copy.h"

bool hod__few_rows(const hod_graph *g, hod_ref sum)
{
    const hod_node *y = hod__node(g, sum), *x = hod__node(g, hod__node_in(g, sum)[0]);
    int block = hod__dnn_block();
    uint32_t dims = y->attrs.reduce.dims;
    bool image = x->ndim == 4 && !(dims >> 1 & 1) && x->shape[1] % block == 0;
    bool kept = image || (x->ndim > 0 && !(dims >> (x->ndim - 1) & 1));
    int64_t rows = hod__node_numel(g, sum) / (kept ? block : 1);
    return rows < HOD_FEW_ROWS && hod__node_numel(g, hod__node_in(g, sum)[0]) >= HOD_LONG_ROWS;
}

/* The largest divisor of n up to `most`. */
static int64_t divisor(int64_t n, int64_t most)
{
    for (int64_t k = most; k > 1; k--)
        if (n % k == 0)
            return k;
    return 1;
}

/* A first sum over all but the outermost long folded dimension;
 * HOD_NO_REF when there is no such. */
static hod_ref sum_inner(hod_copier *w, hod_ref r, hod_ref x)
{
    const hod_node *y = hod__node(w->from, r);
    const hod_node *xn = hod__node(w->from, hod__node_in(w->from, r)[0]);
    hod_attrs inner = {0};
    inner.reduce.dims = y->attrs.reduce.dims;
    inner.reduce.keepdim = true;
    int d = 0;
    while (d < xn->ndim && !(inner.reduce.dims >> d & 1 && xn->shape[d] >= 8))
        d++;
    inner.reduce.dims &= ~(1u << d);
    if (d == xn->ndim || !inner.reduce.dims)
        return HOD_NO_REF;
    return hod__copy_add(w, (hod_op)y->op, &inner, 1, &x, r);
}

/* A single folded dimension n becomes (k, n/k); the inner of the two is summed here, and the
 * original sum, over k, finishes it. */
static hod_ref sum_parts(hod_copier *w, hod_ref r, hod_ref x)
{
    const hod_node *y = hod__node(w->from, r);
    const hod_node *xn = hod__node(w->from, hod__node_in(w->from, r)[0]);
    int d = 0;
    while (d < xn->ndim && !(y->attrs.reduce.dims >> d & 1 && xn->shape[d] > 1))
        d++;
    if (d == xn->ndim || xn->ndim == HOD_MAX_DIMS)
        return HOD_NO_REF;
    int64_t k = divisor(xn->shape[d], 256);
    if (k < 8)
        return HOD_NO_REF;
    hod_attrs cut = {0}, inner = {0};
    cut.shape.shape.n = xn->ndim + 1;
    for (int i = 0; i < xn->ndim; i++)
        cut.shape.shape.d[i + (i > d)] = i == d ? k : xn->shape[i];
    cut.shape.shape.d[d + 1] = xn->shape[d] / k;
    inner.reduce.dims = 1u << (d + 1);
    hod_ref parts = hod__copy_add(w, HOD_OP_reshape, &cut, 1, &x, r);
    return hod__copy_add(w, (hod_op)y->op, &inner, 1, &parts, r);
}

static bool is_split(const hod_graph *g, hod_ref r)
{
    int op = hod__node(g, r)->op;
    return (op == HOD_OP_sum || op == HOD_OP_amax || op == HOD_OP_amin) && hod__few_rows(g, r);
}

static bool widens(const hod_graph *g, hod_ref r)
{
    int dtype = hod__node(g, r)->dtype;
    return hod__node(g, r)->op == HOD_OP_sum && (dtype == HOD_F32 || hod__is_half(dtype));
}

static hod_ref cast(hod_copier *w, hod_ref x, hod_dtype dtype, hod_ref like)
{
    hod_attrs attrs = {.cast = {.dtype = dtype}};
    return hod__copy_add(w, HOD_OP_cast, &attrs, 1, &x, like);
}

static hod_ref operand(hod_copier *w, hod_ref user, int i)
{
    hod_ref x = w->map[hod__node_in(w->from, user)[i]];
    if (!is_split(w->from, user))
        return x;
    hod_ref wide = widens(w->from, user) ? cast(w, x, HOD_F64, user) : x;
    hod_ref part = sum_inner(w, user, wide);
    if (part == HOD_NO_REF)
        part = sum_parts(w, user, wide);
    return part == HOD_NO_REF ? wide : part;
}

static hod_ref result(hod_copier *w, hod_ref r, hod_ref copy)
{
    return is_split(w->from, r) && widens(w->from, r)
               ? cast(w, copy, (hod_dtype)hod__node(w->from, r)->dtype, r)
               : copy;
}

hod_graph *hod__lower_split(const hod_graph *g)
{
    hod_copier w;
    hod__copy_begin(&w, g, NULL);
    w.result = result;
    hod__copy_nodes(&w, operand);
    hod__copy_outputs(&w);
    return hod__copy_finish(&w);
}
