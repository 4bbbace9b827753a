/* Rows that turn one element type into each of the eight; rows_body_tmpl.c includes it once a type.
 * A float becomes an integer as C does it: toward zero. */
#define ONE_BY_ONE(n, x, y) false
#define CAST(to, type, value, at_once)                                                             \
    static void T(cast_##to)(int64_t n, void *out, int64_t so, const void *in, int64_t s)          \
    {                                                                                              \
        const elem *x = in;                                                                        \
        type *y = out;                                                                             \
        if (so == 1 && s == 1 && at_once(n, x, y))                                                 \
            return;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            real a = LOAD(x[i * s]);                                                               \
            y[i * so] = value;                                                                     \
        }                                                                                          \
    }
CAST(f32, float, (float)a, TO_F32S)
CAST(f64, double, (double)a, ONE_BY_ONE)
CAST(f16, uint16_t, hod__f32_to_f16((float)a), TO_F16S)
CAST(bf16, uint16_t, hod__f32_to_bf16((float)a), ONE_BY_ONE)
CAST(i64, int64_t, (int64_t)a, ONE_BY_ONE)
CAST(i32, int32_t, (int32_t)a, ONE_BY_ONE)
CAST(u8, uint8_t, (uint8_t)(int64_t)a, ONE_BY_ONE)
CAST(bool, uint8_t, a != 0, ONE_BY_ONE)
#undef CAST
#undef ONE_BY_ONE

static hod_cast_row *const T(casts)[HOD_DTYPES] = {
    [HOD_F32] = T(cast_f32),   [HOD_F64] = T(cast_f64),   [HOD_F16] = T(cast_f16),
    [HOD_BF16] = T(cast_bf16), [HOD_I64] = T(cast_i64),   [HOD_I32] = T(cast_i32),
    [HOD_U8] = T(cast_u8),     [HOD_BOOL] = T(cast_bool),
};
