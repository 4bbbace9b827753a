/* Scaled dot-product attention, forward and with its gradients. */
#include "bench/ops/family.h"

/* q, k, v (B,H,T,D); keys and values that four heads of queries share; one head of one batch. */
typedef struct inputs {
    hod_tensor *all[3], *shared[3], *one[3];
} inputs;

/* keep (B,1,1,T) bool, bias (T,T) */
typedef struct operands {
    inputs plain, leaf;
    hod_tensor *keep, *bias;
} operands;

static int make_inputs(int size, inputs *x)
{
    int64_t b = (int64_t[]){1, 2, 1}[size], h = (int64_t[]){4, 8, 8}[size];
    int64_t t = (int64_t[]){64, 256, 2048}[size], d = (int64_t[]){32, 64, 64}[size];
    for (int i = 0; i < 3; i++) {
        x->all[i] = op_uniform(HOD_SHAPE(b, h, t, d), -2, 2);
        x->shared[i] = op_uniform(HOD_SHAPE(b, i == 0 ? h : h / 4, t, d), -2, 2);
        x->one[i] = op_uniform(HOD_SHAPE(1, 1, t, d), -2, 2);
        if (!x->all[i] || !x->shared[i] || !x->one[i])
            return -1;
    }
    return 0;
}

static int make(int size, operands *o)
{
    if (make_inputs(size, &o->plain) != 0 || make_inputs(size, &o->leaf) != 0)
        return -1;
    for (int i = 0; i < 3; i++)
        if (!hod_requires_grad(o->leaf.all[i], true) ||
            !hod_requires_grad(o->leaf.shared[i], true) || !hod_requires_grad(o->leaf.one[i], true))
            return -1;
    int64_t b = hod_tensor_size(o->plain.all[0], 0), t = hod_tensor_size(o->plain.all[0], 2);
    o->keep = hod_lt_scalar(op_uniform(HOD_SHAPE(b, 1, 1, t), 0, 1), 0.9);
    o->bias = op_uniform(HOD_SHAPE(t, t), -1, 1);
    return o->keep && o->bias ? 0 : -1;
}

static hod_tensor *attend(hod_tensor *const *x, hod_attention_options options)
{
    return hod_attention_with(x[0], x[1], x[2], options);
}

static hod_tensor *masked(hod_tensor *const *x, hod_tensor *mask)
{
    return hod_attention_masked(x[0], x[1], x[2], mask);
}

#define WITH(...) ((hod_attention_options){__VA_ARGS__})
#define BOTH(ROW, name, x, attend, ...)                                                            \
    ROW(name, attend(o->plain.x, __VA_ARGS__))                                                     \
    ROW(name##_grad, op_gradients(attend(o->leaf.x, __VA_ARGS__), 3, o->leaf.x))

#define OPS(ROW)                                                                                   \
    BOTH(ROW, attention, all, attend, WITH(0))                                                     \
    BOTH(ROW, attention_causal, all, attend, WITH(.causal = true))                                 \
    BOTH(ROW, attention_keep, all, masked, o->keep)                                                \
    BOTH(ROW, attention_bias, all, masked, o->bias)                                                \
    BOTH(ROW, attention_shared, shared, attend, WITH(0))                                           \
    BOTH(ROW, attention_dropout, all, attend, WITH(.dropout = 0.1))                                \
    BOTH(ROW, attention_one, one, attend, WITH(0))

OP_FAMILY(attention, OPS, "1,4,64,32", "2,8,256,64", "1,8,2048,64")
