/* hod bench: the controlled comparison. The same network, seed and data four ways:
 *
 *     plain         the whole batch at once, operator by operator
 *     compile       the whole batch, compiled
 *     accumulate    in micro-batches, operator by operator
 *     both          in micro-batches, compiled, inside the budget
 *
 * The micro-batch is the one that the config names, or else the one that the planner takes for
 * `both`, but at most a quarter of the batch: with what persists counted in, half a batch takes a
 * little more than half the memory, and a budget that fits the whole batch would leave nothing to
 * compare. Losses are compared with the plain row's. Batch normalisation sees micro-batches, which
 * is another computation, so under it the compiled row is compared with the row of the same cut.
 *
 * A row is printed and written to bench.jsonl when it is done: a comparison that is cut short keeps
 * what it has.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, FIRST = 5 }; /* FIRST: updates of the strict comparison */

static const bench_row rows[ROWS] = {
    {.name = "plain"},
    {.name = "compile", .compiled = true},
    {.name = "accumulate", .accumulated = true},
    {.name = "both", .compiled = true, .accumulated = true},
};

typedef struct bench {
    hod_config config;
    bool json;
    int64_t planned; /* the planner's micro-batch; the accumulated rows may take a smaller one */
    bench_result result[ROWS];
    cli_events events;
} bench;

/* ---- comparing ---- */

/* The row that row i's losses are held against. */
static int reference_of(const bench *b, int i)
{
    return b->config.model.norm == HOD_NORM_BATCH && i == 3 ? 2 : 0;
}

/* Largest relative difference over the first n updates. */
static double difference(const bench_result *a, const bench_result *ref, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n && i < a->updates && i < ref->updates; i++) {
        double d = fabs(a->loss[i] - ref->loss[i]) / fmax(fabs(ref->loss[i]), 1e-12);
        most = d <= most ? most : d; /* NaN is the largest of all */
    }
    return most;
}

/* ---- saying ---- */

static void print_head(void)
{
    printf("largest relative difference of the loss to the plain row's, first %d updates / all:\n"
           "row         micro x k   samples/s   ms/update        peak   predicted  difference\n",
           FIRST);
}

static void print_row(const bench *b, int i)
{
    const bench_result *r = &b->result[i], *ref = &b->result[reference_of(b, i)];
    printf("%-11s %5lld x %-3lld %10.0f  %10.2f  %10s  %10s", rows[i].name,
           (long long)r->micro_batch, (long long)r->accumulate, r->samples_per_s,
           1e3 * r->update_seconds, CLI_BYTES(r->peak_bytes),
           r->exact ? CLI_BYTES(r->predicted_peak_bytes) : "-"); /* no plan */
    if (i > 0)
        printf("  %.1e / %.1e", difference(r, ref, FIRST), difference(r, ref, r->updates));
    if (reference_of(b, i))
        printf("  (against %s)", rows[reference_of(b, i)].name);
    printf("\n");
    fflush(stdout);
}

static void print_sum(const bench *b)
{
    const bench_result *plain = &b->result[0], *both = &b->result[3];
    printf("\nboth against plain: %.2fx the speed, %.2fx the memory; resident growth after warm-up "
           "%s\n",
           both->samples_per_s / plain->samples_per_s,
           (double)both->peak_bytes / (double)plain->peak_bytes, CLI_BYTES(both->resident_growth));
    if (b->config.memory_budget)
        printf("budget %s, measured peak %s\n", CLI_BYTES(b->config.memory_budget),
               CLI_BYTES(both->peak_bytes));
}

static int emit(const bench *b, int i)
{
    const bench_result *r = &b->result[i];
    const bench_result *ref = &b->result[reference_of(b, i)];
    return cli_event(
        &b->events, "bench", HOD_TEXT("row", rows[i].name), HOD_FLAG("compile", rows[i].compiled),
        HOD_INT("accumulate", r->accumulate), HOD_INT("micro_batch", r->micro_batch),
        HOD_INT("planned_micro_batch", b->planned), HOD_INT("updates", r->updates),
        HOD_NUMBER("samples_per_s", r->samples_per_s),
        HOD_NUMBER("update_seconds", r->update_seconds), HOD_INT("peak_bytes", r->peak_bytes),
        r->exact ? (hod_field)HOD_INT("predicted_peak_bytes", r->predicted_peak_bytes)
                 : (hod_field)HOD_TEXT("predicted_peak_bytes", NULL),
        HOD_INT("budget_bytes", b->config.memory_budget),
        HOD_INT("resident_bytes", r->resident_bytes),
        HOD_INT("resident_growth_bytes", r->resident_growth),
        HOD_NUMBER("compile_seconds", r->compile_seconds), HOD_INT("kernels", r->kernels),
        HOD_INT("kernels_cached", r->kernels_cached),
        HOD_TEXT("against", rows[reference_of(b, i)].name),
        HOD_NUMBER("max_rel_diff_first_5", difference(r, ref, FIRST)),
        HOD_NUMBER("max_rel_diff", difference(r, ref, r->updates)),
        HOD_NUMBERS("loss", r->loss, r->updates));
}

