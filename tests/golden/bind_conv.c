/* Convolutions, forward and transposed, of lines and images. */
#include "golden.h"
#include <string.h>

/* An input of `dims` + 1 dimensions is a single sample, which hod takes as a batch of one. */
static hod_tensor *batched(gold *c, int dims)
{
    hod_tensor *x = T(input);
    return hod_tensor_ndim(x) == dims + 1 ? hod_unsqueeze(x, 0) : x;
}

static hod_tensor *bias(gold *c)
{
    return HAS(bias) ? T(bias) : NULL;
}

static int finish(gold *c, int dims, hod_tensor *y)
{
    return gold_one(c, hod_tensor_ndim(T(input)) == dims + 1 ? hod_squeeze(y, 0) : y);
}

static int bind_conv1d(gold *c)
{
    hod_conv1d_options o = {.groups = INT(groups, 1), .bias = bias(c)};
    o.same = strcmp(TEXT(padding, ""), "same") == 0;
    gold_ints(c, "stride", 1, &o.stride, 1);
    gold_ints(c, "dilation", 1, &o.dilation, 1);
    if (!*TEXT(padding, ""))
        gold_ints(c, "padding", 1, &o.padding, 0);
    return finish(c, 1, hod_conv1d_with(batched(c, 1), T(weight), o));
}

static int bind_conv2d(gold *c)
{
    hod_conv2d_options o = {.groups = INT(groups, 1), .bias = bias(c)};
    o.same = strcmp(TEXT(padding, ""), "same") == 0;
    gold_ints(c, "stride", 2, o.stride_hw, 1);
    gold_ints(c, "dilation", 2, o.dilation_hw, 1);
    if (!*TEXT(padding, ""))
        for (int i = 0; i < 2; i++)
            gold_ints(c, "padding", 2, o.padding_tlbr + 2 * i, 0);
    return finish(c, 2, hod_conv2d_with(batched(c, 2), T(weight), o));
}

static int bind_conv_transpose1d(gold *c)
{
    hod_conv_transpose1d_options o = {.groups = INT(groups, 1), .bias = bias(c)};
    gold_ints(c, "stride", 1, &o.stride, 1);
    gold_ints(c, "dilation", 1, &o.dilation, 1);
    gold_ints(c, "padding", 1, &o.padding, 0);
    gold_ints(c, "output_padding", 1, &o.output_padding, 0);
    return finish(c, 1, hod_conv_transpose1d_with(batched(c, 1), T(weight), o));
}

static int bind_conv_transpose2d(gold *c)
{
    hod_conv_transpose2d_options o = {.groups = INT(groups, 1), .bias = bias(c)};
    gold_ints(c, "stride", 2, o.stride_hw, 1);
    gold_ints(c, "dilation", 2, o.dilation_hw, 1);
    gold_ints(c, "output_padding", 2, o.output_padding_hw, 0);
    for (int i = 0; i < 2; i++)
        gold_ints(c, "padding", 2, o.padding_tlbr + 2 * i, 0);
    return finish(c, 2, hod_conv_transpose2d_with(batched(c, 2), T(weight), o));
}

static int bind_conv2d_asymmetric(gold *c)
{
    hod_conv2d_options o = {.stride = INT(stride, 1)};
    gold_ints(c, "padding", 4, o.padding_tlbr, 0);
    return gold_one(c, hod_conv2d_with(T(input), T(weight), o));
}

static const gold_binding rows[] = {
    ROW("conv1d", bind_conv1d, .f32 = 1e-5),
    ROW("conv2d", bind_conv2d, .f32 = 1e-5),
    ROW("conv2d_asymmetric", bind_conv2d_asymmetric, .f32 = 1e-5),
    ROW("conv_transpose1d", bind_conv_transpose1d, .f32 = 1e-5),
    ROW("conv_transpose2d", bind_conv_transpose2d, .f32 = 1e-5),
};
GOLD_FAMILY(conv, 146, 146)
