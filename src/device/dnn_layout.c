/* The two layouts of an image, and the way between them.
 *
 *     plain     n | c/b | c%b | h w          blocked     n | c/b | h w | c%b
 *
 * Between them lies a transposition of a (b, h w) matrix for each image and block of channels; it
 * runs in tiles of b positions, so that both sides stay within the first cache.
 */
#include "base/base.h"
#include "device/dnn.h"

int hod__dnn_block(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? 16 : 8;
}

bool hod__dnn_can_block(int64_t channels)
{
    return channels > 0 && channels % hod__dnn_block() == 0;
}

/* out (columns, rows) = in (rows, columns) transposed, both row-major. */
#define TRANSPOSE(name, type)                                                                      \
    static void name(const type *in, type *out, int64_t rows, int64_t columns)                     \
    {                                                                                              \
        enum { TILE = 16 };                                                                        \
        for (int64_t r0 = 0; r0 < rows; r0 += TILE)                                                \
            for (int64_t c0 = 0; c0 < columns; c0 += TILE)                                         \
                for (int64_t c = c0; c < HOD_MIN(c0 + TILE, columns); c++)                         \
                    for (int64_t r = r0; r < HOD_MIN(r0 + TILE, rows); r++)                        \
                        out[c * rows + r] = in[r * columns + c];                                   \
    }

TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_2, uint16_t)

int hod__dnn_reorder(hod_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w, hod_layout from,
                     const void *in, hod_layout to, void *out)
{
    int64_t size = dtype == HOD_F32 || dtype == HOD_I32 ? 4 : 2;
    if (size == 2 && dtype != HOD_BF16 && dtype != HOD_F16)
        return HOD_FAIL_RC(ARGUMENT, "layout: this dtype has no blocked images");
    int64_t b = hod__dnn_block(), plane = h * w, matrix = b * plane;
    if (from == to) {
        memcpy(out, in, (size_t)(n * c * plane * size));
        return 0;
    }
    if (!hod__dnn_can_block(c))
        return HOD_FAIL_RC(ARGUMENT, "layout: %lld channels are no multiple of the block %lld",
                           (long long)c, (long long)b);
    int64_t rows = to == HOD_LAYOUT_BLOCKED ? b : plane, columns = to == HOD_LAYOUT_BLOCKED ? plane : b;
#pragma omp parallel for schedule(static) if (n * c * plane > 65536)
    for (int64_t i = 0; i < n * (c / b); i++) {
        if (size == 4)
            transpose_4((const uint32_t *)in + i * matrix, (uint32_t *)out + i * matrix, rows,
                        columns);
        else
            transpose_2((const uint16_t *)in + i * matrix, (uint16_t *)out + i * matrix, rows,
                        columns);
    }
    return 0;
}
