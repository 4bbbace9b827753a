/* Running sums and products for one element type; scan.c includes this body once for each. They are
 * kept in `wide`, so that a long one does not lose what it adds. */
#define SCAN(name, start, combine)                                                                 \
    static void T(name)(void *context, int64_t begin, int64_t end)                                 \
    {                                                                                              \
        const scan_job *job = context;                                                             \
        for (int64_t b = begin; b < end; b++) {                                                    \
            int64_t from = b % job->blocks * SCAN_COLUMNS;                                         \
            int64_t n = HOD_MIN(SCAN_COLUMNS, job->inner - from), step = job->inner;               \
            int64_t first = b / job->blocks * job->size * job->inner + from;                       \
            if (job->reverse) {                                                                    \
                first += (job->size - 1) * job->inner;                                             \
                step = -step;                                                                      \
            }                                                                                      \
            const elem *x = (const elem *)job->from + first;                                       \
            elem *y = (elem *)job->to + first;                                                     \
            if (n == 1) {                                                                          \
                wide acc = start;                                                                  \
                for (int64_t i = 0; i < job->size; i++) {                                          \
                    wide a = LOAD(x[i * step]);                                                    \
                    acc = combine;                                                                 \
                    y[i * step] = WIDE_STORE(acc);                                                 \
                }                                                                                  \
                continue;                                                                          \
            }                                                                                      \
            wide accs[SCAN_COLUMNS];                                                               \
            for (int64_t j = 0; j < n; j++)                                                        \
                accs[j] = start;                                                                   \
            for (int64_t i = 0; i < job->size; i++)                                                \
                for (int64_t j = 0; j < n; j++) {                                                  \
                    wide acc = accs[j], a = LOAD(x[i * step + j]);                                 \
                    accs[j] = combine;                                                             \
                    y[i * step + j] = WIDE_STORE(accs[j]);                                         \
                }                                                                                  \
        }                                                                                          \
    }
SCAN(scan_sum, 0, acc + a)
SCAN(scan_product, 1, acc *a)
#undef SCAN
