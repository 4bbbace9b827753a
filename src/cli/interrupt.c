/* SIGINT and SIGTERM end a run in order: the running update is finished, a checkpoint is saved, and
 * the status is 130. The handler sets a flag and takes itself away, so a second signal kills.
 */
#include "cli.h"

#include <signal.h>

static volatile sig_atomic_t interrupted;

static void note(int number)
{
    (void)number;
    interrupted = 1;
}

void cli_interrupt_watch(void)
{
    struct sigaction act = {.sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

bool cli_interrupted(void)
{
    return interrupted;
}
