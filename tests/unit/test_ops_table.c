/* What every row of the table must do, asked of all rows alike: values in every type against f64,
 * strides, broadcasting, emptiness, ranks 0 to 8, types of results; and the table itself. */
#include "harness.h"
#include "ops/op.h"
#include <hod/functional.h>
#include <math.h>
#include <stdio.h>

/* Reproducible numbers in [low, high]. */
static double draw(uint64_t *state, double low, double high)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(*state >> 33) * 0x1p-31;
}

static hod_tensor *random_tensor(const hod_op_info *info, hod_shape shape, uint64_t *state)
{
    int64_t n = hod__numel(shape.n, shape.d);
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = draw(state, info->low, info->high);
    hod_tensor *t = hod_from_doubles(v, shape);
    free(v);
    return info->flags & HOD_OPF_INT_ONLY ? hod_cast(t, HOD_I64) : t;
}

static double max_difference(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b);
    EQ_INT(hod_tensor_numel(a), hod_tensor_numel(b));
    int64_t n = hod_tensor_numel(a);
    double *x = hod__alloc((size_t)n + 1, sizeof *x), *y = hod__alloc((size_t)n + 1, sizeof *y);
    CHECK(hod_read_doubles(a, x, n) == 0 && hod_read_doubles(b, y, n) == 0);
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i])))
            worst = fmax(worst, isnan(x[i] - y[i]) ? INFINITY
                                                   : fabs(x[i] - y[i]) / (1 + fabs(y[i])));
    free(x);
    free(y);
    return worst;
}

/* The inputs of a pointwise row as its front would hand them over; one that chooses has a condition
 * first. */
static hod_tensor *call(hod_op op, hod_tensor **in)
{
    hod_attrs attrs = {.cast = {HOD_F32}};
    hod_tensor *x[3] = {in[0], in[1], in[2]};
    if (hod__op_info[op].flags & HOD_OPF_CHOOSES)
        x[0] = hod_cast(hod_gt_scalar(in[0], 0), HOD_BOOL);
    return hod__op(op, op == HOD_OP_cast ? &attrs : NULL, hod__op_info[op].arity, x);
}

static void set_inputs(const hod_op_info *info, hod_shape shape, hod_tensor **in)
{
    uint64_t state = 99;
    for (int k = 0; k < info->arity; k++)
        in[k] = random_tensor(info, shape, &state);
}

#define EACH_POINTWISE(op, info)                                                                   \
    for (hod_op op = 0; op < HOD_OPS; op++)                                                        \
        for (const hod_op_info *info = &hod__op_info[op]; info && info->class == HOD_POINTWISE;    \
             info = NULL)

TEST(ops_table_rows_are_complete)
{
    for (hod_op op = 0; op < HOD_OPS; op++) {
        const hod_op_info *info = &hod__op_info[op];
        CHECK(info->name && info->doc && info->shape);
        CHECK((info->view != NULL) == (info->class == HOD_VIEW));
        CHECK(info->view || info->eval);
        CHECK((info->nodiff != NULL) == ((info->flags & HOD_OPF_NODIFF) != 0));
        CHECK((info->nodiff != NULL) == (info->vjp == NULL));
        CHECK(!info->nodiff || strlen(info->nodiff) > 5);
        CHECK((info->expr != NULL) == (info->class == HOD_POINTWISE || info->class == HOD_REDUCE));
    }
    EQ_STR(hod__op_info[HOD_OP_add].expr, "a + b");
    EQ_STR(hod__op_info[HOD_OP_amax].start, "r_lowest");
}

TEST(ops_table_attributes_cover_their_structs)
{
    for (int k = 0; k < HOD_ATTRS_KINDS; k++) {
        const hod_attrs_info *a = &hod__attrs_info[k];
        CHECK(a->n > 0 && a->bytes <= sizeof(hod_attrs));
        for (int i = 0; i < a->n; i++)
            CHECK(a->fields[i].offset < a->bytes);
    }
    EQ_STR(hod__attrs_info[HOD_ATTRS_conv].fields[3].name, "groups");
}

/* Half types are checked against f64 on the rounded inputs: one rounding of the result remains,
 * 2^-11 or 2^-8; f32 may lose a few ulp in libm. */
