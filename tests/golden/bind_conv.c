/* Convolutions, forward and transposed, of lines and images. */
#include "golden.h"
#include <string.h>

/* "same" pads so that a stride of 1 keeps the size; an odd element goes behind. */
static void same_padding(gold *c, hod_conv2d_options *o)
{
    for (int i = 0; i < 2; i++) {
        int64_t total = o->dilation_hw[i] * (hod_tensor_size(T(weight), 2 + i) - 1);
        o->padding_tlbr[i] = total / 2;
        o->padding_tlbr[i + 2] = total - total / 2;
    }
}

static int bind_conv2d(gold *c)
{
    hod_tensor *x = T(input);
    hod_conv2d_options o = {.groups = INT(groups, 1)};
    const char *padding = TEXT(padding, "");
    gold_ints(c, "stride", 2, o.stride_hw, 1);
    gold_ints(c, "dilation", 2, o.dilation_hw, 1);
    if (strcmp(padding, "same") == 0)
        same_padding(c, &o);
    else if (!*padding)
        for (int i = 0; i < 2; i++)
            gold_ints(c, "padding", 2, o.padding_tlbr + 2 * i, 0);
    bool one = hod_tensor_ndim(x) == 3; /* a single image */
    hod_tensor *y = hod_conv2d_with(one ? hod_unsqueeze(x, 0) : x, T(weight), o);
    y = HAS(bias) ? hod_add_channels(y, T(bias)) : y;
    return gold_one(c, one ? hod_squeeze(y, 0) : y);
}

static int bind_conv2d_asymmetric(gold *c)
{
    hod_conv2d_options o = {.stride = INT(stride, 1)};
    gold_ints(c, "padding", 4, o.padding_tlbr, 0);
    return gold_one(c, hod_conv2d_with(T(input), T(weight), o));
}

static const gold_binding rows[] = {
    ROW("conv2d", bind_conv2d, .f32 = 1e-5, .roundings = 2), /* convolution, bias */
    ROW("conv2d_asymmetric", bind_conv2d_asymmetric, .f32 = 1e-5),
};
GOLD_FAMILY(conv, 146, 60)
