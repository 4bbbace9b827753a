/* The fronts of movement by index and by mask. Types and shapes are brought together here: sources
 * take x's type, and are cut to the index's sizes where they are larger. */
#include "ops/rules.h"
#include <hod/movement.h>

hod_tensor *hod_gather(hod_tensor *x, int dim, hod_tensor *index)
{
    if (hod__null("gather", "x", x) || hod__null("gather", "index", index))
        return NULL;
    int d = hod__dim("gather", dim, HOD_MAX(x->ndim, 1));
    if (d < 0)
        return NULL;
    HOD_ATTRS(a);
    a.dim.dim = d;
    return hod__op(HOD_OP_gather, &a, 2, (hod_tensor *[]){x, index});
}

hod_tensor *hod_embedding(hod_tensor *w, hod_tensor *index)
{
    return hod__op(HOD_OP_embedding, NULL, 2, (hod_tensor *[]){w, index});
}

hod_tensor *hod_index_select(hod_tensor *x, int dim, hod_tensor *index)
{
    if (hod__null("index_select", "x", x) || hod__null("index_select", "index", index))
        return NULL;
    int d = hod__dim("index_select", dim, x->ndim);
    if (d < 0)
        return NULL;
    if (index->ndim != 1)
        return HOD_FAIL(ARGUMENT, "index_select: the index is %s, not (K)", HOD_SHAPE_TEXT(index));
    if (d == 0)
        return hod_embedding(x, index);
    if (hod_tensor_numel(x) == 0) /* embedding looks at an index even where nothing is read */
        return hod_transpose(hod_embedding(hod_transpose(x, 0, d), index), 0, d);
    hod_shape line = {.n = x->ndim}, all = hod_tensor_shape(x);
    for (int i = 0; i < x->ndim; i++)
        line.d[i] = i == d ? index->shape[0] : 1;
    all.d[d] = index->shape[0];
    return hod_gather(x, d, hod_expand(hod_reshape(index, line), all));
}

static hod_tensor *place(const char *name, hod_tensor *x, int dim, hod_tensor *index,
                         hod_tensor *src, bool add)
{
    if (hod__null(name, "x", x) || hod__null(name, "index", index) || hod__null(name, "src", src))
        return NULL;
    int d = hod__dim(name, dim, HOD_MAX(x->ndim, 1));
    if (d < 0)
        return NULL;
    bool fits = src->ndim == index->ndim;
    for (int i = 0; fits && i < src->ndim; i++)
        fits = index->shape[i] <= src->shape[i];
    if (!fits)
        return HOD_FAIL(ARGUMENT, "%s: %s at an index %s", name, HOD_SHAPE_TEXT(src),
                        HOD_SHAPE_TEXT(index));
    for (int i = 0; i < index->ndim; i++)
        src = hod_slice(src, i, 0, index->shape[i]);
    HOD_ATTRS(a);
    a.place.dim = d;
    a.place.add = add;
    hod_tensor *in[] = {x, index, hod__cast_to(src, (hod_dtype)x->dtype)};
    return hod__op(HOD_OP_scatter, &a, 3, in);
}

hod_tensor *hod_scatter(hod_tensor *x, int dim, hod_tensor *index, hod_tensor *src)
{
    return place("scatter", x, dim, index, src, false);
}

hod_tensor *hod_scatter_value(hod_tensor *x, int dim, hod_tensor *index, double value)
{
    if (hod__null("scatter_value", "x", x) || hod__null("scatter_value", "index", index))
        return NULL;
    hod_tensor *src = hod__number(x, value);
    return hod_scatter(x, dim, index, hod_expand(src, hod_tensor_shape(index)));
}

hod_tensor *hod_scatter_add(hod_tensor *x, int dim, hod_tensor *index, hod_tensor *src)
{
    return place("scatter_add", x, dim, index, src, true);
}

hod_tensor *hod_take_along(hod_tensor *x, hod_tensor *index, int dim)
{
    if (hod__null("take_along", "x", x) || hod__null("take_along", "index", index))
        return NULL;
    int d = hod__dim("take_along", dim, x->ndim);
    if (d < 0)
        return NULL;
    hod_shape a = hod_tensor_shape(x), b = hod_tensor_shape(index);
    bool fits = a.n == b.n;
    for (int i = 0; fits && i < a.n; i++)
        if (i != d) {
            fits = a.d[i] == b.d[i] || a.d[i] == 1 || b.d[i] == 1;
            a.d[i] = b.d[i] = a.d[i] == 1 ? b.d[i] : a.d[i];
        }
    if (!fits)
        return HOD_FAIL(ARGUMENT, "take_along: index %s for %s along dimension %d",
                        HOD_SHAPE_TEXT(index), HOD_SHAPE_TEXT(x), d);
    return hod_gather(hod_expand(x, a), d, hod_expand(index, b));
}

hod_tensor *hod_one_hot(hod_tensor *index, int64_t classes)
{
    if (hod__null("one_hot", "index", index))
        return NULL;
    if (classes == -1 && hod_tensor_numel(index) > 0)
        classes = (int64_t)HOD_MIN(hod_item(hod_amax(index)), 0x1p62) + 1;
    if (classes < 1)
        return hod_error() ? NULL : HOD_FAIL(ARGUMENT, "one_hot: %lld classes", (long long)classes);
    hod_tensor *at = hod_unsqueeze(index, -1);
    if (!at)
        return NULL;
    hod_shape s = hod_tensor_shape(at);
    s.d[s.n - 1] = classes;
    hod_tensor *zero = hod_expand(hod_full(HOD_I64, HOD_SHAPE(), 0), s);
    return hod_scatter_value(zero, -1, at, 1);
}

hod_tensor *hod_masked_fill(hod_tensor *x, hod_tensor *mask, double value)
{
    if (hod__null("masked_fill", "x", x) || hod__null("masked_fill", "mask", mask))
        return NULL;
    return hod_where(mask, hod__number(x, value), x);
}
