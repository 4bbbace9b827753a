/* Products of matrices. */
#include "golden.h"

BIND(matmul, hod_matmul(T(input), T(other)))
BIND(mm, hod_matmul(T(input), T(mat2)))
BIND(mv, hod_matmul(T(input), T(vec)))
BIND(outer, hod_mul(hod_unsqueeze(T(input), 1), T(vec2)))

static int bind_linear(gold *c)
{
    if (hod_tensor_ndim(T(weight)) != 2)
        return gold_skip(c, "weights are (O,I)");
    return gold_one(c, HAS(bias) ? hod_linear(T(input), T(weight), T(bias))
                                 : hod_linear_nobias(T(input), T(weight)));
}

static const gold_binding rows[] = {
    ROW("matmul", bind_matmul, .f32 = 1e-5),
    ROW("mm", bind_mm, .f32 = 1e-5),
    ROW("bmm", bind_mm, .f32 = 1e-5),
    ROW("mv", bind_mv, .f32 = 1e-5),
    ROW("dot", bind_matmul, .f32 = 1e-5),
    ROW("outer", bind_outer),
    ROW("linear", bind_linear, .f32 = 1e-5, .roundings = 2), /* product, bias */
};
GOLD_FAMILY(matmul, 103, 63)
