/* The folds of each reduction for one element type; rows_body_tmpl.c includes it once for
 * each.
 *
 * Sums and products run in `wide` (f64, i64), extremes in `real`. A fold keeps LANES accumulators,
 * so that it vectorises and its order depends on the length alone, never on threads. */
#include "ops/math_tmpl.h"

#define ACC_sum       wide
#define ACC_prod      wide
#define ACC_amax      real
#define ACC_amin      real
#define ACC_any       int
#define ACC_all       int
#define PUT_sum(acc)  *(wide_elem *)out = WIDE_STORE(acc)
#define PUT_prod(acc) *(wide_elem *)out = WIDE_STORE(acc)
#define PUT_amax(acc) *(elem *)out = STORE(acc)
#define PUT_amin(acc) *(elem *)out = STORE(acc)
#define PUT_any(acc)  *(uint8_t *)out = acc != 0
#define PUT_all(acc)  *(uint8_t *)out = acc != 0

#define FOLD_LOOP(acc_t, expression, stride)                                                       \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= n; i += LANES)                                                             \
        for (int j = 0; j < LANES; j++) {                                                          \
            acc_t acc = lane[j];                                                                   \
            real a = LOAD(x[(i + j) * (stride)]);                                                  \
            lane[j] = expression;                                                                  \
        }                                                                                          \
    for (; i < n; i++) {                                                                           \
        acc_t acc = lane[0];                                                                       \
        real a = LOAD(x[i * (stride)]);                                                            \
        lane[0] = expression;                                                                      \
    }

#define REDUCE(name, doc, start, expression, derivative, flags, low, high)                         \
    static void T(begin_##name)(void *accs, int64_t n)                                             \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((ACC_##name *)accs)[i] = start;                                                       \
    }                                                                                              \
    static void T(fold_##name)(void *accs, int64_t n, const void *data, int64_t s)                 \
    {                                                                                              \
        const elem *x = data;                                                                      \
        ACC_##name lane[LANES];                                                                    \
        T(begin_##name)(lane, LANES);                                                              \
        if (s == 1) {                                                                              \
            FOLD_LOOP(ACC_##name, expression, 1)                                                   \
        } else {                                                                                   \
            FOLD_LOOP(ACC_##name, expression, s)                                                   \
        }                                                                                          \
        ACC_##name acc = *(ACC_##name *)accs;                                                      \
        for (int j = 0; j < LANES; j++) {                                                          \
            ACC_##name a = lane[j];                                                                \
            acc = expression;                                                                      \
        }                                                                                          \
        *(ACC_##name *)accs = acc;                                                                 \
    }                                                                                              \
    static void T(columns_##name)(void *accs, int64_t n, const void *data)                         \
    {                                                                                              \
        const elem *x = data;                                                                      \
        ACC_##name *each = accs;                                                                   \
        for (int64_t j = 0; j < n; j++) {                                                          \
            ACC_##name acc = each[j];                                                              \
            real a = LOAD(x[j]);                                                                   \
            each[j] = expression;                                                                  \
        }                                                                                          \
    }                                                                                              \
    static void T(merge_##name)(void *accs, const void *other)                                     \
    {                                                                                              \
        ACC_##name acc = *(ACC_##name *)accs, a = *(const ACC_##name *)other;                      \
        *(ACC_##name *)accs = expression;                                                          \
    }                                                                                              \
    static void T(put_##name)(void *out, const void *acc)                                          \
    {                                                                                              \
        PUT_##name(*(const ACC_##name *)acc);                                                      \
    }

#define REDUCE_INDEX(name, doc, expression, derivative, flags, low, high)                          \
    static int64_t T(index_##name)(int64_t n, const void *data, int64_t s)                         \
    {                                                                                              \
        const elem *x = data;                                                                      \
        int64_t at = 0;                                                                            \
        real acc = LOAD(x[0]);                                                                     \
        for (int64_t i = 1; i < n; i++) {                                                          \
            real a = LOAD(x[i * s]);                                                               \
            if (expression) {                                                                      \
                acc = a;                                                                           \
                at = i;                                                                            \
            }                                                                                      \
        }                                                                                          \
        return at;                                                                                 \
    }
#include "ops/ops.def"

static const hod_folder T(folders)[HOD_OPS] = {
#define REDUCE(name, ...)                                                                          \
    [HOD_OP_##name] = {.begin = T(begin_##name),                                                   \
                       .fold = T(fold_##name),                                                     \
                       .columns = T(columns_##name),                                               \
                       .merge = T(merge_##name),                                                   \
                       .put = T(put_##name),                                                       \
                       .acc_bytes = sizeof(ACC_##name)},
#define REDUCE_INDEX(name, ...) [HOD_OP_##name] = {.index = T(index_##name)},
#include "ops/ops.def"
};

#undef ACC_sum
#undef ACC_prod
#undef ACC_amax
#undef ACC_amin
#undef ACC_any
#undef ACC_all
#undef PUT_any
#undef PUT_all
#undef PUT_sum
#undef PUT_prod
#undef PUT_amax
#undef PUT_amin
#undef FOLD_LOOP
