/* hod plan: what fits the budget, and what would be chosen. Runs no step and writes nothing. */
#include "cli.h"

static int print(const cli_options *o, cli_run *r)
{
    if (!o->json)
        return hod_print_plan(r->trainer, r->train, stdout);
    hod_plan plan;
    return hod_trainer_plan(r->trainer, r->train, &plan) == 0
               ? cli_event_plan(&(cli_events){.json = stdout}, &plan)
               : -1;
}

static int run(const cli_options *o)
{
    cli_run r = {0};
    int rc = cli_config_load(&r.config, o) == 0 && cli_run_open(&r) == 0 ? print(o, &r) : -1;
    if (rc == 0)
        rc = hod_trainer_prepare(r.trainer, r.train); /* words for a budget that nothing fits */
    cli_run_close(&r);
    return rc == 0 ? CLI_DONE : cli_fail(cli_setup_status());
}

const cli_command cli_plan = {
    .name = "plan",
    .argument = "CONFIG",
    .text = "show which micro-batches fit the budget, and the choice",
    .help =
        "The peak of every row is known before the first step: parameters, gradients, optimizer\n"
        "state, one batch, and the planned arena of the compiled step. The arrow is the choice.\n",
    .flags = CLI_JSON,
    .run = run,
};
