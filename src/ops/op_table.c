/* ops.def and attrs.def as data.
 *
 * The derivative column decides three fields of a row at once. Its text is pasted behind OF_, where
 * only OF_NODIFF is a macro, of several arguments; picking the second, third and fourth of (column,
 * defaults) then finds its own or theirs:
 *
 *     PICK2(OF_hod_neg(g), 0, NULL, rule)     -> 0
 *     PICK2(OF_NODIFF("why"), 0, NULL, rule)  -> HOD_OPF_NODIFF
 */
#include "ops/fused.h"
#include <math.h>

#define PLAIN 0
#define FLOATS HOD_OPF_FLOAT_ONLY
#define SWAPS HOD_OPF_COMMUTATIVE
#define BOOL HOD_OPF_BOOL_RESULT
#define INDEX HOD_OPF_INDEX_RESULT
#define INTS HOD_OPF_INT_ONLY
#define CHOOSES HOD_OPF_CHOOSES
#define SAVES_X HOD_OPF_SAVES_X
#define SAVES_Y HOD_OPF_SAVES_Y
#define Y_FOR_B (HOD_OPF_SAVES_Y | HOD_OPF_Y_FOR_B)
#define SAVES_B HOD_OPF_SAVES_B
#define SAVES_C HOD_OPF_SAVES_C
#define SAVES_D HOD_OPF_SAVES_D
#define SAVES_MORE HOD_OPF_SAVES_MORE
#define NO_INTS HOD_OPF_NO_INTS
#define BILINEAR (HOD_OPF_BILINEAR | HOD_OPF_SAVES_X | HOD_OPF_SAVES_B)

