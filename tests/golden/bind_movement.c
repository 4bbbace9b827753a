/* Shapes, views, concatenation, padding. */
#include "golden.h"

BIND(reshape, hod_reshape(T(input), SHAPE(shape)))
BIND(permute, hod_permute_to(T(input), SHAPE(dims)))
BIND(expand, hod_expand(T(input), SHAPE(size)))
BIND(expand_as, hod_expand(T(input), hod_tensor_shape(T(other))))
BIND(select, hod_select(T(input), (int)INT(dim, 0), INT(index, 0)))
BIND(contiguous, hod_contiguous(T(input)))
BIND(clone, hod_copy(T(input)))

static int bind_transpose(gold *c)
{
    if (hod_tensor_ndim(T(input)) == 0)
        return gold_skip(c, "a 0-d tensor has no dimension to name");
    return gold_one(c, hod_transpose(T(input), (int)INT(dim0, 0), (int)INT(dim1, 1)));
}

static int bind_slice(gold *c)
{
    return gold_one(c, hod_slice_step(T(input), (int)INT(dim, 0), INT(start, 0),
                                      INT(end, INT64_MAX), INT(step, 1)));
}

static int bind_narrow(gold *c)
{
    int dim = (int)INT(dim, 0);
    int64_t start = INT(start, 0), size = hod_tensor_size(T(input), dim);
    start += start < 0 ? size : 0;
    return gold_one(c, hod_slice(T(input), dim, start, start + INT(length, 0)));
}

/* PyTorch's list runs from the last dimension, before and after in turn; negative ones cut off. */
static int bind_pad(gold *c)
{
    hod_shape p = SHAPE(pad);
    hod_tensor *x = T(input);
    int n = hod_tensor_ndim(x);
    for (int i = 0; x && 2 * i + 1 < p.n; i++) {
        int64_t before = p.d[2 * i], after = p.d[2 * i + 1];
        if (before < 0 || after < 0)
            return gold_skip(c, "a negative pad is a slice");
        x = hod_pad(x, n - 1 - i, before, after, REAL(value, 0));
    }
    return gold_one(c, x);
}

static int join(gold *c, hod_tensor *(*f)(int, hod_tensor *const *, int))
{
    hod_tensor *x[GOLD_MAX_TENSORS];
    int n = gold_tensors(c, "tensors", x);
    for (int i = 1; i < n; i++)
        if (hod_tensor_ndim(x[i]) != hod_tensor_ndim(x[0]))
            return gold_skip(c, "an empty vector among matrices is PyTorch's past");
    return gold_one(c, f(n, x, (int)INT(dim, 0)));
}

static int bind_cat(gold *c)
{
    return join(c, hod_concat);
}

static int bind_stack(gold *c)
{
    return join(c, hod_stack);
}

static int bind_flatten(gold *c)
{
    int n = hod_tensor_ndim(T(input)), end = (int)INT(end_dim, -1);
    if (n == 0)
        return gold_one(c, hod_reshape(T(input), HOD_SHAPE(1)));
    if (end != -1 && end != n - 1)
        return gold_skip(c, "flatten reaches to the last dimension");
    return gold_one(c, hod_flatten(T(input), (int)INT(start_dim, 0)));
}

/* PyTorch leaves a dimension alone that is not of size 1. */
static int bind_squeeze(gold *c)
{
    hod_tensor *x = T(input);
    hod_shape dims = SHAPE(dim);
    int n = hod_tensor_ndim(x);
    for (int i = n - 1; i >= 0; i--) {
        bool drop = !HAS(dim);
        for (int e = 0; e < dims.n; e++)
            drop |= dims.d[e] == i || dims.d[e] == i - n;
        if (drop && hod_tensor_size(x, i) == 1)
            x = hod_squeeze(x, i);
    }
    return gold_one(c, x == T(input) ? hod_reshape(x, hod_tensor_shape(x)) : x);
}

static int bind_unsqueeze(gold *c)
{
    int dim = (int)INT(dim, 0);
    return gold_one(c,
                    hod_unsqueeze(T(input), dim < 0 ? dim + hod_tensor_ndim(T(input)) + 1 : dim));
}

static const gold_binding rows[] = {
    ROW("reshape", bind_reshape),
    ROW("view", bind_reshape),
    ROW("permute", bind_permute),
    ROW("transpose", bind_transpose),
    ROW("expand", bind_expand),
    ROW("expand_as", bind_expand_as),
    ROW("broadcast_to", bind_expand),
    ROW("slice", bind_slice),
    ROW("select", bind_select),
    ROW("narrow", bind_narrow),
    ROW("pad.constant", bind_pad),
    ROW("cat", bind_cat),
    ROW("stack", bind_stack),
    ROW("squeeze", bind_squeeze),
    ROW("squeeze.multiple", bind_squeeze),
    ROW("unsqueeze", bind_unsqueeze),
    ROW("flatten", bind_flatten),
    ROW("contiguous", bind_contiguous),
    ROW("clone", bind_clone),
};
GOLD_FAMILY(movement, 475, 207)
