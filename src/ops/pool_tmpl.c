/* Pooling of one plane for one element type; pool.c includes this body for f32, f64 and i64.
 *
 * Window after window serves any windows, and is the twin of the others. Windows on a grid go row
 * after row: all windows of a row take the same element of their kernels at once, in loops that
 * vectorise, and each still meets its elements in the same order.
 */

/* Each takes a plane of x, whose elements are compared, of a, whose elements or gradients are
 * taken, and of the result, which is zeroed before where it gathers additions. */

#define IS_NAN(v) (REAL_IS_FLOAT && (v) != (v))

/* ---- window after window ---- */

/* Position of the first greatest element of a window, NaN above all; -1: the window lies in the
 * padding. */
static int64_t T(first_greatest)(const window *w, const elem *x, int64_t oy, int64_t ox)
{
    span sy = inside(w, 0, oy), sx = inside(w, 1, ox);
    int64_t best = -1;
    elem most = 0;
    for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
        int64_t row = (sy.start + ky * w->dilation[0]) * w->size[1] + sx.start;
        for (int64_t kx = sx.k0; kx < sx.k1; kx++) {
            int64_t at = row + kx * w->dilation[1];
            if (best < 0 || x[at] > most || (IS_NAN(x[at]) && !IS_NAN(most))) {
                best = at;
                most = x[at];
            }
        }
    }
    return best;
}

/* a: what is picked from (x itself for max_pool2d). */
static void T(pick_windows)(const window *w, const void *x, const void *a, void *y)
{
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++) {
            int64_t at = T(first_greatest)(w, x, oy, ox);
            ((elem *)y)[oy * w->out[1] + ox] = at >= 0     ? ((const elem *)a)[at]
                                               : w->lowest ? LOWEST
                                                           : 0;
        }
}

static void T(max_back_windows)(const window *w, const void *x, const void *g, void *dx)
{
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++) {
            int64_t at = T(first_greatest)(w, x, oy, ox);
            if (at >= 0)
                ((elem *)dx)[at] += ((const elem *)g)[oy * w->out[1] + ox];
        }
}

/* One window: adds `share` over its divisor to each element of x_out when that is given, and
 * returns the sum of x's elements over the divisor otherwise. */
static elem T(average_window)(const window *w, const elem *x, elem *x_out, elem share, int64_t oy,
                              int64_t ox)
{
    span sy = inside(w, 0, oy), sx = inside(w, 1, ox);
    elem n = (elem)divisor(w, sy, sx), sum = 0, each = share / n;
    for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
        int64_t row = (sy.start + ky * w->dilation[0]) * w->size[1] + sx.start;
        for (int64_t kx = sx.k0; kx < sx.k1; kx++) {
            if (x_out)
                x_out[row + kx * w->dilation[1]] += each;
            else
                sum += x[row + kx * w->dilation[1]];
        }
    }
    return sum / n;
}

static void T(average_windows)(const window *w, const void *none, const void *x, void *y)
{
    (void)none;
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++)
            ((elem *)y)[oy * w->out[1] + ox] = T(average_window)(w, x, NULL, 0, oy, ox);
}

static void T(average_back_windows)(const window *w, const void *none, const void *g, void *dx)
{
    (void)none;
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++)
            T(average_window)(w, NULL, dx, ((const elem *)g)[oy * w->out[1] + ox], oy, ox);
}

/* ---- n windows or elements, `step` apart; a few lanes would be unrolled without `simd` ---- */

static inline void T(take_greatest)(int64_t n, int64_t step, const elem *restrict x,
                                    elem *restrict most)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        elem v = x[i * step], m = most[i];
        most[i] = ((v <= m) | IS_NAN(m)) ? m : v; /* NaN is no less than any, and stays */
    }
}

/* The same, noting where: place + i step; negative: nowhere yet. */
static inline void T(find_greatest)(int64_t n, int64_t step, const elem *restrict x,
                                    elem *restrict most, whole *restrict at, whole place)
{
#pragma omp simd
    for (whole i = 0; i < (whole)n; i++) {
        elem v = x[i * step], m = most[i];
        bool wins = (v > m) | (IS_NAN(v) & !IS_NAN(m)) | (at[i] < 0);
        most[i] = wins ? v : m;
        at[i] = wins ? place + i * (whole)step : at[i];
    }
}

/* The same where every lane has one already. */
static inline void T(find_greater)(int64_t n, const elem *restrict x, elem *restrict most,
                                   whole *restrict at, whole place)
{
#pragma omp simd
    for (whole i = 0; i < (whole)n; i++) {
        elem v = x[i], m = most[i];
        bool wins = !(v <= m) & !IS_NAN(m);
        most[i] = wins ? v : m;
        at[i] = wins ? place + i : at[i];
    }
}

