/* The elementwise operators, eagerly: rows from pointwise_tmpl.c, walked by hod_iter. */
#include "ops/rules.h"
#include "tensor/half.h"
#include <math.h>

/* One row: n results `so` apart, operand k from in[k] on, s[k] apart. */
typedef void row(int64_t n, void *out, int64_t so, const void *const *in, const int64_t *s);

#define PLAIN 0
#define FLOATS 0
#define SWAPS 0
#define SAVES_X 0
#define SAVES_Y 0
#define SAVES_B 0
#define SAVES_C 0
#define BILINEAR 0
#define Y_FOR_B 0
#define BOOL 1

#define TYPED_BODY "ops/pointwise_tmpl.c"
#include "ops/all_types_tmpl.h"
#undef TYPED_BODY

static row *const *const rows_of[HOD_DTYPES] = {
    [HOD_F32] = rows_f32, [HOD_F64] = rows_f64, [HOD_F16] = rows_f16, [HOD_BF16] = rows_bf16,
    [HOD_I64] = rows_i64, [HOD_I32] = rows_i32, [HOD_U8] = rows_u8,   [HOD_BOOL] = rows_bool,
};

typedef struct pointwise_job {
    hod_iter it; /* operand 0 is the result */
    row *run;
    char *base[HOD_ITER_MAX];
    int64_t size[HOD_ITER_MAX]; /* bytes of an element */
} pointwise_job;

/* Runs a stretch of one row: elements [from, to). */
static void run_stretch(const pointwise_job *job, const int64_t *offset, int64_t from, int64_t to)
{
    int last = job->it.ndim - 1;
    const void *in[HOD_ITER_MAX];
    int64_t s[HOD_ITER_MAX];
    for (int k = 1; k < job->it.n_operands; k++) {
        s[k - 1] = job->it.strides[k][last];
        in[k - 1] = job->base[k] + (offset[k] + from * s[k - 1]) * job->size[k];
    }
    int64_t so = job->it.strides[0][last];
    job->run(to - from, job->base[0] + (offset[0] + from * so) * job->size[0], so, in, s);
}

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const pointwise_job *job = context;
    for (int64_t r = begin; r < end; r++) {
        int64_t offset[HOD_ITER_MAX];
        hod__iter_row(&job->it, r, offset);
        run_stretch(job, offset, 0, job->it.shape[job->it.ndim - 1]);
    }
}

/* Contiguous operations are one row, which is cut into stretches instead. */
static void run_only_row(void *context, int64_t begin, int64_t end)
{
    run_stretch(context, (int64_t[HOD_ITER_MAX]){0}, begin, end);
}

enum { PARALLEL_ELEMENTS = 32768 }; /* below, waking threads costs more than the work */

int hod__eval_pointwise(const hod_op_call *c, hod_tensor *out)
{
    if (c->op == HOD_OP_cast)
        return hod__eval_cast(c, out);
    const hod_tensor *operand[HOD_ITER_MAX] = {out};
    pointwise_job job = {0};
    job.run = rows_of[c->in[c->n - 1]->dtype][c->op];
    for (int k = 0; k < c->n; k++)
        operand[k + 1] = c->in[k];
    hod__iter_begin(&job.it, out->ndim, out->shape, c->n + 1, operand);
    if (job.it.n == 0)
        return 0;
    for (int k = 0; k <= c->n; k++) {
        job.base[k] = hod__data(operand[k]);
        job.size[k] = (int64_t)hod_dtype_bytes(operand[k]->dtype);
    }
    int64_t length = job.it.shape[job.it.ndim - 1];
    if (job.it.ndim == 1)
        hod__parallel(length, PARALLEL_ELEMENTS, run_only_row, &job);
    else
        hod__parallel(hod__iter_rows(&job.it), HOD_MAX(1, PARALLEL_ELEMENTS / length), run_rows,
                      &job);
    return 0;
}
