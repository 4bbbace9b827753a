/* Pooling of one plane for one element type; pool.c includes this body for f32 and f64. */

/* The part of a window inside the image: kernel positions [k0, k1) along one side. */
static void T(inside)(const window *w, int side, int64_t o, int64_t size, int64_t *k0, int64_t *k1)
{
    int64_t start = o * w->stride[side] - w->padding[side], d = w->dilation[side];
    *k0 = start < 0 ? (-start + d - 1) / d : 0;
    *k1 = HOD_MIN(w->kernel[side], size > start ? (size - start + d - 1) / d : 0);
    *k1 = HOD_MAX(*k1, *k0);
}

/* Position of the first greatest element of a window, NaN above all; -1: the window lies in the
 * padding. */
static int64_t T(first_greatest)(const window *w, const elem *x, int64_t oy, int64_t ox)
{
    int64_t best = -1, y0, y1, x0, x1;
    T(inside)(w, 0, oy, w->h, &y0, &y1);
    T(inside)(w, 1, ox, w->w, &x0, &x1);
    for (int64_t ky = y0; ky < y1; ky++) {
        int64_t iy = oy * w->stride[0] - w->padding[0] + ky * w->dilation[0];
        for (int64_t kx = x0; kx < x1; kx++) {
            int64_t ix = ox * w->stride[1] - w->padding[1] + kx * w->dilation[1];
            int64_t at = iy * w->w + ix;
            if (best < 0 || x[at] > x[best] || (x[at] != x[at] && x[best] == x[best]))
                best = at;
        }
    }
    return best;
}

/* a: what is picked from (x itself for max_pool2d). */
static void T(pick_plane)(const window *w, const void *x, const void *a, void *y)
{
    for (int64_t oy = 0; oy < w->ho; oy++)
        for (int64_t ox = 0; ox < w->wo; ox++) {
            int64_t at = T(first_greatest)(w, x, oy, ox);
            ((elem *)y)[oy * w->wo + ox] = at >= 0 ? ((const elem *)a)[at] : x == a ? LOWEST : 0;
        }
}

/* dx is zeroed before. */
static void T(max_back_plane)(const window *w, const void *x, const void *g, void *dx)
{
    for (int64_t oy = 0; oy < w->ho; oy++)
        for (int64_t ox = 0; ox < w->wo; ox++) {
            int64_t at = T(first_greatest)(w, x, oy, ox);
            if (at >= 0)
                ((elem *)dx)[at] += ((const elem *)g)[oy * w->wo + ox];
        }
}

/* One window of an image: adds `share` over its divisor to each element when x_out is given, and
 * returns the sum of the elements over the divisor otherwise. */
static elem T(average_window)(const window *w, const elem *x, elem *x_out, elem share, int64_t oy,
                              int64_t ox)
{
    int64_t y0, y1, x0, x1;
    T(inside)(w, 0, oy, w->h, &y0, &y1);
    T(inside)(w, 1, ox, w->w, &x0, &x1);
    int64_t n = w->include_pad ? w->kernel[0] * w->kernel[1] : (y1 - y0) * (x1 - x0);
    elem sum = 0, each = n > 0 ? share / (elem)n : 0;
    for (int64_t ky = y0; ky < y1; ky++)
        for (int64_t kx = x0; kx < x1; kx++) {
            int64_t iy = oy * w->stride[0] - w->padding[0] + ky * w->dilation[0];
            int64_t ix = ox * w->stride[1] - w->padding[1] + kx * w->dilation[1];
            if (x_out)
                x_out[iy * w->w + ix] += each;
            else
                sum += x[iy * w->w + ix];
        }
    return n > 0 ? sum / (elem)n : 0;
}

static void T(average_plane)(const window *w, const void *x, void *y)
{
    for (int64_t oy = 0; oy < w->ho; oy++)
        for (int64_t ox = 0; ox < w->wo; ox++)
            ((elem *)y)[oy * w->wo + ox] = T(average_window)(w, x, NULL, 0, oy, ox);
}

/* dx is zeroed before. */
static void T(average_back_plane)(const window *w, const void *g, void *dx)
{
    for (int64_t oy = 0; oy < w->ho; oy++)
        for (int64_t ox = 0; ox < w->wo; ox++)
            T(average_window)(w, NULL, dx, ((const elem *)g)[oy * w->wo + ox], oy, ox);
}
