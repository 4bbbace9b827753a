/* Contractions that are compositions: what they are by definition, and what they refuse. PyTorch's
 * cases are in tests/golden. */
#include "harness.h"
#include <hod/attention.h>
#include <hod/autograd.h>
#include <hod/functional.h>
#include <hod/movement.h>
#include <math.h>

static hod_tensor *wave(hod_shape shape, double phase)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.d[i];
    hod_tensor *steps = hod_mul_scalar(hod_arange(HOD_F64, n), 0.7);
    return hod_reshape(hod_sin(hod_add_scalar(steps, phase)), shape);
}

static double distance(hod_tensor *a, hod_tensor *b)
{
    return hod_item(hod_amax(hod_abs(hod_sub(a, b))));
}

/* The gradient of a convolution is the transposed one of g, whatever divides unevenly. */
TEST(contract_transposed_is_the_gradient)
{
    hod_tensor *x = wave(HOD_SHAPE(2, 6, 8, 9), 0), *w = wave(HOD_SHAPE(4, 3, 3, 2), 1);
    CHECK(hod_requires_grad(x, true));
    hod_tensor *y = hod_conv2d(x, w, .stride_hw = {2, 3}, .padding_tlbr = {1, 0, 2, 1},
                               .dilation_hw = {2, 1}, .groups = 2);
    hod_tensor *g = wave(hod_tensor_shape(y), 2);
    CHECK(hod_backward(hod_sum(hod_mul(y, g))) == 0);
    hod_tensor *t =
        hod_conv_transpose2d(g, w, .stride_hw = {2, 3}, .padding_tlbr = {1, 0, 2, 1},
                             .dilation_hw = {2, 1}, .groups = 2, .output_padding_hw = {0, 2});
    NEAR(distance(t, hod_grad(x)), 0, 1e-12);
}

/* More output_padding than the stride reaches elements that no window touches: they are 0. */
TEST(contract_transposed_beyond_the_windows)
{
    hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(1, 1, 3), 1);
    hod_tensor *w = hod_full(HOD_F32, HOD_SHAPE(1, 1, 2), 1);
    hod_tensor *y = hod_conv_transpose1d(x, w, .dilation = 4, .output_padding = 3);
    EQ_INT(hod_tensor_size(y, 2), 10);
    NEAR(hod_item(hod_sum(y)), 6, 0);
    NEAR(hod_item(hod_select(hod_flatten(y, 0), 0, 9)), 0, 0);
}

/* One rounding to 16 bits: that of the whole in f32, as of a product without a bias. */
TEST(contract_a_bias_is_added_before_rounding)
{
    hod_tensor *x = hod_cast(wave(HOD_SHAPE(2, 6, 8, 9), 0), HOD_BF16);
    hod_tensor *w = hod_cast(wave(HOD_SHAPE(4, 6, 3, 2), 1), HOD_BF16);
    hod_tensor *b = hod_cast(wave(HOD_SHAPE(4), 2), HOD_BF16);
    CHECK(hod_requires_grad(x, true) && hod_requires_grad(w, true) && hod_requires_grad(b, true));
    hod_tensor *narrow[] = {x, w, b}, *wide[3], *y[2], *g[2][3];
    for (int i = 0; i < 3; i++)
        wide[i] = hod_cast(narrow[i], HOD_F32);
    y[0] = hod_conv2d(x, w, .bias = b);
    y[1] = hod_conv2d(wide[0], wide[1], .bias = wide[2]);
    EQ_INT(hod_tensor_dtype(y[0]), HOD_BF16);
    NEAR(distance(y[0], hod_cast(y[1], HOD_BF16)), 0, 0);
    for (int k = 0; k < 2; k++)
        CHECK(hod_grad_of(hod_sum(hod_square(hod_cast(y[k], HOD_F32))), 3, narrow, g[k],
                          HOD_ONES) == 0);
    for (int i = 0; i < 3; i++) {
        EQ_INT(hod_tensor_dtype(g[0][i]), HOD_BF16);
        NEAR(distance(g[0][i], g[1][i]) / hod_item(hod_amax(hod_abs(g[1][i]))), 0, 0x1p-7);
    }
    hod_tensor *linear = hod_linear(hod_slice(x, 3, 0, 2), hod_reshape(w, HOD_SHAPE(72, 2)),
                                    hod_cast(wave(HOD_SHAPE(72), 3), HOD_BF16));
    EQ_INT(hod_tensor_dtype(linear), HOD_BF16);
    ERROR_IS("conv2d: bias (6) with weights (4,6,3,2), wanted (4)",
             hod_conv2d(x, w, .bias = hod_zeros(HOD_F32, HOD_SHAPE(6))));
}

