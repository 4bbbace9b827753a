/* Copies between strided tensors of one shape: what contiguous, flip and padding come to, and every
 * kernel that wants its inputs row-major.
 *
 * The order of elements is free, so dimensions are walked as the result lies in memory, the closest
 * last, and two of them form a plane. What the source does in it decides:
 *
 *     rows    runs on along the last dimension, too      short: pieces of 16 bytes; of about a KB:
 *                                                        in order; else memcpy
 *     tiles   runs on along the other dimension          a transposition: 16 lines of each are read
 *                                                        and written whole, however far apart
 *     else                                               elements, along the longer dimension
 */
#include "ops/rules.h"

enum {
    TILE = 16,
    SHORT_ROW = 16,    /* elements: a row costs more to begin than to copy */
    SMALL_PLANE = 256, /* and a plane of so many more to find */
    FEW = 4,           /* times that a row is repeated */
    QUAD = 16,         /* bytes, as all below */
    LONG_ROW = 256,
    ROW = 512,
    PAGE = 4096,
};

/* A plane of m rows of n elements: each side's steps from row to row and along it, in elements. */
typedef struct plane {
    int64_t m, n, to_row, to_step, from_row, from_step;
} plane;

typedef struct copy_job {
    hod_iter it; /* the last two dimensions are a plane's */
    plane p;     /* of all the rows there are */
    bool tiles;
    const char *from;
    char *to;
    int64_t size; /* bytes of an element */
} copy_job;

/* ---- a row ---- */

typedef uint32_t quad __attribute__((vector_size(16), aligned(1), may_alias));

/* memcpy, for rows that come from memory one after another: glibc's takes two to three times as
 * long on those of 512 to 2048 bytes as a plain loop that runs forwards. */
void hod__copy_row(int64_t bytes, char *to, const char *from)
{
    int64_t at = 0;
    for (; bytes >= ROW && bytes < PAGE && at + 64 <= bytes; at += 64) {
        const quad *x = (const quad *)(from + at);
        quad a = x[0], b = x[1], c = x[2], d = x[3], *y = (quad *)(to + at);
        y[0] = a;
        y[1] = b;
        y[2] = c;
        y[3] = d;
    }
    memcpy(to + at, from + at, (size_t)(bytes - at));
}

/* m rows of n bytes. One that comes again is read in pieces that stay in the nearest cache; comes
 * it often, only writing counts, and there memcpy is better. */
static void copy_rows_of_bytes(int64_t m, int64_t n, char *to, int64_t to_row, const char *from,
                               int64_t from_row)
{
    int64_t piece = from_row == 0 && n > 2 * PAGE ? PAGE : n;
    bool often = from_row == 0 && m > FEW;
    for (int64_t at = 0; at < n; at += piece)
        for (int64_t i = 0; i < m; i++) {
            int64_t bytes = HOD_MIN(piece, n - at);
            char *y = to + i * to_row + at;
            const char *x = from + i * from_row + at;
            if (often)
                memcpy(y, x, (size_t)bytes);
            else
                hod__copy_row(bytes, y, x);
        }
}

static quad quad_at(const char *p)
{
    return *(const quad *)p;
}

static void put_quad(char *p, quad a)
{
    *(quad *)p = a;
}

/* m rows of n >= QUAD bytes, too short for a call each. The last piece ends with the row, perhaps
 * over a part of the one before. */
static void copy_short_rows(int64_t m, int64_t n, char *to, int64_t to_row, const char *from,
                            int64_t from_row)
{
    for (int64_t i = 0; i < m; i++, to += to_row, from += from_row)
        if (n >= 2 * QUAD && n <= 4 * QUAD) {
            quad a = quad_at(from), b = quad_at(from + QUAD), c = quad_at(from + n - 2 * QUAD),
                 d = quad_at(from + n - QUAD);
            put_quad(to, a);
            put_quad(to + QUAD, b);
            put_quad(to + n - 2 * QUAD, c);
            put_quad(to + n - QUAD, d);
        } else {
            for (int64_t at = 0; at < n - QUAD; at += QUAD)
                put_quad(to + at, quad_at(from + at));
            put_quad(to + n - QUAD, quad_at(from + n - QUAD));
        }
}

/* ---- a plane ---- */

#define ELEMENTS(type, from_step)                                                                  \
    for (int64_t i = 0; i < p->m; i++) {                                                           \
        type *y = (type *)to + i * p->to_row;                                                      \
        const type *x = (const type *)from + i * p->from_row;                                      \
        for (int64_t j = 0; j < p->n; j++)                                                         \
            y[j] = x[j * (from_step)];                                                             \
    }

