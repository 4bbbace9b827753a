/* Operators one by one, timed: what stands beside bench/peer/ops.py, line by line.
 *
 *     ops                  # all, one JSON object a line
 *     ops exp sum          # those whose name begins so
 *
 * Each is called eagerly, its result made and released, at three sizes: side x side elements of f32
 * (i64 for bits). Time is the least of several batches, in nanoseconds a call: what disturbs a
 * machine only adds. A family adds its operators as rows of OPS here and of OPS in the peer, under
 * one name; bench/ops.sh runs both and prints the ratios.
 */
#include <hod/hod.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a row may use: x, y, z (side,side) in (0.1, 0.9), s centred, c bool, i, j i64, row (side). */
typedef struct operands {
    hod_tensor *x, *y, *z, *s, *c, *i, *j, *row;
} operands;

#define OPS(ROW)                                                                                   \
    ROW(neg, hod_neg(o->s))                                                                        \
    ROW(abs, hod_abs(o->s))                                                                        \
    ROW(sign, hod_sign(o->s))                                                                      \
    ROW(reciprocal, hod_reciprocal(o->x))                                                          \
    ROW(square, hod_square(o->s))                                                                  \
    ROW(exp, hod_exp(o->s))                                                                        \
    ROW(expm1, hod_expm1(o->s))                                                                    \
    ROW(log, hod_log(o->x))                                                                        \
    ROW(log1p, hod_log1p(o->x))                                                                    \
    ROW(sqrt, hod_sqrt(o->x))                                                                      \
    ROW(rsqrt, hod_rsqrt(o->x))                                                                    \
    ROW(sin, hod_sin(o->s))                                                                        \
    ROW(cos, hod_cos(o->s))                                                                        \
    ROW(tanh, hod_tanh(o->s))                                                                      \
    ROW(sigmoid, hod_sigmoid(o->s))                                                                \
    ROW(erf, hod_erf(o->s))                                                                        \
    ROW(floor, hod_floor(o->s))                                                                    \
    ROW(ceil, hod_ceil(o->s))                                                                      \
    ROW(trunc, hod_trunc(o->s))                                                                    \
    ROW(round, hod_round(o->s))                                                                    \
    ROW(relu, hod_relu(o->s))                                                                      \
    ROW(leaky_relu, hod_leaky_relu(o->s, 0.01))                                                    \
    ROW(elu, hod_elu(o->s, 1))                                                                     \
    ROW(gelu, hod_gelu(o->s))                                                                      \
    ROW(gelu_tanh, hod_gelu_tanh(o->s))                                                            \
    ROW(silu, hod_silu(o->s))                                                                      \
    ROW(mish, hod_mish(o->s))                                                                      \
    ROW(hardswish, hod_hardswish(o->s))                                                            \
    ROW(hardsigmoid, hod_hardsigmoid(o->s))                                                        \
    ROW(softplus, hod_softplus(o->s))                                                              \
    ROW(clamp, hod_clamp(o->s, -0.5, 0.5))                                                         \
    ROW(clip, hod_clip(o->s, o->x, o->y))                                                          \
    ROW(isnan, hod_isnan(o->s))                                                                    \
    ROW(isfinite, hod_isfinite(o->s))                                                              \
    ROW(add, hod_add(o->x, o->y))                                                                  \
    ROW(add_row, hod_add(o->x, o->row))                                                            \
    ROW(add_scalar, hod_add_scalar(o->x, 2))                                                       \
    ROW(sub, hod_sub(o->x, o->y))                                                                  \
    ROW(mul, hod_mul(o->x, o->y))                                                                  \
    ROW(div, hod_div(o->x, o->y))                                                                  \
    ROW(pow, hod_pow(o->x, o->y))                                                                  \
    ROW(remainder, hod_remainder(o->s, o->y))                                                      \
    ROW(fmod, hod_fmod(o->s, o->y))                                                                \
    ROW(floor_divide, hod_floor_divide(o->s, o->y))                                                \
    ROW(maximum, hod_maximum(o->x, o->y))                                                          \
    ROW(minimum, hod_minimum(o->x, o->y))                                                          \
    ROW(lt, hod_lt(o->x, o->y))                                                                    \
    ROW(eq, hod_eq(o->x, o->y))                                                                    \
    ROW(logical_and, hod_logical_and(o->c, o->c))                                                  \
    ROW(where, hod_where(o->c, o->x, o->y))                                                        \
    ROW(lerp, hod_lerp(o->x, o->y, o->z))                                                          \
    ROW(bit_and, hod_bit_and(o->i, o->j))                                                          \
    ROW(shift_left, hod_shift_left(o->i, o->j))                                                    \
    ROW(cast_i64, hod_cast(o->x, HOD_I64))                                                         \
    ROW(cast_f64, hod_cast(o->x, HOD_F64))                                                         \
    ROW(cast_bf16, hod_cast(o->x, HOD_BF16))                                                       \
    ROW(uniform, hod_uniform(hod_tensor_shape(o->x)))                                              \
    ROW(normal, hod_normal(hod_tensor_shape(o->x)))                                                \
    ROW(bernoulli, hod_bernoulli(o->x))                                                            \
    ROW(dropout, hod_dropout(o->x, 0.1))                                                           \
    ROW(sum, hod_sum(o->x))                                                                        \
    ROW(sum_rows, hod_sum_dims(o->x, 1))                                                           \
    ROW(sum_columns, hod_sum_dims(o->x, 0))                                                        \
    ROW(mean, hod_mean(o->x))                                                                      \
    ROW(var_rows, hod_var_dims(o->x, 1, 1))                                                        \
    ROW(std, hod_std_dims(o->x, 1, 0, 1))                                                          \
    ROW(prod, hod_prod(o->x))                                                                      \
    ROW(amax, hod_amax(o->x))                                                                      \
    ROW(amax_rows, hod_amax_dims(o->x, 1))                                                         \
    ROW(amin_columns, hod_amin_dims(o->x, 0))                                                      \
    ROW(argmax_rows, hod_argmax(o->x, 1))                                                          \
    ROW(argmin_columns, hod_argmin(o->x, 0))                                                       \
    ROW(any_rows, hod_any_dims(o->c, 1))                                                           \
    ROW(all, hod_all(o->c))                                                                        \
    ROW(norm1, hod_norm(o->s, 1))                                                                  \
    ROW(norm2, hod_norm(o->s, 2))                                                                  \
    ROW(norm2_rows, hod_norm_over(o->s, 2, HOD_SHAPE(1), false))                                   \
    ROW(norm_inf, hod_norm(o->s, __builtin_inf()))                                                 \
    ROW(logsumexp_rows, hod_logsumexp(o->s, 1, false))                                             \
    ROW(cumsum_rows, hod_cumsum(o->x, 1))                                                          \
    ROW(cumsum_columns, hod_cumsum(o->x, 0))                                                       \
    ROW(cumprod_rows, hod_cumprod(o->x, 1))                                                        \
    ROW(max_rows, hod_max_along(o->x, 1, false, &(hod_tensor *){NULL}))

