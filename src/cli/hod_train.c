/* hod train: trains what a config describes, inside its budget, and can be stopped at any time.
 *
 * The output directory receives
 *
 *     config.yaml         the effective config
 *     log.jsonl           every event; a resumed run goes on in it
 *     checkpoints/        what --resume and `hod eval` read
 *     model.safetensors   the network alone, at the end; with `ema` its averaged weights
 *     loss.png, loss.svg  the loss of every update, and of the test split
 *     memory.svg          the planned arena over a micro-step
 *
 * Order: everything that can refuse the run, then the directory, then the first update. A directory
 * that holds another run's checkpoints is refused, or a later --resume would go on with either.
 */
#include "cli.h"

#include <math.h>

typedef struct job {
    cli_run run;
    cli_events events;
    cli_progress progress;
    cli_curve loss, test;
    double best;                           /* accuracy; NaN: none yet */
    char checkpoint[HOD_CONFIG_PATH + 64]; /* the newest; "": none */
    char dir[HOD_CONFIG_PATH + 64];        /* of checkpoints */
    double first;                          /* loss; NaN: none yet */
    bool stopped, warned;
} job;

/* ---- before the first write ---- */

/* Takes up the newest checkpoint, or sees to it that there is none. */
static int take_up(const cli_options *o, job *j)
{
    char path[HOD_CONFIG_PATH + 128];
    if (o->resume) {
        int rc = hod_trainer_resume(j->run.trainer, j->dir);
        if (rc == 0)
            hod_refuse("--resume: no checkpoint in %s", j->dir);
        return rc == 1 ? 0 : -1;
    }
    int rc = hod_checkpoint_latest(j->dir, path, sizeof path);
    if (rc == 1)
        hod_refuse("output %s: holds checkpoints of another run; --resume goes on with it, or "
                   "choose another output",
                   j->run.config.output);
    return rc == 0 ? 0 : -1;
}

static int open_all(const cli_options *o, job *j)
{
    cli_run *r = &j->run;
    if (cli_config_load(&r->config, o) != 0 || cli_output_check(r->config.output) != 0)
        return -1;
    cli_output_path(&r->config, "checkpoints", j->dir);
    int locked = cli_output_lock(r->config.output);
    if (locked < 0 || cli_run_open(r) != 0 || take_up(o, j) != 0 ||
        hod_trainer_prepare(r->trainer, r->train) != 0 ||
        hod_directory_prepare(r->config.output) != 0)
        return -1;
    /* A directory that was made just now may be that of a run which began at the same time. */
    return locked || (cli_output_lock(r->config.output) == 1 && take_up(o, j) == 0) ? 0 : -1;
}

/* ---- the files of a run ---- */

static int write_config(const void *what, FILE *out)
{
    return hod_config_print(what, out);
}

static int write_timeline(const void *what, FILE *out)
{
    return hod_fn_print(what, HOD_FN_TIMELINE, out);
}

static int files_begin(const cli_options *o, job *j)
{
    const hod_config *c = &j->run.config;
    char path[HOD_CONFIG_PATH + 64];
    if (cli_write_file(cli_output_path(c, "config.yaml", path), write_config, c) != 0)
        return -1;
    j->events.log = cli_log_open(cli_output_path(c, "log.jsonl", path), o->resume,
                                 hod_trainer_progress(j->run.trainer).updates, &j->loss, &j->test);
    if (!j->events.log)
        return -1;
    const hod_fn *f = hod_trainer_fn(j->run.trainer, HOD_PART_ACCUMULATE);
    return c->compile.enabled && hod_fn_report(f).arena_bytes > 0
               ? cli_write_file(cli_output_path(c, "memory.svg", path), write_timeline, f)
               : 0;
}

/* A curve that spans decades shows nothing on a linear axis. */
static bool spans_decades(const cli_curve *c)
{
    double low = INFINITY, high = 0;
    for (int64_t i = 0; i < c->n; i++)
        if (isfinite(c->y[i]) && c->y[i] > 0) {
            low = fmin(low, c->y[i]);
            high = fmax(high, c->y[i]);
        }
    return high > 1e4 * low;
}

