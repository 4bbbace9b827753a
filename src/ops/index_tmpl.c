/* Additions at an index, for one element type; index.c includes this body once for each. Each part
 * of the result is written by one thread, in the order of the index, so bits do not depend on how
 * many there are. */

/* [begin, end): rows of the result. */
static void T(add_rows)(void *context, int64_t begin, int64_t end)
{
    const index_job *job = context;
    for (int64_t i = 0; i < job->n; i++) {
        int64_t row = job->index[i];
        if (row < begin || row >= end)
            continue;
        const elem *g = (const elem *)job->from + i * job->inner;
        elem *to = (elem *)job->to + row * job->inner;
        for (int64_t j = 0; j < job->inner; j++)
            to[j] += g[j];
    }
}
