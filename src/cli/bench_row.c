/* A row of `hod bench` in a process of its own, which reports over a pipe.
 *
 *     parent                       child
 *     fork ----------------------> data, network, trainer, plan
 *                                  updates; time and memory of each
 *     read <--- bench_result ----- (pointers are not sent)
 *     read <--- losses -----------
 *     wait                         exit
 *
 * The budget binds the compiled rows only: a step that is not compiled has no plan, and its row
 * exists to show what it takes.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the child ---- */

/* Resident bytes of this process; 0 when the system does not say. */
static int64_t resident(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %lld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n == 0 ? 0 : n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Runs the updates. seconds: room for those that are timed. */
static int measure(cli_run *r, bool show, bench_result *out, double *seconds)
{
    int64_t want = r->config.updates, timed = 0;
    int64_t warm = want > 2 * BENCH_WARM_UP ? BENCH_WARM_UP : want / 2;
    cli_progress p = cli_progress_begin(show ? stdout : NULL, 0, 0);
    int64_t settled = 0;
    for (hod_update u; out->updates < want && hod_trainer_step(r->trainer, r->train, &u);) {
        hod_progress at = hod_trainer_progress(r->trainer);
        if (cli_progress_update(&p, &u, &at) != 0)
            break;
        out->loss[out->updates++] = u.loss;
        if (out->updates > warm && u.samples == r->config.effective_batch)
            seconds[timed++] = u.seconds;
        if (out->updates == warm)
            settled = resident();
        out->peak_bytes = u.peak_bytes;
    }
    cli_progress_end(&p);
    out->resident_bytes = resident();
    out->resident_growth = settled ? out->resident_bytes - settled : 0;
    out->update_seconds = median(seconds, timed);
    out->samples_per_s = timed ? (double)r->config.effective_batch / out->update_seconds : 0;
    return hod_error() ? -1 : 0;
}

static void report_programs(const cli_run *r, bench_result *out)
{
    const hod_trainer_part parts[] = {HOD_PART_ACCUMULATE, HOD_PART_UPDATE};
    for (int i = 0; i < 2; i++) {
        hod_compile_report c = hod_fn_report(hod_trainer_fn(r->trainer, parts[i]));
        out->compile_seconds += c.compile_seconds;
        out->kernels += c.kernels;
        out->kernels_cached += c.kernels_cached;
    }
}

/* Fewer samples than a batch would leave no update to compare. */
static int check_data(const cli_run *r)
{
    int64_t n = hod_dataset_count(r->train), batch = r->config.effective_batch;
    if (n >= batch)
        return 0;
    hod_refuse("bench: %lld samples make no batch of %lld", (long long)n, (long long)batch);
    return -1;
}

static int row_exact(cli_run *r, bool *exact)
{
    hod_plan plan;
    if (!r->config.compile.enabled)
        return 0;
    if (hod_trainer_plan(r->trainer, r->train, &plan) != 0)
        return -1;
    for (int i = 0; i < plan.n; i++)
        if (plan.rows[i].chosen)
            *exact = plan.rows[i].exact;
    return 0;
}

/* The child's work, up to the report. */
static int child_run(const bench_row *row, cli_run *r, bool show, bench_result *out)
{
    hod_config *c = &r->config;
    c->compile.enabled = row->compiled;
    if (!(row->compiled && row->accumulated))
        c->memory_budget = 0;
    out->loss = calloc((size_t)c->updates + 1, sizeof *out->loss);
    double *seconds = calloc((size_t)c->updates + 1, sizeof *seconds);
    int rc = out->loss && seconds && cli_run_open(r) == 0 && check_data(r) == 0 &&
                     hod_trainer_prepare(r->trainer, r->train) == 0 &&
                     row_exact(r, &out->exact) == 0
                 ? 0
                 : -1;
    if (rc != 0)
        out->status = cli_setup_status();
    out->micro_batch = hod_trainer_micro_batch(r->trainer);
    if (rc == 0 && !row->plan_only && (rc = measure(r, show, out, seconds)) != 0)
        out->status = CLI_FAILED;
    out->predicted_peak_bytes = hod_trainer_predicted_peak(r->trainer);
    if (rc == 0)
        report_programs(r, out);
    free(seconds);
    return rc;
}

/* Writes all n bytes. */
static bool send_all(int fd, const void *what, size_t n)
{
    for (const char *p = what; n > 0;) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

__attribute__((noreturn)) static void child(int fd, const bench_row *row, const hod_config *c,
                                            bool show)
{
    cli_run r = {.config = *c};
    bench_result out = {.status = CLI_DONE};
    if (child_run(row, &r, show, &out) != 0) {
        hod_error_record e = {.kind = HOD_ERROR_NONE, .text = "memory for the losses ran out"};
        hod_error_take(&e);
        out.kind = e.kind;
        memcpy(out.error, e.text, sizeof out.error);
    }
    if (out.micro_batch)
        out.accumulate = (c->effective_batch + out.micro_batch - 1) / out.micro_batch;
    bool sent = send_all(fd, &out, sizeof out) &&
                send_all(fd, out.loss, (size_t)out.updates * sizeof *out.loss);
    free(out.loss);
    cli_run_close(&r);
    close(fd);
    exit(sent ? 0 : 1);
}

/* ---- the parent ---- */

/* Reads n bytes; false when the other side ends before. */
static bool receive(int fd, void *to, size_t n)
{
    for (char *p = to; n > 0;) {
        ssize_t done = read(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static void lost(bench_result *out, const bench_row *row, const char *why)
{
    free(out->loss);
    *out = (bench_result){.status = CLI_FAILED};
    snprintf(out->error, sizeof out->error, "bench, row %s: %s", row->name, why);
}

static bool read_report(int fd, bench_result *out)
{
    if (!receive(fd, out, sizeof *out)) {
        out->loss = NULL;
        return false;
    }
    out->loss = calloc((size_t)out->updates + 1, sizeof *out->loss);
    return out->loss && receive(fd, out->loss, (size_t)out->updates * sizeof *out->loss);
}

void bench_row_run(const bench_row *row, const hod_config *c, bool show, bench_result *out)
{
    int fds[2], status = 0;
    *out = (bench_result){0};
    fflush(NULL);
    if (pipe(fds) != 0) {
        lost(out, row, strerror(errno));
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        child(fds[1], row, c, show);
    }
    close(fds[1]);
    bool whole = pid > 0 && read_report(fds[0], out);
    close(fds[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0) {
        lost(out, row, strerror(errno));
    } else if (!whole || status != 0) { /* a report is worth nothing when closing then fails */
        const char *when = whole ? "after" : "before";
        char why[64];
        if (WIFSIGNALED(status))
            snprintf(why, sizeof why, "ended by signal %d %s its report", WTERMSIG(status), when);
        else
            snprintf(why, sizeof why, "ended with status %d %s its report", WEXITSTATUS(status),
                     when);
        lost(out, row, why);
    }
}
