/* Absurd calls: random functions with random tensors and numbers that no one would mean. Every call
 * gives a result, or NULL with one line that says why; none crashes, hangs or takes memory without
 * bound. Run under the asan preset, this is the test of all checks at the public border.
 *
 * HOD_MISUSE=FIRST-LAST chooses the rounds, of 50 calls each; a failure names its round.
 */
#include "base/base.h"
#include "harness.h"
#include "ops/op.h"

#include <hod/hod.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- draws ---- */

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* Mostly small numbers, now and then the ends of what 64 bits hold. */
static int64_t any_int(void)
{
    static const int64_t ends[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   INT64_MAX,
                                   INT64_MAX - 1,
                                   INT32_MIN,
                                   INT32_MAX,
                                   (int64_t)1 << 32,
                                   (int64_t)1 << 62,
                                   -100,
                                   -9,
                                   9,
                                   64,
                                   1000000000,
                                   1 << 20,
                                   -((int64_t)1 << 31)};
    return draw(6) ? (int64_t)draw(7) - 2 : ends[draw(HOD_COUNT(ends))];
}

static int any_dim(void)
{
    return draw(12) ? (int)draw(8) - 4 : (int)any_int();
}

static double any_number(void)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e300, -1e300, 1e-320, 256,
                                 -1,  0.5,      1e19,      1, 2,    -0.5,  0x1p63, 3e9};
    return odd[draw(HOD_COUNT(odd))];
}

static hod_dtype any_dtype(void)
{
    static const hod_dtype wrong[] = {HOD_DTYPES, (hod_dtype)99, (hod_dtype)-1};
    return draw(40) ? (hod_dtype)draw(HOD_DTYPES) : wrong[draw(3)];
}

static hod_shape any_shape(void)
{
    hod_shape s = {.n = (int)draw(5)};
    if (draw(30) == 0)
        s.n = draw(2) ? 8 : (int)any_int();
    for (int i = 0; i < HOD_MAX_DIMS; i++)
        s.d[i] = draw(12) ? (int64_t)draw(4) + (draw(8) != 0) : any_int();
    return s;
}

/* ---- tensors ---- */

/* Every value a number of the type may have, NaN among them. */
static hod_tensor *filled(hod_dtype dtype, hod_shape shape)
{
    hod_tensor *x = hod_empty(dtype, shape);
    unsigned char *p = hod_tensor_mutable_data(x);
    size_t n = (size_t)hod_tensor_numel(x) * (x ? hod_dtype_bytes(dtype) : 0);
    for (size_t i = 0; p && i < n; i++)
        p[i] = (unsigned char)(dtype == HOD_BOOL ? draw(2) : draw(3) ? draw(256) : 0);
    for (int64_t i = 0; p && dtype == HOD_I64 && i < hod_tensor_numel(x); i++)
        ((int64_t *)(void *)p)[i] = draw(10) ? draw(3) : any_int(); /* often good as an index */
    return x;
}

/* A tensor of any kind: empty, 0-d, of 8 dimensions, a strided view, repeated without end, NULL. */
static hod_tensor *any_tensor(void)
{
    hod_shape s = {.n = (int)draw(5)};
    if (draw(60) == 0)
        return NULL;
    if (draw(20) == 0)
        s.n = HOD_MAX_DIMS;
    for (int i = 0; i < s.n; i++)
        s.d[i] = s.n == HOD_MAX_DIMS ? 1 + draw(2) : draw(25) ? 1 + draw(4) : 0;
    hod_dtype dtype = draw(2) ? HOD_F32 : (hod_dtype)draw(HOD_DTYPES);
    hod_tensor *x = filled(dtype, s);
    if (x && dtype <= HOD_BF16 && draw(4) == 0)
        hod_requires_grad(x, true);
    for (int i = (int)draw(3); i > 0 && s.n > 1; i--) {
        hod_tensor *view =
            draw(2) ? hod_transpose(x, 0, (int)draw((uint32_t)s.n))
                    : hod_slice_step(x, (int)draw((uint32_t)s.n), draw(3), 9, 1 + draw(3));
        x = view ? view : x;
    }
    return x;
}

