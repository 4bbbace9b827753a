/* What the files of losses share: sums with their weight. */
#ifndef HOD_OPS_LOSS_PARTS_H
#define HOD_OPS_LOSS_PARTS_H

#include "ops/rules.h"

/* Sums what is left of each loss; NULLs both after an error. */
static inline hod_loss hod__loss_summed(hod_tensor *each, double weight)
{
    hod_loss loss = {hod_sum(each), hod__number(each, weight)};
    return loss.sum && loss.weight ? loss : (hod_loss){0};
}

static inline hod_loss hod__loss_of_elements(hod_tensor *each)
{
    return hod__loss_summed(each, each ? (double)hod_tensor_numel(each) : 0);
}

/* True, or an error that names the shapes. */
static inline bool hod__loss_same_shape(const char *name, const hod_tensor *x, const hod_tensor *t)
{
    if (hod__same_sizes(x->ndim, x->shape, t->ndim, t->shape))
        return true;
    hod__fail(HOD_ERROR_ARGUMENT, "%s: %s with targets %s", name, HOD_SHAPE_TEXT(x),
              HOD_SHAPE_TEXT(t));
    return false;
}

#endif