static void check_type(hod_dtype t, double tol)
{
    EACH_POINTWISE(op, info)
    {
        hod_tensor *in[3] = {0}, *low[3] = {0}, *exact[3] = {0};
        if (info->flags & HOD_OPF_INT_ONLY)
            continue;
        set_inputs(info, HOD_SHAPE(3, 37), in);
        for (int k = 0; k < info->arity; k++) {
            low[k] = hod_cast(in[k], t);
            exact[k] = hod_cast(low[k], HOD_F64);
        }
        hod_tensor *y = call(op, low);
        double d = max_difference(y, call(op, exact));
        if (d > tol)
            FAIL("%s in %s: off by %g", info->name, hod_dtype_name(t), d);
        bool keeps = op != HOD_OP_cast && !(info->flags & HOD_OPF_BOOL_RESULT);
        if (keeps)
            EQ_INT(hod_tensor_dtype(y), t);
        else if (op != HOD_OP_cast)
            EQ_INT(hod_tensor_dtype(y), HOD_BOOL);
    }
}

TEST(ops_values_in_every_float_type)
{
    check_type(HOD_F32, 1e-6);
    check_type(HOD_F16, 0x1p-11);
    check_type(HOD_BF16, 0x1p-8);
}

static bool divides(hod_op op)
{
    return op == HOD_OP_floor_divide || op == HOD_OP_remainder || op == HOD_OP_fmod;
}

TEST(ops_values_in_every_integer_type)
{
    const hod_dtype types[] = {HOD_I64, HOD_I32, HOD_U8, HOD_BOOL};
    for (int i = 0; i < HOD_COUNT(types); i++)
        EACH_POINTWISE(op, info)
        {
            hod_tensor *in[3] = {0}, *low[3] = {0}, *exact[3] = {0};
            if (info->flags & HOD_OPF_FLOAT_ONLY)
                continue;
            set_inputs(info, HOD_SHAPE(101), in);
            for (int k = 0; k < info->arity; k++) { /* not negative: u8 and bool have no sign */
                double least = k > 0 && divides(op) ? 1 : 0;
                low[k] = hod_cast(hod_add_scalar(hod_abs(in[k]), least), types[i]);
                exact[k] = hod_cast(low[k], info->flags & HOD_OPF_INT_ONLY ? HOD_I64 : HOD_F64);
            }
            bool signless = types[i] == HOD_U8 || types[i] == HOD_BOOL;
            if (signless && (op == HOD_OP_neg || op == HOD_OP_sub))
                continue; /* wraps */
            hod_tensor *y = call(op, low);
            hod_tensor *want = call(op, exact);
            if (types[i] == HOD_BOOL && op != HOD_OP_cast)
                want = hod_cast(want, HOD_BOOL);
            if (max_difference(y, want) != 0)
                FAIL("%s in %s", info->name, hod_dtype_name(types[i]));
        }
}

/* A tensor of `shape` whose elements lie oddly: dimensions reversed in memory, every second one. */
static hod_tensor *strided(hod_tensor *x)
{
    hod_shape order = {.n = hod_tensor_ndim(x)};
    for (int i = 0; i < order.n; i++)
        order.d[i] = order.n - 1 - i;
    hod_tensor *wide = hod_stack(2, (hod_tensor *[]){hod_permute_to(x, order), hod_full_like(
                                                         hod_permute_to(x, order), 7)},
                                 order.n);
    return hod_permute_to(hod_select(hod_copy(wide), order.n, 0), order);
}

TEST(ops_strides_do_not_matter)
{
    const hod_shape shapes[] = {HOD_SHAPE(7), HOD_SHAPE(5, 3), HOD_SHAPE(2, 3, 4, 5),
                                HOD_SHAPE(2, 1, 2, 1, 2, 2, 2)};
    for (int s = 0; s < HOD_COUNT(shapes); s++)
        EACH_POINTWISE(op, info)
        {
            hod_tensor *in[3] = {0}, *odd[3] = {0};
            set_inputs(info, shapes[s], in);
            for (int k = 0; k < info->arity; k++)
                odd[k] = strided(in[k]);
            CHECK(s == 0 || !hod_tensor_is_contiguous(odd[0]));
            EQ_INT(max_difference(call(op, odd), call(op, in)) == 0, 1);
            if (info->arity > 1) { /* and mixed with dense ones */
                odd[0] = in[0];
                EQ_INT(max_difference(call(op, odd), call(op, in)) == 0, 1);
            }
        }
}

