/* Images sampled at a grid: the four elements around a place are taken as rows of the image laid
 * out with its channels last, so that a NaN reaches its neighbours only:
 *
 *     low,low ---- low,high          place = low + part, in elements; a corner outside the image
 *        |   . place  |              counts 0 and has no gradient
 *     high,low --- high,high
 */
#include "ops/resample.h"

hod_tensor *hod__index_within(hod_tensor *at, int64_t last)
{
    hod_tensor *index = hod_cast(hod_clamp(at, 0, (double)last), HOD_I64);
    return hod_maximum_scalar(hod_minimum_scalar(index, (double)last), 0);
}

/* ---- sampling at a grid ---- */

/* at, folded at low and high, both halves of whole numbers, until it lies between. */
static hod_tensor *reflected(hod_tensor *at, double low, double high)
{
    if (low == high)
        return hod_mul_scalar(at, 0);
    double span = high - low;
    hod_tensor *away = hod_abs(hod_sub_scalar(at, low));
    hod_tensor *bound = hod_full_like(away, span);
    hod_tensor *rest = hod_fmod(away, bound), *times = hod_floor(hod_div(away, bound));
    hod_tensor *odd = hod_ne_scalar(hod_fmod(times, hod_full_like(times, 2)), 0);
    hod_tensor *back = hod_add_scalar(hod_neg(rest), span);
    return hod_add_scalar(hod_where(odd, back, rest), low);
}

/* g in [-1, 1] along `size` elements, as a place counted in elements. */
static hod_tensor *place(hod_tensor *g, int64_t size, const hod_grid_sample_options *o)
{
    double n = (double)size;
    hod_tensor *at = hod_add_scalar(g, 1);
    at = o->align_corners ? hod_mul_scalar(hod_mul_scalar(at, 0.5), n - 1)
                          : hod_mul_scalar(hod_sub_scalar(hod_mul_scalar(at, n), 1), 0.5);
    if (o->padding == HOD_SAMPLE_REFLECTION)
        at = o->align_corners ? reflected(at, 0, n - 1) : reflected(at, -0.5, n - 0.5);
    return o->padding == HOD_SAMPLE_ZEROS ? at : hod_clamp(at, 0, n - 1);
}

bool hod__countable(int64_t n, int64_t h, int64_t w)
{
    int64_t all;
    return !__builtin_mul_overflow(h, w, &all) && !__builtin_mul_overflow(all, n, &all);
}

hod_tensor *hod__rows_of_image(hod_tensor *x)
{
    if (!x)
        return NULL;
    hod_shape rows = HOD_SHAPE(x->shape[0] * x->shape[2] * x->shape[3], x->shape[1]);
    return hod_reshape(hod_permute(x, 0, 2, 3, 1), rows);
}

hod_tensor *hod__image_element(const hod_image_rows *m, hod_tensor *y, hod_tensor *x)
{
    hod_tensor *row = hod__index_within(y, m->h - 1), *column = hod__index_within(x, m->w - 1);
    hod_tensor *in_plane = hod_add(hod_mul_scalar(row, (double)m->w), column);
    hod_tensor *plane = hod_mul_scalar(m->image, (double)(m->h * m->w));
    return hod_embedding(m->rows, hod_add(plane, in_plane));
}

/* The element at y, x (N,P), or more dimensions, whole numbers, of the image; 0 outside: (N,P,C). */
static hod_tensor *element(const hod_image_rows *m, hod_tensor *y, hod_tensor *x)
{
    hod_tensor *v = hod__image_element(m, y, x);
    hod_tensor *in_y = hod_logical_and(hod_ge_scalar(y, 0), hod_lt_scalar(y, (double)m->h));
    hod_tensor *in_x = hod_logical_and(hod_ge_scalar(x, 0), hod_lt_scalar(x, (double)m->w));
    if (!v)
        return NULL;
    return hod_where(hod_unsqueeze(hod_logical_and(in_y, in_x), v->ndim - 1), v,
                     hod_full((hod_dtype)v->dtype, HOD_SHAPE(), 0));
}

