/* Element types into one another: 64 rows from cast_tmpl.c. */
#include "ops/rules.h"
#include "tensor/half.h"
#include <math.h>

typedef void cast_row(int64_t n, void *out, int64_t so, const void *in, int64_t s);

#define TYPED_BODY "ops/cast_tmpl.c"
#include "ops/all_types_tmpl.h"
#undef TYPED_BODY

static cast_row *const *const casts_of[HOD_DTYPES] = {
    [HOD_F32] = casts_f32, [HOD_F64] = casts_f64, [HOD_F16] = casts_f16, [HOD_BF16] = casts_bf16,
    [HOD_I64] = casts_i64, [HOD_I32] = casts_i32, [HOD_U8] = casts_u8,   [HOD_BOOL] = casts_bool,
};

typedef struct cast_job {
    hod_iter it;
    cast_row *run;
    char *to;
    const char *from;
    int64_t to_size, from_size;
} cast_job;

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const cast_job *job = context;
    int last = job->it.ndim - 1;
    for (int64_t r = begin; r < end; r++) {
        int64_t offset[HOD_ITER_MAX];
        hod__iter_row(&job->it, r, offset);
        job->run(job->it.shape[last], job->to + offset[0] * job->to_size,
                 job->it.strides[0][last], job->from + offset[1] * job->from_size,
                 job->it.strides[1][last]);
    }
}

static void run_only_row(void *context, int64_t begin, int64_t end)
{
    const cast_job *job = context;
    int64_t so = job->it.strides[0][0], s = job->it.strides[1][0];
    job->run(end - begin, job->to + begin * so * job->to_size, so,
             job->from + begin * s * job->from_size, s);
}

enum { PARALLEL_ELEMENTS = 32768 };

int hod__eval_cast(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *x = c->in[0];
    cast_job job = {.run = casts_of[x->dtype][out->dtype]};
    hod__iter_begin(&job.it, out->ndim, out->shape, 2, (const hod_tensor *[]){out, x});
    if (job.it.n == 0)
        return 0;
    job.to = hod__data(out);
    job.from = hod__data(x);
    job.to_size = (int64_t)hod_dtype_bytes(out->dtype);
    job.from_size = (int64_t)hod_dtype_bytes(x->dtype);
    int64_t length = job.it.shape[job.it.ndim - 1];
    if (job.it.ndim == 1)
        hod__parallel(length, PARALLEL_ELEMENTS, run_only_row, &job);
    else
        hod__parallel(hod__iter_rows(&job.it), HOD_MAX(1, PARALLEL_ELEMENTS / length), run_rows,
                      &job);
    return 0;
}
