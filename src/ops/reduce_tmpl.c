/* The folds of each reduction for one element type; rows_body_tmpl.c includes it once for
 * each.
 *
 * Sums and products run in `wide` (f64, i64), extremes in `real`. A fold keeps accumulators of
 * LANE_BYTES in all, enough of them that none waits for its last addition, and merges them by
 * halves: its order depends on length and stride alone, never on threads or instructions.
 *
 * To make an f64 of an f32 takes longer than to add it. Of neighbouring elements four are therefore
 * folded in f32, two and two, and that four in f64; of each 64, while j < 16:
 *
 *     lane[j]  <-  (x[j] . x[16 + j]) . (x[32 + j] . x[48 + j])     bf16: (x[2j] . x[2j + 1]) ...
 *
 * So memory is read line by line in order. (Fours of lines 256 bytes apart, for which the loop is
 * simpler, take 1.3 times as long on what comes from memory, and 2 times where nothing is added but
 * i64: the machine foresees one walk, not four in one page.)
 *
 * What that loses is an error in the last place of each four, of all errors of their sum as little
 * as their number's root; rounding the result to f32 mostly hides it. A four may however leave the
 * range of f32, where f64 would not: a result that is not finite, and a product with a pair so
 * small that a four may be no normal number, is folded again, one by one.
 *
 * The index of an extreme is found by its value: blocks are folded as for the value, without asking
 * where; then the first element that the best of all does not take over from is looked for, in the
 * block that had it. */
#include "ops/math_tmpl.h"

#define ACC_sum  wide
#define ACC_prod wide
#define ACC_amax real
#define ACC_amin real
#define ACC_any  int
#define ACC_all  int
/* Does a pair lose digits where it is small? A sum has them all. */
#define SHRINKS_sum      0
#define SHRINKS_prod     1
#define SHRINKS_amax     0
#define SHRINKS_amin     0
#define SHRINKS_any      0
#define SHRINKS_all      0
#define PUT_sum(i, acc)  ((wide_elem *)out)[i] = WIDE_STORE(acc)
#define PUT_prod(i, acc) ((wide_elem *)out)[i] = WIDE_STORE(acc)
#define PUT_amax(i, acc) ((elem *)out)[i] = STORE(acc)
#define PUT_amin(i, acc) ((elem *)out)[i] = STORE(acc)
#define PUT_any(i, acc)  ((uint8_t *)out)[i] = (acc) != 0
#define PUT_all(i, acc)  ((uint8_t *)out)[i] = (acc) != 0

/* Not inlined, so that the quick fold has the registers. */
#define APART_FN static __attribute__((noinline, unused))

#define LANES(acc_t) ((int)(LANE_BYTES / sizeof(acc_t)))

#define FOLD_LOOP(acc_t, expression, stride)                                                       \
    int64_t i = 0;                                                                                 \
    for (; i + LANES(acc_t) <= n; i += LANES(acc_t))                                               \
        for (int j = 0; j < LANES(acc_t); j++)                                                     \
            FOLD_ONE(acc_t, expression, stride)                                                    \
    _Pragma("omp simd") for (int j = 0; j < n - i; j++) FOLD_ONE(acc_t, expression, stride)
#define FOLD_ONE(acc_t, expression, stride)                                                        \
    {                                                                                              \
        acc_t acc = lane[j];                                                                       \
        real a = LOAD(x[(i + j) * (stride)]);                                                      \
        lane[j] = expression;                                                                      \
    }

#define MERGE_HALF(half, acc_t, expression)                                                        \
    for (int j = 0; j < (half) && (half) < LANES(acc_t); j++) {                                    \
        acc_t acc = lane[j], a = lane[j + (half)];                                                 \
        lane[j] = expression;                                                                      \
    }
#define MERGE_LANES(acc_t, expression)                                                             \
    MERGE_HALF(32, acc_t, expression)                                                              \
    MERGE_HALF(16, acc_t, expression)                                                              \
    MERGE_HALF(8, acc_t, expression)                                                               \
    MERGE_HALF(4, acc_t, expression)                                                               \
    MERGE_HALF(2, acc_t, expression)                                                               \
    MERGE_HALF(1, acc_t, expression)

