/* The FUSED rows of losses of elements: each loss, the sum of them all, and their gradients. What
 * the losses are stands in losses.def; loss_each.c has the fronts. */
#include "ops/fused.h"
#include "ops/rows.h"

typedef struct loss_job {
    const hod_loss_row *row;
    double number;
    const char *x, *t, *g;
    char *out;
    int64_t n, size;
    double *sums;
    bool one; /* one gradient for all */
    int input;
} loss_job;

enum { PIECE = 16384 }; /* elements: sums of pieces are added in order, whatever the threads do */

static void run_pieces(void *context, int64_t begin, int64_t end)
{
    const loss_job *job = context;
    for (int64_t k = begin; k < end; k++) {
        int64_t at = k * PIECE * job->size, n = HOD_MIN(PIECE, job->n - k * PIECE);
        const char *x = job->x + at, *t = job->t + at;
        if (job->sums)
            job->sums[k] = job->row->sum(n, x, t, job->number);
        else if (job->g)
            job->row->back(n, x, t, job->number, job->one ? job->g : job->g + at, job->one,
                           job->input, job->out + at);
        else
            job->row->each(n, x, t, job->number, job->out + at);
    }
}

static int eval(const hod_op_call *c, hod_tensor *out, double *sums)
{
    hod_tensor *in[HOD_FUSED_INPUTS] = {NULL};
    const hod_attrs_loss *a = &c->attrs->loss;
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0) {
        loss_job job = {.row = &hod__rows()->loss[out->dtype == HOD_F64][a->loss],
                        .number = a->number,
                        .x = hod__data(in[0]),
                        .t = hod__data(in[1]),
                        .g = c->n > 2 ? hod__data(in[2]) : NULL,
                        .out = hod__data(out),
                        .n = hod_tensor_numel(in[0]),
                        .size = (int64_t)hod_dtype_bytes(out->dtype),
                        .sums = sums,
                        .one = c->n > 2 && in[2]->ndim == 0,
                        .input = (int)a->input};
        hod__parallel((job.n + PIECE - 1) / PIECE, 1, run_pieces, &job);
    }
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_loss_each(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, NULL);
}

int hod__eval_loss_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, NULL);
}

int hod__eval_loss_sum(const hod_op_call *c, hod_tensor *out)
{
    int64_t n = (hod_tensor_numel(c->in[0]) + PIECE - 1) / PIECE;
    double *sums = hod__alloc((size_t)n, sizeof *sums), sum = 0;
    if (!sums || eval(c, out, sums) != 0) {
        free(sums);
        return -1;
    }
    for (int64_t k = 0; k < n; k++)
        sum += sums[k];
    free(sums);
    if (out->dtype == HOD_F64)
        *(double *)hod__data(out) = sum;
    else
        *(float *)hod__data(out) = (float)sum;
    return 0;
}

int hod__shape_one_of_all(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    *out = (hod_meta){.dtype = in[0].dtype};
    return 0;
}

/* ---- derivative ---- */

static hod_tensor *gradient(const hod_vjp *v, int i)
{
    hod_attrs a = *v->attrs;
    a.loss.input = i;
    if (hod__fuses_back())
        return hod__op(HOD_OP_loss_back, &a, 3, (hod_tensor *[]){v->x[0], v->x[1], v->g});
    return hod_mul(
        v->g, hod__loss_slope((hod_element_loss)a.loss.loss, v->x[0], v->x[1], a.loss.number, i));
}

hod_tensor *hod__vjp_loss_each(const hod_vjp *v, int i)
{
    return gradient(v, i);
}

hod_tensor *hod__vjp_loss_sum(const hod_vjp *v, int i)
{
    return gradient(v, i);
}
