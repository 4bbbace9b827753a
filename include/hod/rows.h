/* Row-sparse gradients: of a large table only the rows that were looked up.
 *
 *     hod_tensor *e = hod_embedding_rows(table, index);     // table (1000000,64), index (N)
 *     hod_backward(loss_of(e));                             // no (1000000,64) gradient is made
 *     hod_update_all(opt);                                  // moves the rows that were used
 *
 * The gradient of such a table is a list of rows and their values, not yet summed where a row comes
 * twice. Several backwards append to the list; hod_grad of the table stays NULL unless it was used
 * in another way as well.
 *
 * An optimizer sums equal rows and steps only the rows that are there: their parameters, their
 * moments, their decay. As in PyTorch's SparseAdam the moments of other rows stand still, and bias
 * correction goes by the table's own count of updates. SGD's momentum of other rows stands still
 * likewise, where PyTorch's lets it decay and goes on moving them. A moving average (EMA) follows
 * in all rows. Clipping and the check for infinities count summed rows, so they see what the dense
 * gradient would have shown.
 *
 * Inside a compiled function the list is kept on the host's side: a graph break in backward.
 */
#ifndef HOD_ROWS_H
#define HOD_ROWS_H

#include <hod/tensor.h>

/* As hod_embedding, with a row-sparse gradient for w where w is a leaf and backward accumulates
 * into it; second derivatives, hod_grad_of, hooks of w and results as w get dense ones. */
HOD_API hod_tensor *hod_embedding_rows(hod_tensor *w, hod_tensor *index);

typedef struct hod_row_gradient {
    hod_tensor *rows;   /* i64 (K) */
    hod_tensor *values; /* (K, ...) */
} hod_row_gradient;
/* The row-sparse gradient of a leaf; both NULL when there is none. Belongs to the leaf. */
HOD_API hod_row_gradient hod_grad_rows(const hod_tensor *t);
/* Sums equal rows: afterwards rows rise and come once. 0 or -1. */
HOD_API int hod_grad_rows_sum(hod_tensor *t);
/* Adds the rows to hod_grad(t), made when absent, and drops them. 0 or -1. */
HOD_API int hod_grad_rows_to_dense(hod_tensor *t);

#ifndef HOD_NO_PLACES
#define hod_embedding_rows(...) HOD_OPERATOR(tensor, embedding_rows, __VA_ARGS__)
#define hod_grad_rows_sum(...) HOD_OPERATOR(int, grad_rows_sum, __VA_ARGS__)
#define hod_grad_rows_to_dense(...) HOD_OPERATOR(int, grad_rows_to_dense, __VA_ARGS__)
#endif

#endif