/* What is kept wide on the way comes back in the type that all inputs make. */
TEST(contract_results_are_of_the_promoted_type)
{
    hod_tensor *h = hod_full(HOD_BF16, HOD_SHAPE(2, 2), 1),
               *f = hod_full(HOD_F32, HOD_SHAPE(2, 2), 1);
    hod_tensor *i = hod_full(HOD_I64, HOD_SHAPE(2, 2), 1), *f16 = hod_cast(h, HOD_F16);
    hod_tensor *number = hod_full(HOD_F32, HOD_SHAPE(), 1),
               *row = hod_full(HOD_F32, HOD_SHAPE(2), 1);
    EQ_INT(hod_tensor_dtype(hod_addmm(number, h, h, 1, 2)), HOD_BF16);
    EQ_INT(hod_tensor_dtype(hod_addmm(f, h, h, 1, 2)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_addmm(f, h, i, 0, 2)), HOD_BF16);
    EQ_INT(hod_tensor_dtype(hod_einsum("ij,jk->i", h, i)), HOD_BF16);
    EQ_INT(hod_tensor_dtype(hod_einsum("ij,jk->i", h, f16)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_linear(h, i, hod_cast(row, HOD_BF16))), HOD_BF16);
    EQ_INT(hod_tensor_dtype(hod_linear(h, h, row)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_cdist(h, f16, 2)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_attention(h, h, f)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_attention(h, h, h)), HOD_BF16);
}

TEST(contract_same_keeps_the_size)
{
    hod_tensor *x = wave(HOD_SHAPE(1, 1, 7), 0), *w = wave(HOD_SHAPE(1, 1, 4), 1);
    hod_tensor *y = hod_conv1d(x, w, .same = true, .dilation = 3);
    hod_tensor *z = hod_conv1d(x, w, .padding_lr = {4, 5}, .dilation = 3);
    EQ_INT(hod_tensor_size(y, 2), 7);
    NEAR(distance(y, z), 0, 0);
}

TEST(contract_convolutions_refuse)
{
    hod_tensor *line = hod_zeros(HOD_F32, HOD_SHAPE(1, 4, 5));
    hod_tensor *image = hod_zeros(HOD_F32, HOD_SHAPE(1, 4, 5, 5));
    hod_tensor *w = hod_zeros(HOD_F32, HOD_SHAPE(4, 2, 3, 3));
    ERROR_IS("conv1d: (1,4,5) with weights (4,2,3,3): three dimensions each are wanted",
             hod_conv1d(line, w));
    ERROR_IS("conv_transpose2d: (1,4,5) with weights (4,2,3,3): four dimensions each are wanted",
             hod_conv_transpose2d(line, w));
    ERROR_IS("conv_transpose2d: (1,4,5,5) with weights (4,2,3,3): 3 groups of channels do not fit",
             hod_conv_transpose2d(image, w, .groups = 3));
    ERROR_IS("conv_transpose2d: (1,4,5,5) with weights (4,2,3,3): stride 2, dilation 1, padding 0 "
             "and 0, output_padding 2",
             hod_conv_transpose2d(image, w, .stride = 2, .output_padding = 2));
    ERROR_IS("conv_transpose2d: (1,4,5,5) with weights (4,2,3,3): stride 1, dilation 1, padding 4 "
             "and 4, output_padding 0",
             hod_conv_transpose2d(image, w, .padding = 4));
    ERROR_IS(
        "conv2d: the same size with a stride or with padding",
        hod_conv2d(image, hod_zeros(HOD_F32, HOD_SHAPE(4, 4, 3, 3)), .same = true, .stride = 2));
}

/* One side given apart: the other is 0, which none takes. */
TEST(contract_windows_with_one_side_given)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 4, 4));
    CHECK(!hod_conv2d(x, x, .stride_hw = {2}) && hod_error_take(NULL));
    CHECK(!hod_unfold2d(x, 2, .stride_hw = {2}) && hod_error_take(NULL));
    CHECK(!hod_max_pool2d(x, 2, .stride_hw = {2}) && hod_error_take(NULL));
    CHECK(!hod_avg_pool2d(x, 2, .stride = 2, .dilation_hw = {0, 1}) && hod_error_take(NULL));
}

