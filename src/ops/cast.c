/* Element types into one another: 64 rows from cast_tmpl.c. */
#include "ops/rows.h"
#include "ops/rules.h"

typedef struct cast_job {
    hod_iter it;
    hod_cast_row *run;
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
        job->run(job->it.shape[last], job->to + offset[0] * job->to_size, job->it.strides[0][last],
                 job->from + offset[1] * job->from_size, job->it.strides[1][last]);
    }
}

static void run_only_row(void *context, int64_t begin, int64_t end)
{
    const cast_job *job = context;
    int64_t so = job->it.strides[0][0], s = job->it.strides[1][0];
    job->run(end - begin, job->to + begin * so * job->to_size, so,
             job->from + begin * s * job->from_size, s);
}

int hod__eval_cast(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *x = c->in[0];
    cast_job job = {.run = hod__rows()->cast[x->dtype][out->dtype]};
    hod__iter_begin(&job.it, out->ndim, out->shape, 2, (const hod_tensor *[]){out, x});
    if (job.it.n == 0)
        return 0;
    job.to = hod__data(out);
    job.from = hod__data(x);
    job.to_size = (int64_t)hod_dtype_bytes(out->dtype);
    job.from_size = (int64_t)hod_dtype_bytes(x->dtype);
    int64_t length = job.it.shape[job.it.ndim - 1];
    if (job.it.ndim == 1)
        hod__parallel(length, HOD_PARALLEL_ELEMENTS, run_only_row, &job);
    else
        hod__parallel(hod__iter_rows(&job.it), hod__grain(length), run_rows, &job);
    return 0;
}