TEST(ops_broadcasting_is_expanding)
{
    const hod_shape pairs[][2] = {{HOD_SHAPE(4, 5), HOD_SHAPE(5)},
                                  {HOD_SHAPE(4, 1), HOD_SHAPE(1, 5)},
                                  {HOD_SHAPE(), HOD_SHAPE(4, 5)},
                                  {HOD_SHAPE(2, 1, 3, 1), HOD_SHAPE(4, 1, 5)},
                                  {HOD_SHAPE(1, 1), HOD_SHAPE()},
                                  {HOD_SHAPE(3, 0), HOD_SHAPE(3, 1)}};
    for (int p = 0; p < HOD_COUNT(pairs); p++)
        EACH_POINTWISE(op, info)
        {
            if (info->arity < 2)
                continue;
            uint64_t state = 5;
            hod_tensor *in[3], *full[3] = {0};
            for (int k = 0; k < 3; k++)
                in[k] = random_tensor(info, pairs[p][k % 2], &state);
            hod_tensor *y = call(op, in);
            CHECK(y != NULL);
            for (int k = 0; k < info->arity; k++)
                full[k] = hod_copy(hod_expand(in[k], hod_tensor_shape(y)));
            EQ_INT(max_difference(y, call(op, full)) == 0, 1);
        }
}

TEST(ops_nothing_of_nothing)
{
    const hod_shape shapes[] = {HOD_SHAPE(0), HOD_SHAPE(3, 0), HOD_SHAPE(0, 4, 2)};
    for (int s = 0; s < HOD_COUNT(shapes); s++)
        EACH_POINTWISE(op, info)
        {
            hod_tensor *in[3] = {0};
            set_inputs(info, shapes[s], in);
            hod_tensor *y = call(op, in);
            CHECK(y != NULL);
            EQ_INT(hod_tensor_numel(y), 0);
            EQ_INT(hod_tensor_ndim(y), shapes[s].n);
        }
}

TEST(ops_nan_and_infinity_go_through)
{
    hod_tensor *x = hod_from_doubles((double[]){NAN, INFINITY, -INFINITY, 1}, HOD_SHAPE(4));
    double y[4];
    CHECK(hod_read_doubles(hod_relu(x), y, 4) == 0);
    CHECK(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 1);
    CHECK(hod_read_doubles(hod_maximum(x, hod_scalar(0)), y, 4) == 0);
    CHECK(isnan(y[0]) && y[2] == 0);
    CHECK(hod_read_doubles(hod_minimum(hod_scalar(0), x), y, 4) == 0);
    CHECK(isnan(y[0]) && y[1] == 0);
    CHECK(hod_read_doubles(hod_sign(x), y, 4) == 0);
    CHECK(isnan(y[0]) && y[1] == 1 && y[2] == -1);
    CHECK(hod_read_doubles(hod_sigmoid(x), y, 4) == 0);
    CHECK(isnan(y[0]) && y[1] == 1 && y[2] == 0);
}

TEST(ops_types_promote)
{
    hod_tensor *f = hod_from_floats((float[]){1, 2}, HOD_SHAPE(2)), *i = hod_cast(f, HOD_I64);
    hod_tensor *b = hod_cast(f, HOD_BOOL), *h = hod_cast(f, HOD_F16), *u = hod_cast(f, HOD_U8);
    hod_tensor *d = hod_full(HOD_F64, HOD_SHAPE(), 2.5);
    EQ_INT(hod_tensor_dtype(hod_add(i, f)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_add(h, hod_cast(f, HOD_BF16))), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_add(f, d)), HOD_F32); /* a number does not widen a tensor */
    EQ_INT(hod_tensor_dtype(hod_add(i, d)), HOD_F64); /* another kind does */
    EQ_INT(hod_tensor_dtype(hod_add(u, i)), HOD_I64);
    EQ_INT(hod_tensor_dtype(hod_add(b, b)), HOD_I64);
    EQ_INT(hod_tensor_dtype(hod_div(i, i)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_exp(i)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_mul_scalar(i, 2)), HOD_I64);
    EQ_INT(hod_tensor_dtype(hod_pow_scalar(i, 2)), HOD_F32); /* whatever the number is */
    EQ_INT(hod_tensor_dtype(hod_pow_scalar(i, 3)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_mul_scalar(i, 2.5)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_mul_scalar(h, 2.5)), HOD_F16);
    EQ_INT(hod_tensor_dtype(hod_sum(b)), HOD_I64);
    EQ_INT(hod_tensor_dtype(hod_eq(h, h)), HOD_BOOL);
    NEAR(hod_item(hod_sum(hod_mul_scalar(i, 2.5))), 7.5, 0);
}