hod_tensor *hod__both(hod_tensor *t, int before)
{
    if (!t)
        return NULL;
    hod_shape s = {.n = t->ndim + 2};
    for (int i = 0; i < s.n; i++)
        s.d[i] = i == before ? 2 : 1;
    return hod_iota((hod_dtype)t->dtype, s, before);
}

hod_tensor *hod__share(hod_tensor *part, hod_tensor *both)
{
    hod_tensor *rest = hod_add_scalar(hod_neg(part), 1);
    return hod_where(hod_eq_scalar(both, 0), rest, part);
}

/* All four corners at once, (2,2,N,P,C), and their sum. */
static hod_tensor *bilinear(const hod_image_rows *m, hod_tensor *y, hod_tensor *x)
{
    hod_tensor *low_y = hod_floor(y), *low_x = hod_floor(x);
    hod_tensor *ky = hod__both(low_y, 0), *kx = hod__both(low_x, 1);
    hod_tensor *wy = hod__share(hod_sub(y, low_y), ky), *wx = hod__share(hod_sub(x, low_x), kx);
    hod_tensor *v = element(m, hod_add(low_y, ky), hod_add(low_x, kx));
    hod_tensor *w = hod_unsqueeze(hod_mul(wy, wx), 4);
    return hod_sum_over(hod_mul(v, w), HOD_SHAPE(0, 1), false);
}

hod_tensor *hod_grid_sample_with(hod_tensor *x, hod_tensor *grid, hod_grid_sample_options o)
{
    if (!x || !grid)
        return NULL;
    if (x->ndim != 4 || grid->ndim != 4 || grid->shape[3] != 2 || grid->shape[0] != x->shape[0])
        return HOD_FAIL(ARGUMENT, "grid_sample: %s at %s, wanted (N,C,H,W) at (N,Ho,Wo,2)",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(grid));
    if (o.mode != HOD_NEAREST && o.mode != HOD_LINEAR)
        return HOD_FAIL(ARGUMENT, "grid_sample: mode %d", (int)o.mode);
    if (o.padding < HOD_SAMPLE_ZEROS || o.padding > HOD_SAMPLE_REFLECTION)
        return HOD_FAIL(ARGUMENT, "grid_sample: padding %d", (int)o.padding);
    if (x->dtype > HOD_BF16 || grid->dtype > HOD_BF16)
        return HOD_FAIL(ARGUMENT, "grid_sample: not defined for %s at %s",
                        hod_dtype_name((hod_dtype)x->dtype),
                        hod_dtype_name((hod_dtype)grid->dtype));
    int64_t n = x->shape[0], h = x->shape[2], w = x->shape[3];
    if (h < 1 || w < 1)
        return HOD_FAIL(ARGUMENT, "grid_sample: of %s, an empty image", HOD_SHAPE_TEXT(x));
    if (!hod__countable(n, h, w) || !hod__countable(n, grid->shape[1], grid->shape[2]))
        return HOD_FAIL(ARGUMENT, "grid_sample: more places than 64 bits count");
    hod_dtype t = hod__promote(x, grid);
    hod_tensor *c = hod__computed(hod__cast_to(x, t)), *g = hod__computed(hod__cast_to(grid, t));
    int64_t ho = grid->shape[1], wo = grid->shape[2];
    g = hod_reshape(g, HOD_SHAPE(n, ho * wo, 2));
    hod_tensor *at_x = place(hod_select(g, 2, 0), w, &o), *at_y = place(hod_select(g, 2, 1), h, &o);
    hod_image_rows m = {hod__rows_of_image(c), hod_iota(HOD_I64, HOD_SHAPE(n, 1), 0), h, w};
    hod_tensor *y = o.mode == HOD_LINEAR ? bilinear(&m, at_y, at_x)
                                         : element(&m, hod_round(at_y), hod_round(at_x));
    y = hod_reshape(hod_permute(y, 0, 2, 1), HOD_SHAPE(n, x->shape[1], ho, wo));
    return y && y->dtype != t ? hod__cast_to(y, t) : y;
}
