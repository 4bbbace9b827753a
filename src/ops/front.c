/* The typed fronts of the regular rows: they bring the inputs to one type, then dispatch.
 *
 * Promotion follows PyTorch: kinds rank bool < integer < float; the higher kind decides, and within
 * it tensors with dimensions outrank 0-d ones, so that a number never widens a tensor. f16 with
 * bf16 gives f32. Two bools add up in i64, where PyTorch would say `or`.
 */
#include "ops/rules.h"

static int kind_of(hod_dtype t)
{
    return t == HOD_BOOL ? 0 : t > HOD_BF16 ? 1 : 2;
}

static hod_dtype wider(hod_dtype a, hod_dtype b)
{
    /* Position in bool < u8 < i32 < i64 < f16, bf16 < f32 < f64. */
    static const int rank[HOD_DTYPES] = {[HOD_BOOL] = 0, [HOD_U8] = 1,   [HOD_I32] = 2,
                                         [HOD_I64] = 3,  [HOD_F16] = 4,  [HOD_BF16] = 4,
                                         [HOD_F32] = 5,  [HOD_F64] = 6};
    if (rank[a] == rank[b])
        return a == b ? a : HOD_F32;
    return rank[a] > rank[b] ? a : b;
}

hod_dtype hod__promote(const hod_tensor *a, const hod_tensor *b)
{
    int ka = kind_of(a->dtype), kb = kind_of(b->dtype);
    if (ka != kb)
        return ka > kb ? a->dtype : b->dtype;
    if ((a->ndim == 0) != (b->ndim == 0))
        return a->ndim == 0 ? b->dtype : a->dtype;
    return wider(a->dtype, b->dtype);
}

hod_tensor *hod__cast_to(hod_tensor *t, hod_dtype dtype)
{
    if (!t || t->dtype == dtype)
        return t;
    hod_attrs a = {.cast = {dtype}};
    return hod__op(HOD_OP_cast, &a, 1, &t);
}

/* The type in which an operator of these flags computes inputs of type `dtype`. */
static hod_dtype computed_in(uint32_t flags, hod_dtype dtype, int arity)
{
    if ((flags & HOD_OPF_FLOAT_ONLY) && dtype > HOD_BF16)
        return HOD_F32;
    bool arithmetic = arity == 2 && !(flags & HOD_OPF_BOOL_RESULT);
    return dtype == HOD_BOOL && arithmetic ? HOD_I64 : dtype;
}

static hod_tensor *unary(hod_op op, hod_tensor *a)
{
    if (!a)
        return NULL;
    hod_tensor *x = hod__cast_to(a, computed_in(hod__op_info[op].flags, a->dtype, 1));
    return hod__op(op, NULL, 1, &x);
}

static hod_tensor *binary(hod_op op, hod_tensor *a, hod_tensor *b)
{
    if (!a || !b)
        return NULL;
    hod_dtype t = computed_in(hod__op_info[op].flags, hod__promote(a, b), 2);
    return hod__op(op, NULL, 2, (hod_tensor *[]){hod__cast_to(a, t), hod__cast_to(b, t)});
}

/* where: the condition is bool, the other two share a type. */
static hod_tensor *ternary(hod_op op, hod_tensor *a, hod_tensor *b, hod_tensor *c)
{
    if (!a || !b || !c)
        return NULL;
    hod_dtype t = hod__promote(b, c);
    hod_tensor *in[] = {hod__cast_to(a, HOD_BOOL), hod__cast_to(b, t), hod__cast_to(c, t)};
    return hod__op(op, NULL, 3, in);
}

#define UNARY(name, ...)                                                                           \
    hod_tensor *hod_##name(hod_tensor *a)                                                          \
    {                                                                                              \
        return unary(HOD_OP_##name, a);                                                            \
    }
#define BINARY(name, ...)                                                                          \
    hod_tensor *hod_##name(hod_tensor *a, hod_tensor *b)                                           \
    {                                                                                              \
        return binary(HOD_OP_##name, a, b);                                                        \
    }
#define TERNARY(name, ...)                                                                         \
    hod_tensor *hod_##name(hod_tensor *a, hod_tensor *b, hod_tensor *c)                            \
    {                                                                                              \
        return ternary(HOD_OP_##name, a, b, c);                                                    \
    }
#include "ops/ops.def"

/* ---- reductions ---- */

int hod__dim(const char *op, int64_t dim, int ndim)
{
    if (dim < -ndim || dim >= ndim)
        return HOD_FAIL_RC(ARGUMENT, "%s: no dimension %lld in a tensor of %d", op, (long long)dim,
                           ndim);
    return (int)(dim < 0 ? dim + ndim : dim);
}

static hod_tensor *reduce_bits(hod_op op, hod_tensor *x, uint32_t dims, bool keepdim)
{
    hod_attrs a = {.reduce = {dims, keepdim}};
    return hod__op(op, &a, 1, &x);
}

static hod_tensor *reduce_all(hod_op op, hod_tensor *x)
{
    return x ? reduce_bits(op, x, (uint32_t)((1u << x->ndim) - 1), false) : NULL;
}

static hod_tensor *reduce_over(hod_op op, hod_tensor *x, hod_shape dims, bool keepdim)
{
    if (!x)
        return NULL;
    uint32_t bits = 0;
    if (dims.n < 0 || dims.n > HOD_MAX_DIMS)
        return HOD_FAIL(ARGUMENT, "%s: over %d dimensions, wanted 0 to %d", hod__op_info[op].name,
                        dims.n, HOD_MAX_DIMS);
    for (int i = 0; i < dims.n; i++) {
        int d = hod__dim(hod__op_info[op].name, dims.d[i], x->ndim);
        if (d < 0)
            return NULL;
        if (bits >> d & 1)
            return HOD_FAIL(ARGUMENT, "%s: dimension %d named twice", hod__op_info[op].name, d);
        bits |= 1u << d;
    }
    return reduce_bits(op, x, bits, keepdim);
}

/* The index of an extreme; a 0-d tensor has one dimension for this purpose. */
static hod_tensor *reduce_index(hod_op op, hod_tensor *x, int dim)
{
    if (!x)
        return NULL;
    int d = hod__dim(hod__op_info[op].name, dim, HOD_MAX(x->ndim, 1));
    return d < 0 ? NULL : reduce_bits(op, x, x->ndim ? 1u << d : 0, false);
}

#define REDUCE(name, ...)                                                                          \
    hod_tensor *hod_##name(hod_tensor *x)                                                          \
    {                                                                                              \
        return reduce_all(HOD_OP_##name, x);                                                       \
    }                                                                                              \
    hod_tensor *hod_##name##_over(hod_tensor *x, hod_shape dims, bool keepdim)                     \
    {                                                                                              \
        return reduce_over(HOD_OP_##name, x, dims, keepdim);                                       \
    }
#define REDUCE_INDEX(name, ...)                                                                    \
    hod_tensor *hod_##name(hod_tensor *x, int dim)                                                 \
    {                                                                                              \
        return reduce_index(HOD_OP_##name, x, dim);                                                \
    }
#include "ops/ops.def"
