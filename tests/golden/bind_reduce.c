/* Reductions, softmax. */
#include "golden.h"
#include <math.h>
#include <string.h>

#define SCALAR_DIM "a 0-d tensor has no dimension to name"

/* No dims: PyTorch reduces all of them. */
static hod_shape dims(gold *c)
{
    hod_shape d = SHAPE(dim);
    int n = hod_tensor_ndim(T(input));
    if (d.n == 0)
        for (; d.n < n; d.n++)
            d.d[d.n] = d.n;
    return n == 0 ? HOD_SHAPE() : d;
}

#define OVER(name) BIND(name, hod_##name##_over(T(input), dims(c), FLAG(keepdim, false)))
OVER(sum)
OVER(mean)
OVER(prod)
OVER(amax)
OVER(amin)
BIND(max_no_dim, hod_amax(T(input)))
BIND(min_no_dim, hod_amin(T(input)))

OVER(any)
OVER(all)
BIND(count_nonzero, hod_sum_over(hod_ne_scalar(T(input), 0), dims(c), false))

static int deviation(gold *c, hod_tensor *(*f)(hod_tensor *, hod_shape, bool, int))
{
    double correction = REAL(correction, FLAG(unbiased, true));
    if (correction != floor(correction))
        return gold_skip(c, "a correction is a whole number");
    return gold_one(c, f(T(input), dims(c), FLAG(keepdim, false), (int)correction));
}

static int bind_var(gold *c)
{
    return deviation(c, hod_var_over);
}

static int bind_std(gold *c)
{
    return deviation(c, hod_std_over);
}

/* The power is a number, a text or absent. */
static int norm(gold *c, const char *power)
{
    json_t *p = gold_json(c, power);
    double value = 2;
    if (json_is_string(p) && strcmp(json_string_value(p), "fro") != 0)
        value = strtod(json_string_value(p), NULL);
    else if (json_is_number(p))
        value = json_number_value(p);
    return gold_one(c, hod_norm_over(T(input), value, dims(c), FLAG(keepdim, false)));
}

static int bind_norm(gold *c)
{
    return norm(c, "p");
}

static int bind_vector_norm(gold *c)
{
    return norm(c, "ord");
}

static int extreme(gold *c, hod_tensor *(*f)(hod_tensor *, int, bool, hod_tensor **))
{
    hod_tensor *y[2];
    y[0] = f(T(input), (int)INT(dim, 0), FLAG(keepdim, false), &y[1]);
    return y[0] ? gold_many(c, 2, y) : -1;
}

static int bind_max(gold *c)
{
    return extreme(c, hod_max_along);
}

static int bind_min(gold *c)
{
    return extreme(c, hod_min_along);
}

BIND(cumsum, hod_cumsum(T(input), (int)INT(dim, 0)))
BIND(cumprod, hod_cumprod(T(input), (int)INT(dim, 0)))

static int arg_extreme(gold *c, hod_tensor *(*f)(hod_tensor *, int))
{
    hod_tensor *x = T(input);
    if (!HAS(dim))
        return gold_one(c, f(hod_reshape(x, HOD_SHAPE(-1)), 0));
    hod_tensor *y = f(x, (int)INT(dim, 0));
    if (FLAG(keepdim, false) && hod_tensor_ndim(x) > 0)
        y = hod_unsqueeze(y, (int)((INT(dim, 0) + hod_tensor_ndim(x)) % hod_tensor_ndim(x)));
    return gold_one(c, y);
}

static int bind_argmax(gold *c)
{
    return arg_extreme(c, hod_argmax);
}

static int bind_argmin(gold *c)
{
    return arg_extreme(c, hod_argmin);
}

static int bind_logsumexp(gold *c)
{
    if (gold_scalar_dim(c))
        return gold_skip(c, SCALAR_DIM);
    if (hod_tensor_numel(T(input)) > 0 && hod_item(hod_amax(hod_abs(T(input)))) > 1000)
        return gold_skip(c, "PyTorch's gradient, exp(x - y), has y's rounding");
    return gold_one(c, hod_logsumexp_over(T(input), dims(c), FLAG(keepdim, false)));
}

static int soft(gold *c, hod_tensor *(*f)(hod_tensor *, int))
{
    return gold_scalar_dim(c) ? gold_skip(c, SCALAR_DIM)
                              : gold_one(c, f(T(input), (int)INT(dim, 0)));
}

static int bind_softmax(gold *c)
{
    return soft(c, hod_softmax);
}

static int bind_log_softmax(gold *c)
{
    return soft(c, hod_log_softmax);
}

static const gold_binding rows[] = {
    ROW("sum", bind_sum),
    ROW("mean", bind_mean),
    ROW("prod", bind_prod),
    ROW("amax", bind_amax),
    ROW("amin", bind_amin),
    ROW("max.reduction_no_dim", bind_max_no_dim),
    ROW("min.reduction_no_dim", bind_min_no_dim),
    ROW("var", bind_var),
    ROW("var.unbiased", bind_var),
    ROW("std", bind_std),
    ROW("std.unbiased", bind_std),
    ROW("any", bind_any),
    ROW("all", bind_all),
    ROW("count_nonzero", bind_count_nonzero),
    ROW("norm", bind_norm),
    ROW("norm.inf", bind_norm),
    ROW("norm.fro", bind_norm),
    ROW("linalg.vector_norm", bind_vector_norm),
    ROW("max.reduction_with_dim", bind_max),
    ROW("min.reduction_with_dim", bind_min),
    ROW("cumsum", bind_cumsum),
    ROW("cumprod", bind_cumprod),
    ROW("argmax", bind_argmax),
    ROW("argmin", bind_argmin),
    ROW("logsumexp", bind_logsumexp),
    ROW("softmax", bind_softmax),
    ROW("log_softmax", bind_log_softmax),
};
GOLD_FAMILY(reduce, 472, 223)
