/* Views, orders, repetitions, padding, windows. */
#include "golden.h"
#include <hod/movement.h>
#include <string.h>

#define SCALAR_DIM "a 0-d tensor has no dimension to name"

BIND(reshape, hod_reshape(T(input), SHAPE(shape)))
BIND(permute, hod_permute_to(T(input), SHAPE(dims)))
BIND(expand, hod_expand(T(input), SHAPE(size)))
BIND(expand_as, hod_expand_as(T(input), T(other)))
BIND(select, hod_select(T(input), (int)INT(dim, 0), INT(index, 0)))
BIND(tril, hod_tril(T(input), INT(diagonal, 0)))
BIND(triu, hod_triu(T(input), INT(diagonal, 0)))
BIND(unsqueeze, hod_unsqueeze(T(input), (int)INT(dim, 0)))
BIND(unflatten, hod_unflatten(T(input), (int)INT(dim, 0), SHAPE(sizes)))
BIND(repeat, hod_repeat_to(T(input), SHAPE(repeats)))
BIND(tile, hod_tile(T(input), SHAPE(dims)))
BIND(contiguous, hod_contiguous(T(input)))
BIND(clone, hod_copy(T(input)))

static int bind_transpose(gold *c)
{
    if (hod_tensor_ndim(T(input)) == 0)
        return gold_skip(c, SCALAR_DIM);
    return gold_one(c, hod_transpose(T(input), (int)INT(dim0, 0), (int)INT(dim1, 0)));
}

static int bind_slice(gold *c)
{
    hod_tensor *x = T(input);
    int dim = (int)INT(dim, 0);
    int64_t stop = INT(end, hod_tensor_size(x, dim));
    return gold_one(c, hod_slice_step(x, dim, INT(start, 0), stop, INT(step, 1)));
}

static int bind_narrow(gold *c)
{
    return gold_one(c, hod_narrow(T(input), (int)INT(dim, 0), INT(start, 0), INT(length, 0)));
}

/* PyTorch's list begins with the last dimension: (left, right, top, bottom, ...). */
static int bind_pad(gold *c)
{
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    hod_tensor *x = T(input);
    int n = hod_tensor_ndim(x);
    hod_shape pad = SHAPE(pad), before = {.n = n}, after = {.n = n};
    for (int i = 0; i + 1 < pad.n; i += 2) {
        before.d[n - 1 - i / 2] = pad.d[i];
        after.d[n - 1 - i / 2] = pad.d[i + 1];
    }
    int mode = 0;
    while (mode < HOD_PAD_MODES - 1 && strcmp(modes[mode], TEXT(mode, "constant")) != 0)
        mode++;
    return gold_one(c, hod_pad_around(x, before, after, (hod_pad_mode)mode, REAL(value, 0)));
}

static int bind_cat(gold *c)
{
    hod_tensor *x[GOLD_MAX_TENSORS];
    int n = gold_tensors(c, "tensors", x);
    for (int i = 0; i < n; i++)
        if (hod_tensor_ndim(x[i]) != hod_tensor_ndim(x[0]))
            return gold_skip(c, "an empty vector is no tensor of other dimensions");
    return gold_one(c, hod_concat(n, x, (int)INT(dim, 0)));
}

static int bind_stack(gold *c)
{
    hod_tensor *x[GOLD_MAX_TENSORS];
    int n = gold_tensors(c, "tensors", x);
    return gold_one(c, hod_stack(n, x, (int)INT(dim, 0)));
}

/* ---- several results ---- */

static int parts_of(gold *c, hod_shape sizes)
{
    hod_tensor *parts[HOD_MAX_DIMS];
    if (hod_split(T(input), (int)INT(dim, 0), sizes.n, sizes.d, parts) != 0)
        return -1;
    return gold_many(c, sizes.n, parts);
}

static int bind_split(gold *c)
{
    hod_shape s = SHAPE(split_size);
    int64_t left = hod_tensor_size(T(input), (int)INT(dim, 0)), each = s.d[0];
    if (json_is_integer(gold_json(c, "split_size")))
        for (s.n = 0; s.n == 0 || left > 0; left -= each)
            s.d[s.n++] = left < each ? left : each;
    return parts_of(c, s);
}

static int bind_split_with_sizes(gold *c)
{
    return parts_of(c, SHAPE(split_sizes));
}

static int bind_chunk(gold *c)
{
    hod_tensor *parts[GOLD_MAX_TENSORS];
    int n = (int)INT(chunks, 1);
    return hod_chunk(T(input), (int)INT(dim, 0), n, parts) == 0 ? gold_many(c, n, parts) : -1;
}

static int bind_unbind(gold *c)
{
    hod_tensor *parts[GOLD_MAX_TENSORS];
    int dim = (int)INT(dim, 0), n = (int)hod_tensor_size(T(input), dim);
    if (n == 0)
        return gold_skip(c, "no result at all");
    for (int i = 0; i < n; i++)
        parts[i] = hod_select(T(input), dim, i);
    return gold_many(c, n, parts);
}

/* ---- orders ---- */

static int bind_flip(gold *c)
{
    return gold_one(c, hod_flip_over(T(input), SHAPE(dims)));
}