/* The same, but perhaps of more elements than any memory holds: for what moves no element. */
static hod_tensor *endless(void)
{
    hod_shape s = {.n = 1 + (int)draw(3)};
    for (int i = 0; i < s.n; i++)
        s.d[i] = draw(2) ? 1 + draw(3) : (int64_t)1 << draw(62);
    hod_tensor *one = hod_full(HOD_F32, HOD_SHAPE(), 1), *x = hod_expand(one, s);
    hod_error_take(NULL);
    return x ? x : one;
}

/* ---- calls ---- */

typedef hod_tensor *call(hod_tensor *x, hod_tensor *y, hod_tensor *z);

#define CALL(name, ...)                                                                            \
    static hod_tensor *call_##name(hod_tensor *x, hod_tensor *y, hod_tensor *z)                    \
    {                                                                                              \
        (void)x, (void)y, (void)z;                                                                 \
        return __VA_ARGS__;                                                                        \
    }
#define UNARY(name, ...)   CALL(name, hod_##name(x))
#define BINARY(name, ...)  CALL(name, hod_##name(x, y))
#define TERNARY(name, ...) CALL(name, hod_##name(x, y, z))
#define REDUCE(name, ...)                                                                          \
    CALL(name, draw(3) ? hod_##name##_over(x, any_shape(), draw(2)) : hod_##name(x))
#define REDUCE_INDEX(name, ...) CALL(name, hod_##name(x, any_dim()))
#include "ops/ops.def"

/* Few numbers make sense for an image; most are drawn near them. */
static int64_t near(int64_t good)
{
    return draw(5) ? good : any_int();
}

static hod_tensor *image(void)
{
    return filled(draw(3) ? HOD_F32 : (hod_dtype)draw(HOD_DTYPES),
                  HOD_SHAPE(draw(3), 1 + draw(4), 1 + draw(5), 1 + draw(5)));
}

static hod_tensor *some_conv2d(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x, *w = draw(3) ? image() : x;
    return hod_conv2d(in, w, .stride = near(0), .padding = near(0), .dilation = near(0),
                      .groups = near(1), .stride_hw = {near(0), near(0)},
                      .dilation_hw = {near(0), near(0)},
                      .padding_tlbr = {near(0), near(1), near(0), near(0)});
}

static hod_tensor *some_pool(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x;
    hod_pool2d_options o = {near(2),
                            near(0),
                            near(0),
                            near(0),
                            .kernel_hw = {near(0), near(0)},
                            .stride_hw = {near(0), near(0)},
                            .padding_tlbr = {near(0), near(0), near(0), near(0)},
                            .exclude_pad = draw(2),
                            .dilation_hw = {near(0), near(0)},
                            .ceil_mode = draw(2),
                            .divisor = near(0)};
    return draw(2) ? hod_max_pool2d_with(in, o) : hod_avg_pool2d_with(in, o);
}

static hod_tensor *some_line_pool(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? hod_flatten(image(), 2) : x;
    hod_pool1d_options o = {
        near(2),           near(0), near(0), near(0), .ceil_mode = draw(2), .exclude_pad = draw(2),
        .divisor = near(0)};
    return draw(2) ? hod_max_pool1d_with(in, o) : hod_avg_pool1d_with(in, o);
}

static hod_tensor *some_adaptive(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x;
    switch (draw(4)) {
    case 0: return hod_adaptive_avg_pool2d(in, near(1), near(1));
    case 1: return hod_adaptive_max_pool2d(in, near(1), near(1));
    case 2: return hod_adaptive_avg_pool1d(in, near(1));
    default: return hod_adaptive_max_pool1d(in, near(1));
    }
}

static hod_tensor *some_interpolation(hod_tensor *x)
{
    hod_tensor *in = draw(3) ? image() : x;
    hod_interpolate_options o = {.mode = (hod_interpolation)draw(3), .align_corners = draw(2)};
    for (int i = 0; i < 2; i++)
        if (draw(2))
            o.size[i] = near(3);
        else
            o.scale[i] = draw(4) ? 1.5 : any_number();
    return hod_interpolate_with(in, o);
}

static hod_tensor *some_sampling(hod_tensor *x, hod_tensor *y)
{
    hod_tensor *in = draw(3) ? image() : x, *at = draw(3) ? image() : y;
    hod_grid_sample_options o = {.mode = (hod_interpolation)draw(4),
                                 .padding = (hod_sample_padding)draw(4),
                                 .align_corners = draw(2)};
    if (draw(2))
        return hod_grid_sample_with(in, draw(3) ? hod_slice(at, 3, 0, 2) : at, o);
    at = draw(3) ? hod_mul_scalar(hod_uniform(HOD_SHAPE(draw(4), 5)), draw(5) ? 4 : any_number())
                 : at;
    return hod_roi_align(in, at, .size = {near(2), near(2)}, .sampling = near(0),
                         .scale = draw(4) ? 0.5 : any_number(), .aligned = draw(2));
}

static hod_tensor *some_of_images(hod_tensor *x, hod_tensor *y)
{
    switch (draw(5)) {
    case 0: return some_pool(x);
    case 1: return some_line_pool(x);
    case 2: return some_adaptive(x);
    case 3: return some_interpolation(x);
    default: return some_sampling(x, y);
    }
}

static hod_tensor *some_of_many(hod_tensor *x, hod_tensor *y, hod_tensor *z)
{
    hod_tensor *many[70];
    for (int i = 0; i < 70; i++)
        many[i] = i % 3 == 0 ? x : i % 3 == 1 && draw(9) == 0 ? y : draw(9) == 0 ? z : x;
    int n = draw(3) ? 1 + (int)draw(4) : (int)draw(80) - 9;
    n = HOD_MIN(n, 70);
    return draw(2) ? hod_concat(n, many, any_dim()) : hod_stack(n, many, any_dim());
}

CALL(full, hod_full(any_dtype(), any_shape(), any_number()))
CALL(full_like, hod_full_like(x, any_number()))
CALL(arange, hod_arange(any_dtype(), draw(4) ? draw(9) : any_int()))
CALL(iota, hod_iota(any_dtype(), any_shape(), any_dim()))
CALL(uniform, hod_uniform(any_shape()))
CALL(empty, hod_empty(any_dtype(), any_shape()))
CALL(zeros, hod_zeros(any_dtype(), any_shape()))
CALL(from_data, hod_from_data(any_dtype(), NULL, any_shape()))
CALL(placeholder, hod_placeholder(any_dtype(), any_shape()))
CALL(add_scalar, hod_add_scalar(x, any_number()))
CALL(sub_scalar, hod_sub_scalar(x, any_number()))
CALL(mul_scalar, hod_mul_scalar(x, any_number()))
CALL(div_scalar, hod_div_scalar(x, any_number()))
CALL(pow_scalar, hod_pow_scalar(x, any_number()))
CALL(maximum_scalar, hod_maximum_scalar(x, any_number()))
CALL(eq_scalar, hod_eq_scalar(x, any_number()))
CALL(clamp, hod_clamp(x, any_number(), any_number()))
CALL(cast, hod_cast(x, any_dtype()))
CALL(contiguous, hod_contiguous(x))
CALL(copy, hod_copy(x))
CALL(detach, hod_detach(x))
CALL(requires_grad, hod_requires_grad(x, draw(2)))
CALL(reshape, hod_reshape(x, any_shape()))
CALL(flatten, hod_flatten(x, any_dim()))
CALL(squeeze, hod_squeeze(x, any_dim()))
CALL(unsqueeze, hod_unsqueeze(x, any_dim()))
CALL(transpose, hod_transpose(x, any_dim(), any_dim()))
CALL(permute, hod_permute_to(x, any_shape()))
CALL(expand, hod_expand(x, any_shape()))
CALL(slice, hod_slice_step(x, any_dim(), any_int(), any_int(), draw(3) ? 1 : any_int()))
CALL(select, hod_select(x, any_dim(), any_int()))
CALL(pad, hod_pad(x, any_dim(), draw(2) ? draw(4) : any_int(), draw(2) ? draw(4) : any_int(),
                  any_number()))
CALL(many, some_of_many(x, y, z))
CALL(gather, hod_gather(x, any_dim(), draw(3) ? filled(HOD_I64, hod_tensor_shape(x)) : y))
CALL(index_select,
     hod_index_select(x, any_dim(), draw(3) ? filled(HOD_I64, HOD_SHAPE(draw(4))) : y))
CALL(embedding, hod_embedding(x, draw(3) ? filled(HOD_I64, HOD_SHAPE(draw(4))) : y))
CALL(mean, draw(2) ? hod_mean(x) : hod_mean_over(x, any_shape(), draw(2)))
CALL(var, hod_var_over(x, any_shape(), draw(2), (int)any_int()))
CALL(logsumexp, hod_logsumexp(x, any_dim(), draw(2)))
CALL(softmax, hod_softmax(x, any_dim()))
CALL(log_softmax, hod_log_softmax(x, any_dim()))
CALL(matmul, hod_matmul(x, y))
CALL(linear, draw(2) ? hod_linear(x, y, z) : hod_linear_nobias(x, y))
CALL(conv2d, some_conv2d(x))
CALL(pool, some_of_images(x, y))
CALL(global_pool, hod_global_avg_pool2d(x))
CALL(add_channels, hod_add_channels(x, y))
CALL(layer_norm, hod_layer_norm(x, y, draw(3) ? y : z, any_number()))
CALL(group_norm, hod_group_norm(draw(3) ? image() : x, near(1), y, z, any_number()))
CALL(batch_norm, hod_batch_norm(x, y, y, draw(3) ? y : z, y, any_number()))
CALL(rms_norm, draw(2) ? hod_rms_norm(x, y, any_number())
                       : hod_rms_norm_plain(x, (int)any_int(), any_number()))
CALL(instance_norm, hod_instance_norm(draw(3) ? image() : x, y, z, any_number()))
CALL(batch_norm_train, hod_batch_norm_train(draw(3) ? image() : x, y, z, any_number()))
CALL(attention, draw(2) ? hod_attention(x, y, z, .causal = draw(2), .scale = any_number())
                        : hod_attention_masked(x, x, draw(2) ? x : y, z, .dropout = draw(2) * 0.5))
CALL(dropout, hod_dropout(x, draw(2) ? 0.5 : any_number()))
CALL(cross_entropy,
     hod_cross_entropy(x,
                       draw(2)
                           ? filled(HOD_I64,
                                    HOD_SHAPE(hod_tensor_size(hod_tensor_ndim(x) ? x : NULL, 0)))
                           : y,
                       .ignore_index = any_int(), .label_smoothing = draw(2) ? 0 : any_number())
         .sum)
CALL(nll, hod_loss_mean(hod_nll(x, y)))
CALL(mse, hod_loss_mean(hod_mse(x, y)))
CALL(bce, hod_loss_mean(hod_bce_with_logits(x, y)))

/* ---- movement and ordering ---- */

/* An index that often fits x: its shape, or a vector. */
static hod_tensor *any_index(hod_tensor *x)
{
    hod_shape s = draw(3) || !x ? HOD_SHAPE(draw(4)) : hod_tensor_shape(x);
    return filled(draw(6) ? HOD_I64 : (hod_dtype)draw(HOD_DTYPES), s);
}

static hod_shape one_for_each(hod_tensor *x)
{
    hod_shape s = any_shape();
    if (x && draw(4))
        s.n = hod_tensor_ndim(x);
    return s;
}

static hod_tensor *some_part(hod_tensor *x)
{
    hod_tensor *parts[8] = {0};
    int64_t sizes[4] = {near(1), near(1), near(2), near(0)};
    int n = (int)draw(9), rc = draw(2) ? hod_chunk(x, any_dim(), n, parts)
                                       : hod_split(x, any_dim(), n % 5, sizes, parts);
    return rc != 0 ? NULL : parts[0] ? parts[0] : x;
}

static hod_tensor *some_unfold(hod_tensor *x)
{
    hod_unfold2d_options o = {near(2),
                              near(0),
                              near(0),
                              near(0),
                              .kernel_hw = {near(0), near(0)},
                              .padding_tlbr = {near(0), near(0), near(0), near(0)}};
    hod_tensor *in = draw(3) ? image() : x;
    if (draw(2))
        return hod_unfold2d_with(in, o);
    return hod_fold2d_with(draw(2) ? hod_unfold2d_with(in, o) : x, near(3), near(3), o);
}

static hod_tensor *some_boxes(hod_tensor *x, hod_tensor *y)
{
    hod_tensor *boxes = draw(3) ? filled(HOD_F32, HOD_SHAPE(draw(5), 4)) : x;
    hod_tensor *scores = draw(3) && boxes ? hod_select(boxes, -1, 0) : y;
    return hod_nms(boxes, scores, any_number());
}

CALL(narrow, hod_narrow(x, any_dim(), any_int(), any_int()))
CALL(squeeze_all, hod_squeeze_all(x))
CALL(movedim, hod_movedim(x, any_dim(), any_dim()))
CALL(expand_as, hod_expand_as(x, y))
CALL(unflatten, hod_unflatten(x, any_dim(), any_shape()))
CALL(part, some_part(x))
CALL(flip, hod_flip_over(x, any_shape()))
CALL(roll, hod_roll(x, any_int(), any_dim()))
CALL(repeat, draw(2) ? hod_repeat_to(x, one_for_each(x)) : hod_tile(x, any_shape()))
CALL(repeat_interleave, hod_repeat_interleave(x, any_int(), any_dim()))
CALL(windows, hod_windows(x, any_dim(), any_int(), any_int()))
CALL(triangle, draw(2) ? hod_tril(x, any_int()) : hod_triu(x, any_int()))
CALL(pad_around,
     hod_pad_around(x, one_for_each(x), one_for_each(x), (hod_pad_mode)draw(5), any_number()))
CALL(unfold, some_unfold(x))
CALL(scatter, hod_scatter(x, any_dim(), any_index(x), y))
CALL(scatter_value, hod_scatter_value(x, any_dim(), any_index(x), any_number()))
CALL(scatter_add, hod_scatter_add(x, any_dim(), any_index(x), draw(2) ? x : y))
CALL(take_along, hod_take_along(x, any_index(x), any_dim()))
CALL(one_hot, hod_one_hot(draw(3) ? any_index(x) : x, any_int()))
CALL(masked_fill, hod_masked_fill(x, y, any_number()))
CALL(sort, hod_sort(x, any_dim(), draw(2)).values)
CALL(argsort, hod_argsort(x, any_dim(), draw(2)))
CALL(topk, hod_topk(x, any_int(), any_dim(), draw(2)).indices)
CALL(searchsorted, hod_searchsorted(x, y, draw(2)))
CALL(nonzero, hod_nonzero(x))
CALL(masked_select, hod_masked_select(x, y))
CALL(repeat_by, hod_repeat_by(x, any_index(x), any_dim()))
CALL(bincount, draw(2) ? hod_bincount(any_index(x), any_int())
                       : hod_bincount_weighted(any_index(x), y, any_int()))
CALL(unique, hod_unique(x).inverse)
CALL(nms, some_boxes(x, y))
CALL(embedding_rows, hod_embedding_rows(x, any_index(x)))

static const struct {
    const char *name;
    call *run;
} calls[] = {
#define UNARY(name, ...)        {#name, call_##name},
#define BINARY(name, ...)       {#name, call_##name},
#define TERNARY(name, ...)      {#name, call_##name},
#define REDUCE(name, ...)       {#name, call_##name},
#define REDUCE_INDEX(name, ...) {#name, call_##name},
#include "ops/ops.def"
#define ROW(name) {#name, call_##name},
    ROW(full) ROW(full_like) ROW(arange) ROW(iota) ROW(uniform) ROW(empty) ROW(zeros) ROW(from_data)
        ROW(placeholder) ROW(add_scalar) ROW(sub_scalar) ROW(mul_scalar) ROW(div_scalar) ROW(
            pow_scalar) ROW(maximum_scalar) ROW(eq_scalar) ROW(clamp) ROW(cast) ROW(contiguous)
            ROW(copy) ROW(detach) ROW(requires_grad) ROW(reshape) ROW(flatten) ROW(squeeze) ROW(
                unsqueeze) ROW(transpose) ROW(permute) ROW(expand) ROW(slice) ROW(select) ROW(pad)
                ROW(many) ROW(gather) ROW(index_select) ROW(embedding) ROW(mean) ROW(var) ROW(
                    logsumexp) ROW(softmax) ROW(log_softmax) ROW(matmul) ROW(linear) ROW(conv2d)
                    ROW(pool) ROW(global_pool) ROW(add_channels) ROW(layer_norm) ROW(group_norm)
                        ROW(batch_norm) ROW(dropout) ROW(cross_entropy) ROW(nll) ROW(mse) ROW(bce)
                            ROW(narrow) ROW(squeeze_all) ROW(movedim) ROW(expand_as) ROW(unflatten)
                                ROW(part) ROW(flip) ROW(roll) ROW(repeat) ROW(repeat_interleave)
                                    ROW(windows) ROW(triangle) ROW(pad_around) ROW(unfold) ROW(
                                        scatter) ROW(scatter_value) ROW(scatter_add) ROW(take_along)
                                        ROW(one_hot) ROW(masked_fill) ROW(sort) ROW(argsort)
                                            ROW(topk) ROW(searchsorted) ROW(nonzero)
                                                ROW(masked_select) ROW(repeat_by) ROW(bincount)
                                                    ROW(unique) ROW(nms) ROW(embedding_rows)
                                                        ROW(rms_norm) ROW(instance_norm)
                                                            ROW(batch_norm_train) ROW(attention)};

/* Those that move no element and so take any size. */
static call *const of_any_size[] = {call_narrow,    call_squeeze_all, call_movedim, call_part,
                                    call_reshape,   call_flatten,     call_squeeze, call_unsqueeze,
                                    call_transpose, call_permute,     call_expand,  call_slice,
                                    call_select,    call_detach};

/* ---- rounds ---- */

static bool absent(hod_tensor *const *in)
{
    return !in[0] || !in[1] || !in[2];
}

/* The result is there without an error, or the error without a result. */
static void judge(const char *name, int round, hod_tensor *y, hod_tensor *const *in)
{
    const char *error = hod_error();
    if (y && error)
        FAIL("round %d, %s: a result and an error: %s", round, name, error);
    if (!y && !error && !absent(in))
        FAIL("round %d, %s: neither a result nor an error; %d %d %d", round, name,
             hod_tensor_ndim(in[0]), hod_tensor_ndim(in[1]), hod_tensor_ndim(in[2]));
    if (error && !*error)
        FAIL("round %d, %s: an error without words", round, name);
    if (error && getenv("HOD_MISUSE_PRINT"))
        printf("%s  <-  %s\n", error, name);
    hod_error_take(NULL);
}

/* One call, and what follows: its backward, and a look at the values. */
static void one(int round)
{
    HOD_SCOPE(s);
    hod_tensor *in[3], *y;
    const char *name = "view";
    char text[64];
    for (int i = 0; i < 3; i++)
        in[i] = any_tensor();
    if (draw(3) == 0)
        in[1] = in[0];
    hod_error_take(NULL);
    if (draw(10) == 0) {
        in[0] = endless();
        y = of_any_size[draw(HOD_COUNT(of_any_size))](in[0], NULL, NULL);
        judge(name, round, y, in);
        hod_tensor_text(y, text, sizeof text);
        hod_error_take(NULL);
        return;
    }
    uint32_t which = draw(HOD_COUNT(calls));
    name = calls[which].name;
    if (getenv("HOD_MISUSE_TRACE"))
        fprintf(stderr, "%d %s\n", round, name);
    y = calls[which].run(in[0], in[1], in[2]);
    bool symbolic = calls[which].run == call_placeholder;
    judge(name, round, y, in);
    if (!y || symbolic || hod_tensor_numel(y) > 1 << 24) /* a view that repeats without end */
        return;
    if (hod_tensor_numel(y) < 10000)
        hod_tensor_text(y, text, sizeof text);
    judge("text", round, y, in);
    if (hod_tensor_requires_grad(y) && hod_backward(hod_sum(y)) != 0 && !hod_error())
        FAIL("round %d, %s: no backward and no reason", round, name);
    hod_error_take(NULL);
}

TEST(misuse_of_any_function_is_a_result_or_an_error)
{
    int first = 0, last = 200;
    const char *range = getenv("HOD_MISUSE");
    if (range)
        CHECK(sscanf(range, "%d-%d", &first, &last) == 2);
    CHECK(hod_memory_limit(HOD_MIB(64)) == 0);
    for (int round = first; round < last; round++) {
        state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
        for (int i = 0; i < 50; i++)
            one(round);
    }
    CHECK(hod_memory_limit(0) == 0);
}

/* ---- one by one ---- */

TEST(misuse_numbers_outside_a_type)
{
    hod_tensor *x = hod_full(HOD_U8, HOD_SHAPE(2), 44);
    ERROR_IS("full: 300 is outside u8", hod_eq_scalar(x, 300));
    ERROR_IS("full: 256 is outside u8", hod_clamp(x, 0, 256));
    ERROR_IS("full: nan is outside i64", hod_full(HOD_I64, HOD_SHAPE(), NAN));
    ERROR_IS("full: 9.22337e+18 is outside i64", hod_full(HOD_I64, HOD_SHAPE(), 0x1p63));
    ERROR_IS("full: 2.14748e+09 is outside i32", hod_full(HOD_I32, HOD_SHAPE(), 0x1p31));
    NEAR(hod_item(hod_select(hod_add_scalar(x, -1), 0, 0)), 43, 0);
    NEAR(hod_item(hod_full(HOD_I64, HOD_SHAPE(), -0x1p63)), -0x1p63, 0);
}

TEST(misuse_sizes_whose_sum_overflows)
{
    hod_tensor *one = hod_scalar(1), *x = hod_full(HOD_F32, HOD_SHAPE(3), 1);
    hod_tensor *endless = hod_expand(one, HOD_SHAPE((int64_t)1 << 62));
    ERROR_IS("pad: by 9223372036854775807 and 1: too large", hod_pad(x, 0, INT64_MAX, 1, 0));
    ERROR_IS("concat: more elements than 64 bits count",
             hod_concat(2, (hod_tensor *[]){endless, endless}, 0));
    hod_tensor *image = hod_full(HOD_F32, HOD_SHAPE(1, 1, 4, 4), 1);
    ERROR_IS("conv2d: (1,1,4,4) with weights (1,1,4,4): stride 1, dilation 1, padding "
             "9223372036854775807 and 9223372036854775807",
             hod_conv2d(image, image, .padding = INT64_MAX));
    ERROR_IS("max_pool2d: of (1,1,4,4): kernel 2, stride 2, dilation 9223372036854775807, padding "
             "0 and 0",
             hod_max_pool2d(image, 2, .dilation = INT64_MAX));
    /* A step beyond the end is as good as any other. */
    EQ_INT(hod_tensor_size(hod_slice_step(x, 0, 0, 3, INT64_MAX), 0), 1);
}

TEST(misuse_lists_that_are_none)
{
    hod_tensor *x = hod_scalar(1);
    ERROR_IS("concat: of 0 tensors, at least 1 wanted", hod_concat(3, NULL, 0));
    ERROR_IS("stack: of 0 tensors, at least 1 wanted", hod_stack(3, NULL, 0));
    ERROR_IS("sum: over -1 dimensions, wanted 0 to 8",
             hod_sum_over(x, (hod_shape){.n = -1}, false));
}

TEST(misuse_integers_wrap)
{
    hod_tensor *x = hod_from_ints((int64_t[]){INT64_MAX, 2}, HOD_SHAPE(2)), *y = hod_add(x, x);
    int64_t got[2];
    CHECK(hod_read_ints(y, got, 2) == 0);
    EQ_INT(got[0], -2);
    CHECK(hod_read_ints(hod_prod(x), got, 1) == 0);
    EQ_INT(got[0], -2);
    CHECK(hod_read_ints(hod_sum(hod_concat(2, (hod_tensor *[]){x, x}, 0)), got, 1) == 0);
    EQ_INT(got[0], 2);
}

TEST(misuse_of_scopes)
{
    hod_scope outer, inner;
    hod_scope_begin(&outer, "a.c", 1);
    hod_scope_begin(&inner, "b.c", 2);
    hod_tensor *x = hod_scalar(1);
    CHECK(x);
    hod_scope_end(&outer); /* takes the inner one with it */
    EQ_STR(hod_error(), "scope: a.c:1 ends before b.c:2, which was opened inside");
    hod_error_take(NULL);
    hod_scope_end(&inner);
    EQ_STR(hod_error(), "scope: it has ended already, or belongs to another thread");
    hod_error_take(NULL);
    hod_scope_end(NULL);
    CHECK(hod_error_take(NULL));
    NEAR(hod_item(hod_scalar(2)), 2, 0);
}

TEST(misuse_of_a_window_without_end)
{
    hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(1, 1, 2, 2), 3);
    hod_tensor *y = hod_max_pool2d(x, 1 << 30, .padding = 1 << 29);
    NEAR(hod_item(hod_amin(y)), 3, 0);
}

