/* Reading and writing at indices. */
#include "golden.h"

static int at_index(gold *c, hod_tensor *(*f)(hod_tensor *, int, hod_tensor *))
{
    if (gold_scalar_dim(c))
        return gold_skip(c, "a 0-d tensor has no dimension to name");
    if (hod_tensor_dtype(T(index)) == HOD_U8)
        return gold_skip(c, "an index is i64 or i32");
    return gold_one(c, f(T(input), (int)INT(dim, 0), T(index)));
}

static int bind_gather(gold *c)
{
    return at_index(c, hod_gather);
}

static int bind_index_select(gold *c)
{
    return at_index(c, hod_index_select);
}

BIND(embedding, hod_embedding(T(weight), T(input)))

static const gold_binding rows[] = {
    ROW("gather", bind_gather),
    ROW("index_select", bind_index_select),
    ROW("embedding", bind_embedding),
};
GOLD_FAMILY(index, 72, 14)
