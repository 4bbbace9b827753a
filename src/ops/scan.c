/* Running sums and products along a dimension, from its start or, reversed, from its end.
 *
 * The tensor is (outer, size, inner). Neighbouring inner lines are folded together, so that memory
 * is read in order; lines are independent, so threads change nothing.
 */
#include "ops/rules.h"
#include "tensor/half.h"
#include <hod/movement.h>
#include <math.h>

enum { SCAN_COLUMNS = 256 };

typedef struct scan_job {
    const void *from;
    void *to;
    int64_t outer, size, inner;
    int64_t blocks; /* of up to SCAN_COLUMNS inner lines */
    bool reverse;
} scan_job;

#define TYPED_BODY "ops/scan_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#define ELEM_F16
#include "ops/typed_tmpl.h"
#define ELEM_BF16
#include "ops/typed_tmpl.h"
#define ELEM_I64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

typedef void scan_part(void *context, int64_t begin, int64_t end);

static scan_part *const sums[HOD_DTYPES] = {
    [HOD_F32] = scan_sum_f32,   [HOD_F64] = scan_sum_f64, [HOD_F16] = scan_sum_f16,
    [HOD_BF16] = scan_sum_bf16, [HOD_I64] = scan_sum_i64,
};
static scan_part *const products[HOD_DTYPES] = {
    [HOD_F32] = scan_product_f32,   [HOD_F64] = scan_product_f64, [HOD_F16] = scan_product_f16,
    [HOD_BF16] = scan_product_bf16, [HOD_I64] = scan_product_i64,
};

static int shape_of_scan(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    int64_t dim = c->attrs->scan.dim;
    if (dim < 0 || dim >= HOD_MAX(in->ndim, 1))
        return HOD_FAIL_RC(ARGUMENT, "%s: no dimension %lld in %s", hod__op_name(c), (long long)dim,
                           HOD_META_TEXT(in));
    if (!sums[in->dtype])
        return HOD_FAIL_RC(ARGUMENT, "%s: not defined for %s", hod__op_name(c),
                           hod_dtype_name(in->dtype));
    *out = *in;
    return 0;
}

int hod__shape_cumsum(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return shape_of_scan(c, in, out);
}

int hod__shape_cumprod(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return shape_of_scan(c, in, out);
}

static int scan(const hod_op_call *c, hod_tensor *out, scan_part *const *parts)
{
    if (hod_tensor_numel(out) == 0)
        return 0;
    hod_tensor *x;
    if (hod__eval_inputs(c, out, &x) != 0)
        return -1;
    int dim = (int)c->attrs->scan.dim;
    scan_job job = {.from = hod__data(x),
                    .to = hod__data(out),
                    .outer = hod__numel(dim, x->shape),
                    .size = x->ndim ? x->shape[dim] : 1,
                    .inner = x->ndim ? hod__numel(x->ndim - dim - 1, x->shape + dim + 1) : 1,
                    .reverse = c->attrs->scan.reverse};
    job.blocks = (job.inner + SCAN_COLUMNS - 1) / SCAN_COLUMNS;
    int64_t each = job.size * HOD_MIN(job.inner, SCAN_COLUMNS);
    hod__parallel(job.outer * job.blocks, hod__grain(each), parts[x->dtype], &job);
    hod_tensor_release(x);
    return 0;
}

int hod__eval_cumsum(const hod_op_call *c, hod_tensor *out)
{
    return scan(c, out, sums);
}

int hod__eval_cumprod(const hod_op_call *c, hod_tensor *out)
{
    return scan(c, out, products);
}

/* ---- fronts ---- */

static hod_tensor *scanned(hod_op op, hod_tensor *x, int64_t dim, bool reverse)
{
    if (!x) /* a derivative's, of what failed */
        return NULL;
    if (!hod__is_float(x->dtype))
        x = hod__cast_to(x, HOD_I64);
    HOD_ATTRS(a);
    a.scan.dim = dim;
    a.scan.reverse = reverse;
    return hod__op(op, &a, 1, &x);
}

static hod_tensor *along(hod_op op, hod_tensor *x, int dim)
{
    if (hod__null(hod__op_info[op].name, "x", x))
        return NULL;
    int d = hod__dim(hod__op_info[op].name, dim, HOD_MAX(x->ndim, 1));
    return d < 0 ? NULL : scanned(op, x, d, false);
}

hod_tensor *hod_cumsum(hod_tensor *x, int dim)
{
    return along(HOD_OP_cumsum, x, dim);
}