#define BY_FOURS(acc_t) (REAL_IS_FLOAT && sizeof(acc_t) > sizeof(real))
#define LEAST(a, b)     ((b) < (a) ? (b) : (a))
#define ROOT_OF_LEAST   0x1p-63 /* two that are greater have a normal product in f32 */
#define LINE            16      /* elements */
/* to = a pair of the two lines at `from`, folded. */
#define FOLD_PAIR(to, expression, from, j)                                                         \
    {                                                                                              \
        real acc, a;                                                                               \
        PAIR(acc, a, from, j, LINE)                                                                \
        to = expression;                                                                           \
    }

#define COLUMN(k, expression)                                                                      \
    a = LOAD(x[(i + (k)) * step + j]);                                                             \
    acc = expression;

#define REDUCE(name, doc, start, expression, derivative, flags, low, high)                         \
    static void T(begin_##name)(void *accs, int64_t n)                                             \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((ACC_##name *)accs)[i] = start;                                                       \
    }                                                                                              \
    R_FN void T(lines_##name)(void *accs, int64_t n, const void *data, int64_t rows, int64_t step) \
    {                                                                                              \
        const elem *x = data;                                                                      \
        ACC_##name *each = accs;                                                                   \
        int64_t i = 0;                                                                             \
        for (; i + 4 <= rows; i += 4)                                                              \
            _Pragma("omp simd") for (int64_t j = 0; j < n; j++)                                    \
            {                                                                                      \
                ACC_##name acc = each[j];                                                          \
                real a;                                                                            \
                COLUMN(0, expression)                                                              \
                COLUMN(1, expression)                                                              \
                COLUMN(2, expression)                                                              \
                COLUMN(3, expression)                                                              \
                each[j] = acc;                                                                     \
            }                                                                                      \
        for (; i < rows; i++)                                                                      \
            _Pragma("omp simd") for (int64_t j = 0; j < n; j++)                                    \
            {                                                                                      \
                ACC_##name acc = each[j];                                                          \
                real a;                                                                            \
                COLUMN(0, expression)                                                              \
                each[j] = acc;                                                                     \
            }                                                                                      \
    }                                                                                              \
    static void T(columns_##name)(void *accs, int64_t n, const void *data, int64_t rows,           \
                                  int64_t step)                                                    \
    {                                                                                              \
        T(lines_##name)(accs, n, data, rows, step);                                                \
    }                                                                                              \
    R_FN ACC_##name T(merged_##name)(ACC_##name * lane)                                            \
    {                                                                                              \
        MERGE_LANES(ACC_##name, expression)                                                        \
        return lane[0];                                                                            \
    }                                                                                              \
    /* n neighbours into the lanes, in order: four lines at once where they share a cache line. */ \
    R_FN void T(along_##name)(ACC_##name * lane, int64_t n, const elem *x)                         \
    {                                                                                              \
        if (LANES(ACC_##name) * sizeof(elem) <= CACHE_LINE) {                                      \
            int64_t lines = n / LANES(ACC_##name), done = lines * LANES(ACC_##name);               \
            T(lines_##name)(lane, LANES(ACC_##name), x, lines, LANES(ACC_##name));                 \
            T(lines_##name)(lane, n - done, x + done, 1, 0);                                       \
        } else {                                                                                   \
            FOLD_LOOP(ACC_##name, expression, 1)                                                   \
        }                                                                                          \
    }                                                                                              \
    APART_FN ACC_##name T(one_by_one_##name)(int64_t n, const elem *x, int64_t s)                  \
    {                                                                                              \
        ACC_##name lane[LANES(ACC_##name)];                                                        \
        T(begin_##name)(lane, LANES(ACC_##name));                                                  \
        if (s == 1) {                                                                              \
            T(along_##name)(lane, n, x);                                                           \
        } else {                                                                                   \
            FOLD_LOOP(ACC_##name, expression, s)                                                   \
        }                                                                                          \
        return T(merged_##name)(lane);                                                             \
    }                                                                                              \
    /* Of neighbours, by fours; false: one may have left the range of real. */                     \
    R_FN bool T(by_fours_##name)(int64_t n, const elem *x, ACC_##name *result)                     \
    {                                                                                              \
        ACC_##name lane[LANES(ACC_##name)];                                                        \
        real least[LANES(ACC_##name)];                                                             \
        int64_t i = 0;                                                                             \
        T(begin_##name)(lane, LANES(ACC_##name));                                                  \
        for (int j = 0; j < LANES(ACC_##name); j++)                                                \
            least[j] = 1;                                                                          \
        for (; i + 4 * LANES(ACC_##name) <= n; i += 4 * LANES(ACC_##name))                         \
            for (int g = 0; g < LANES(ACC_##name); g += LINE)                                      \
                _Pragma("omp simd") for (int j = 0; j < LINE; j++)                                 \
                {                                                                                  \
                    real p, q, four;                                                               \
                    FOLD_PAIR(p, expression, x + i + 4 * g, j)                                     \
                    FOLD_PAIR(q, expression, x + i + 4 * g + 2 * LINE, j)                          \
                    if (SHRINKS_##name)                                                            \
                        least[g + j] = LEAST(LEAST(least[g + j], r_abs(p)), r_abs(q));             \
                    {                                                                              \
                        real acc = p, a = q;                                                       \
                        four = expression;                                                         \
                    }                                                                              \
                    ACC_##name acc = lane[g + j];                                                  \
                    real a = four;                                                                 \
                    lane[g + j] = expression;                                                      \
                }                                                                                  \
        T(along_##name)(lane, n - i, x + i);                                                       \
        int small = 0;                                                                             \
        for (int j = 0; j < LANES(ACC_##name) && SHRINKS_##name; j++)                              \
            small |= least[j] < (real)ROOT_OF_LEAST;                                               \
        *result = T(merged_##name)(lane);                                                          \
        return !small && *result - *result == 0;                                                   \
    }                                                                                              \
    R_FN ACC_##name T(folded_##name)(int64_t n, const elem *x, int64_t s)                          \
    {                                                                                              \
        ACC_##name a;                                                                              \
        if (!BY_FOURS(ACC_##name) || s != 1 || !T(by_fours_##name)(n, x, &a))                      \
            a = T(one_by_one_##name)(n, x, s);                                                     \
        return a;                                                                                  \
    }                                                                                              \
    static void T(fold_##name)(void *accs, int64_t n, const void *x, int64_t s)                    \
    {                                                                                              \
        ACC_##name acc = *(ACC_##name *)accs, a = T(folded_##name)(n, x, s);                       \
        *(ACC_##name *)accs = expression;                                                          \
    }                                                                                              \
    static void T(rows_##name)(void *out, int64_t apart, int64_t rows, int64_t n,                  \
                               const void *data, int64_t step)                                     \
    {                                                                                              \
        for (int64_t i = 0; i < rows; i++) {                                                       \
            ACC_##name acc = start, a = T(folded_##name)(n, (const elem *)data + i * step, 1);     \
            acc = expression;                                                                      \
            PUT_##name(i *apart, acc);                                                             \
        }                                                                                          \
    }                                                                                              \
    static void T(merge_##name)(void *accs, const void *other)                                     \
    {                                                                                              \
        ACC_##name acc = *(ACC_##name *)accs, a = *(const ACC_##name *)other;                      \
        *(ACC_##name *)accs = expression;                                                          \
    }                                                                                              \
    static void T(put_##name)(void *out, int64_t apart, const void *accs, int64_t n)               \
    {                                                                                              \
        const ACC_##name *acc = accs;                                                              \
        if (apart == 1)                                                                            \
            for (int64_t i = 0; i < n; i++)                                                        \
                PUT_##name(i, acc[i]);                                                             \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                PUT_##name(i *apart, acc[i]);                                                      \
    }

/* Of acc and a, whichever the index would be of. */
#define BEST(expression) ((expression) ? a : acc)

#define REDUCE_INDEX(name, doc, expression, derivative, flags, low, high)                          \
    static bool T(takes_##name)(const void *data, int64_t from, int64_t by)                        \
    {                                                                                              \
        const elem *x = data;                                                                      \
        real acc = LOAD(x[from]), a = LOAD(x[by]);                                                 \
        return expression;                                                                         \
    }                                                                                              \
    static real T(best_##name)(int64_t n, const elem *x)                                           \
    {                                                                                              \
        real lane[LANES(real)];                                                                    \
        for (int j = 0; j < LANES(real); j++)                                                      \
            lane[j] = LOAD(x[0]);                                                                  \
        FOLD_LOOP(real, BEST(expression), 1)                                                       \
        MERGE_LANES(real, BEST(expression))                                                        \
        return lane[0];                                                                            \
    }                                                                                              \
    static int64_t T(find_##name)(int64_t n, const elem *x, real a)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i += LANES(real)) {                                             \
            int64_t end = i + LANES(real) < n ? i + LANES(real) : n;                               \
            int there = 0;                                                                         \
            for (int64_t j = i; j < end; j++) {                                                    \
                real acc = LOAD(x[j]);                                                             \
                there |= !(expression);                                                            \
            }                                                                                      \
            for (int64_t j = i; there && j < end; j++) {                                           \
                real acc = LOAD(x[j]);                                                             \
                if (!(expression))                                                                 \
                    return j;                                                                      \
            }                                                                                      \
        }                                                                                          \
        return 0;                                                                                  \
    }                                                                                              \
    static int64_t T(index_##name)(int64_t n, const void *data, int64_t s)                         \
    {                                                                                              \
        const elem *x = data;                                                                      \
        int64_t at = 0;                                                                            \
        real acc = LOAD(x[0]);                                                                     \
        if (s == 1) {                                                                              \
            for (int64_t i = 0; i < n; i += INDEX_BLOCK) {                                         \
                real a = T(best_##name)(n - i < INDEX_BLOCK ? n - i : INDEX_BLOCK, x + i);         \
                if (expression) {                                                                  \
                    acc = a;                                                                       \
                    at = i;                                                                        \
                }                                                                                  \
            }                                                                                      \
            return at + T(find_##name)(n - at, x + at, acc);                                       \
        }                                                                                          \
        for (int64_t i = 1; i < n; i++) {                                                          \
            real a = LOAD(x[i * s]);                                                               \
            if (expression) {                                                                      \
                acc = a;                                                                           \
                at = i;                                                                            \
            }                                                                                      \
        }                                                                                          \
        return at;                                                                                 \
    }                                                                                              \
    static void T(index_columns_##name)(int64_t n, int64_t * at, const void *data, int64_t rows,   \
                                        int64_t step)                                              \
    {                                                                                              \
        const elem *x = data;                                                                      \
        real best[INDEX_COLUMNS];                                                                  \
        for (int64_t j = 0; j < n; j++) {                                                          \
            best[j] = LOAD(x[j]);                                                                  \
            at[j] = 0;                                                                             \
        }                                                                                          \
        for (int64_t i = 1; i < rows; i++)                                                         \
            _Pragma("omp simd") for (int64_t j = 0; j < n; j++)                                    \
            {                                                                                      \
                real acc = best[j], a = LOAD(x[i * step + j]);                                     \
                int64_t kept = at[j];                                                              \
                bool takes = expression;                                                           \
                best[j] = takes ? a : acc;                                                         \
                at[j] = takes ? i : kept;                                                          \
            }                                                                                      \
    }
#include "ops/ops.def"

static const hod_folder T(folders)[HOD_OPS] = {
#define REDUCE(name, ...)                                                                          \
    [HOD_OP_##name] = {.begin = T(begin_##name),                                                   \
                       .fold = T(fold_##name),                                                     \
                       .rows = T(rows_##name),                                                     \
                       .columns = T(columns_##name),                                               \
                       .merge = T(merge_##name),                                                   \
                       .put = T(put_##name)},
#define REDUCE_INDEX(name, ...)                                                                    \
    [HOD_OP_##name] = {.index = T(index_##name),                                                   \
                       .index_columns = T(index_columns_##name),                                   \
                       .takes = T(takes_##name)},
#include "ops/ops.def"
};

#undef ACC_sum
#undef ACC_prod
#undef ACC_amax
#undef ACC_amin
#undef ACC_any
#undef ACC_all
#undef PUT_any
#undef SHRINKS_any
#undef PUT_all
#undef SHRINKS_all
#undef PUT_sum
#undef SHRINKS_sum
#undef PUT_prod
#undef SHRINKS_prod
#undef PUT_amax
#undef SHRINKS_amax
#undef PUT_amin
#undef SHRINKS_amin
#undef LANES
#undef FOLD_LOOP
#undef FOLD_ONE
#undef MERGE_HALF
#undef MERGE_LANES
#undef COLUMN
#undef BY_FOURS
#undef APART_FN
#undef LEAST
#undef ROOT_OF_LEAST
#undef LINE
#undef FOLD_PAIR
#undef BEST
