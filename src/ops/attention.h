/* Between attention.c (fronts, shapes, derivatives, the composition) and attention_blocks.c (the
 * kernels). */
#ifndef HOD_OPS_ATTENTION_H
#define HOD_OPS_ATTENTION_H

#include "ops/rules.h"

/* Everything of one call, row-major. B batches, H heads of queries, K heads of keys and values,
 * which H / K heads of queries share; widths D of q and k, E of v. */
typedef struct attention_job {
    int64_t b, h, k_heads, lq, lk, d, e;
    const void *q, *k, *v;  /* (B,H,Lq,D), (B,K,Lk,D), (B,K,Lk,E) */
    const hod_tensor *mask; /* NULL: none */
    int64_t mask_stride[4]; /* 0 where it repeats */
    double scale;
    bool causal;       /* query i sees keys 0..i */
    const void *y, *g; /* (B,H,Lq,E+1): backward only */
    void *out;         /* like y; backward: gradients of q, k, v, one after another */
    bool f64;
    int64_t tasks, groups; /* groups of tasks run side by side */
    char *scratch;         /* `each` bytes a group */
    int64_t each;
    bool *failed; /* a group */
} attention_job;

/* Queries and keys of a block: 256 x 256 scores stay in the second cache. */
enum { ATTENTION_BLOCK = 256 };

/* The same by operators, with all scores in memory: slow twin, and what dropout takes. q, k, v as in
 * the job; mask bool or like q, 0-d: none. */
hod_tensor *hod__attention_composed(hod_tensor *q, hod_tensor *k, hod_tensor *v, hod_tensor *mask,
                                    const hod_attrs_attention *a, double dropout);

#endif