static int plots(const job *j)
{
    static const char *const names[] = {"loss.png", "loss.svg"};
    char path[HOD_CONFIG_PATH + 64], title[HOD_CONFIG_NAME * 2 + 32];
    const hod_config *c = &j->run.config;
    hod_series s[] = {{.name = "training", .x = j->loss.x, .y = j->loss.y, .n = j->loss.n},
                      {.name = "test split", .x = j->test.x, .y = j->test.y, .n = j->test.n}};
    snprintf(title, sizeof title, "%s on %s: loss", c->model.name, c->data.name);
    for (int i = 0; i < 2 && j->loss.n > 0; i++)
        if (hod_plot(cli_output_path(c, names[i], path), s, j->test.n > 0 ? 2 : 1, title,
                     .x_label = "update", .y_label = "loss", .log_y = spans_decades(&j->loss)) != 0)
            return -1;
    return 0;
}

static int save(job *j)
{
    if (hod_trainer_checkpoint(j->run.trainer, j->dir, (int)j->run.config.checkpoint.keep) != 0)
        return -1;
    return hod_checkpoint_latest(j->dir, j->checkpoint, sizeof j->checkpoint) == 1 ? 0 : -1;
}

/* ---- the loop ---- */

static int evaluate(job *j, const hod_update *u)
{
    cli_run *r = &j->run;
    hod_evaluation v;
    if (!r->test)
        return 0;
    if (hod_trainer_evaluate(r->trainer, r->test, &v) != 0)
        return -1;
    if (!(v.metric <= j->best))
        j->best = v.metric;
    cli_curve_add(&j->test, (double)u->index, v.loss);
    cli_progress_say(&j->progress, "epoch %lld, update %lld: test loss %s, accuracy %.4f",
                     (long long)u->epoch + 1, (long long)u->index, CLI_NUMBER(v.loss), v.metric);
    return cli_event_eval(&j->events, u->index, u->epoch, "test", &v);
}

/* Is something due that happens every so often? Epochs end with their last window. */
static bool due(const hod_period *p, const hod_update *u, const hod_progress *at)
{
    if (p->n == 0 || u->skipped)
        return false;
    if (!p->epochs)
        return u->index % p->n == 0;
    int64_t done = at->updates + at->skipped;
    return done % at->updates_per_epoch == 0 && done / at->updates_per_epoch % p->n == 0;
}

/* Says once that the training has left the road, and goes on: the log shows where. */
static void watch(job *j, const hod_update *u)
{
    enum { ROAD = 1000 }; /* times the first loss */
    if (isnan(j->first))
        j->first = u->loss;
    bool off = u->skipped ? !isfinite(u->loss) || !isfinite(u->grad_norm)
                          : !(u->loss <= ROAD * fmax(fabs(j->first), 1));
    if (!off || j->warned)
        return;
    j->warned = true;
    cli_progress_end(&j->progress);
    fprintf(stderr,
            "hod: %s %lld: loss %s, %s at the beginning; the training diverges, a smaller "
            "optimizer.lr may help%s\n",
            u->skipped ? "after update" : "update", (long long)u->index, CLI_NUMBER(u->loss),
            CLI_NUMBER(j->first),
            u->skipped ? "; windows whose gradient is not finite are skipped" : "");
}

/* What follows an update. */
static int after(job *j, const hod_update *u)
{
    const hod_config *c = &j->run.config;
    hod_progress at = hod_trainer_progress(j->run.trainer);
    bool last = at.total && at.updates + at.skipped == at.total;
    cli_curve_add(&j->loss, (double)u->index, u->skipped ? NAN : u->loss);
    /* The log first: it holds what a checkpoint holds, whether or not someone still reads. */
    if (cli_event_update(&j->events, u) != 0 || cli_progress_update(&j->progress, u, &at) != 0)
        return -1;
    watch(j, u);
    if ((due(&c->eval_every, u, &at) || last) && evaluate(j, u) != 0)
        return -1;
    return due(&c->checkpoint.every, u, &at) && !last ? save(j) : 0;
}

/* What came after an update went wrong: its reader left, the disk is full. The updates so far are
 * saved, where that is possible, and the reason stays. */
static int rescue(job *j)
{
    hod_error_record why, second;
    hod_error_take(&why);
    if (save(j) != 0)
        hod_error_take(&second);
    hod_refuse("%s", why.text);
    return -1;
}

static int train(job *j)
{
    cli_run *r = &j->run;
    hod_update u;
    while (!(j->stopped = cli_interrupted()) && hod_trainer_step(r->trainer, r->train, &u))
        if (after(j, &u) != 0)
            return rescue(j);
    return hod_error() ? -1 : 0;
}

