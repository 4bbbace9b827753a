/* Pooling of lines and images. */
#include "golden.h"

/* x with a leading dimension where PyTorch has taken one image alone. */
static hod_tensor *batched(gold *c, int sides)
{
    hod_tensor *x = T(input);
    return hod_tensor_ndim(x) == sides + 1 ? hod_unsqueeze(x, 0) : x;
}

/* The result; PyTorch's indices of a maximum hod does not give. */
static int unbatched(gold *c, int sides, hod_tensor *y)
{
    return gold_first(c, hod_tensor_ndim(T(input)) == sides + 1 ? hod_squeeze(y, 0) : y);
}

static int pool2d(gold *c, hod_tensor *(*f)(hod_tensor *, hod_pool2d_options))
{
    hod_pool2d_options o = {.exclude_pad = !FLAG(count_include_pad, true),
                            .ceil_mode = FLAG(ceil_mode, false),
                            .divisor = INT(divisor_override, 0)};
    gold_ints(c, "kernel_size", 2, o.kernel_hw, 1);
    gold_ints(c, "stride", 2, o.stride_hw, 0);
    gold_ints(c, "dilation", 2, o.dilation_hw, 1);
    for (int i = 0; i < 2; i++)
        gold_ints(c, "padding", 2, o.padding_tlbr + 2 * i, 0);
    return unbatched(c, 2, f(batched(c, 2), o));
}

static int bind_max_pool2d(gold *c)
{
    return pool2d(c, hod_max_pool2d_with);
}

static int bind_avg_pool2d(gold *c)
{
    return pool2d(c, hod_avg_pool2d_with);
}

static int pool1d(gold *c, hod_tensor *(*f)(hod_tensor *, hod_pool1d_options))
{
    hod_pool1d_options o = {.exclude_pad = !FLAG(count_include_pad, true),
                            .ceil_mode = FLAG(ceil_mode, false)};
    gold_ints(c, "kernel_size", 1, &o.kernel, 1);
    gold_ints(c, "stride", 1, &o.stride, 0);
    gold_ints(c, "padding", 1, &o.padding, 0);
    gold_ints(c, "dilation", 1, &o.dilation, 1);
    return unbatched(c, 1, f(batched(c, 1), o));
}

static int bind_max_pool1d(gold *c)
{
    return pool1d(c, hod_max_pool1d_with);
}

static int bind_avg_pool1d(gold *c)
{
    return pool1d(c, hod_avg_pool1d_with);
}

static int adaptive1d(gold *c, hod_tensor *(*f)(hod_tensor *, int64_t))
{
    int64_t length;
    gold_ints(c, "output_size", 1, &length, 1);
    return unbatched(c, 1, f(batched(c, 1), length));
}

static int bind_adaptive_avg_pool1d(gold *c)
{
    return adaptive1d(c, hod_adaptive_avg_pool1d);
}

static int bind_adaptive_max_pool1d(gold *c)
{
    return adaptive1d(c, hod_adaptive_max_pool1d);
}

/* A side without a size stays as it is. */
static int adaptive2d(gold *c, hod_tensor *(*f)(hod_tensor *, int64_t, int64_t))
{
    hod_tensor *x = batched(c, 2);
    json_t *size = gold_json(c, "output_size");
    int64_t out[2];
    for (int i = 0; i < 2; i++) {
        json_t *side = json_is_array(size) ? json_array_get(size, (size_t)i) : size;
        out[i] = json_is_integer(side) ? json_integer_value(side) : hod_tensor_size(x, 2 + i);
    }
    return unbatched(c, 2, f(x, out[0], out[1]));
}

static int bind_adaptive_avg_pool2d(gold *c)
{
    return adaptive2d(c, hod_adaptive_avg_pool2d);
}

static int bind_adaptive_max_pool2d(gold *c)
{
    return adaptive2d(c, hod_adaptive_max_pool2d);
}

static const gold_binding rows[] = {
    ROW("max_pool1d", bind_max_pool1d),
    ROW("max_pool2d", bind_max_pool2d),
    ROW("avg_pool1d", bind_avg_pool1d),
    ROW("avg_pool2d", bind_avg_pool2d),
    ROW("adaptive_avg_pool1d", bind_adaptive_avg_pool1d),
    ROW("adaptive_avg_pool2d", bind_adaptive_avg_pool2d),
    ROW("adaptive_max_pool1d", bind_adaptive_max_pool1d),
    ROW("adaptive_max_pool2d", bind_adaptive_max_pool2d),
};
GOLD_FAMILY(pool, 307, 307)
