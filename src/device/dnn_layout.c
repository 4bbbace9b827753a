/* The two layouts of an image, and the way between them.
 *
 *     plain     n | c/b | c%b | h w          blocked     n | c/b | h w | c%b
 *
 * Between them lies a transposition of a (b, h w) matrix for each image and block of channels; it
 * runs in tiles of 16 x 16, a cache line of every row, because planes whose size is a power of two
 * fall into so few sets of the cache that a line is gone when it is wanted again. Within a tile,
 * squares of 4 x 4 go through registers.
 */
#include "base/base.h"
#include "device/dnn_engine.h"

int hod__dnn_block(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? 16 : 8;
}

bool hod__dnn_can_block(int64_t channels)
{
    return channels > 0 && channels % hod__dnn_block() == 0;
}

enum { TILE = 16 };

typedef uint32_t quad __attribute__((vector_size(16)));

static inline quad load(const uint32_t *p)
{
    quad q;
    memcpy(&q, p, sizeof q);
    return q;
}

static inline void store(uint32_t *p, quad q)
{
    memcpy(p, &q, sizeof q);
}

/* A square of 4 x 4; rows lie `from` and `to` apart. */
static inline void square(const uint32_t *in, int64_t from, uint32_t *out, int64_t to)
{
    quad a = load(in), b = load(in + from), c = load(in + 2 * from), d = load(in + 3 * from);
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    store(out, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store(out + to, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(out + 2 * to, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store(out + 3 * to, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
}

/* out (columns, rows) = in (rows, columns) transposed, both row-major; elements of `size` bytes. */
static void transpose(size_t size, const char *in, char *out, int64_t rows, int64_t columns)
{
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < columns; c0 += TILE) {
            int64_t r1 = HOD_MIN(r0 + TILE, rows), c1 = HOD_MIN(c0 + TILE, columns);
            int64_t r4 = size == 4 ? r1 - (r1 - r0) % 4 : r0, c4 = c1 - (c1 - c0) % 4;
            for (int64_t r = r0; r < r4; r += 4)
                for (int64_t c = c0; c < c4; c += 4)
                    square((const uint32_t *)in + r * columns + c, columns,
                           (uint32_t *)out + c * rows + r, rows);
            for (int64_t r = r0; r < r1; r++)
                for (int64_t c = r < r4 ? c4 : c0; c < c1; c++)
                    memcpy(out + (size_t)(c * rows + r) * size,
                           in + (size_t)(r * columns + c) * size, size);
        }
}

int hod__dnn_reblock(hod_dtype dtype, int64_t n, int64_t c, int64_t plane, int from, const void *in,
                     int to, void *out)
{
    int64_t size = dtype == HOD_F32 || dtype == HOD_I32 ? 4 : 2;
    if (size == 2 && dtype != HOD_BF16 && dtype != HOD_F16)
        return HOD_FAIL_RC(ARGUMENT, "layout: this dtype has no blocked images");
    if (from == to) {
        memcpy(out, in, (size_t)(n * c * plane * size));
        return 0;
    }
    int64_t b = HOD_MAX(from, to), matrix = b * plane * size;
    if (c < 1 || c % b != 0)
        return HOD_FAIL_RC(ARGUMENT, "layout: %lld channels are no multiple of the block %lld",
                           (long long)c, (long long)b);
    int64_t rows = to > 1 ? b : plane, columns = to > 1 ? plane : b;
#pragma omp parallel for schedule(static) if (n * c * plane > 65536)
    for (int64_t i = 0; i < n * (c / b); i++) {
        const char *one = (const char *)in + i * matrix;
        if (size == 4)
            transpose(4, one, (char *)out + i * matrix, rows, columns);
        else
            transpose(2, one, (char *)out + i * matrix, rows, columns);
    }
    return 0;
}

static int block_of(hod_layout layout)
{
    return layout == HOD_LAYOUT_PLAIN ? 1 : hod__dnn_block();
}

int hod__dnn_reorder(hod_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w, hod_layout from,
                     const void *in, hod_layout to, void *out)
{
    return hod__dnn_reblock(dtype, n, c, h * w, block_of(from), in, block_of(to), out);
}
