/* Scaled dot-product attention, softmax(q kᵀ / sqrt(D) + mask) v, in memory that grows with the
 * length and not with its square, forward and backward.
 *
 *     hod_tensor *y = hod_attention(q, k, v, .causal = true);       // q, k, v: (B,H,L,D)
 *     hod_tensor *z = hod_attention_masked(q, k, v, keep);          // keep: bool (B,1,1,L)
 *
 * q (B,H,Lq,D), k (B,K,Lk,D), v (B,K,Lk,E); y (B,H,Lq,E). H / K heads of queries share one of keys.
 * Without heads: (B,L,D), or (L,D). A batch of one serves all batches of the others, and so does a
 * tensor without batch. A query that sees no key has the result 0 and no gradient.
 */
#ifndef HOD_ATTENTION_H
#define HOD_ATTENTION_H

#include <hod/nn.h>
#include <hod/ops.h>

typedef struct hod_attention_options {
    bool causal;    /* query i sees the keys 0..i */
    double scale;   /* 0: 1 / sqrt(D) */
    double dropout; /* of the probabilities, by the thread's random key (random.h) */
    int end_;
} hod_attention_options;

HOD_API hod_tensor *hod_attention_with(hod_tensor *q, hod_tensor *k, hod_tensor *v,
                                       hod_attention_options o);
/* mask: broadcasts to (B,H,Lq,Lk). bool: true where a key is seen; real: added to the scores. */
HOD_API hod_tensor *hod_attention_masked_with(hod_tensor *q, hod_tensor *k, hod_tensor *v,
                                              hod_tensor *mask, hod_attention_options o);

#define hod_attention(q, k, ...) HOD_ATTENTION_(q, k, __VA_ARGS__, .end_ = 0)
#define HOD_ATTENTION_(q, k, v, ...)                                                               \
    hod_attention_with(q, k, v, (hod_attention_options){__VA_ARGS__})
#define hod_attention_masked(q, k, v, ...) HOD_ATTENTION_MASKED_(q, k, v, __VA_ARGS__, .end_ = 0)
#define HOD_ATTENTION_MASKED_(q, k, v, mask, ...)                                                  \
    hod_attention_masked_with(q, k, v, mask, (hod_attention_options){__VA_ARGS__})

/* ---- module ---- */
typedef struct hod_multihead_spec {
    int64_t width, heads;
    bool causal, no_bias;
    double dropout; /* of the probabilities, in training */
    char end_;
} hod_multihead_spec;
/* Self-attention of x (N,L,width) in `heads` heads. Parameters in_proj_weight, in_proj_bias,
 * out_proj.weight, out_proj.bias: queries, keys and values follow each other in the first two. */
#define hod_nn_multihead(parent, name, ...)                                                        \
    hod_nn_multihead_make((hod_module *)(parent), name,                                            \
                          (hod_multihead_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_multihead_make(hod_module *parent, const char *name,
                                          hod_multihead_spec spec);
/* The same with a mask that broadcasts to (N,heads,L,L). */
HOD_API hod_tensor *hod_nn_multihead_masked(hod_module *m, hod_tensor *x, hod_tensor *mask);

#ifndef HOD_NO_PLACES
#define hod_attention_with(...) HOD_OPERATOR(tensor, attention_with, __VA_ARGS__)
#define hod_attention_masked_with(...) HOD_OPERATOR(tensor, attention_masked_with, __VA_ARGS__)
#define hod_nn_multihead_make(...) HOD_PLACED(module, hod_nn_multihead_make(__VA_ARGS__))
#define hod_nn_multihead_masked(...) HOD_PLACED(tensor, hod_nn_multihead_masked(__VA_ARGS__))
#endif

#endif
