/* Sums of products: matrices, vectors, heads, formulas; and what their gradients cost. */
#include "bench/ops/family.h"

/* Rows m and features k as layers have them; s and d as attention has them, in `heads` batches. */
typedef struct operands {
    hod_tensor *x, *w, *wt, *xt, *b; /* (m,k), (k,k), (k,k), (k,m), (k) */
    hod_tensor *v, *u;               /* (k), (m) */
    hod_tensor *q, *kt, *keys;       /* (heads,s,d), (heads,d,s), (heads,s,d) */
    hod_tensor *bshd, *image;        /* (2,s,heads,d); (m,c,c), rows of a sample */
    hod_tensor *left, *right, *form; /* (m,32), (m,32), (32,32,32) */
    hod_tensor *near, *far;          /* (s,d), (2s,d) */
    hod_tensor *lx, *lw, *lb, *lv, *lu, *lq, *lkt, *lbshd, *lleft, *lright, *lform, *lnear, *lfar;
} operands;

static hod_tensor *leaf(hod_tensor *t)
{
    return hod_requires_grad(hod_copy(t), true);
}

static int make(int size, operands *o)
{
    int64_t m = (int64_t[]){32, 128, 1024}[size], k = (int64_t[]){64, 256, 768}[size];
    int64_t s = (int64_t[]){16, 64, 256}[size], d = (int64_t[]){32, 64, 64}[size];
    int64_t heads = (int64_t[]){4, 8, 12}[size], c = (int64_t[]){4, 8, 16}[size];
    *o = (operands){.x = op_uniform(HOD_SHAPE(m, k), -1, 1),
                    .w = op_uniform(HOD_SHAPE(k, k), -1, 1),
                    .xt = op_uniform(HOD_SHAPE(k, m), -1, 1),
                    .b = op_uniform(HOD_SHAPE(k), -1, 1),
                    .v = op_uniform(HOD_SHAPE(k), -1, 1),
                    .u = op_uniform(HOD_SHAPE(m), -1, 1),
                    .q = op_uniform(HOD_SHAPE(heads, s, d), -1, 1),
                    .kt = op_uniform(HOD_SHAPE(heads, d, s), -1, 1),
                    .keys = op_uniform(HOD_SHAPE(heads, s, d), -1, 1),
                    .bshd = op_uniform(HOD_SHAPE(2, s, heads, d), -1, 1),
                    .image = op_uniform(HOD_SHAPE(m, c, c), -1, 1),
                    .left = op_uniform(HOD_SHAPE(m, 32), -1, 1),
                    .right = op_uniform(HOD_SHAPE(m, 32), -1, 1),
                    .form = op_uniform(HOD_SHAPE(32, 32, 32), -1, 1),
                    .near = op_uniform(HOD_SHAPE(s, d), -1, 1),
                    .far = op_uniform(HOD_SHAPE(2 * s, d), -1, 1)};
    o->wt = hod_transpose(o->w, 0, 1);
    o->lx = leaf(o->x);
    o->lw = leaf(o->w);
    o->lb = leaf(o->b);
    o->lv = leaf(o->v);
    o->lu = leaf(o->u);
    o->lq = leaf(o->q);
    o->lkt = leaf(o->kt);
    o->lbshd = leaf(o->bshd);
    o->lleft = leaf(o->left);
    o->lright = leaf(o->right);
    o->lform = leaf(o->form);
    o->lnear = leaf(o->near);
    o->lfar = leaf(o->far);
    return o->wt && o->lfar && hod_error_kind_pending() == HOD_ERROR_NONE ? 0 : -1;
}

/* Gradients for two inputs, and for three. */
#define BOTH(y, a, b)     op_gradients(y, 2, (hod_tensor *[]){a, b})
#define THREE(y, a, b, c) op_gradients(y, 3, (hod_tensor *[]){a, b, c})

#define OPS(ROW)                                                                                   \
    ROW(matmul_nn, hod_matmul(o->x, o->w))                                                         \
    ROW(matmul_nt, hod_matmul(o->x, o->wt))                                                        \
    ROW(matmul_tn, hod_matmul(hod_transpose(o->xt, 0, 1), o->w))                                   \
    ROW(matmul_grad, BOTH(hod_matmul(o->lx, o->lw), o->lx, o->lw))                                 \
    ROW(matmul_batched, hod_matmul(o->q, o->kt))                                                   \
    ROW(matmul_batched_nt, hod_matmul(o->q, hod_transpose(o->keys, 1, 2)))                         \
    ROW(matmul_batched_grad, BOTH(hod_matmul(o->lq, o->lkt), o->lq, o->lkt))                       \
    ROW(matmul_small, hod_matmul(o->image, o->image))                                              \
    ROW(matrix_vector, hod_matmul(o->x, o->v))                                                     \
    ROW(matrix_vector_grad, BOTH(hod_matmul(o->lx, o->lv), o->lx, o->lv))                          \
    ROW(vector_matrix, hod_matmul(o->u, o->x))                                                     \
    ROW(dot, hod_matmul(o->v, o->b))                                                               \
    ROW(outer, hod_outer(o->u, o->v))                                                              \
    ROW(outer_grad, BOTH(hod_outer(o->lu, o->lv), o->lu, o->lv))                                   \
    ROW(addmm, hod_addmm(o->b, o->x, o->w, 1, 1))                                                  \
    ROW(addmm_scaled, hod_addmm(o->b, o->x, o->w, 0.5, 2))                                         \
    ROW(linear, hod_linear(o->x, o->w, o->b))                                                      \
    ROW(linear_nobias, hod_linear_nobias(o->x, o->w))                                              \
    ROW(linear_grad, THREE(hod_linear(o->lx, o->lw, o->lb), o->lx, o->lw, o->lb))                  \
    ROW(einsum_scores, hod_einsum("bqhd,bkhd->bhqk", o->bshd, o->bshd))                            \
    ROW(einsum_scores_grad, op_gradients(hod_einsum("bqhd,bkhd->bhqk", o->lbshd, o->lbshd), 1,     \
                                         &(hod_tensor *){o->lbshd}))                               \
    ROW(einsum_batch, hod_einsum("bij,bjk->bik", o->q, o->kt))                                     \
    ROW(einsum_rows, hod_einsum("ij,ij->i", o->left, o->right))                                    \
    ROW(einsum_rows_grad, BOTH(hod_einsum("ij,ij->i", o->lleft, o->lright), o->lleft, o->lright))  \
    ROW(bilinear, hod_bilinear_nobias(o->left, o->right, o->form))                                 \
    ROW(bilinear_grad,                                                                             \
        THREE(hod_bilinear_nobias(o->lleft, o->lright, o->lform), o->lleft, o->lright, o->lform))  \
    ROW(cdist, hod_cdist(o->near, o->far, 2))                                                      \
    ROW(cdist_grad, BOTH(hod_cdist(o->lnear, o->lfar, 2), o->lnear, o->lfar))                      \
    ROW(cdist1, hod_cdist(o->near, o->far, 1))

OP_FAMILY(contractions, OPS, "32 rows of 64", "128 rows of 256", "1024 rows of 768")
