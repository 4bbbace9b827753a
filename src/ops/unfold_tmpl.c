/* Columns added back, for one element type; unfold.c includes this body once for each. */

/* [begin, end): planes (n, c), each with all its columns in order. */
static void T(fold_planes)(void *context, int64_t begin, int64_t end)
{
    const unfold_job *job = context;
    const hod_attrs_unfold *a = job->a;
    int64_t size = a->image[0] * a->image[1], k = a->kernel[0] * a->kernel[1];
    int64_t across = job->windows[1], n = job->windows[0] * across;
    for (int64_t at = begin * k; at < end * k; at++) {
        int64_t j = at % a->kernel[1], i = at / a->kernel[1] % a->kernel[0], p0, p1, q0, q1;
        elem *plane = (elem *)job->to + at / k * size;
        if (at % k == 0)
            memset(plane, 0, (size_t)size * sizeof *plane);
        inside(job, 0, i, &p0, &p1);
        inside(job, 1, j, &q0, &q1);
        for (int64_t p = p0; p < p1; p++) {
            int64_t y = p * a->stride[0] + i * a->dilation[0] - a->padding[0];
            int64_t x = j * a->dilation[1] - a->padding[1];
            const elem *g = (const elem *)job->from + at * n + p * across;
            for (int64_t q = q0; q < q1; q++)
                plane[y * a->image[1] + x + q * a->stride[1]] += g[q];
        }
    }
}
