/* hod eval: loss and accuracy of a checkpoint on the test split. Writes nothing. */
#include "cli.h"

#include <math.h>
#include <string.h>

/* Has the file tensors whose names begin so? -1 when it cannot be read. A trainer's checkpoint
 * keeps its own state under names that begin with "@", averaged parameters under "@ema/". */
static int has_names(const char *path, const char *begin)
{
    hod_tensor_file *f = hod_tensor_file_open(path);
    if (!f)
        return -1;
    int found = 0;
    for (int64_t i = 0; i < hod_tensor_file_count(f) && !found; i++)
        found = strncmp(hod_tensor_file_info(f, i).name, begin, strlen(begin)) == 0;
    hod_tensor_file_close(&f);
    return found;
}

/* What is averaged shows in the file, whatever the config says about going on. What is wrong with
 * the file is said when it is loaded. */
static void follow(hod_config *c, const char *path)
{
    int averaged = has_names(path, "@ema/");
    if (averaged == 0)
        c->ema = 0;
    else if (averaged == 1 && c->ema == 0)
        c->ema = 0.5; /* any: nothing is averaged here any more */
    else if (averaged < 0)
        hod_error_take(NULL);
}

/* The file to evaluate: what was asked for, or the newest checkpoint of the run. */
static int find(const cli_options *o, const hod_config *c, char *path, size_t cap)
{
    char dir[HOD_CONFIG_PATH + 64];
    if (o->checkpoint) {
        snprintf(path, cap, "%s", o->checkpoint);
        return 0;
    }
    int rc = hod_checkpoint_latest(cli_output_path(c, "checkpoints", dir), path, cap);
    if (rc == 0)
        hod_refuse("%s: no checkpoint there; give one with checkpoint=FILE", dir);
    return rc == 1 ? 0 : -1;
}

/* A checkpoint brings its averaged parameters along; a network alone is just loaded. */
static int load(const cli_run *r, const char *path)
{
    int rc = has_names(path, "@");
    return rc < 0 ? -1 : rc ? hod_trainer_load(r->trainer, path) : hod_load(r->net, path);
}

static int report(const cli_options *o, const cli_run *r, const char *path)
{
    hod_evaluation v;
    hod_dataset *data = r->test ? r->test : r->train;
    if (hod_trainer_evaluate(r->trainer, data, &v) != 0)
        return -1;
    hod_progress at = hod_trainer_progress(r->trainer);
    if (o->json)
        return cli_event_eval(&(cli_events){.json = stdout},
                              has_names(path, "@") == 1 ? at.updates : -1, at.epoch,
                              r->test ? "test" : "train", &v);
    printf("%s: loss %s", path, CLI_NUMBER(v.loss));
    if (isfinite(v.metric))
        printf(", accuracy %.4f", v.metric);
    printf(" on %lld samples of %s, %.1f s\n", (long long)v.samples, hod_dataset_name(data),
           v.seconds);
    return 0;
}

static int run(const cli_options *o)
{
    char path[HOD_CONFIG_PATH + 128];
    cli_run r = {0};
    int status = CLI_DONE;
    bool found = cli_config_load(&r.config, o) == 0 && find(o, &r.config, path, sizeof path) == 0;
    if (found)
        follow(&r.config, path);
    if (!found || cli_run_open(&r) != 0 || load(&r, path) != 0)
        status = cli_fail(cli_setup_status());
    else if (report(o, &r, path) != 0)
        status = cli_fail(CLI_FAILED);
    cli_run_close(&r);
    return status;
}

const cli_command cli_eval = {
    .name = "eval",
    .argument = "CONFIG",
    .text = "loss and accuracy of a checkpoint on the test split",
    .help =
        "checkpoint=FILE names it: a checkpoint of a run or a network's safetensors file. Without\n"
        "it, the newest checkpoint in the output directory is taken. Averaged weights (ema) are\n"
        "what is evaluated where the checkpoint has them. Data without a test split (idx) are\n"
        "evaluated as they are.\n",
    .flags = CLI_JSON,
    .run = run,
};
