/* Reductions, softmax. */
#include "golden.h"
#include <math.h>

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

static int bind_var(gold *c)
{
    double correction = REAL(correction, FLAG(unbiased, true));
    if (correction != floor(correction))
        return gold_skip(c, "a correction is a whole number");
    return gold_one(c, hod_var_over(T(input), dims(c), FLAG(keepdim, false), (int)correction));
}

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
    if (SHAPE(dim).n != 1)
        return gold_skip(c, "logsumexp over several dimensions is not bound");
    return gold_one(c, hod_logsumexp(T(input), (int)SHAPE(dim).d[0], FLAG(keepdim, false)));
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
    ROW("argmax", bind_argmax),
    ROW("argmin", bind_argmin),
    ROW("logsumexp", bind_logsumexp),
    ROW("softmax", bind_softmax),
    ROW("log_softmax", bind_log_softmax),
};
GOLD_FAMILY(reduce, 472, 223)
