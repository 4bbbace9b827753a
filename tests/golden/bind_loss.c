/* Losses, by PyTorch's three reductions. */
#include "golden.h"
#include <string.h>

static int bind_cross_entropy(gold *c)
{
    if (HAS(weight) || hod_tensor_dtype(T(target)) != HOD_I64 || hod_tensor_ndim(T(input)) < 2)
        return gold_skip(c, "class weights, soft targets, one row: not bound");
    hod_cross_entropy_options o = {.ignore_index = INT(ignore_index, -100),
                                   .label_smoothing = REAL(label_smoothing, 0)};
    o.ignore_zero = o.ignore_index == 0;
    return gold_reduced(c, hod_cross_entropy_with(T(input), T(target), o),
                        hod_cross_entropy_rows_with(T(input), T(target), o));
}

static const gold_binding rows[] = {
    ROW("cross_entropy", bind_cross_entropy, .f32 = 1e-5),
};
GOLD_FAMILY(loss, 443, 48)