static int bind_roll(gold *c)
{
    hod_tensor *x = T(input);
    hod_shape by = SHAPE(shifts), dims = SHAPE(dims);
    if (hod_tensor_ndim(x) == 0)
        return gold_skip(c, SCALAR_DIM);
    if (dims.n == 0)
        return gold_one(c, hod_reshape(hod_roll(hod_reshape(x, HOD_SHAPE(-1)), by.d[0], 0),
                                       hod_tensor_shape(x)));
    for (int i = 0; i < dims.n; i++)
        x = hod_roll(x, by.d[i], (int)dims.d[i]);
    return gold_one(c, x);
}

static int bind_movedim(gold *c)
{
    hod_shape from = SHAPE(source), to = SHAPE(destination), order;
    int n = hod_tensor_ndim(T(input));
    if (from.n == 1)
        return gold_one(c, hod_movedim(T(input), (int)from.d[0], (int)to.d[0]));
    if (from.n != n)
        return gold_skip(c, "some dimensions at once are a permute");
    order.n = n;
    for (int i = 0; i < n; i++)
        order.d[(to.d[i] + n) % n] = (from.d[i] + n) % n;
    return gold_one(c, hod_permute_to(T(input), order));
}

static int bind_repeat_interleave(gold *c)
{
    hod_tensor *x = T(input);
    if (!HAS(dim))
        x = hod_reshape(x, HOD_SHAPE(-1));
    if (gold_is_tensor(c, "repeats"))
        return gold_skip(c, "counts by tensor are hod_repeat_by, in the sort family's tests");
    return gold_one(c, hod_repeat_interleave(x, INT(repeats, 1), (int)INT(dim, 0)));
}

static int bind_unfold(gold *c)
{
    if (hod_tensor_ndim(T(input)) == 0)
        return gold_skip(c, SCALAR_DIM);
    return gold_one(c, hod_windows(T(input), (int)INT(dimension, 0), INT(size, 1), INT(step, 1)));
}

/* ---- shapes ---- */

static int bind_squeeze(gold *c)
{
    hod_tensor *x = T(input);
    hod_shape dims = SHAPE(dim);
    int n = hod_tensor_ndim(x);
    if (!HAS(dim))
        return gold_one(c, hod_squeeze_all(x));
    if (n == 0 && dims.n > 0)
        return gold_skip(c, SCALAR_DIM);
    for (int i = n - 1; i >= 0; i--) /* from the end, so that numbers stay true */
        for (int k = 0; k < dims.n; k++)
            if ((dims.d[k] + n) % n == i && hod_tensor_size(x, i) == 1)
                x = hod_squeeze(x, i);
    return gold_one(c, x);
}

static int bind_flatten(gold *c)
{
    int n = hod_tensor_ndim(T(input)), last = (int)INT(end_dim, -1);
    if (last != -1 && last != n - 1)
        return gold_skip(c, "flatten goes to the last dimension; a reshape does the rest");
    return gold_one(c, hod_flatten(T(input), (int)INT(start_dim, 0)));
}

static void unfold_options(const gold *c, hod_unfold2d_options *o)
{
    int64_t pad[2];
    gold_ints(c, "kernel_size", 2, o->kernel_hw, 1);
    gold_ints(c, "stride", 2, o->stride_hw, 1);
    gold_ints(c, "dilation", 2, o->dilation_hw, 1);
    gold_ints(c, "padding", 2, pad, 0);
    for (int i = 0; i < 4; i++)
        o->padding_tlbr[i] = pad[i % 2];
}

static int bind_im2col(gold *c)
{
    hod_unfold2d_options o = {0};
    unfold_options(c, &o);
    return gold_one(c, hod_unfold2d_with(T(input), o));
}

static int bind_fold(gold *c)
{
    hod_unfold2d_options o = {0};
    int64_t size[2];
    unfold_options(c, &o);
    gold_ints(c, "output_size", 2, size, 1);
    return gold_one(c, hod_fold2d_with(T(input), size[0], size[1], o));
}

static const gold_binding rows[] = {
    ROW("reshape", bind_reshape),
    ROW("view", bind_reshape),
    ROW("permute", bind_permute),
    ROW("transpose", bind_transpose),
    ROW("expand", bind_expand),
    ROW("broadcast_to", bind_expand),
    ROW("expand_as", bind_expand_as),
    ROW("slice", bind_slice),
    ROW("select", bind_select),
    ROW("narrow", bind_narrow),
    ROW("pad.constant", bind_pad),
    ROW("pad.reflect", bind_pad),
    ROW("pad.replicate", bind_pad),
    ROW("pad.circular", bind_pad),
    ROW("cat", bind_cat),
    ROW("stack", bind_stack),
    ROW("split", bind_split),
    ROW("split.list_args", bind_split),
    ROW("split_with_sizes", bind_split_with_sizes),
    ROW("chunk", bind_chunk),
    ROW("unbind", bind_unbind),
    ROW("flip", bind_flip),
    ROW("roll", bind_roll),
    ROW("im2col", bind_im2col),
    ROW("fold", bind_fold),
    ROW("unfold", bind_unfold),
    ROW("tril", bind_tril),
    ROW("triu", bind_triu),
    ROW("squeeze", bind_squeeze),
    ROW("squeeze.multiple", bind_squeeze),
    ROW("unsqueeze", bind_unsqueeze),
    ROW("movedim", bind_movedim),
    ROW("flatten", bind_flatten),
    ROW("unflatten", bind_unflatten),
    ROW("repeat", bind_repeat),
    ROW("tile", bind_tile),
    ROW("repeat_interleave", bind_repeat_interleave),
    ROW("contiguous", bind_contiguous),
    ROW("clone", bind_clone),
};
GOLD_FAMILY(movement, 475, 465)
