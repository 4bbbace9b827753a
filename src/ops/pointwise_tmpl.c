/* One row of each elementwise operator for one element type; rows_tmpl.c includes it once for
 * each. `a`, `b`, `c` are the names the expressions of ops.def use. Rows whose operands lie
 * densely, or repeat one number, get loops that vectorise. */
#include "ops/math_tmpl.h"

#define ROW(name)                                                                                  \
    static void T(row_##name)(int64_t n, void *out, int64_t so, const void *const *in,             \
                              const int64_t *s)

#define AT(type, k, i)     ((const type *)in[k])[(i)]
#define PUT_REAL(i, value) ((elem *)out)[(i)] = STORE(value)
#define PUT_BOOL(i, value) ((uint8_t *)out)[(i)] = (uint8_t)(value)

#define UNARY_LOOP(put, expression, so_, sa)                                                       \
    for (int64_t i = 0; i < n; i++) {                                                              \
        real a = LOAD(AT(elem, 0, i * (sa)));                                                      \
        put(i *(so_), expression);                                                                 \
    }
#define UNARY_ROWS(put, expression)                                                                \
    if (so == 1 && s[0] == 1)                                                                      \
        UNARY_LOOP(put, expression, 1, 1)                                                          \
    else                                                                                           \
        UNARY_LOOP(put, expression, so, s[0])
#define UNARY(name, doc, expression, derivative, flags, low, high)                                 \
    ROW(name)                                                                                      \
    {                                                                                              \
        if ((flags)&BOOL)                                                                          \
            UNARY_ROWS(PUT_BOOL, expression)                                                       \
        else                                                                                       \
            UNARY_ROWS(PUT_REAL, expression)                                                       \
    }

#define BINARY_LOOP(put, expression, so_, sa, sb)                                                  \
    for (int64_t i = 0; i < n; i++) {                                                              \
        real a = LOAD(AT(elem, 0, i * (sa))), b = LOAD(AT(elem, 1, i * (sb)));                     \
        put(i *(so_), expression);                                                                 \
    }
#define BINARY_ROWS(put, expression)                                                               \
    if (so == 1 && s[0] == 1 && s[1] == 1)                                                         \
        BINARY_LOOP(put, expression, 1, 1, 1)                                                      \
    else if (so == 1 && s[0] == 1 && s[1] == 0)                                                    \
        BINARY_LOOP(put, expression, 1, 1, 0)                                                      \
    else if (so == 1 && s[0] == 0 && s[1] == 1)                                                    \
        BINARY_LOOP(put, expression, 1, 0, 1)                                                      \
    else                                                                                           \
        BINARY_LOOP(put, expression, so, s[0], s[1])
#define BINARY(name, doc, expression, da, db, flags, low, high)                                    \
    ROW(name)                                                                                      \
    {                                                                                              \
        if ((flags)&BOOL)                                                                          \
            BINARY_ROWS(PUT_BOOL, expression)                                                      \
        else                                                                                       \
            BINARY_ROWS(PUT_REAL, expression)                                                      \
    }

/* The first operand of a row that chooses is bool. */
#define CONDITION(i) (AT(uint8_t, 0, i) != 0)
#define OPERAND(i)   LOAD(AT(elem, 0, i))
#define TERNARY_LOOP(first, expression, so_, sa, sb, sc)                                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const __typeof__(first(0)) a = first(i * (sa));                                            \
        real b = LOAD(AT(elem, 1, i * (sb))), c = LOAD(AT(elem, 2, i * (sc)));                     \
        PUT_REAL(i *(so_), expression);                                                            \
    }
#define TERNARY_ROWS(first, expression)                                                            \
    if (so == 1 && s[0] == 1 && s[1] == 1 && s[2] == 1)                                            \
        TERNARY_LOOP(first, expression, 1, 1, 1, 1)                                                \
    else if (so == 1 && s[0] == 1 && s[1] == 0 && s[2] == 0)                                       \
        TERNARY_LOOP(first, expression, 1, 1, 0, 0)                                                \
    else if (so == 1 && s[0] == 1 && s[1] == 1 && s[2] == 0)                                       \
        TERNARY_LOOP(first, expression, 1, 1, 1, 0)                                                \
    else                                                                                           \
        TERNARY_LOOP(first, expression, so, s[0], s[1], s[2])
#define TERNARY(name, doc, expression, da, db, dc, flags, low, high)                               \
    ROW(name)                                                                                      \
    {                                                                                              \
        if ((flags)&CHOOSES)                                                                       \
            TERNARY_ROWS(CONDITION, expression)                                                    \
        else                                                                                       \
            TERNARY_ROWS(OPERAND, expression)                                                      \
    }
#include "ops/ops.def"

static hod_row *const T(rows)[HOD_OPS] = {
#define UNARY(name, ...)   [HOD_OP_##name] = T(row_##name),
#define BINARY(name, ...)  [HOD_OP_##name] = T(row_##name),
#define TERNARY(name, ...) [HOD_OP_##name] = T(row_##name),
#include "ops/ops.def"
};

#undef ROW
#undef AT
#undef PUT_REAL
#undef PUT_BOOL
#undef UNARY_LOOP
#undef UNARY_ROWS
#undef BINARY_LOOP
#undef BINARY_ROWS
#undef CONDITION
#undef OPERAND
#undef TERNARY_LOOP
#undef TERNARY_ROWS
