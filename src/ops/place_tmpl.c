/* Additions where a pad reads, for one element type; place.c includes this body once for each. A
 * part is written by one thread, row after row, so bits do not depend on how many there are. */

/* [begin, end): parts, each with all its padded rows. */
static void T(pad_back)(void *context, int64_t begin, int64_t end)
{
    const pad_job *job = context;
    int last = job->ndim - 1;
    int64_t n = job->padded[last], stop = job->before + job->size;
    for (int64_t row = begin * job->rows; row < end * job->rows; row++) {
        int64_t at = row_source(job, row);
        if (at < 0)
            continue;
        const elem *g = (const elem *)job->from + row * n;
        elem *to = (elem *)job->to + at;
        for (int64_t k = 0; k < job->before; k++)
            if (job->table[last][k] >= 0)
                to[job->table[last][k]] += g[k];
        for (int64_t k = 0; k < job->size; k++)
            to[k] += g[job->before + k];
        for (int64_t k = stop; k < n; k++)
            if (job->table[last][k] >= 0)
                to[job->table[last][k]] += g[k];
    }
}