hod_tensor *hod_cumprod(hod_tensor *x, int dim)
{
    return along(HOD_OP_cumprod, x, dim);
}

/* ---- derivatives ---- */

hod_tensor *hod__vjp_cumsum(const hod_vjp *v, int i)
{
    (void)i;
    return scanned(HOD_OP_cumsum, v->g, v->attrs->scan.dim, !v->attrs->scan.reverse);
}

/* x without its last element, behind a 1. */
static hod_tensor *behind_one(hod_tensor *x, int dim)
{
    if (!x)
        return NULL;
    int64_t n = x->shape[dim], ones = HOD_MIN(n, 1);
    hod_shape s = hod_tensor_shape(x);
    s.d[dim] = ones;
    hod_tensor *one = hod_full((hod_dtype)x->dtype, s, 1);
    return hod_concat(2, (hod_tensor *[]){one, hod_slice(x, dim, 0, n - ones)}, dim);
}

hod_tensor *hod__product_of_others(hod_tensor *x, int dim)
{
    if (!x)
        return NULL;
    hod_tensor *before = behind_one(scanned(HOD_OP_cumprod, x, dim, false), dim);
    hod_tensor *back = scanned(HOD_OP_cumprod, hod_flip(x, dim), dim, false);
    return hod_mul(before, hod_flip(behind_one(back, dim), dim));
}

/* s_i = g_i + x_(i+1) s_(i+1), from the end: what x_i adds to per product before it. By doubling:
 * after a step, s_i holds its first 2d terms, and `factor` the products x_(i+1) .. x_(i+2d). */
static hod_tensor *sums_of_products(hod_tensor *g, hod_tensor *x, int dim)
{
    int64_t n = x ? x->shape[dim] : 0;
    hod_tensor *s = g, *factor = n > 1 ? hod_slice(x, dim, 1, n) : NULL;
    for (int64_t d = 1; d < n; d *= 2) {
        hod_tensor *more = hod_mul(factor, hod_slice(s, dim, d, n));
        hod_tensor *part[] = {hod_add(hod_slice(s, dim, 0, n - d), more),
                              hod_slice(s, dim, n - d, n)};
        s = hod_concat(2, part, dim);
        if (2 * d < n)
            factor =
                hod_mul(hod_slice(factor, dim, 0, n - 2 * d), hod_slice(factor, dim, d, n - d));
    }
    return s;
}

/* The gradient without division and without a look at the values: exact to every order, and more
 * work, so only for what is to be differentiated again. */
static hod_tensor *product_slope(const hod_vjp *v)
{
    hod_tensor *x = v->x[0], *y = v->y, *g = v->g;
    int dim = (int)v->attrs->scan.dim;
    if (!x || x->ndim == 0)
        return x ? g : NULL;
    if (!v->attrs->scan.reverse)
        return hod_mul(behind_one(y, dim), sums_of_products(g, x, dim));
    hod_tensor *sums = sums_of_products(hod_flip(g, dim), hod_flip(x, dim), dim);
    return hod_flip(hod_mul(behind_one(hod_flip(y, dim), dim), sums), dim);
}

/* Element j is a factor of all results from j on: the sum of g y from the end to j, divided by x_j.
 * Where a factor is 0 the results behind it are, too, and add nothing. The first 0 itself: with a 1
 * in its place the products y' go on until the next 0, and their sum is its slope. Elements behind
 * the first 0 have none. */
hod_tensor *hod__vjp_cumprod(const hod_vjp *v, int i)
{
    (void)i;
    hod_tensor *x = v->x[0], *g = v->g;
    int64_t dim = v->attrs->scan.dim;
    bool reverse = v->attrs->scan.reverse;
    if (hod__tape_listens())
        return product_slope(v);
    hod_tensor *one = hod__number(x, 1), *nothing = hod__number(x, 0);
    hod_tensor *is_zero = hod_eq(x, nothing);
    hod_tensor *zeros = scanned(HOD_OP_cumsum, is_zero, dim, reverse);
    hod_tensor *first = hod_logical_and(is_zero, hod_eq_scalar(zeros, 1));
    hod_tensor *filled = scanned(HOD_OP_cumprod, hod_where(first, one, x), dim, reverse);
    hod_tensor *before = scanned(HOD_OP_cumsum, hod_mul(g, v->y), dim, !reverse);
    hod_tensor *at = scanned(HOD_OP_cumsum, hod_mul(g, filled), dim, !reverse);
    hod_tensor *slope = hod_div(before, hod_where(is_zero, one, x));
    return hod_where(hod_eq_scalar(zeros, 0), slope, hod_where(first, at, nothing));
}
