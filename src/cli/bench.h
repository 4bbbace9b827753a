/* One row of `hod bench`: a process of its own, so that no row inherits another's caches. */
#ifndef HOD_CLI_BENCH_H
#define HOD_CLI_BENCH_H

#include "cli.h"

enum { BENCH_WARM_UP = 3 }; /* updates left out of the time */

/* What a row is asked to do. */
typedef struct bench_row {
    const char *name;
    bool compiled, accumulated;
    bool plan_only; /* find the micro-batch that fits, run nothing */
} bench_row;

typedef struct bench_result {
    int status; /* of enum cli_status; if not CLI_DONE, `error` says why */
    hod_error_kind kind;
    char error[HOD_ERROR_TEXT];
    int64_t micro_batch, accumulate;
    int64_t updates;
    double update_seconds; /* median after the warm-up */
    double samples_per_s;
    int64_t peak_bytes, predicted_peak_bytes;
    bool exact;              /* the prediction is the memory plan's */
    int64_t resident_bytes;  /* at the end, as the system sees the process */
    int64_t resident_growth; /* from the end of the warm-up to the end */
    double compile_seconds;
    int kernels, kernels_cached;
    double *loss; /* updates values, malloc'd */
} bench_result;

/* Runs the row in a child process; c is the config with the row's micro-batch in it. `show`: a bar
 * on standard output while it runs. Always fills *out; its status is the row's. The caller must not
 * have used the thread pool: a fork has only the thread that forked. */
void bench_row_run(const bench_row *row, const hod_config *c, bool show, bench_result *out);

#endif
