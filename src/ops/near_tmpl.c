/* Rows of f32 operators that are quick for most arguments and slow for a few: sines of what is not
 * huge, remainders where the quotient is not. A test in each element would keep the loop from
 * vectorising, so a block of them is looked at first: when all are near, a loop without the far
 * side runs; else the operator's plain row does, which decides element by element. Both give the
 * same bits. rows_tmpl.c includes this once for each instruction set. */

enum { NEAR_BLOCK = 512 };

static void near_take(int64_t n, float *to, const float *from, int64_t s)
{
    if (s == 1)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * s];
}

static void near_put(int64_t n, float *to, int64_t s, const float *from)
{
    if (s == 1)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i * s] = from[i];
}

/* near: is a (are a and b) such that expression holds? */
#define NEAR_ROW(name, arity, near, expression)                                                    \
    static void near_##name(int64_t n, void *out, int64_t so, const void *const *in,               \
                            const int64_t *s)                                                      \
    {                                                                                              \
        float x[2][NEAR_BLOCK] = {{0}}, y[NEAR_BLOCK];                                             \
        for (int64_t from = 0; from < n; from += NEAR_BLOCK) {                                     \
            int64_t m = n - from < NEAR_BLOCK ? n - from : NEAR_BLOCK;                             \
            for (int k = 0; k < (arity); k++)                                                      \
                near_take(m, x[k], (const float *)in[k] + from * s[k], s[k]);                      \
            int all = 1;                                                                           \
            for (int64_t i = 0; i < m; i++) {                                                      \
                float a = x[0][i], b = x[1][i];                                                    \
                (void)b;                                                                           \
                all &= (near);                                                                     \
            }                                                                                      \
            if (!all)                                                                              \
                row_##name##_f32(m, y, 1, (const void *[]){x[0], x[1]}, (int64_t[]){1, 1});        \
            else                                                                                   \
                for (int64_t i = 0; i < m; i++) {                                                  \
                    float a = x[0][i], b = x[1][i];                                                \
                    (void)b;                                                                       \
                    y[i] = (expression);                                                           \
                }                                                                                  \
            near_put(m, (float *)out + from * so, so, y);                                          \
        }                                                                                          \
    }
NEAR_ROW(sin, 1, r_is_small(a), r_sin_near(a))
NEAR_ROW(cos, 1, r_is_small(a), r_cos_near(a))
NEAR_ROW(fmod, 2, r_is_near(a, b), r_fmod_near(a, b))
NEAR_ROW(remainder, 2, r_is_near(a, b), r_remainder_from(r_fmod_near(a, b), b))
NEAR_ROW(floor_divide, 2, r_is_near(a, b), r_floor_divide_from(r_fmod_near(a, b), a, b))
#undef NEAR_ROW

static hod_row *const near_rows[HOD_OPS] = {
    [HOD_OP_sin] = near_sin,
    [HOD_OP_cos] = near_cos,
    [HOD_OP_fmod] = near_fmod,
    [HOD_OP_remainder] = near_remainder,
    [HOD_OP_floor_divide] = near_floor_divide,
};
