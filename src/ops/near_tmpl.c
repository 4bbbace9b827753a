/* Rows of f32 operators that are quick for most arguments and slow for a few: sines of what is not
 * huge, remainders where the quotient is not. A test in each element would keep the loop from
 * vectorising, so a block of them is looked at first: when all are near, a loop without the far
 * side runs; else the operator's plain row does, which decides element by element. Both give the
 * same bits. rows_tmpl.c includes this once for each instruction set. */

enum { NEAR_BLOCK = 512 };

/* n elements from `from` on: in place, or gathered into `spare`. */
static const float *near_take(int64_t n, float *spare, const float *from, int64_t s)
{
    if (s == 1)
        return from;
    for (int64_t i = 0; i < n; i++)
        spare[i] = from[i * s];
    return spare;
}

/* near: is a (are a and b) such that expression holds? */
#define NEAR_ROW(name, arity, near, expression)                                                    \
    static void near_##name(int64_t n, void *out, int64_t so, const void *const *in,               \
                            const int64_t *s)                                                      \
    {                                                                                              \
        float spare[3][NEAR_BLOCK];                                                                \
        for (int64_t from = 0; from < n; from += NEAR_BLOCK) {                                     \
            int64_t m = n - from < NEAR_BLOCK ? n - from : NEAR_BLOCK;                             \
            const float *x[2];                                                                     \
            float *y = so == 1 ? (float *)out + from : spare[2];                                   \
            for (int k = 0; k < 2; k++)                                                            \
                x[k] = k < (arity)                                                                 \
                           ? near_take(m, spare[k], (const float *)in[k] + from * s[k], s[k])      \
                           : x[0];                                                                 \
            int all = 1;                                                                           \
            _Pragma("omp simd reduction(& : all)") for (int64_t i = 0; i < m; i++)                 \
            {                                                                                      \
                float a = x[0][i], b = x[1][i];                                                    \
                (void)b;                                                                           \
                all &= (near);                                                                     \
            }                                                                                      \
            if (!all)                                                                              \
                row_##name##_f32(m, y, 1, (const void *[]){x[0], x[1]}, (int64_t[]){1, 1});        \
            else                                                                                   \
                _Pragma("omp simd") for (int64_t i = 0; i < m; i++)                                \
                {                                                                                  \
                    float a = x[0][i], b = x[1][i];                                                \
                    (void)b;                                                                       \
                    y[i] = (expression);                                                           \
                }                                                                                  \
            for (int64_t i = 0; i < m && so != 1; i++)                                             \
                ((float *)out)[(from + i) * so] = y[i];                                            \
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