#define OF_NODIFF(reason) ~, HOD_OPF_NODIFF, reason, NULL
#define PICK2(...) PICK2_(__VA_ARGS__)
#define PICK2_(a, b, ...) b
#define PICK3(...) PICK3_(__VA_ARGS__)
#define PICK3_(a, b, c, ...) c
#define PICK4(...) PICK4_(__VA_ARGS__)
#define PICK4_(a, b, c, d, ...) d
#define DERIVATIVE(name, derivative, flags_)                                                       \
    .flags = (flags_) | PICK2(OF_##derivative, 0, NULL, ~),                                        \
    .nodiff = PICK3(OF_##derivative, 0, NULL, ~),                                                  \
    .vjp = PICK4(OF_##derivative, 0, NULL, hod__vjp_##name, ~)

#define POINTWISE_ROW(id, doc_, arity_, attrs_, text, derivative, flags_, low_, high_)             \
    [HOD_OP_##id] = {.name = #id,                                                                  \
                     .doc = doc_,                                                                  \
                     .class = HOD_POINTWISE,                                                       \
                     .arity = arity_,                                                              \
                     .attrs = HOD_ATTRS_##attrs_,                                                  \
                     .expr = text,                                                                 \
                     .low = low_,                                                                  \
                     .high = high_,                                                                \
                     .shape = hod__shape_pointwise,                                                \
                     .eval = hod__eval_pointwise,                                                  \
                     DERIVATIVE(id, derivative, flags_)},
#define UNARY(name, doc, expression, derivative, flags, low, high)                                 \
    POINTWISE_ROW(name, doc, 1, none, #expression, derivative, flags, low, high)
#define BINARY(name, doc, expression, da, db, flags, low, high)                                    \
    POINTWISE_ROW(name, doc, 2, none, #expression, da, flags, low, high)
#define TERNARY(name, doc, expression, da, db, dc, flags, low, high)                               \
    POINTWISE_ROW(name, doc, 3, none, #expression, da, flags, low, high)

#define OWN_ROW(id, doc_, class_, arity_, attrs_, shape_, derivative, flags_, low_, high_, run)    \
    [HOD_OP_##id] = {.name = #id,                                                                  \
                     .doc = doc_,                                                                  \
                     .class = class_,                                                              \
                     .arity = arity_,                                                              \
                     .attrs = HOD_ATTRS_##attrs_,                                                  \
                     .low = low_,                                                                  \
                     .high = high_,                                                                \
                     .shape = hod__shape_##shape_,                                                 \
                     run,                                                                          \
                     DERIVATIVE(id, derivative, flags_)},
#define POINTWISE(name, doc, arity, attrs, derivative, flags, low, high)                           \
    POINTWISE_ROW(name, doc, arity, attrs, "a", derivative, flags, low, high)
#define VIEW(name, doc, arity, attrs, derivative, flags, low, high)                                \
    OWN_ROW(name, doc, HOD_VIEW, arity, attrs, name, derivative, flags, low, high,                 \
            .view = hod__view_##name)
#define SOURCE(name, doc, arity, attrs, derivative, flags, low, high)                              \
    OWN_ROW(name, doc, HOD_SOURCE, arity, attrs, name, derivative, flags, low, high,               \
            .eval = hod__eval_##name)
#define KERNEL(name, doc, arity, attrs, derivative, flags, low, high)                              \
    OWN_ROW(name, doc, HOD_KERNEL, arity, attrs, name, derivative, flags, low, high,               \
            .eval = hod__eval_##name)
#define FUSED(name, doc, arity, attrs, shape_, eval_, derivative, flags, low, high)                \
    OWN_ROW(name, doc, HOD_FUSED, arity, attrs, shape_, derivative, flags, low, high,              \
            .eval = hod__eval_##eval_)
#define EFFECT(name, doc, arity, attrs, derivative, flags, low, high)                              \
    OWN_ROW(name, doc, HOD_EFFECT, arity, attrs, name, derivative, flags, low, high,               \
            .eval = hod__eval_##name)
#define REDUCE(name, doc, start, expression, derivative, flags, low, high)                         \
    REDUCE_ROW(name, doc, #start, expression, derivative, flags, low, high)
#define REDUCE_INDEX(name, doc, expression, derivative, flags, low, high)                          \
    REDUCE_ROW(name, doc, NULL, expression, derivative, flags, low, high)
#define REDUCE_ROW(id, doc_, start_, expression, derivative, flags_, low_, high_)                  \
    [HOD_OP_##id] = {.name = #id,                                                                  \
                     .doc = doc_,                                                                  \
                     .class = HOD_REDUCE,                                                          \
                     .arity = 1,                                                                   \
                     .attrs = HOD_ATTRS_reduce,                                                    \
                     .expr = #expression,                                                          \
                     .start = start_,                                                              \
                     .low = low_,                                                                  \
                     .high = high_,                                                                \
                     .shape = hod__shape_reduce,                                                   \
                     .eval = hod__eval_reduce,                                                     \
                     DERIVATIVE(id, derivative, flags_)},

const hod_op_info hod__op_info[HOD_OPS] = {
#include "ops/ops.def"
};

/* ---- attributes ---- */

#define FIELD(kind, x, type)                                                                       \
    {#x, type, offsetof(hod_attrs_##kind, x), sizeof((hod_attrs_##kind *)0)->x},
#define INT(kind, x) FIELD(kind, x, HOD_ATTR_INT)
#define REAL(kind, x) FIELD(kind, x, HOD_ATTR_REAL)
#define FLAG(kind, x) FIELD(kind, x, HOD_ATTR_FLAG)
#define TYPE(kind, x) FIELD(kind, x, HOD_ATTR_TYPE)
#define DIMS(kind, x) FIELD(kind, x, HOD_ATTR_DIMS)
#define SIZES(kind, x) FIELD(kind, x, HOD_ATTR_SIZES)
#define PAIR(kind, x) FIELD(kind, x, HOD_ATTR_PAIR)
#define QUAD(kind, x) FIELD(kind, x, HOD_ATTR_QUAD)

#define ATTRS(kind, fields_) static const hod_attr_field fields_of_##kind[] = {fields_};
#include "ops/attrs.def"
#undef ATTRS

const hod_attrs_info hod__attrs_info[HOD_ATTRS_KINDS] = {
#define ATTRS(kind, fields_)                                                                       \
    {#kind, sizeof(hod_attrs_##kind), fields_of_##kind, HOD_COUNT(fields_of_##kind)},
#include "ops/attrs.def"
#undef ATTRS
};

static void copy_sizes(hod_shape *dst, const hod_shape *src)
{
    dst->n = src->n;
    for (int i = 0; i < HOD_MIN(src->n, HOD_MAX_DIMS); i++)
        dst->d[i] = src->d[i];
}

/* All NaN are one, so that equal attributes have equal bytes. */
static void one_nan(double *real)
{
    *real = isnan(*real) ? (double)NAN : *real;
}

void hod__attrs_copy(hod_attrs_kind kind, hod_attrs *dst, const hod_attrs *src)
{
    HOD_ATTRS(copy);
    const hod_attrs_info *info = &hod__attrs_info[kind];
    for (int i = 0; src && i < info->n; i++) {
        const hod_attr_field *f = &info->fields[i];
        char *to = (char *)&copy + f->offset;
        const char *from = (const char *)src + f->offset;
        if (f->type == HOD_ATTR_SIZES)
            copy_sizes((hod_shape *)(void *)to, (const hod_shape *)(const void *)from);
        else
            memcpy(to, from, f->bytes);
        if (f->type == HOD_ATTR_REAL)
            one_nan((double *)(void *)to);
    }
    memcpy(dst, &copy, sizeof copy);
}

/* Nearly always the bytes decide. */
bool hod__attrs_equal(hod_attrs_kind kind, const hod_attrs *a, const hod_attrs *b)
{
    hod_attrs x, y;
    if (memcmp(a, b, hod__attrs_info[kind].bytes) == 0)
        return true;
    hod__attrs_copy(kind, &x, a);
    hod__attrs_copy(kind, &y, b);
    return memcmp(&x, &y, sizeof x) == 0;
}
