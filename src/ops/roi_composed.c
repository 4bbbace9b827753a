/* roi_align as a composition: what its kernel (roi_align.c) is compared with, and whence the
 * gradient for boxes comes.
 *
 * Both sides of a box are alike: `samples` places them along one side, (K,bins,samples of a bin),
 * and the plane of both is their product. Without a sampling number a bin has as many samples as
 * elements; the greatest such number is read on the host, because shapes depend on it. So are the
 * numbers of images.
 */
#include "ops/resample.h"

typedef struct samples {
    hod_tensor *low, *part; /* the element before the place, and how far beyond it; (K,bins,n) */
    hod_tensor *counts;     /* bool: it is one, and not far outside the image */
    hod_tensor *number;     /* (K,1,1) of a bin, at least 1 */
    int64_t n;              /* the greatest number */
} samples;

/* The number of samples of a bin that spans `bin` (K,1,1) elements; NULL with an error. */
static hod_tensor *number_of(hod_tensor *bin, int64_t sampling, int64_t *n)
{
    *n = sampling;
    if (!bin)
        return NULL;
    if (sampling > 0)
        return hod_full_like(bin, (double)sampling);
    hod_tensor *number = hod_ceil(bin);
    if (!number)
        return NULL;
    double most = hod_tensor_numel(number) > 0 ? hod_item(hod_amax(number)) : 1;
    if (!(most <= INT32_MAX))
        return HOD_FAIL(ARGUMENT, "roi_align: %g samples in a bin", most);
    *n = HOD_MAX((int64_t)most, 1);
    return number;
}

/* Along one side of `size` elements, from `begin` to `end` (K). */
static int place_samples(hod_tensor *begin, hod_tensor *end, int64_t size, int64_t bins,
                         const hod_attrs_roi *o, samples *s)
{
    hod_tensor *first = hod_unsqueeze(hod_unsqueeze(begin, 1), 2); /* (K,1,1) */
    hod_tensor *length = hod_sub(hod_unsqueeze(hod_unsqueeze(end, 1), 2), first);
    hod_tensor *bin =
        hod_div_scalar(o->aligned ? length : hod_maximum_scalar(length, 1), (double)bins);
    hod_tensor *number = number_of(bin, o->sampling, &s->n);
    if (!number)
        return -1;
    hod_dtype t = (hod_dtype)bin->dtype;
    hod_tensor *i = hod_iota(t, HOD_SHAPE(bins, 1), 0), *k = hod_arange(t, s->n);
    s->number = hod_maximum_scalar(number, 1);
    hod_tensor *step = hod_div(bin, s->number);
    hod_tensor *at =
        hod_add(hod_add(first, hod_mul(i, bin)), hod_mul(hod_add_scalar(k, 0.5), step));
    hod_tensor *near = hod_logical_and(hod_ge_scalar(at, -1), hod_le_scalar(at, (double)size));
    s->counts = hod_logical_and(hod_lt(k, number), near);
    at = hod_maximum_scalar(at, 0);
    double last = (double)(size - 1);
    s->low = hod_minimum_scalar(hod_floor(at), last);
    s->part = hod_where(hod_ge_scalar(s->low, last), hod__number(bin, 0), hod_sub(at, s->low));
    return s->part && s->counts ? 0 : -1;
}

/* t (K,bins,n) along the rows or columns of (K,bins,n,bins,n). */
static hod_tensor *along(hod_tensor *t, bool columns)
{
    if (!t)
        return NULL;
    int64_t k = t->shape[0], bins = t->shape[1], n = t->shape[2];
    return hod_reshape(t, columns ? HOD_SHAPE(k, 1, 1, bins, n) : HOD_SHAPE(k, bins, n, 1, 1));
}

/* Means over the samples of each bin: (K,rows,columns,C). All four elements of all samples are one
 * tensor, (2,2,K,rows,n,columns,n,C). */
static hod_tensor *bin_means(const hod_image_rows *m, const samples *sy, const samples *sx)
{
    hod_dtype t = (hod_dtype)m->rows->dtype;
    hod_tensor *low_y = along(sy->low, false), *low_x = along(sx->low, true);
    hod_tensor *ky = hod__both(low_y, 0), *kx = hod__both(low_x, 1);
    hod_tensor *v = hod__image_element(m, hod_add(low_y, ky), hod_add(low_x, kx));
    hod_tensor *wy = hod__share(along(sy->part, false), ky);
    hod_tensor *wx = hod__share(along(sx->part, true), kx);
    hod_tensor *counts = hod_logical_and(along(sy->counts, false), along(sx->counts, true));
    hod_tensor *w = hod_where(counts, hod_mul(wy, wx), hod__number(sy->part, 0));
    v = hod_mul(v, hod__cast_to(hod_unsqueeze(w, 7), t));
    v = hod_where(hod_unsqueeze(counts, 5), v, hod__number(m->rows, 0));
    hod_tensor *number = hod__cast_to(hod_mul(sy->number, sx->number), t); /* (K,1,1) */
    return hod_div(hod_sum_over(v, HOD_SHAPE(0, 1, 4, 6), false), hod_unsqueeze(number, 3));
}

/* The boxes' images (K), which index elements: a number that is of none would be another's. */
static hod_tensor *images_of(hod_tensor *boxes, int64_t images)
{
    hod_tensor *t = hod_select(boxes, 1, 0);
    int64_t n = boxes->shape[0];
    double *number = hod__alloc((size_t)n, sizeof *number);
    int rc = number ? hod_read_doubles(t, number, n) : -1;
    for (int64_t k = 0; k < n && rc == 0; k++)
        rc = hod__roi_image(number[k], k, images);
    free(number);
    return rc == 0 ? hod_cast(t, HOD_I64) : NULL;
}

hod_tensor *hod__roi_align_composed(hod_tensor *x, hod_tensor *boxes, const hod_attrs_roi *a)
{
    hod_tensor *image = images_of(boxes, x->shape[0]);
    if (!image)
        return NULL;
    hod_tensor *edge[4]; /* x1, y1, x2, y2: (K) */
    for (int i = 0; i < 4; i++)
        edge[i] = hod_sub_scalar(hod_mul_scalar(hod_select(boxes, 1, 1 + i), a->scale),
                                 a->aligned ? 0.5 : 0);
    samples sy, sx;
    if (place_samples(edge[1], edge[3], x->shape[2], a->size[0], a, &sy) != 0 ||
        place_samples(edge[0], edge[2], x->shape[3], a->size[1], a, &sx) != 0)
        return NULL;
    hod_image_rows m = {hod__rows_of_image(x),
                        hod_reshape(image, HOD_SHAPE(boxes->shape[0], 1, 1, 1, 1)), x->shape[2],
                        x->shape[3]};
    return m.rows ? hod_permute(bin_means(&m, &sy, &sx), 0, 3, 1, 2) : NULL;
}
