/* Casts in a row: when the first loses nothing, the second alone says it all.
 *
 *     %1 cast f32 %0 (f16)   %2 cast f64 %1     ->     %2 cast f64 %0
 *     %1 cast f32 %0 (f16)   %2 cast f16 %1     ->     %0
 *
 * Mixed precision leaves many of these where one operator's widened result is narrowed for the
 * next. f32 to f16 to f32 stays: the middle rounds. Casts before bool stay as well, unless nothing
 * is lost: 0.5 is true, and 0 as an integer.
 */
#include "graph/passes.h"
#include "graph/rewrite.h"

/* Bits of a type's whole numbers and of its exponent (0: no fractions); sign apart. */
static const struct {
    int whole, exponent;
    bool is_signed;
} types[HOD_DTYPES] = {
    [HOD_F32] = {24, 8, true}, [HOD_F64] = {53, 11, true}, [HOD_F16] = {11, 5, true},
    [HOD_BF16] = {8, 8, true}, [HOD_I64] = {63, 0, true},  [HOD_I32] = {31, 0, true},
    [HOD_U8] = {8, 0, false},  [HOD_BOOL] = {1, 0, false},
};

/* Can `to` hold every value of `from`? An integer needs a float whose whole numbers reach as far;
 * all of ours then have the range too, f16's 65504 for u8's 255. */
static bool lossless(hod_dtype from, hod_dtype to)
{
    return types[from].whole <= types[to].whole && types[from].exponent <= types[to].exponent &&
           types[from].is_signed <= types[to].is_signed && to != HOD_BOOL;
}

static hod_ref join(hod_rewrite *w, hod_ref r)
{
    hod_ref middle = hod__node_is(w->g, r, HOD_OP_cast) ? hod__node_in(w->g, r)[0] : HOD_NO_REF;
    if (!hod__node_is(w->g, middle, HOD_OP_cast))
        return r;
    hod_ref x = hod__node_in(w->g, middle)[0];
    hod_dtype from = (hod_dtype)w->g->nodes[x].dtype;
    hod_dtype through = (hod_dtype)w->g->nodes[middle].dtype;
    if (!lossless(from, through))
        return r;
    if (from == (hod_dtype)w->g->nodes[r].dtype)
        return x;
    hod_attrs attrs = w->g->nodes[r].attrs;
    return hod__rewrite_op(w, HOD_OP_cast, &attrs, 1, &x);
}

bool hod__opt_casts(hod_graph *g)
{
    return hod__rewrite(g, join, NULL);
}