static hod_tensor *identity(void *context, hod_tensor *const *in, int n)
{
    (void)context, (void)n;
    return in[0];
}

TEST(misuse_of_what_should_be_pointed_to)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2}, HOD_SHAPE(2));
    hod_dataset *d = hod_synthetic_dataset(HOD_SHAPE(4), .count = 10, .classes = 3);
    hod_module *net = hod_nn_linear(NULL, "net", 4, 3);
    ERROR_IS("read_floats: room for 0, (2) has 2", hod_read_floats(x, NULL, 2));
    ERROR_IS("print_graph: nowhere to print", hod_print_graph(x, NULL));
    ERROR_IS("print_graph: nowhere to print", hod_print_graph_dot(x, NULL));
    ERROR_IS("gradcheck: no report", hod_gradcheck(identity, 1, &x, NULL, NULL));
    ERROR_IS("gradcheck: no function", hod_gradcheck(NULL, 1, &x, NULL, NULL));
    ERROR_IS("dataset synthetic: 5 samples from 9223372036854775807 on, of 10",
             hod_dataset_slice(d, INT64_MAX, 5));
    ERROR_IS("dataset synthetic: no room for its moments", hod_dataset_moments(d, 9, NULL, NULL));
    ERROR_IS("save /nowhere: no list of tensors or notes",
             hod_save_tensors("/nowhere", NULL, 1, NULL, 0));
    ERROR_IS("plot /nowhere.png: 1 series", hod_plot("/nowhere.png", NULL, 1, .title = "x"));
    ERROR_IS("event: no file", hod_event_write(NULL, "x", NULL));
    ERROR_IS("config: nowhere to print", hod_config_describe(NULL));
    CHECK(!hod_module_find(net, NULL));
    hod_module_print(net, NULL);
    hod_memory_print(NULL);
    hod_trainer_stop(NULL);
    CHECK(!hod_error());
    hod_module_free(net);
    hod_dataset_free(d);
}
