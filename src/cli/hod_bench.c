/* hod bench: the controlled comparison. The same network, seed and data four ways:
 *
 *     plain         the whole batch at once, operator by operator
 *     compile       the whole batch, compiled
 *     accumulate    in micro-batches, operator by operator
 *     both          in micro-batches, compiled, inside the budget
 *
 * The micro-batch is the one that the config names, or else the one that the planner takes for
 * `both`, but at most a quarter of the batch, so that there is something to compare. Losses are compared with the plain row's. Batch
 * normalisation sees micro-batches, which is another computation, so under it the compiled row is
 * compared with the row of the same cut.
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
    int64_t planned; /* the planner's micro-batch */
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

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void print_head(void)
{
    printf("row         micro x k   samples/s   ms/update   peak MiB  predicted  "
           "max rel. loss diff (%d / all)\n",
           FIRST);
}

static void print_row(const bench *b, int i)
{
    const bench_result *r = &b->result[i], *ref = &b->result[reference_of(b, i)];
    printf("%-11s %5lld x %-3lld %10.0f  %10.2f  %9.2f", rows[i].name, (long long)r->micro_batch,
           (long long)r->accumulate, r->samples_per_s, 1e3 * r->update_seconds, mib(r->peak_bytes));
    if (r->exact)
        printf("  %9.2f", mib(r->predicted_peak_bytes));
    else
        printf("  %9s", "-"); /* no plan */
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
           "%.2f MiB\n",
           both->samples_per_s / plain->samples_per_s,
           (double)both->peak_bytes / (double)plain->peak_bytes, mib(both->resident_growth));
    if (b->config.memory_budget)
        printf("budget %.1f MiB, measured peak %.1f MiB\n", mib(b->config.memory_budget),
               mib(both->peak_bytes));
}

static int emit(const bench *b, int i)
{
    const bench_result *r = &b->result[i];
    const bench_result *ref = &b->result[reference_of(b, i)];
    return cli_event(
        &b->events, "bench", HOD_TEXT("row", rows[i].name), HOD_FLAG("compile", rows[i].compiled),
        HOD_INT("accumulate", r->accumulate), HOD_INT("micro_batch", r->micro_batch),
        HOD_INT("updates", r->updates), HOD_NUMBER("samples_per_s", r->samples_per_s),
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
    for (int i = 0; i < ROWS; i++)
        s[i] = (hod_series){.name = rows[i].name,
                            .y = b->result[i].loss,
                            .n = b->result[i].updates,
                            .dashed = i > 0};
    snprintf(title, sizeof title, "%s on %s, batches of %lld: four ways, one curve", c->model.name,
             c->data.name, (long long)c->effective_batch);
    for (int i = 0; i < 2; i++)
        if (hod_plot(cli_output_path(c, names[i], path), s, ROWS, title, .x_label = "updates done",
                     .y_label = "training loss") != 0)
            return -1;
    return 0;
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

static int run_rows(bench *b, int64_t micro)
{
    bool show = !b->json;
    if (show && micro != b->planned)
        printf("The plan is micro-batches of %lld; %lld show more of a difference.\n\n",
               (long long)b->planned, (long long)micro);
    if (show)
        print_head();
    for (int i = 0; i < ROWS; i++) {
        hod_config c = b->config;
        c.micro_batch = rows[i].accumulated ? micro : c.effective_batch;
        bench_row_run(&rows[i], &c, show && cli_progress_begin(stdout, 0, 0).bar, &b->result[i]);
        if (b->result[i].status != CLI_DONE)
            return failed(&b->result[i]);
        if (show)
            print_row(b, i);
    }
    return CLI_DONE;
}

static int finish(bench *b)
{
    char path[HOD_CONFIG_PATH + 64];
    const hod_config *c = &b->config;
    b->events.log = fopen(cli_output_path(c, "bench.jsonl", path), "w");
    if (!b->events.log) {
        hod_refuse("%s: %s", path, strerror(errno));
        return -1;
    }
    int rc = 0;
    for (int i = 0; i < ROWS && rc == 0; i++)
        rc = emit(b, i);
    if (fclose(b->events.log) != 0 && rc == 0) {
        hod_refuse("%s: %s", path, strerror(errno));
        rc = -1;
    }
    b->events.log = NULL;
    if (rc != 0 || plots(b) != 0)
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
    if (status == CLI_DONE && hod_directory_prepare(b.config.output) != 0)
        status = cli_fail(cli_setup_status());
    if (status == CLI_DONE)
        status = run_rows(&b, micro);
    if (status == CLI_DONE && finish(&b) != 0)
        status = cli_fail(CLI_FAILED);
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
        "are left out of the times. 50 updates unless --updates or the config says otherwise.\n",
    .flags = CLI_JSON | CLI_UPDATES | CLI_OUTPUT,
    .run = run,
};