TEST(contract_einsum_by_definition)
{
    hod_tensor *a = wave(HOD_SHAPE(2, 3, 4), 0), *b = wave(HOD_SHAPE(2, 4, 5), 1);
    hod_tensor *square = wave(HOD_SHAPE(3, 3), 2), *row = wave(HOD_SHAPE(1, 4), 3);
    NEAR(distance(hod_einsum("bij,bjk->bik", a, b), hod_matmul(a, b)), 0, 1e-14);
    NEAR(distance(hod_einsum("b i j , b j k", a, b),
                  hod_sum_over(hod_matmul(a, b), HOD_SHAPE(0), 0)),
         0, 1e-14); /* i, k occur once, b and j do not */
    NEAR(distance(hod_einsum("ba", row), hod_transpose(row, 0, 1)), 0, 0);
    NEAR(distance(hod_einsum("...i,...i->...", a, row),
                  hod_sum_over(hod_mul(a, row), HOD_SHAPE(2), 0)),
         0, 1e-14); /* a size of 1 repeats */
    hod_tensor *trace = hod_einsum("ii", square);
    NEAR(hod_item(trace), sin(2) + sin(0.7 * 4 + 2) + sin(0.7 * 8 + 2), 1e-14);
    EQ_INT(hod_tensor_ndim(trace), 0);
    NEAR(hod_item(hod_einsum("iii->", hod_full(HOD_F32, HOD_SHAPE(3, 3, 3), 1))), 3, 0);
}

/* Eight dimensions a side would be 14 in one space; two at a time they fit. */
TEST(contract_einsum_of_many_dimensions)
{
    hod_tensor *a = wave(HOD_SHAPE(2, 2, 1, 2, 1, 2, 2, 2), 0);
    hod_tensor *b = wave(HOD_SHAPE(2, 2, 1, 2, 1, 2, 2, 2), 1);
    hod_tensor *y = hod_einsum("abcdefgh,ijklefgh->abcdijkl", a, b);
    hod_tensor *rows = hod_matmul(hod_reshape(a, HOD_SHAPE(8, 8)),
                                  hod_transpose(hod_reshape(b, HOD_SHAPE(8, 8)), 0, 1));
    NEAR(distance(hod_reshape(y, HOD_SHAPE(8, 8)), rows), 0, 1e-14);
    ERROR_IS("einsum \"abcdefgh,ijkl...,abcdefgh,ijkl...->\": 16 dimensions on the way",
             hod_einsum("abcdefgh,ijkl...,abcdefgh,ijkl...->", a, b, a, b));
}

TEST(contract_einsum_refuses)
{
    hod_tensor *m = hod_zeros(HOD_F32, HOD_SHAPE(3, 4));
    ERROR_IS("einsum \"ij,jk\": 'j' is 4, and 3 in dimension 0 of input 1, (3,4)",
             hod_einsum("ij,jk", m, m));
    ERROR_IS("einsum \"ii\": 'i' is 3, and 4 in dimension 1 of input 0, (3,4)",
             hod_einsum("ii", m));
    ERROR_IS("einsum \"ijk\": input 0 is (3,4), with 3 letters", hod_einsum("ijk", m));
    ERROR_IS("einsum \"i\": input 0 is (3,4), with 1 letters", hod_einsum("i", m));
    ERROR_IS("einsum \"ij,ij\": more inputs than came: 1", hod_einsum("ij,ij", m));
    ERROR_IS("einsum \"ij\": inputs: 1, came: 2", hod_einsum("ij", m, m));
    ERROR_IS("einsum \"ij->ik\": no input names 'k'", hod_einsum("ij->ik", m));
    ERROR_IS("einsum \"ij->ii\": the result names 'i' twice", hod_einsum("ij->ii", m));
    ERROR_IS("einsum \"i.j\": '.' at place 2; a part is letters and at most one \"...\"",
             hod_einsum("i.j", m));
    ERROR_IS("einsum \"ij-k\": '-' at place 3, where an arrow or the end is expected",
             hod_einsum("ij-k", m));
    ERROR_IS("einsum: no formula of 1 tensors", hod_einsum(NULL, m));
    ERROR_IS("outer: (3,4) and (3,4): vectors are wanted", hod_outer(m, m));
    ERROR_IS("bilinear: (3,4) and (3,4) with weights (3,4)", hod_bilinear_nobias(m, m, m));
}

TEST(contract_bilinear)
{
    hod_tensor *x = wave(HOD_SHAPE(2, 6, 3), 0), *z = wave(HOD_SHAPE(2, 6, 4), 1);
    hod_tensor *w = wave(HOD_SHAPE(5, 3, 4), 2), *b = wave(HOD_SHAPE(5), 3);
    hod_tensor *y = hod_bilinear(x, z, w, b);
    hod_tensor *xw = hod_matmul(hod_unsqueeze(hod_unsqueeze(x, 2), 2), w); /* (2,6,5,1,4) */
    hod_tensor *ys =
        hod_sum_over(hod_mul(hod_squeeze(xw, 3), hod_unsqueeze(z, 2)), HOD_SHAPE(3), 0);
    NEAR(distance(y, hod_add(ys, b)), 0, 1e-13);
    ERROR_IS("bilinear: bias (5,3,4) with weights (5,3,4)", hod_bilinear(x, z, w, w));
}

