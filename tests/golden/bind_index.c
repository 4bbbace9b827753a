/* Reading and writing by index and by mask. */
#include "golden.h"
#include <hod/movement.h>
#include <string.h>

BIND(scatter_add, hod_scatter_add(T(input), (int)INT(dim, 0), T(index), T(src)))
BIND(embedding, hod_embedding(T(weight), T(input)))
BIND(one_hot, hod_one_hot(T(input), INT(num_classes, -1)))

static int bind_gather(gold *c)
{
    if (hod_tensor_ndim(T(index)) != hod_tensor_ndim(T(input)))
        return gold_skip(c, "an empty index has its tensor's dimensions, too");
    return gold_one(c, hod_gather(T(input), (int)INT(dim, 0), T(index)));
}

static int bind_scatter(gold *c)
{
    int dim = (int)INT(dim, 0);
    if (HAS(reduce))
        return gold_skip(c, strcmp(TEXT(reduce, ""), "add") == 0 ? "adding is scatter_add"
                                                                 : "scatter does not multiply");
    hod_tensor *x = T(input), *index = T(index);
    return gold_one(c, gold_is_tensor(c, "src")
                           ? hod_scatter(x, dim, index, T(src))
                           : hod_scatter_value(x, dim, index, REAL(src, REAL(value, 0))));
}

static int bind_index_select(gold *c)
{
    if (hod_tensor_ndim(T(input)) == 0)
        return gold_skip(c, "a 0-d tensor has no dimension to name");
    hod_tensor *index = hod_reshape(T(index), HOD_SHAPE(-1));
    return gold_one(c, hod_index_select(T(input), (int)INT(dim, 0), index));
}

/* index_add is scatter_add with an index that repeats. */
static int bind_index_add(gold *c)
{
    hod_tensor *x = T(input), *source = hod_mul_scalar(T(source), REAL(alpha, 1));
    int n = hod_tensor_ndim(x), dim = n ? (int)((INT(dim, 0) + n) % n) : 0;
    if (n == 0)
        return gold_one(c, hod_scatter_add(x, 0, hod_reshape(T(index), HOD_SHAPE()), source));
    hod_shape line = {.n = n}, all = hod_tensor_shape(source);
    for (int i = 0; i < n; i++)
        line.d[i] = i == dim ? all.d[i] : 1;
    return gold_one(c,
                    hod_scatter_add(x, dim, hod_expand(hod_reshape(T(index), line), all), source));
}

static int bind_take_along(gold *c)
{
    hod_tensor *x = T(input), *index = T(indices);
    if (hod_tensor_numel(index) > 0 && hod_item(hod_amin(index)) < 0)
        return gold_skip(c, "an index is never negative");
    if (HAS(dim))
        return gold_one(c, hod_take_along(x, index, (int)INT(dim, 0)));
    return gold_one(
        c, hod_take_along(hod_reshape(x, HOD_SHAPE(-1)), hod_reshape(index, HOD_SHAPE(-1)), 0));
}

static int bind_masked_fill(gold *c)
{
    if (gold_is_tensor(c, "value"))
        return gold_one(c, hod_where(T(mask), T(value), T(input)));
    return gold_one(c, hod_masked_fill(T(input), T(mask), REAL(value, 0)));
}

static const gold_binding rows[] = {
    ROW("gather", bind_gather),           ROW("scatter", bind_scatter),
    ROW("scatter_add", bind_scatter_add), ROW("index_select", bind_index_select),
    ROW("index_add", bind_index_add),     ROW("take_along_dim", bind_take_along),
    ROW("masked_fill", bind_masked_fill), ROW("one_hot", bind_one_hot),
    ROW("embedding", bind_embedding),
};
GOLD_FAMILY(index, 72, 68)