static inline void T(take_sum)(int64_t n, int64_t step, const elem *restrict x, elem *restrict sum)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i * step];
}

static inline void T(give_share)(int64_t n, int64_t step, elem *restrict x,
                                 const elem *restrict share)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i * step] += share[i];
}

/* ---- window after window, LANES elements of a row at once: windows far apart, or in bins ---- */

/* The position of the first greatest of the n >= lanes columns of a window, from `column` on. Each
 * lane keeps its first greatest; the first of those in the image is the window's. The last lanes of
 * a row may look at elements again. */
static inline int64_t T(greatest_in)(int lanes, const window *w, const elem *x, span sy,
                                     int64_t column, int64_t n)
{
    elem most[LANES], m = LOWEST;
    whole at[LANES], best = -1;
    int64_t first = (sy.start + sy.k0 * w->dilation[0]) * w->size[1] + column;
    if (sy.k0 >= sy.k1)
        return -1;
    for (int l = 0; l < lanes; l++) {
        most[l] = x[first + l];
        at[l] = (whole)(first + l);
    }
    for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
        int64_t row = (sy.start + ky * w->dilation[0]) * w->size[1] + column;
        for (int64_t k = 0; k < n; k += lanes) {
            int64_t from = row + HOD_MIN(k, n - lanes);
            T(find_greater)(lanes, x + from, most, at, (whole)from);
        }
    }
    for (int l = 0; l < lanes; l++) {
        elem v = most[l];
        bool greater = best < 0 || v > m || (IS_NAN(v) && !IS_NAN(m));
        if (greater || ((v == m || (IS_NAN(v) && IS_NAN(m))) && at[l] < best)) {
            best = at[l];
            m = v;
        }
    }
    return best;
}

/* As first_greatest, for a dilation of 1. */
static int64_t T(greatest_by_lanes)(const window *w, const elem *x, int64_t oy, int64_t ox)
{
    span sy = inside(w, 0, oy), sx = inside(w, 1, ox);
    int64_t n = sx.k1 - sx.k0, column = sx.start + sx.k0;
    return n >= LANES       ? T(greatest_in)(LANES, w, x, sy, column, n)
           : n >= LANES / 2 ? T(greatest_in)(LANES / 2, w, x, sy, column, n)
                            : T(first_greatest)(w, x, oy, ox);
}

static void T(pick_by_lanes)(const window *w, const void *x, const void *a, void *y)
{
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++) {
            int64_t at = T(greatest_by_lanes)(w, x, oy, ox);
            ((elem *)y)[oy * w->out[1] + ox] = at >= 0     ? ((const elem *)a)[at]
                                               : w->lowest ? LOWEST
                                                           : 0;
        }
}

static void T(max_back_by_lanes)(const window *w, const void *x, const void *g, void *dx)
{
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++) {
            int64_t at = T(greatest_by_lanes)(w, x, oy, ox);
            if (at >= 0)
                ((elem *)dx)[at] += ((const elem *)g)[oy * w->out[1] + ox];
        }
}

static void T(average_by_lanes)(const window *w, const void *none, const void *x, void *y)
{
    (void)none;
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++) {
            span sy = inside(w, 0, oy), sx = inside(w, 1, ox);
            int64_t n = sx.k1 - sx.k0, whole_n = n / LANES * LANES;
            elem sum[LANES] = {0}, all = 0;
            for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
                int64_t at = (sy.start + ky * w->dilation[0]) * w->size[1] + sx.start + sx.k0;
                const elem *row = (const elem *)x + at;
                for (int64_t k = 0; k < whole_n; k += LANES)
                    T(take_sum)(LANES, 1, row + k, sum);
                for (int64_t k = whole_n; k < n; k++)
                    sum[k - whole_n] += row[k];
            }
            for (int l = 0; l < LANES; l++)
                all += sum[l];
            ((elem *)y)[oy * w->out[1] + ox] = all / (elem)divisor(w, sy, sx);
        }
}

static void T(average_back_by_lanes)(const window *w, const void *none, const void *g, void *dx)
{
    (void)none;
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t ox = 0; ox < w->out[1]; ox++) {
            span sy = inside(w, 0, oy), sx = inside(w, 1, ox);
            elem each = ((const elem *)g)[oy * w->out[1] + ox] / (elem)divisor(w, sy, sx);
            for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
                int64_t at = (sy.start + ky * w->dilation[0]) * w->size[1] + sx.start;
                elem *row = (elem *)dx + at;
                for (int64_t kx = sx.k0; kx < sx.k1; kx++)
                    row[kx] += each;
            }
        }
}