TEST(contract_addmm_and_cdist)
{
    hod_tensor *a = wave(HOD_SHAPE(3, 4), 0), *b = wave(HOD_SHAPE(5, 4), 1);
    hod_tensor *bt = hod_transpose(b, 0, 1), *nan = hod_full(HOD_F64, HOD_SHAPE(), NAN);
    NEAR(distance(hod_addmm(nan, a, bt, 0, 2), hod_mul_scalar(hod_matmul(a, bt), 2)), 0, 0);
    hod_tensor *d = hod_cdist(a, b, 1);
    hod_tensor *apart = hod_sub(hod_select(a, 0, 2), hod_select(b, 0, 3));
    NEAR(hod_item(hod_select(hod_select(d, 0, 2), 0, 3)), hod_item(hod_sum(hod_abs(apart))), 1e-14);
    ERROR_IS("addmm: (3,4) and a product (3,5)", hod_addmm(a, a, bt, 1, 1));
    ERROR_IS("cdist: (3,4) and (4,5): rows of one length are wanted", hod_cdist(a, bt, 2));
    ERROR_IS("cdist: p is -1, must not be negative", hod_cdist(a, b, -1));
}

/* ---- absurd arguments: a result or one clear error ---- */

static uint64_t seed = 1;

static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static int64_t near(int64_t good)
{
    static const int64_t any[] = {-1, 2, 3, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN, 7};
    return draw(6) ? good : any[draw(8)];
}

static hod_tensor *some(int ndim)
{
    hod_shape s = {.n = draw(9) ? ndim : (int)draw(HOD_MAX_DIMS + 1)};
    for (int i = 0; i < s.n; i++)
        s.d[i] = s.n > 5 ? 1 + draw(2) : draw(20) ? draw(5) ? 2 : 1 + draw(4) : 0;
    return draw(99) ? hod_zeros(draw(4) ? HOD_F32 : (hod_dtype)draw(HOD_DTYPES), s) : NULL;
}

static hod_tensor *some_einsum(void)
{
    static const char letters[] = "iijjkkk...,,->ab ?";
    char text[24] = {0};
    for (int64_t i = 0, n = draw(20); i < n; i++)
        text[i] = letters[draw(sizeof letters - 1)];
    hod_tensor *x[] = {some(2), some(2), some(3), some(1)};
    switch (draw(4)) {
    case 0: return hod_einsum("...ij,...jk->...ik", x[0], x[2]);
    case 1: return hod_einsum("...i,...j,...k", x[0], x[1], x[2]);
    case 2: return hod_einsum("ii...->...", x[0]);
    default: return hod_einsum_of(text, (int)draw(6) - 1, draw(30) ? x : NULL);
    }
}

static hod_tensor *some_call(void)
{
    switch (draw(7)) {
    case 0:
        return hod_conv1d(some(3), some(3), .stride = near(0), .padding_lr = {near(1), near(0)},
                          .dilation = near(0), .groups = near(1), .same = draw(4) == 0);
    case 1:
        return hod_conv_transpose1d(some(3), some(3), .stride = near(2), .padding = near(0),
                                    .output_padding = near(1), .dilation = near(1));
    case 2:
        return hod_conv_transpose2d(some(4), some(4), .stride_hw = {near(2), near(1)},
                                    .dilation = near(0), .output_padding_hw = {near(1), near(0)},
                                    .padding_tlbr = {near(0), near(1), near(0), near(0)},
                                    .groups = near(1));
    case 3: return hod_bilinear(some(2), some(2), some(3), some(1));
    case 4: return hod_addmm(some(2), some(2), some(2), 1, (double)near(2));
    case 5: return hod_cdist(some(2), some(2), (double)near(2));
    default: return some_einsum();
    }
}

TEST(contract_absurd_arguments)
{
    int made = 0;
    for (int i = 0; i < 4000; i++) {
        HOD_SCOPE(s);
        hod_tensor *y = some_call();
        made += y != NULL;
        hod_error_take(NULL);
        CHECK(!y || hod_tensor_ndim(y) <= HOD_MAX_DIMS);
    }
    CHECK(made > 400);
}