/* ---- the end ---- */

/* The network alone: the one whose accuracy was printed, so with averaged weights if there are. */
static int save_net(job *j)
{
    char path[HOD_CONFIG_PATH + 64];
    hod_optimizer *o = hod_trainer_optimizer(j->run.trainer);
    bool averaged = j->run.config.ema > 0;
    if (averaged && hod_optimizer_swap_ema(o) != 0)
        return -1;
    int rc = hod_save(j->run.net, cli_output_path(&j->run.config, "model.safetensors", path));
    return averaged && hod_optimizer_swap_ema(o) != 0 ? -1 : rc;
}

static int finish(job *j)
{
    char time[32];
    hod_progress at = hod_trainer_progress(j->run.trainer);
    cli_progress_end(&j->progress);
    if (save(j) != 0 || /* the most precious first: the disk may be full */
        (!j->stopped && save_net(j) != 0) || plots(j) != 0)
        return -1;
    if (at.skipped > 0)
        cli_progress_say(&j->progress, "%lld windows skipped: their gradient was not finite",
                         (long long)at.skipped);
    cli_progress_say(&j->progress,
                     "%s after %lld updates, %lld samples, %s; peak %s, "
                     "predicted %s; %s",
                     j->stopped ? "stopped" : "done", (long long)at.updates, (long long)at.samples,
                     cli_duration(at.seconds, time), CLI_BYTES(hod_memory().allocated_peak),
                     CLI_BYTES(hod_trainer_predicted_peak(j->run.trainer)), j->checkpoint);
    return cli_event(&j->events, "end", HOD_INT("updates", at.updates),
                     HOD_INT("samples", at.samples), HOD_NUMBER("seconds", at.seconds),
                     HOD_NUMBER("best", j->best), HOD_TEXT("checkpoint", j->checkpoint),
                     HOD_FLAG("interrupted", j->stopped),
                     HOD_INT("peak_bytes", hod_memory().allocated_peak),
                     HOD_INT("reserved_peak_bytes", hod_memory().reserved_peak));
}

/* Announces plan and programs, trains, finishes. */
static int work(const cli_options *o, job *j)
{
    cli_run *r = &j->run;
    hod_plan plan;
    if (files_begin(o, j) != 0 || hod_trainer_plan(r->trainer, r->train, &plan) != 0 ||
        (!o->json && hod_print_plan(r->trainer, r->train, stdout) != 0) ||
        cli_event_plan(&j->events, &plan) != 0)
        return -1;
    if (r->config.compile.enabled &&
        (cli_event_compile(&j->events, "accumulate",
                           hod_trainer_fn(r->trainer, HOD_PART_ACCUMULATE)) != 0 ||
         cli_event_compile(&j->events, "update", hod_trainer_fn(r->trainer, HOD_PART_UPDATE)) != 0))
        return -1;
    cli_run_notes(r, stderr);
    hod_progress at = hod_trainer_progress(r->trainer);
    int64_t every = cli_updates_of(&r->config.log_every, at.updates_per_epoch);
    j->progress = cli_progress_begin(o->json ? NULL : stdout, every, at.updates + at.skipped);
    return train(j) == 0 ? finish(j) : -1;
}

static int run(const cli_options *o)
{
    job j = {.best = NAN, .first = NAN, .events.json = o->json ? stdout : NULL};
    int status = CLI_DONE;
    cli_interrupt_watch();
    if (open_all(o, &j) != 0)
        status = cli_fail(cli_setup_status());
    else if (work(o, &j) != 0) {
        cli_progress_end(&j.progress);
        status = cli_fail(CLI_FAILED);
    } else if (j.stopped)
        status = CLI_INTERRUPTED;
    if (j.events.log)
        fclose(j.events.log);
    cli_run_close(&j.run);
    cli_curve_free(&j.loss);
    cli_curve_free(&j.test);
    return status;
}

const cli_command cli_train = {
    .name = "train",
    .argument = "CONFIG",
    .text = "train a network",
    .help =
        "Prints the plan, then the progress; at the end of each epoch the accuracy on the test\n"
        "split. An interrupt finishes the update, saves a checkpoint and exits with status 130;\n"
        "--resume goes on exactly there.\n",
    .flags = CLI_JSON | CLI_RESUME | CLI_UPDATES | CLI_OUTPUT,
    .run = run,
};