TEST(ops_casts_between_all_types)
{
    const double v[] = {0, 1, 2.75, 100, -2.75};
    for (int from = 0; from < HOD_DTYPES; from++)
        for (int to = 0; to < HOD_DTYPES; to++)
            for (int k = 0; k < 4; k++) {
                hod_tensor *x = hod_full((hod_dtype)from, HOD_SHAPE(3), v[k]);
                double had = hod_item(hod_select(x, 0, 1));
                double want = to == HOD_BOOL ? had != 0 : to > HOD_BF16 ? trunc(had) : had;
                NEAR(hod_item(hod_select(hod_cast(x, (hod_dtype)to), 0, 2)), want, 0);
            }
    NEAR(hod_item(hod_cast(hod_scalar(-2.75), HOD_I32)), -2, 0);
    NEAR(hod_item(hod_cast(hod_scalar(0.25), HOD_BOOL)), 1, 0);
    NEAR(hod_item(hod_cast(hod_scalar(NAN), HOD_BOOL)), 1, 0);
}

TEST(ops_large_ones_agree_with_small_ones) /* the parallel paths */
{
    EACH_POINTWISE(op, info)
    {
        hod_tensor *in[3] = {0}, *part[3] = {0};
        set_inputs(info, HOD_SHAPE(300, 400), in);
        hod_tensor *y = call(op, in);
        for (int k = 0; k < info->arity; k++)
            part[k] = hod_slice(in[k], 0, 250, 251);
        EQ_INT(max_difference(hod_slice(y, 0, 250, 251), call(op, part)) == 0, 1);
    }
}

TEST(ops_errors_say_what_and_where)
{
    hod_tensor *a = hod_zeros(HOD_F32, HOD_SHAPE(2, 3)), *b = hod_zeros(HOD_F32, HOD_SHAPE(4));
    hod_tensor *i = hod_zeros(HOD_I64, HOD_SHAPE(2, 3));
    ERROR_IS("add: (2,3) with (4): sizes differ and neither is 1", hod_add(a, b));
    ERROR_IS("matmul: (32,784) x (512,10): inner sizes 784 and 512 differ",
             hod_matmul(hod_zeros(HOD_F32, HOD_SHAPE(32, 784)),
                        hod_zeros(HOD_F32, HOD_SHAPE(512, 10))));
    ERROR_IS("reshape: (2,3) has 6 elements, (4) has 4", hod_reshape(a, HOD_SHAPE(4)));
    ERROR_IS("sum: no dimension 2 in a tensor of 2", hod_sum_dims(a, 2));
    ERROR_IS("sum: dimension 1 named twice", hod_sum_dims(a, 1, -1));
    ERROR_IS("expand: (4) does not repeat to (5)", hod_expand(b, HOD_SHAPE(5)));
    ERROR_IS("concat: input 1 is (4), input 0 is (2,3): 1 dimensions and 2",
             hod_concat(2, (hod_tensor *[]){a, b}, 0));
    ERROR_IS("conv2d: (2,3) with weights (4): four dimensions each are wanted", hod_conv2d(a, b));
    ERROR_IS("conv2d: (1,3,8,8) with weights (4,2,3,3): 1 groups of channels do not fit",
             hod_conv2d(hod_zeros(HOD_F32, HOD_SHAPE(1, 3, 8, 8)),
                        hod_zeros(HOD_F32, HOD_SHAPE(4, 2, 3, 3))));
    ERROR_IS("matmul: of i64 and i64, wanted floats",
             hod__op(HOD_OP_matmul, NULL, 2, (hod_tensor *[]){i, i}));
    ERROR_IS("log: not defined for i64", hod__op(HOD_OP_log, NULL, 1, &i));
    ERROR_IS("add: 1 inputs, 2 wanted", hod__op(HOD_OP_add, NULL, 1, &a));
    ERROR_IS("concat: 0 inputs, 1 to 64 wanted", hod__op(HOD_OP_concat, NULL, 0, NULL));
    hod_meta none;
    ERROR_IS("concat: 0 inputs, 1 to 64 wanted",
             hod__op_shape(HOD_OP_concat, NULL, 0, NULL, &none));
    hod_refuse("the first");
    CHECK(hod_add(NULL, a) == NULL); /* NULL in, NULL out, no new error */
    EQ_STR(hod_error(), "the first");
    hod_error_take(NULL);
}