#define FUNCTION(name, ...)                                                                        \
    static hod_tensor *run_##name(const operands *o)                                               \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }
OPS(FUNCTION)

static const struct {
    const char *name;
    hod_tensor *(*run)(const operands *o);
} ops[] = {
#define ENTRY(name, ...) {#name, run_##name},
    OPS(ENTRY)};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of n calls; negative after an error. */
static double batch(hod_tensor *(*run)(const operands *o), const operands *o, int64_t n)
{
    double begin = seconds();
    for (int64_t k = 0; k < n; k++) {
        HOD_SCOPE(s);
        if (!run(o))
            return -1;
    }
    return seconds() - begin;
}

static int measure(int k, const operands *o, int side, double limit)
{
    int64_t n = 1;
    double t = batch(ops[k].run, o, 1), best = 1e30;
    while (t >= 0 && t < limit / 16 && n < 1 << 20)
        t = batch(ops[k].run, o, n *= 2);
    double end = seconds() + limit;
    for (int b = 0; t >= 0 && (b < 3 || seconds() < end); b++) {
        t = batch(ops[k].run, o, n);
        best = t / (double)n < best ? t / (double)n : best;
    }
    if (t < 0)
        return -1;
    printf("{\"op\": \"%s\", \"who\": \"hod\", \"side\": %d, \"ns\": %.1f}\n", ops[k].name, side,
           1e9 * best);
    fflush(stdout);
    return 0;
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool any = false, found = false;
    for (int i = 1; i < argc; i++) {
        any = true;
        found |= strncmp(name, argv[i], strlen(argv[i])) == 0;
    }
    return !any || found;
}

int main(int argc, char **argv)
{
    static const int sides[] = {32, 256, 2048};
    const char *limit = getenv("SECONDS_"), *threads = getenv("THREADS");
    int rc = hod_set_threads(threads ? atoi(threads) : 2);
    for (int z = 0; z < 3 && rc == 0; z++) {
        HOD_SCOPE(s);
        hod_shape shape = HOD_SHAPE(sides[z], sides[z]);
        rc = hod_random_begin(1, 0, NULL);
        hod_tensor *u[4];
        for (int k = 0; k < 4; k++)
            u[k] = hod_add_scalar(hod_mul_scalar(hod_uniform(shape), 0.8), 0.1);
        operands o = {.x = u[0],
                      .y = u[1],
                      .z = u[2],
                      .s = hod_mul_scalar(hod_sub_scalar(u[3], 0.5), 6),
                      .c = hod_lt(u[0], u[1]),
                      .i = hod_cast(hod_mul_scalar(u[0], 1000), HOD_I64),
                      .j = hod_cast(hod_mul_scalar(u[1], 20), HOD_I64),
                      .row = hod_contiguous(hod_select(u[1], 0, 0))};
        for (int k = 0; k < (int)(sizeof ops / sizeof *ops) && rc == 0; k++)
            if (wanted(ops[k].name, argc, argv))
                rc = measure(k, &o, sides[z], limit ? atof(limit) : 0.05);
    }
    return hod_finish();
}
