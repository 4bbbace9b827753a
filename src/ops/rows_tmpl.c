/* The inner loops of eager kernels: included with ROWS, the name of the table, by one file for each
 * instruction set. Elementwise, 16-bit floats go through the loops of f32 in blocks (pointwise.c).
 * See rows.h. */
#include "ops/math_tmpl.h"
#include "ops/rows.h"
#include "ops/uniform_tmpl.h"
#include "tensor/half.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { LANE_BYTES = 256, INDEX_BLOCK = 4096 }; /* accumulators of a fold; elements */
enum { CACHE_LINE = 64 };                       /* bytes */
enum { NORM_ROWS = 4 };                         /* whose gradients are added at once */

#define PLAIN    0
#define SWAPS    0
#define SAVES_X  0
#define SAVES_Y  0
#define SAVES_B  0
#define SAVES_C  0
#define BILINEAR 0
#define Y_FOR_B  0
#define BOOL     1
#define FLOATS   2
#define INTS     4
#define CHOOSES  8

#define TYPED_BODY "ops/pointwise_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#define ELEM_I64
#include "ops/typed_tmpl.h"
#define ELEM_I32
#include "ops/typed_tmpl.h"
#define ELEM_U8
#include "ops/typed_tmpl.h"
#define ELEM_BOOL
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

#include "ops/near_tmpl.c"

/* e^x for x up to 41, 1 ulp: no overflow to look after. f64 calls libm for any. */
R_FN float r_exp_down(float x)
{
    i32 k;
    float q = r_expm1_parts(x < -110.0f ? -110.0f : x, 0.0f, &k); /* NaN passes */
    return r_scaled_down(q + 1.0f, k);
}
#define d_exp_down d_exp

#define TYPED_BODY "ops/fused_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

#define TYPED_BODY "ops/loss_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

#define TYPED_BODY "ops/norm_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

#define TYPED_BODY "ops/rows_body_tmpl.c"
#include "ops/all_types_tmpl.h"
#undef TYPED_BODY

/* A block gives four. */
static void uniform_row(int64_t n, float *out, uint64_t key, uint64_t stream, uint64_t index)
{
#pragma omp simd
    for (int64_t k = 0; k < n / 4; k++) {
        unsigned w0, w1, w2, w3;
        r_random_block(key, stream, index, (uint64_t)k, &w0, &w1, &w2, &w3);
        out[4 * k] = r_unit(w0);
        out[4 * k + 1] = r_unit(w1);
        out[4 * k + 2] = r_unit(w2);
        out[4 * k + 3] = r_unit(w3);
    }
    for (int64_t e = n / 4 * 4; e < n; e++)
        out[e] = r_uniform(key, stream, index, (uint64_t)e);
}

static void fill_row(int64_t bytes, void *out, uint64_t word)
{
    char *to = out;
    for (int64_t i = 0; i < bytes / 8; i++)
        memcpy(to + 8 * i, &word, 8);
    memcpy(to + bytes / 8 * 8, &word, (size_t)(bytes % 8));
}

#define OF_EACH_TYPE(table)                                                                        \
    {                                                                                              \
        [HOD_F32] = table##_f32, [HOD_F64] = table##_f64, [HOD_F16] = table##_f16,                 \
        [HOD_BF16] = table##_bf16, [HOD_I64] = table##_i64, [HOD_I32] = table##_i32,               \
        [HOD_U8] = table##_u8, [HOD_BOOL] = table##_bool,                                          \
    }
const hod_rows ROWS = {
    .name = ROWS_NAME,
    .pointwise =
        {
            [HOD_F32] = rows_f32,
            [HOD_F64] = rows_f64,
            [HOD_I64] = rows_i64,
            [HOD_I32] = rows_i32,
            [HOD_U8] = rows_u8,
            [HOD_BOOL] = rows_bool,
        },
    .near = near_rows,
    .cast = OF_EACH_TYPE(casts),
    .fold = OF_EACH_TYPE(folders),
    .fused = {[HOD_F32] = fused_f32, [HOD_F64] = fused_f64},
    .loss = {losses_f32, losses_f64},
    .norm = {{norm_f32, norm_back_f32, norm_back_rows_f32, norm_across_f32, norm_across_back_f32},
             {norm_f64, norm_back_f64, norm_back_rows_f64, norm_across_f64, norm_across_back_f64}},
    .uniform = uniform_row,
    .fill = fill_row,
};
