/* Windows added back, for one element type; windows.c includes this body once for each. */

/* [begin, end): rows of the result. Each sums its windows in their order, wherever parts begin. */
static void T(add_windows)(void *context, int64_t begin, int64_t end)
{
    const windows_job *job = context;
    int64_t size = job->size, step = job->step, inner = job->inner;
    for (int64_t row = begin; row < end;) {
        int64_t line = row / job->line, p0 = row % job->line;
        int64_t p1 = HOD_MIN(job->line, p0 + end - row);
        elem *to = (elem *)job->to + row * inner;
        memset(to, 0, (size_t)((p1 - p0) * inner) * sizeof *to);
        for (int64_t w = p0 < size ? 0 : (p0 - size) / step + 1; w < job->windows && w * step < p1;
             w++) {
            int64_t k0 = HOD_MAX(p0 - w * step, 0), k1 = HOD_MIN(p1 - w * step, size);
            const elem *g =
                (const elem *)job->from + ((line * job->windows + w) * size + k0) * inner;
            elem *y = to + (w * step + k0 - p0) * inner;
            for (int64_t e = 0; e < (k1 - k0) * inner; e++)
                y[e] += g[e];
        }
        row += p1 - p0;
    }
}
