/* Pooling of lines and images. */
#include "golden.h"

static hod_pool2d_options options(gold *c)
{
    hod_pool2d_options o = {.dilation = 1, .exclude_pad = !FLAG(count_include_pad, true)};
    gold_ints(c, "kernel_size", 2, o.kernel_hw, 1);
    gold_ints(c, "stride", 2, o.stride_hw, 0);
    for (int i = 0; i < 2; i++) {
        gold_ints(c, "padding", 2, o.padding_tlbr + 2 * i, 0);
        o.stride_hw[i] = o.stride_hw[i] ? o.stride_hw[i] : o.kernel_hw[i];
    }
    return o;
}

static int pool2d(gold *c, hod_tensor *(*f)(hod_tensor *, hod_pool2d_options))
{
    hod_tensor *x = T(input);
    int64_t dilation[2];
    gold_ints(c, "dilation", 2, dilation, 1);
    if (FLAG(ceil_mode, false) || HAS(divisor_override) || dilation[0] != dilation[1])
        return gold_skip(c, "ceil_mode, divisor, two dilations: not bound");
    hod_pool2d_options o = options(c);
    o.dilation = dilation[0];
    bool one = hod_tensor_ndim(x) == 3;
    hod_tensor *y = f(one ? hod_unsqueeze(x, 0) : x, o);
    return gold_first(c, one ? hod_squeeze(y, 0) : y); /* no indices */
}

static int bind_max_pool2d(gold *c)
{
    return pool2d(c, hod_max_pool2d_with);
}

static int bind_avg_pool2d(gold *c)
{
    return pool2d(c, hod_avg_pool2d_with);
}

static const gold_binding rows[] = {
    ROW("max_pool2d", bind_max_pool2d),
    ROW("avg_pool2d", bind_avg_pool2d),
};
GOLD_FAMILY(pool, 307, 44)
