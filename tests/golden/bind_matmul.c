/* Products of matrices. */
#include "golden.h"

BIND(matmul, hod_matmul(T(input), T(other)))
BIND(mm, hod_matmul(T(input), T(mat2)))
BIND(mv, hod_matmul(T(input), T(vec)))
BIND(outer, hod_outer(T(input), T(vec2)))

BIND(addmm, hod_addmm(T(input), T(mat1), T(mat2), REAL(beta, 1), REAL(alpha, 1)))
BIND(cdist, hod_cdist(T(x1), T(x2), REAL(p, 2)))
BIND(bilinear, HAS(bias) ? hod_bilinear(T(input1), T(input2), T(weight), T(bias))
                         : hod_bilinear_nobias(T(input1), T(input2), T(weight)))

static int bind_linear(gold *c)
{
    if (hod_tensor_ndim(T(weight)) != 2)
        return gold_skip(c, "weights are (O,I)");
    return gold_one(c, HAS(bias) ? hod_linear(T(input), T(weight), T(bias))
                                 : hod_linear_nobias(T(input), T(weight)));
}

static int bind_einsum(gold *c)
{
    hod_tensor *x[GOLD_MAX_TENSORS];
    int n = gold_tensors(c, "operands", x);
    return gold_one(c, hod_einsum_of(TEXT(equation, ""), n, x));
}

static const gold_binding rows[] = {
    ROW("matmul", bind_matmul, .f32 = 1e-5),
    ROW("mm", bind_mm, .f32 = 1e-5),
    ROW("bmm", bind_mm, .f32 = 1e-5),
    ROW("mv", bind_mv, .f32 = 1e-5),
    ROW("dot", bind_matmul, .f32 = 1e-5),
    ROW("outer", bind_outer),
    ROW("einsum", bind_einsum, .f32 = 1e-5),
    ROW("addmm", bind_addmm, .f32 = 1e-5),
    ROW("addmv", bind_addmm, .f32 = 1e-5),
    ROW("baddbmm", bind_addmm, .f32 = 1e-5),
    ROW("bilinear", bind_bilinear, .f32 = 1e-5),
    ROW("cdist", bind_cdist, .f32 = 1e-5),
    ROW("linear", bind_linear, .f32 = 1e-5),
};
GOLD_FAMILY(matmul, 173, 169)
