/* One row of each elementwise operator for one element type; rows_tmpl.c includes it once for
 * each. `a`, `b`, `c` are the names the expressions of ops.def use. Rows whose operands lie
 * densely, or repeat one number, get loops that vectorise; `omp simd` says that an element written
 * is never read by a later turn, which a compiler must doubt above all of bytes. */
#include "ops/math_tmpl.h"

#define ROW(name)                                                                                  \
    static void T(row_##name)(int64_t n, void *out, int64_t so, const void *const *in,             \
                              const int64_t *s)

#define PUT_REAL(i, value) ((elem *)out)[(i)] = STORE(value)
#define PUT_BOOL(i, value) ((uint8_t *)out)[(i)] = (uint8_t)(value)
#define DENSE              _Pragma("omp simd")
#define STRIDED

#define UNARY_LOOP(how, put, expression, so_, sa)                                                  \
    how for (int64_t i = 0; i < n; i++)                                                            \
    {                                                                                              \
        real a = LOAD(x[i * (sa)]);                                                                \
        put(i *(so_), expression);                                                                 \
    }
#define UNARY_ROWS(put, expression)                                                                \
    const elem *x = in[0];                                                                         \
    const int64_t sx = s[0];                                                                       \
    if (so == 1 && sx == 1)                                                                        \
        UNARY_LOOP(DENSE, put, expression, 1, 1)                                                   \
    else                                                                                           \
        UNARY_LOOP(STRIDED, put, expression, so, sx)
#define UNARY(name, doc, expression, derivative, flags, low, high)                                 \
    ROW(name)                                                                                      \
    {                                                                                              \
        if ((flags)&BOOL) {                                                                        \
            UNARY_ROWS(PUT_BOOL, expression)                                                       \
        } else {                                                                                   \
            UNARY_ROWS(PUT_REAL, expression)                                                       \
        }                                                                                          \
    }

#define BINARY_LOOP(how, put, expression, so_, sa, sb)                                             \
    how for (int64_t i = 0; i < n; i++)                                                            \
    {                                                                                              \
        real a = LOAD(x[i * (sa)]), b = LOAD(y[i * (sb)]);                                         \
        put(i *(so_), expression);                                                                 \
    }
#define BINARY_ROWS(put, expression)                                                               \
    const elem *x = in[0], *y = in[1];                                                             \
    const int64_t sx = s[0], sy = s[1];                                                            \
    if (so == 1 && sx == 1 && sy == 1)                                                             \
        BINARY_LOOP(DENSE, put, expression, 1, 1, 1)                                               \
    else if (so == 1 && sx == 1 && sy == 0)                                                        \
        BINARY_LOOP(DENSE, put, expression, 1, 1, 0)                                               \
    else if (so == 1 && sx == 0 && sy == 1)                                                        \
        BINARY_LOOP(DENSE, put, expression, 1, 0, 1)                                               \
    else                                                                                           \
        BINARY_LOOP(STRIDED, put, expression, so, sx, sy)
#define BINARY(name, doc, expression, da, db, flags, low, high)                                    \
    ROW(name)                                                                                      \
    {                                                                                              \
        if ((flags)&BOOL) {                                                                        \
            BINARY_ROWS(PUT_BOOL, expression)                                                      \
        } else {                                                                                   \
            BINARY_ROWS(PUT_REAL, expression)                                                      \
        }                                                                                          \
    }

/* The first operand of a row that chooses is bool. */
#define CONDITION(e) ((e) != 0)
#define OPERAND(e)   LOAD(e)
#define TERNARY_LOOP(how, first, expression, so_, sa, sb, sc)                                      \
    how for (int64_t i = 0; i < n; i++)                                                            \
    {                                                                                              \
        const __typeof__(first(x[0])) a = first(x[i * (sa)]);                                      \
        real b = LOAD(y[i * (sb)]), c = LOAD(z[i * (sc)]);                                         \
        PUT_REAL(i *(so_), expression);                                                            \
    }
#define TERNARY_ROWS(type, first, expression)                                                      \
    const type *x = in[0];                                                                         \
    const elem *y = in[1], *z = in[2];                                                             \
    const int64_t sx = s[0], sy = s[1], sz = s[2];                                                 \
    if (so == 1 && sx == 1 && sy == 1 && sz == 1)                                                  \
        TERNARY_LOOP(DENSE, first, expression, 1, 1, 1, 1)                                         \
    else if (so == 1 && sx == 1 && sy == 0 && sz == 0)                                             \
        TERNARY_LOOP(DENSE, first, expression, 1, 1, 0, 0)                                         \
    else if (so == 1 && sx == 1 && sy == 1 && sz == 0)                                             \
        TERNARY_LOOP(DENSE, first, expression, 1, 1, 1, 0)                                         \
    else if (so == 1 && sx == 1 && sy == 0 && sz == 1)                                             \
        TERNARY_LOOP(DENSE, first, expression, 1, 1, 0, 1)                                         \
    else                                                                                           \
        TERNARY_LOOP(STRIDED, first, expression, so, sx, sy, sz)
#define TERNARY(name, doc, expression, da, db, dc, flags, low, high)                               \
    ROW(name)                                                                                      \
    {                                                                                              \
        if ((flags)&CHOOSES) {                                                                     \
            TERNARY_ROWS(uint8_t, CONDITION, expression)                                           \
        } else {                                                                                   \
            TERNARY_ROWS(elem, OPERAND, expression)                                                \
        }                                                                                          \
    }
#include "ops/ops.def"

static hod_row *const T(rows)[HOD_OPS] = {
#define UNARY(name, ...)   [HOD_OP_##name] = T(row_##name),
#define BINARY(name, ...)  [HOD_OP_##name] = T(row_##name),
#define TERNARY(name, ...) [HOD_OP_##name] = T(row_##name),
#include "ops/ops.def"
};

#undef ROW
#undef PUT_REAL
#undef PUT_BOOL
#undef DENSE
#undef STRIDED
#undef UNARY_LOOP
#undef UNARY_ROWS
#undef BINARY_LOOP
#undef BINARY_ROWS
#undef CONDITION
#undef OPERAND
#undef TERNARY_LOOP
#undef TERNARY_ROWS
