/* Between attention.c (fronts, shapes, derivatives, the composition), attention_blocks.c (what a
 * call is cut into) and the kernels, attention_tmpl.c, compiled for several instruction sets. */
#ifndef HOD_OPS_ATTENTION_H
#define HOD_OPS_ATTENTION_H

#include "ops/rules.h"

/* The inputs of the operators in their order; those of a gradient have the result and its gradient
 * behind the mask. Key and sample indices are there with dropout only. */
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_MASK, ATTENTION_INPUTS };

/* Which of the probabilities of a call stay: those whose draw (uniform_tmpl.h) reaches `below`. */
typedef struct attention_dropout {
    uint32_t below; /* of a draw's upper 24 bits; 0: no dropout */
    double by;      /* 1 / (1 - p) */
    uint64_t key, stream;
    const int64_t *index;
    int64_t index_stride; /* 0: one sample */
    int64_t share;        /* batches of a sample */
} attention_dropout;

/* Everything of one call, row-major. B batches, H heads of queries, K heads of keys and values,
 * which H / K heads of queries share; widths D of q and k, E of v. */
typedef struct attention_job {
    int64_t b, h, k_heads, lq, lk, d, e;
    const void *q, *k, *v;                 /* (B,H,Lq,D), (B,K,Lk,D), (B,K,Lk,E) */
    const hod_tensor *mask;                /* NULL: none */
    int64_t mask_shape[4], mask_stride[4]; /* stride 0 where it repeats */
    double scale;
    bool causal; /* query i sees keys 0..i */
    attention_dropout dropout;
    const void *y, *g; /* (B,H,Lq,E+1): backward only */
    void *out; /* like y; backward: gradients of q, k, v, one after another; or the mask's */
    int64_t ni, nj, pitch; /* queries and keys of a block; elements from row to row of its scores */
    int64_t parts; /* backward: a head of keys is cut into so many tasks, each with its own dq: */
    void *dq;      /* (parts - 1,B,H,Lq,D), those of all parts but the first */
} attention_job;

/* A block: queries from i0, keys from j0, of one batch and head. The memory is a thread's. */
typedef struct attention_block {
    const attention_job *job;
    int64_t batch, head, i0, ni, j0, nj;
    void *s, *ds;   /* (ni,pitch): scores, their gradients */
    void *top;      /* (ni) greatest score; backward: (Lq) Σ g y */
    double *sum;    /* (ni) sum of exponentials; of a mask's gradient: (ni,pitch) */
    uint32_t *draw; /* (nj + 8) */
} attention_block;

/* Tasks of one element type, compiled for one instruction set. 0, or -1 where a product fails. */
typedef struct attention_kernels {
    /* A block of queries of one batch and head. */
    int (*forward)(const attention_job *job, int64_t task, attention_block x);
    /* A part of the keys of one head of keys and batch, for the heads of queries that share it. */
    int (*back)(const attention_job *job, int64_t task, attention_block x);
    /* A block of an additive mask; sums over all that reads it. */
    int (*mask_back)(const attention_job *job, int64_t task, attention_block x);
    /* Adds the parts of dq from element `begin` to `end`. */
    void (*add_parts)(const attention_job *job, int64_t begin, int64_t end);
} attention_kernels;

extern const attention_kernels hod__attention_f64, hod__attention_plain, hod__attention_v3,
    hod__attention_v4;

/* Those of the instruction set that hod__rows() has chosen. */
const attention_kernels *hod__attention_kernels(hod_dtype dtype);

/* The same by operators, with all scores in memory: slow twin. q, k, v as in the job; mask bool or
 * like q, 0-d: none; draws (B,H,Lq,Lk) for dropout, NULL: none. */
hod_tensor *hod__attention_composed(hod_tensor *q, hod_tensor *k, hod_tensor *v, hod_tensor *mask,
                                    const hod_attrs_attention *a, hod_tensor *draws);

#endif
