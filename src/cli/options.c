/* The command line of a sub-command: `hod NAME [options] FILE [key=value ...]`, in any order.
 *
 * What names a value of the config is only another way to write key=value, so the config's own
 * checks, with their messages, apply to it.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* Long enough for an override that an option stands for. */
enum { OVERRIDE = HOD_CONFIG_PATH + 64 };

static bool refuse(const cli_command *c, const char *what, const char *which)
{
    fprintf(stderr, "hod %s: %s%s; hod %s --help describes it\n", c->name, what, which, c->name);
    return false;
}

/* Is argv[*i] the option `name`, with its value behind it or after "="? Moves *i past both. 1, 0
 * when it is another one, -1 when the value is missing. */
static int valued(const char *name, int argc, char **argv, int *i, const char **value)
{
    size_t n = strlen(name);
    const char *arg = argv[*i];
    if (strncmp(arg, name, n) != 0 || (arg[n] != '\0' && arg[n] != '='))
        return 0;
    *value = arg[n] == '=' ? arg + n + 1 : *i + 1 < argc ? argv[++*i] : "";
    return **value ? 1 : -1;
}

/* Options that stand for a value of the config. */
static const struct {
    unsigned flag;
    const char *option, *key;
} keyed[] = {
    {CLI_UPDATES, "--updates", "updates"},
    {CLI_OUTPUT, "--output", "output"},
};

static bool read_option(cli_options *o, const cli_command *c, int argc, char **argv, int *i,
                        const char **storage)
{
    static char made[4]
                    [OVERRIDE]; /* overrides that options stand for; they live with the process */
    static int n_made;
    const char *arg = argv[*i], *value;
    if ((c->flags & CLI_JSON) && strcmp(arg, "--json") == 0)
        return o->json = true;
    if ((c->flags & CLI_RESUME) && strcmp(arg, "--resume") == 0)
        return o->resume = true;
    for (size_t k = 0; k < sizeof keyed / sizeof *keyed; k++) {
        int rc = c->flags & keyed[k].flag ? valued(keyed[k].option, argc, argv, i, &value) : 0;
        if (rc < 0)
            return refuse(c, keyed[k].option, " needs a value");
        if (rc == 0)
            continue;
        if (n_made == 4)
            return refuse(c, keyed[k].option, " is given too often");
        int n = snprintf(made[n_made], OVERRIDE, "%s=%s", keyed[k].key, value);
        if (n >= OVERRIDE)
            return refuse(c, keyed[k].option, ": the value is too long");
        storage[o->n_overrides++] = made[n_made++];
        return true;
    }
    int rc = c->flags & CLI_VIEW ? valued("--view", argc, argv, i, &o->view) : 0;
    if (rc != 0)
        return rc > 0 || refuse(c, "--view", " needs a value");
    return refuse(c, "no option ", arg);
}

bool cli_options_read(cli_options *o, const cli_command *c, int argc, char **argv,
                      const char **storage)
{
    static const char checkpoint[] = "checkpoint=";
    *o = (cli_options){.overrides = storage};
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!read_option(o, c, argc, argv, &i, storage))
                return false;
        } else if (strncmp(argv[i], checkpoint, sizeof checkpoint - 1) == 0) {
            o->checkpoint = argv[i] + sizeof checkpoint - 1;
        } else if (strchr(argv[i], '=') && o->file) {
            storage[o->n_overrides++] = argv[i];
        } else if (o->file) {
            fprintf(stderr, "hod %s: \"%s\" after \"%s\"; overrides are key=value\n", c->name,
                    argv[i], o->file);
            return false;
        } else {
            o->file = argv[i];
        }
    }
    if (!o->file)
        return refuse(c, "no ", c->argument);
    return true;
}
