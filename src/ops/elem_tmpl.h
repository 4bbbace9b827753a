/* What an element type is, for the bodies that are compiled once for each: included with
 * ELEM_<TYPE> defined, and again with ELEM_DONE to clear.
 *
 *     elem       as it lies in memory          real    as it is computed with
 *     LOAD(e)    elem -> real                  STORE(r) real -> elem
 *     wide       sums are kept in this         T(name)  name##_f32: one name for each type
 *     wide_elem  how a sum is stored (integers: i64)    WIDE_STORE(w)
 *     R(name)    kernel_math.h's function          LOWEST, HIGHEST   -inf, inf or the limits
 *     whole      f32, f64, i64: an integer as wide as elem
 *     TO_F32S(n, x, y), TO_F16S   n neighbours made floats at once, true; false: no such way
 *     PAIR(a, b, x, j, n)  a, b become the j-th of n pairs of the 2n elements from x on
 */
#if defined(ELEM_F32)
#define elem float
#define whole int32_t
#define real float
#define wide double
#define wide_elem float
#define LOAD(e) (e)
#define STORE(r) (r)
#define WIDE_STORE(w) ((float)(w))
#define REAL_IS_FLOAT 1
#define R(name) r_##name
#define LOWEST (-(float)INFINITY)
#define HIGHEST ((float)INFINITY)
#define TO_F16S(n, x, y) (hod__f32s_to_f16s(n, x, y), true)
#define T(name) name##_f32
#elif defined(ELEM_F64)
#define elem double
#define whole int64_t
#define real double
#define wide double
#define wide_elem double
#define LOAD(e) (e)
#define STORE(r) (r)
#define WIDE_STORE(w) (w)
#define REAL_IS_FLOAT 1
#define R(name) d_##name
#define LOWEST (-(double)INFINITY)
#define HIGHEST ((double)INFINITY)
#define T(name) name##_f64
#elif defined(ELEM_F16) || defined(ELEM_BF16)
#define elem uint16_t
#define real float
#define wide double
#define wide_elem uint16_t
#define REAL_IS_FLOAT 1
#define R(name) r_##name
#define LOWEST (-(float)INFINITY)
#define HIGHEST ((float)INFINITY)
#ifdef ELEM_F16
#define LOAD(e) hod__f16_to_f32(e)
#define STORE(r) hod__f32_to_f16(r)
#define TO_F32S(n, x, y) (hod__f16s_to_f32s(n, x, y), true)
#define T(name) name##_f16
#else
#define LOAD(e) hod__bf16_to_f32(e)
#define STORE(r) hod__f32_to_bf16(r)
/* Neighbours: a word has one in either half, and its upper half is where an f32 has it. */
#define PAIR(a, b, x, j, n)                                                                        \
    {                                                                                              \
        uint32_t word;                                                                             \
        memcpy(&word, (x) + 2 * (j), sizeof word);                                                 \
        a = hod__bits_f32(word << 16);                                                             \
        b = hod__bits_f32(word & 0xffff0000u);                                                     \
    }
#define T(name) name##_bf16
#endif
#define WIDE_STORE(w) STORE((float)(w))
#elif defined(ELEM_DONE)
#undef elem
#undef whole
#undef real
#undef wide
#undef wide_elem
#undef LOAD
#undef PAIR
#undef TO_F32S
#undef TO_F16S
#undef STORE
#undef WIDE_STORE
#undef REAL_IS_FLOAT
#undef R
#undef LOWEST
#undef HIGHEST
#undef T
#else
#define wide int64_t
#define wide_elem int64_t
#define WIDE_STORE(w) (w)
#define REAL_IS_FLOAT 0
#define R(name) i_##name
#define LOAD(e) ((real)(e))
#if defined(ELEM_I64)
#define elem int64_t
#define whole    int64_t
#define real int64_t
#define STORE(r) (r)
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define T(name) name##_i64
#elif defined(ELEM_I32)
#define elem int32_t
#define real int32_t
#define STORE(r) (r)
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#define T(name) name##_i32
#elif defined(ELEM_U8)
#define elem uint8_t
#define real int32_t
#define STORE(r) ((uint8_t)(r))
#define LOWEST 0
#define HIGHEST UINT8_MAX
#define T(name) name##_u8
#elif defined(ELEM_BOOL)
#define elem uint8_t
#define real int32_t
#define STORE(r) ((uint8_t)((r) != 0))
#define LOWEST 0
#define HIGHEST 1
#define T(name) name##_bool
#endif
#endif
#if !defined(TO_F32S) && !defined(ELEM_DONE)
#define TO_F32S(n, x, y) false
#endif
#if !defined(TO_F16S) && !defined(ELEM_DONE)
#define TO_F16S(n, x, y) false
#endif
#if !defined(PAIR) && !defined(ELEM_DONE)
#define PAIR(a, b, x, j, n)                                                                        \
    {                                                                                              \
        a = LOAD((x)[j]);                                                                          \
        b = LOAD((x)[(j) + (n)]);                                                                  \
    }
#endif
