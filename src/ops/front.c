/* The typed fronts of the regular rows: they bring the inputs to one type, then dispatch.
 *
 * Promotion follows PyTorch: kinds rank bool < integer < float; the higher kind decides, and within
 * it tensors with dimensions outrank 0-d ones, so that a number never widens a tensor. f16 with
 * bf16 gives f32. Two bools add up in i64, where PyTorch would say `or`.
 */
#include "ops/rules.h"

static int kind_of(hod_dtype t)
{
    return t == HOD_BOOL ? 0 : hod__is_float(t) ? 2 : 1;
}

static hod_dtype wider(hod_dtype a, hod_dtype b)
{
    /* Position in bool < u8 < i32 < i64 < f16, bf16 < f32 < f64. */
    static const int rank[HOD_DTYPES] = {
        [HOD_BOOL] = 0, [HOD_U8] = 1,   [HOD_I32] = 2, [HOD_I64] = 3,
        [HOD_F16] = 4,  [HOD_BF16] = 4, [HOD_F32] = 5, [HOD_F64] = 6};
    if (rank[a] == rank[b])
        return a == b ? a : HOD_F32;
    return rank[a] > rank[b] ? a : b;
}

/* The widest of those that rank highest. */
hod_dtype hod__promote_all(int n, hod_tensor *const *in)
{
    int highest = -1;
    hod_dtype dtype = HOD_F32;
    for (int i = 0; i < n; i++) {
        int rank = 2 * kind_of(in[i]->dtype) + (in[i]->ndim > 0);
        if (rank > highest)
            dtype = in[i]->dtype;
        else if (rank == highest)
            dtype = wider(dtype, in[i]->dtype);
        highest = HOD_MAX(highest, rank);
    }
    return dtype;
}

hod_dtype hod__promote(hod_tensor *a, hod_tensor *b)
{
    return hod__promote_all(2, (hod_tensor *[]){a, b});
}

hod_tensor *hod__cast_to(hod_tensor *t, hod_dtype dtype)
{
    if (!t || t->dtype == dtype)
        return t;
    hod_attrs a = {.cast = {dtype}};
    return hod__op(HOD_OP_cast, &a, 1, &t);
}

hod_tensor *hod__computed(hod_tensor *x)
{
    return x && x->dtype != HOD_F64 ? hod__cast_to(x, HOD_F32) : x;
}

hod_tensor *hod__narrowed(hod_tensor *y, hod_dtype t)
{
    return hod__is_half(t) ? hod__cast_to(y, t) : y;
}

hod_tensor *hod__narrowed_like(hod_tensor *y, const hod_tensor *x)
{
    return x ? hod__narrowed(y, (hod_dtype)x->dtype) : y;
}

void hod__both_ways(int64_t both, const int64_t apart[2], int64_t usual, int64_t out[2])
{
    bool given = apart[0] || apart[1];
    for (int i = 0; i < 2; i++)
        out[i] = given ? apart[i] : both ? both : usual;
}

void hod__four_sides(int64_t all, const int64_t apart[4], int64_t out[4])
{
    bool given = apart[0] || apart[1] || apart[2] || apart[3];
    for (int i = 0; i < 4; i++)
        out[i] = given ? apart[i] : all;
}

/* The type in which an operator of these flags computes inputs of type `dtype`. */
static hod_dtype computed_in(uint32_t flags, hod_dtype dtype)
{
    if ((flags & HOD_OPF_FLOAT_ONLY) && !hod__is_float(dtype))
        return HOD_F32;
    bool bits = flags & HOD_OPF_INT_ONLY && flags & HOD_OPF_COMMUTATIVE; /* and, or, xor of bools */
    bool arithmetic = !(flags & HOD_OPF_BOOL_RESULT) && !bits;
    return dtype == HOD_BOOL && arithmetic ? HOD_I64 : dtype;
}

static hod_tensor *unary(hod_op op, hod_tensor *a)
{
    if (hod__null(hod__op_info[op].name, "the input", a))
        return NULL;
    hod_tensor *x = hod__cast_to(a, computed_in(hod__op_info[op].flags, a->dtype));
    return hod__op(op, NULL, 1, &x);
}

static hod_tensor *binary(hod_op op, hod_tensor *a, hod_tensor *b)
{
    if (hod__null(hod__op_info[op].name, "the first input", a) ||
        hod__null(hod__op_info[op].name, "the second input", b))
        return NULL;
    hod_dtype t = computed_in(hod__op_info[op].flags, hod__promote(a, b));
    return hod__op(op, NULL, 2, (hod_tensor *[]){hod__cast_to(a, t), hod__cast_to(b, t)});
}

/* Where the first is a condition it is bool, and the other two share a type. */
static hod_tensor *ternary(hod_op op, hod_tensor *a, hod_tensor *b, hod_tensor *c)
{
    const char *name = hod__op_info[op].name;
    uint32_t flags = hod__op_info[op].flags;
    bool chooses = flags & HOD_OPF_CHOOSES;
    if (hod__null(name, chooses ? "the condition" : "the first input", a) ||
        hod__null(name, "the second input", b) || hod__null(name, "the third input", c))
        return NULL;
    hod_tensor *in[] = {a, b, c};
    hod_dtype t = hod__promote_all(3 - chooses, in + chooses);
    if (!chooses)
        t = computed_in(flags, t);
    in[0] = hod__cast_to(a, chooses ? HOD_BOOL : t);
    in[1] = hod__cast_to(b, t);
    in[2] = hod__cast_to(c, t);
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

int hod__dim_bits(const char *op, const hod_shape *dims, int ndim, uint32_t *bits)
{
    *bits = 0;
    if (dims->n < 0 || dims->n > HOD_MAX_DIMS)
        return HOD_FAIL_RC(ARGUMENT, "%s: over %d dimensions, wanted 0 to %d", op, dims->n,
                           HOD_MAX_DIMS);
    for (int i = 0; i < dims->n; i++) {
        int d = hod__dim(op, dims->d[i], ndim);
        if (d < 0)
            return -1;
        if (*bits >> d & 1)
            return HOD_FAIL_RC(ARGUMENT, "%s: dimension %d named twice", op, d);
        *bits |= 1u << d;
    }
    return 0;
}

static hod_tensor *reduce_bits(hod_op op, hod_tensor *x, uint32_t dims, bool keepdim)
{
    hod_attrs a = {.reduce = {dims, keepdim}};
    return hod__op(op, &a, 1, &x);
}

static hod_tensor *reduce_all(hod_op op, hod_tensor *x)
{
    if (hod__null(hod__op_info[op].name, "the input", x))
        return NULL;
    return reduce_bits(op, x, (uint32_t)((1u << x->ndim) - 1), false);
}

static hod_tensor *reduce_over(hod_op op, hod_tensor *x, hod_shape dims, bool keepdim)
{
    if (hod__null(hod__op_info[op].name, "the input", x))
        return NULL;
    uint32_t bits;
    return hod__dim_bits(hod__op_info[op].name, &dims, x->ndim, &bits) == 0
               ? reduce_bits(op, x, bits, keepdim)
               : NULL;
}

/* The index of an extreme; a 0-d tensor has one dimension for this purpose. */
static hod_tensor *reduce_index(hod_op op, hod_tensor *x, int dim)
{
    if (hod__null(hod__op_info[op].name, "the input", x))
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