static int plots(const bench *b)
{
    static const char *const names[] = {"bench.png", "bench.svg"};
    char path[HOD_CONFIG_PATH + 64], title[HOD_CONFIG_NAME * 2 + 64];
    const hod_config *c = &b->config;
    hod_series s[ROWS];
    double *x = calloc((size_t)c->updates + 1, sizeof *x);
    for (int64_t i = 0; x && i < c->updates; i++)
        x[i] = (double)i + 1; /* updates count from 1 */
    for (int i = 0; i < ROWS; i++)
        s[i] = (hod_series){.name = rows[i].name,
                            .x = x,
                            .y = b->result[i].loss,
                            .n = b->result[i].updates,
                            .dashed = i > 0};
    snprintf(title, sizeof title, "%s on %s, batches of %lld: four ways, one curve", c->model.name,
             c->data.name, (long long)c->effective_batch);
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = hod_plot(cli_output_path(c, names[i], path), s, ROWS, title, .x_label = "update",
                      .y_label = "training loss");
    free(x);
    return rc;
}

/* ---- running ---- */

static int failed(const bench_result *r)
{
    fprintf(stderr, r->kind == HOD_ERROR_CONFIG ? "%s\n" : "hod: %s\n", r->error);
    return r->status;
}

/* The micro-batch of the accumulated rows. */
static int choose(bench *b, int64_t *micro)
{
    static const bench_row planning = {
        .name = "plan", .compiled = true, .accumulated = true, .plan_only = true};
    const hod_config *c = &b->config;
    bench_result r;
    bench_row_run(&planning, c, false, &r);
    free(r.loss);
    if (r.status != CLI_DONE)
        return failed(&r);
    *micro = r.micro_batch;
    int64_t quarter = (c->effective_batch + 3) / 4;
    b->planned = *micro;
    if (c->micro_batch == HOD_AUTO && *micro > quarter)
        *micro = quarter;
    return CLI_DONE;
}

/* What the accumulated rows are cut into, and why. */
static void print_cut(const bench *b, int64_t micro)
{
    const hod_config *c = &b->config;
    if (micro != b->planned)
        printf(
            "`hod train` would take micro-batches of %lld here. The accumulated rows take %lld, a "
            "quarter of\nthe batch, so that there is a cut to compare; micro_batch=%lld compares "
            "with the plan's.\n\n",
            (long long)b->planned, (long long)micro, (long long)b->planned);
    else if (micro >= c->effective_batch)
        printf("micro_batch is the whole batch, so the accumulated rows are not cut.\n\n");
}

static int run_rows(bench *b, int64_t micro)
{
    bool show = !b->json;
    if (show) {
        print_cut(b, micro);
        print_head();
    }
    for (int i = 0; i < ROWS; i++) {
        hod_config c = b->config;
        c.micro_batch = rows[i].accumulated ? micro : c.effective_batch;
        bench_row_run(&rows[i], &c, show && cli_progress_begin(stdout, 0, 0).bar, &b->result[i]);
        if (b->result[i].status != CLI_DONE)
            return failed(&b->result[i]);
        if (show)
            print_row(b, i);
        if (emit(b, i) != 0)
            return cli_fail(CLI_FAILED);
    }
    return CLI_DONE;
}

static int files_begin(bench *b)
{
    char path[HOD_CONFIG_PATH + 64];
    if (hod_directory_prepare(b->config.output) != 0)
        return -1;
    b->events.log = fopen(cli_output_path(&b->config, "bench.jsonl", path), "w");
    if (b->events.log)
        return 0;
    hod_refuse("%s: %s", path, strerror(errno));
    return -1;
}

static int finish(const bench *b)
{
    char path[HOD_CONFIG_PATH + 64];
    const hod_config *c = &b->config;
    if (plots(b) != 0)
        return -1;
    if (!b->json) {
        print_sum(b);
        printf("loss curves: %s\n", cli_output_path(c, "bench.png", path));
    }
    return 0;
}

static int run(const cli_options *o)
{
    bench b = {.json = o->json, .events.json = o->json ? stdout : NULL};
    int64_t micro = 0;
    if (cli_config_load(&b.config, o) != 0 || cli_output_check(b.config.output) != 0)
        return cli_fail(cli_setup_status());
    if (b.config.updates == 0)
        b.config.updates = 50;
    int status = choose(&b, &micro);
    if (status == CLI_DONE && files_begin(&b) != 0)
        status = cli_fail(cli_setup_status());
    if (status == CLI_DONE)
        status = run_rows(&b, micro);
    if (status == CLI_DONE && finish(&b) != 0)
        status = cli_fail(CLI_FAILED);
    if (b.events.log)
        fclose(b.events.log);
    for (int i = 0; i < ROWS; i++)
        free(b.result[i].loss);
    return status;
}

const cli_command cli_bench = {
    .name = "bench",
    .argument = "CONFIG",
    .text = "compare plain, compiled, accumulated and both",
    .help =
        "Same network, seed and data in every row, each in a process of its own; the first "
        "updates\n"
        "are left out of the times. 50 updates unless --updates or the config says otherwise. The\n"
        "accumulated rows are cut in four or more unless micro_batch says into what.\n",
    .flags = CLI_JSON | CLI_UPDATES | CLI_OUTPUT,
    .run = run,
};
