/* Compositions in one kernel: what a FUSED row of ops.def needs.
 *
 *     front ──(eager)────> FUSED row ─ kernel                        one pass, or few
 *          └─(recorded)──> composition of operators                  for the compiler to fuse
 *
 *     its derivative ──(wanted once)──> <row>_back ─ kernel
 *                   └─(differentiated again, or recorded)──> operators
 *
 * The composition comes first: it is what the row means, has derivatives of every order, and is
 * what tests compare the kernel with (test_fused.c). The kernels are compiled for f32 and f64,
 * three times like all rows (rows.h); 16-bit floats come as f32.
 */
#ifndef HOD_OPS_FUSED_H
#define HOD_OPS_FUSED_H

#include "ops/rules.h"

/* May a front run a FUSED row now: nobody records, and x is of f32 or f64 and not empty? */
bool hod__fuses(const hod_tensor *x);
/* May a derivative: it is neither recorded nor to be differentiated again? */
bool hod__fuses_back(void);
/* For tests: while true, fronts of this thread compose although nobody records. */
extern _Thread_local bool hod__compose_only;

/* A tensor as lines along one dimension, n elements that lie `inner` apart:
 *
 *     element i of line (o, j):  (o * n + i) * inner + j,   0 <= j < inner
 *
 * Of what has one element a line (labels, losses), line (o, j) has element o * inner + j. */
typedef struct hod_lines {
    int64_t outer, n, inner;
} hod_lines;
hod_lines hod__lines(const hod_meta *m, int dim);

enum { HOD_FUSED_INPUTS = 5, HOD_LINES_AT_ONCE = 64 };
typedef struct hod_fused_call {
    hod_lines lines;
    const hod_attrs *attrs;
    const void *in[HOD_FUSED_INPUTS]; /* row-major; NULL behind the last */
    void *out;
} hod_fused_call;

/* Shape rules of FUSED rows: like the first input; the same with size 1 along attrs.dim. */
int hod__shape_like_first(const hod_op_call *c, const hod_meta *in, hod_meta *out);
int hod__shape_one_a_line(const hod_op_call *c, const hod_meta *in, hod_meta *out);

/* Runs the row's kernel over the lines of the first input along attrs.dim, several in parallel. */
int hod__eval_lines(const hod_op_call *c, hod_tensor *out);

/* Losses of elements; their composition is loss_each.c's, and so is their slope, by operators: for
 * the prediction x (i 0) or the target t. */
typedef enum hod_element_loss {
#define LOSS(name, ...) HOD_LOSS_##name,
#include "ops/losses.def"
    HOD_LOSSES
} hod_element_loss;
/* e^-100: losses hold the logarithm of a probability at -100. */
#define HOD_LEAST_PROBABILITY 3.7200759760208361e-44
hod_tensor *hod__loss_slope(hod_element_loss loss, hod_tensor *x, hod_tensor *t, double number,
                            int i);
int hod__shape_one_of_all(const hod_op_call *c, const hod_meta *in, hod_meta *out);

/* Normalisation: all of one type; w and b may be NULL (b, too, where w is), mean and var are where
 * the attributes say `given`. norm_rows.c tells what else they say. */
typedef struct hod_norm_call {
    const hod_attrs_norm *attrs;
    const void *x, *w, *b, *g, *mean, *var;
    void *y; /* or dx */
} hod_norm_call;
int hod__shape_norm_gradients(const hod_op_call *c, const hod_meta *in, hod_meta *out);
hod_tensor *hod__norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, hod_attrs_norm norm);
hod_tensor *hod__norm_given(hod_tensor *x, hod_tensor *w, hod_tensor *b, hod_tensor *mean,
                            hod_tensor *var, hod_attrs_norm norm);

#endif
