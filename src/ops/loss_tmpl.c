/* The loops of losses.def for one `real`; rows_tmpl.c includes it for f32 and f64. */

/* log a of a probability, held at -100 where it ends. */
#define LOG_HOLDS(a) ((a) > (real)HOD_LEAST_PROBABILITY)
#define LOG(a)       (LOG_HOLDS(a) ? r_log(LOG_HOLDS(a) ? (a) : 1) : -100)

#define OPERANDS(i)                                                                                \
    const real a = x[i], b = t[i], d = a - b;                                                      \
    (void)d, (void)b, (void)a
#define LOSS(name, value, slope_a, slope_b)                                                        \
    static void T(each_##name)(int64_t n, const void *in, const void *target, double number,       \
                               void *out)                                                          \
    {                                                                                              \
        const real *restrict x = in, *restrict t = target, p = (real)number;                       \
        real *restrict y = out;                                                                    \
        (void)p;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            OPERANDS(i);                                                                           \
            y[i] = value;                                                                          \
        }                                                                                          \
    }                                                                                              \
    static double T(sum_##name)(int64_t n, const void *in, const void *target, double number)      \
    {                                                                                              \
        const real *restrict x = in, *restrict t = target, p = (real)number;                       \
        double sum = 0;                                                                            \
        (void)p;                                                                                   \
        PRAGMA(omp simd reduction(+ : sum))                                                        \
        for (int64_t i = 0; i < n; i++) {                                                          \
            OPERANDS(i);                                                                           \
            sum += (double)(value);                                                                \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    static void T(back_##name)(int64_t n, const void *in, const void *target, double number,       \
                               const void *gradient, bool one, int which, void *out)               \
    {                                                                                              \
        const real *restrict x = in, *restrict t = target, *restrict g = gradient;                 \
        const real p = (real)number, all = one ? g[0] : 0;                                         \
        real *restrict dx = out;                                                                   \
        (void)p;                                                                                   \
        if (which == 0 && one)                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                      \
                OPERANDS(i);                                                                       \
                dx[i] = all * (slope_a);                                                           \
            }                                                                                      \
        else if (which == 0)                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                      \
                OPERANDS(i);                                                                       \
                dx[i] = g[i] * (slope_a);                                                          \
            }                                                                                      \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                      \
                OPERANDS(i);                                                                       \
                dx[i] = (one ? all : g[i]) * (slope_b);                                            \
            }                                                                                      \
    }
#define PRAGMA(text) _Pragma(#text)
#include "ops/losses.def"

static const hod_loss_row T(losses)[HOD_LOSSES] = {
#define LOSS(name, ...) [HOD_LOSS_##name] = {T(each_##name), T(sum_##name), T(back_##name)},
#include "ops/losses.def"
};

#undef LOG
#undef LOG_HOLDS
#undef OPERANDS
#undef PRAGMA