#define REPEATED(type)                                                                             \
    for (int64_t i = 0; i < p->m; i++) {                                                           \
        type *y = (type *)to + i * p->to_row, e = ((const type *)from)[i * p->from_row];           \
        for (int64_t j = 0; j < p->n; j++)                                                         \
            y[j] = e;                                                                              \
    }

/* Elements to places apart, which no instruction writes at once: by fours, or the branch counts. */
#define SPREAD(type)                                                                               \
    for (int64_t i = 0; i < p->m; i++) {                                                           \
        type *y = (type *)to + i * p->to_row;                                                      \
        const type *x = (const type *)from + i * p->from_row;                                      \
        const int64_t up = p->to_step, on = p->from_step;                                          \
        int64_t j = 0;                                                                             \
        for (; j + 4 <= p->n; j += 4, y += 4 * up, x += 4 * on) {                                  \
            y[0] = x[0];                                                                           \
            y[up] = x[on];                                                                         \
            y[2 * up] = x[2 * on];                                                                 \
            y[3 * up] = x[3 * on];                                                                 \
        }                                                                                          \
        for (; j < p->n; j++, y += up, x += on)                                                    \
            *y = *x;                                                                               \
    }

/* Steps that are common as constants: then the loop vectorises. */
#define COPY_PLANE(type)                                                                           \
    static void copy_plane_##type(const plane *p, char *to, const char *from)                      \
    {                                                                                              \
        if (p->to_step != 1)                                                                       \
            SPREAD(type)                                                                           \
        else if (p->from_step == 1)                                                                \
            ELEMENTS(type, 1)                                                                      \
        else if (p->from_step == 0)                                                                \
            REPEATED(type)                                                                         \
        else if (p->from_step == -1)                                                               \
            ELEMENTS(type, -1)                                                                     \
        else if (p->from_step == 2)                                                                \
            ELEMENTS(type, 2)                                                                      \
        else                                                                                       \
            ELEMENTS(type, p->from_step)                                                           \
    }                                                                                              \
    static void copy_tile_##type(const plane *p, char *to, const char *from)                       \
    {                                                                                              \
        type tile[TILE][TILE], *y = (type *)to;                                                    \
        for (int j = 0; j < TILE; j++)                                                             \
            memcpy(tile[j], (const type *)from + j * p->from_step, sizeof tile[j]);                \
        for (int i = 0; i < TILE; i++)                                                             \
            for (int j = 0; j < TILE; j++)                                                         \
                y[i * p->to_row + j] = tile[j][i];                                                 \
    }
COPY_PLANE(uint8_t)
COPY_PLANE(uint16_t)
COPY_PLANE(uint32_t)
COPY_PLANE(uint64_t)

typedef void plane_copier(const plane *p, char *to, const char *from);

static plane_copier *copier(int64_t size, bool tile)
{
    static plane_copier *const of[2][4] = {
        {copy_plane_uint8_t, copy_plane_uint16_t, copy_plane_uint32_t, copy_plane_uint64_t},
        {copy_tile_uint8_t, copy_tile_uint16_t, copy_tile_uint32_t, copy_tile_uint64_t}};
    return of[tile][size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
}

static plane turned(plane p)
{
    return (plane){p.n, p.m, p.to_step, p.to_row, p.from_step, p.from_row};
}

static void copy_plane(int64_t size, plane p, char *to, const char *from)
{
    bool rows = p.to_step == 1 && p.from_step == 1;
    if (rows && p.n * size >= QUAD) {
        (p.n * size < LONG_ROW ? copy_short_rows : copy_rows_of_bytes)(
            p.m, p.n * size, to, p.to_row * size, from, p.from_row * size);
        return;
    }
    if (p.n < SHORT_ROW && p.m > p.n)
        p = turned(p);
    copier(size, false)(&p, to, from);
}

/* The first rows of a plane by tiles, and what is left. */
static void copy_tiles(int64_t size, plane p, char *to, const char *from)
{
    plane_copier *tile = copier(size, true);
    int64_t m = p.m / TILE * TILE, n = p.n / TILE * TILE;
    for (int64_t j = 0; j < n; j += TILE)
        for (int64_t i = 0; i < m; i += TILE)
            tile(&p, to + (i * p.to_row + j) * size, from + (i + j * p.from_step) * size);
    plane right = p, below = p;
    right.m = m;
    right.n -= n;
    below.m -= m;
    copy_plane(size, right, to + n * size, from + n * p.from_step * size);
    copy_plane(size, below, to + m * p.to_row * size, from + m * size);
}

void hod__copy_rows(int64_t size, int64_t m, int64_t n, char *to, int64_t to_row, const char *from,
                    int64_t from_row)
{
    copy_plane(size, (plane){m, n, to_row, 1, from_row, 1}, to, from);
}

void hod__copy_turned(int64_t size, int64_t m, int64_t n, char *to, int64_t to_row,
                      const char *from, int64_t from_row)
{
    copy_tiles(size, (plane){m, n, to_row, 1, 1, from_row}, to, from);
}

/* ---- the walk ---- */

/* [begin, end): rows of all planes. */
static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const copy_job *job = context;
    int64_t size = job->size, m = job->p.m;
    for (int64_t row = begin; row < end;) {
        int64_t at = row % m, offset[HOD_ITER_MAX];
        plane part = job->p;
        part.m = HOD_MIN(m - at, end - row);
        hod__iter_row(&job->it, row / m, offset);
        char *to = job->to + (offset[0] + at * part.to_row) * size;
        const char *from = job->from + (offset[1] + at * part.from_row) * size;
        (job->tiles ? copy_tiles : copy_plane)(size, part, to, from);
        row += part.m;
    }
}