/* ---- row after row ---- */

/* Steps that are common as constants. */
#define STEPS(f, n, step, ...)                                                                     \
    ((step) == 1   ? f(n, 1, __VA_ARGS__)                                                          \
     : (step) == 2 ? f(n, 2, __VA_ARGS__)                                                          \
                   : f(n, step, __VA_ARGS__))

static void T(max_rows)(const window *w, const void *x, const void *same, void *out)
{
    (void)same;
    for (int64_t oy = 0; oy < w->out[0]; oy++) {
        span sy = inside(w, 0, oy);
        elem *y = (elem *)out + oy * w->out[1];
        for (int64_t i = 0; i < w->out[1]; i++)
            y[i] = LOWEST;
        for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
            const elem *row = (const elem *)x + (sy.start + ky * w->dilation[0]) * w->size[1];
            for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
                taps t = taps_of(w, kx, 0, w->out[1]);
                STEPS(T(take_greatest), t.n, w->stride[1], row + t.from, y + t.first);
            }
        }
    }
}

static void T(max_back_row)(const window *w, const elem *x, int64_t oy, int64_t begin, int64_t end,
                            const elem *g, elem *dx)
{
    elem most[BLOCK];
    whole at[BLOCK];
    span sy = inside(w, 0, oy);
    for (int64_t i = 0; i < end - begin; i++) {
        most[i] = LOWEST;
        at[i] = -1;
    }
    for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
        int64_t row = (sy.start + ky * w->dilation[0]) * w->size[1];
        for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
            taps t = taps_of(w, kx, begin, end);
            STEPS(T(find_greatest), t.n, w->stride[1], x + row + t.from, most + t.first,
                  at + t.first, (whole)(row + t.from));
        }
    }
    for (int64_t i = 0; i < end - begin; i++)
        if (at[i] >= 0)
            dx[at[i]] += g[i];
}

static void T(max_back_rows)(const window *w, const void *x, const void *g, void *dx)
{
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t begin = 0; begin < w->out[1]; begin += BLOCK)
            T(max_back_row)
    (w, x, oy, begin, HOD_MIN(begin + BLOCK, w->out[1]), (const elem *)g + oy * w->out[1] + begin,
     dx);
}

static void T(average_rows)(const window *w, const void *none, const void *x, void *out)
{
    (void)none;
    for (int64_t oy = 0; oy < w->out[0]; oy++) {
        span sy = inside(w, 0, oy);
        elem *y = (elem *)out + oy * w->out[1];
        memset(y, 0, (size_t)w->out[1] * sizeof *y);
        for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
            const elem *row = (const elem *)x + (sy.start + ky * w->dilation[0]) * w->size[1];
            for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
                taps t = taps_of(w, kx, 0, w->out[1]);
                STEPS(T(take_sum), t.n, w->stride[1], row + t.from, y + t.first);
            }
        }
        for (int64_t ox = 0; ox < w->out[1]; ox++)
            y[ox] /= (elem)divisor(w, sy, inside(w, 1, ox));
    }
}

/* From the last column of the kernel to the first:
 * a pixel takes its windows' shares in their order. */
static void T(average_back_row)(const window *w, int64_t oy, int64_t begin, int64_t end,
                                const elem *g, elem *dx)
{
    elem share[BLOCK];
    span sy = inside(w, 0, oy);
    for (int64_t i = 0; i < end - begin; i++)
        share[i] = g[i] / (elem)divisor(w, sy, inside(w, 1, begin + i));
    for (int64_t ky = sy.k0; ky < sy.k1; ky++) {
        elem *row = dx + (sy.start + ky * w->dilation[0]) * w->size[1];
        for (int64_t kx = w->kernel[1] - 1; kx >= 0; kx--) {
            taps t = taps_of(w, kx, begin, end);
            STEPS(T(give_share), t.n, w->stride[1], row + t.from, share + t.first);
        }
    }
}

static void T(average_back_rows)(const window *w, const void *none, const void *g, void *dx)
{
    (void)none;
    for (int64_t oy = 0; oy < w->out[0]; oy++)
        for (int64_t begin = 0; begin < w->out[1]; begin += BLOCK)
            T(average_back_row)
    (w, oy, begin, HOD_MIN(begin + BLOCK, w->out[1]), (const elem *)g + oy * w->out[1] + begin, dx);
}

#undef STEPS
#undef IS_NAN
