/* Scaled dot-product attention. */
#include "golden.h"
#include <hod/attention.h>

static int bind_attention(gold *c)
{
    hod_attention_options o = {.causal = FLAG(is_causal, false), .scale = REAL(scale, 0)};
    if (REAL(dropout_p, 0) > 0)
        return gold_skip(c, "draws are no values of PyTorch's");
    hod_tensor *q = T(query), *k = T(key), *v = T(value);
    if (hod_tensor_ndim(q) == 3 && hod_tensor_ndim(k) == 3 &&
        hod_tensor_size(q, 0) != hod_tensor_size(k, 0))
        return gold_skip(c, "of three dimensions the first is the batch");
    return gold_one(c, HAS(attn_mask) ? hod_attention_masked_with(q, k, v, T(attn_mask), o)
                                      : hod_attention_with(q, k, v, o));
}

static const gold_binding rows[] = {
    ROW("scaled_dot_product_attention", bind_attention, .f32 = 1e-5),
};
GOLD_FAMILY(attention, 58, 48)