/* True when all bytes of an element are one byte's value: 0, most often. */
static bool is_one_byte(int64_t size, const char *element)
{
    return memcmp(element, element + 1, (size_t)size - 1) == 0;
}

/* [begin, end): elements of a line, the only one. */
static void copy_line(void *context, int64_t begin, int64_t end)
{
    const copy_job *job = context;
    plane part = job->p;
    if (part.from_step == 0 && part.to_step == 1 && is_one_byte(job->size, job->from)) {
        memset(job->to + begin * job->size, *job->from, (size_t)((end - begin) * job->size));
        return;
    }
    part.n = end - begin;
    copy_plane(job->size, part, job->to + begin * part.to_step * job->size,
               job->from + begin * part.from_step * job->size);
}

static void swap_dims(hod_iter *it, int a, int b)
{
    int64_t n = it->shape[a];
    it->shape[a] = it->shape[b];
    it->shape[b] = n;
    for (int k = 0; k < it->n_operands; k++) {
        int64_t step = it->strides[k][a];
        it->strides[k][a] = it->strides[k][b];
        it->strides[k][b] = step;
    }
}

/* Dimension i goes last but one, those behind it move up. */
static void move_beside_last(hod_iter *it, int i)
{
    for (; i < it->ndim - 2; i++)
        swap_dims(it, i, i + 1);
}

/* As the result lies in memory: the closest dimension last. */
static void sort_dims(hod_iter *it)
{
    for (int i = 1; i < it->ndim; i++)
        for (int k = i; k > 0 && it->strides[0][k] > it->strides[0][k - 1]; k--)
            swap_dims(it, k, k - 1);
}

/* Takes the last dimension and the one that goes best with it out of the walk. */
static void choose_plane(copy_job *job)
{
    hod_iter *it = &job->it;
    int last = it->ndim - 1;
    const int64_t *from = it->strides[1], *to = it->strides[0];
    for (int i = 0; i < last && !job->tiles && to[last] == 1 && from[last] != 1; i++)
        if (from[i] == 1 && it->shape[i] >= TILE && it->shape[last] >= TILE) {
            move_beside_last(it, i);
            job->tiles = true;
        }
    int longest = last - 1;
    for (int i = 0; i < last && it->shape[last] * it->shape[last - 1] < SMALL_PLANE; i++)
        longest = it->shape[i] > it->shape[longest] ? i : longest;
    if (!job->tiles)
        move_beside_last(it, longest);
    job->p = (plane){it->shape[last - 1], it->shape[last], to[last - 1], to[last],
                     from[last - 1],      from[last]};
    it->ndim--;
}

void hod__eval_copy(const hod_tensor *from, hod_tensor *to)
{
    copy_job job = {.from = hod__data(from), .to = hod__data(to)};
    hod_iter *it = &job.it;
    job.size = (int64_t)hod_dtype_bytes(to->dtype);
    hod__iter_begin(it, to->ndim, to->shape, 2, (const hod_tensor *[]){to, from});
    if (it->n == 0)
        return;
    if (it->ndim == 1) {
        job.p = (plane){1, it->n, 0, it->strides[0][0], 0, it->strides[1][0]};
        hod__parallel(it->n, HOD_PARALLEL_ELEMENTS, copy_line, &job);
        return;
    }
    sort_dims(it);
    choose_plane(&job);
    hod__parallel(it->n / job.p.n, hod__grain(job.p.n), copy_rows, &job);
}
