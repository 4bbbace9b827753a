/* Operators one by one, timed: what stands beside bench/peer/ops.py, line by line.
 *
 *     ops                  # all, one JSON object a line
 *     ops exp sum          # those whose name, or whose family's, begins so
 *
 * Each is called eagerly, its result made and released, at three sizes. Time is the least of
 * several batches, in nanoseconds a call: what disturbs a machine only adds. ops/family.h tells how
 * a family is written; bench/ops.sh runs both sides and prints the ratios.
 */
#include "bench/ops/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAMILY(name) extern const op_family op_family_##name;
#include "bench/ops/families.def"
#undef FAMILY

static const op_family *const families[] = {
#define FAMILY(name) &op_family_##name,
#include "bench/ops/families.def"
#undef FAMILY
};

hod_tensor *op_uniform(hod_shape shape, double low, double high)
{
    return hod_add_scalar(hod_mul_scalar(hod_uniform(shape), high - low), low);
}

hod_tensor *op_gradients(hod_tensor *y, int n, hod_tensor *const *inputs)
{
    hod_tensor *g[8] = {NULL}, *ones = hod_full_like(y, 1);
    return hod_grad_of(y, n, inputs, g, ones) == 0 ? g[0] : NULL;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of n calls; negative after an error. */
static double batch(const op_row *row, const void *o, int64_t n)
{
    double begin = seconds();
    for (int64_t k = 0; k < n; k++) {
        HOD_SCOPE(s);
        if (!row->run(o))
            return -1;
    }
    return seconds() - begin;
}

static int measure(const op_family *f, const op_row *row, int size, const void *o, double limit)
{
    int64_t n = 1;
    double t = batch(row, o, 1), best = 1e30;
    while (t >= 0 && t < limit / 16 && n < 1 << 20)
        t = batch(row, o, n *= 2);
    double end = seconds() + limit;
    for (int b = 0; t >= 0 && (b < 3 || seconds() < end); b++) {
        t = batch(row, o, n);
        best = t / (double)n < best ? t / (double)n : best;
    }
    if (t < 0)
        return -1;
    printf("{\"family\": \"%s\", \"op\": \"%s\", \"who\": \"hod\", \"size\": %d, \"of\": \"%s\", "
           "\"ns\": %.1f}\n",
           f->name, row->name, size, f->sizes[size], 1e9 * best);
    fflush(stdout);
    return 0;
}

static bool begins_with_one(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(name, argv[i], strlen(argv[i])) == 0)
            return true;
    return argc == 1;
}

static int measure_family(const op_family *f, int argc, char **argv, double limit)
{
    int rc = 0;
    for (int size = 0; size < OP_SIZES && rc == 0; size++) {
        HOD_SCOPE(s);
        const void *o = NULL;
        for (int k = 0; k < f->n && rc == 0; k++) {
            if (!begins_with_one(f->rows[k].name, argc, argv) &&
                !begins_with_one(f->name, argc, argv))
                continue;
            if (!o && (hod_random_begin(1, 0, NULL) != 0 || !(o = f->make(size))))
                rc = -1;
            else
                rc = measure(f, &f->rows[k], size, o, limit);
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *limit = getenv("SECONDS_"), *threads = getenv("THREADS");
    int rc = hod_set_threads(threads ? atoi(threads) : 2);
    for (size_t k = 0; k < sizeof families / sizeof *families && rc == 0; k++)
        rc = measure_family(families[k], argc, argv, limit ? atof(limit) : 0.05);
    return hod_finish();
}
