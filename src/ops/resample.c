/* What compositions that sample images share: an image as rows with its channels last, its elements
 * at places, and the shares of both neighbours of a place. */
#include "ops/resample.h"

hod_tensor *hod__index_within(hod_tensor *at, int64_t last)
{
    hod_tensor *index = hod_cast(hod_clamp(at, 0, (double)last), HOD_I64);
    return hod_maximum_scalar(hod_minimum_scalar(index, (double)last), 0);
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
