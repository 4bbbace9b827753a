/* hod COMMAND ...: finds the sub-command in the table and runs it. */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

static const cli_command *const commands[] = {
    &cli_train, &cli_plan, &cli_bench, &cli_eval, &cli_inspect,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *out)
{
    fprintf(out, "usage: hod COMMAND [options] CONFIG [key=value ...]\n\n"
                 "Trains neural networks in micro-batches, compiled, inside a memory budget.\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %-7s %s\n", commands[i]->name, commands[i]->argument,
                commands[i]->text);
    fprintf(out,
            "\nhod COMMAND --help describes one of them, hod --help config lists the keys of a "
            "config,\nhod --help models the networks, hod --version says which hod this is.\n");
}

static void command_help(const cli_command *c)
{
    printf("usage: hod %s [options] %s%s\n\n%s.\n\n%s", c->name, c->argument,
           strcmp(c->argument, "CONFIG") == 0 ? " [key=value ...]" : "", c->text, c->help);
    static const struct {
        unsigned flag;
        const char *text;
    } options[] = {
        {CLI_JSON,
         "  --json         one JSON object a line on standard output, nothing else there"},
        {CLI_RESUME, "  --resume       go on from the newest checkpoint in the output directory"},
        {CLI_UPDATES, "  --updates N    stop after N updates"},
        {CLI_OUTPUT, "  --output DIR   where files go; the same as output=DIR"},
        {CLI_VIEW, "  --view NAME    trace, graph, program, kernels or timeline (an SVG)"},
    };
    printf("\noptions:\n");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (c->flags & options[i].flag)
            printf("%s\n", options[i].text);
    printf("  --help         this text\n");
}

static int list_models(void)
{
    for (const model_info *m = model_table; m->name; m++)
        printf("  %-10s %s\n", m->name, m->text);
    return CLI_DONE;
}

static const cli_command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static int no_command(const char *name, const char *kind)
{
    if (strcmp(name, "config") == 0 || strcmp(name, "models") == 0) {
        fprintf(stderr, "hod: no %s \"%s\"; did you mean hod --help %s?\n", kind, name, name);
        return CLI_USAGE;
    }
    char words[128] = "config|models", near[64];
    for (int i = 0; i < COMMANDS; i++) {
        size_t at = strlen(words);
        snprintf(words + at, sizeof words - at, "|%s", commands[i]->name);
    }
    const char *meant = hod_nearest_word(name, words, near, sizeof near);
    if (meant)
        fprintf(stderr, "hod: no %s \"%s\"; did you mean \"%s\"?\n", kind, name, meant);
    else
        fprintf(stderr, "hod: no %s \"%s\"; hod --help lists them\n", kind, name);
    return CLI_USAGE;
}

static bool asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* hod --help [config | models | a command] */
static int general_help(const char *about)
{
    if (about && strcmp(about, "config") == 0)
        return hod_config_describe(stdout) == 0 ? CLI_DONE : cli_fail(CLI_FAILED);
    if (about && strcmp(about, "models") == 0)
        return list_models();
    if (about && !find_command(about))
        return no_command(about, "command or subject");
    if (about)
        command_help(find_command(about));
    else
        help(stdout);
    return CLI_DONE;
}

static int run(const cli_command *c, int argc, char **argv)
{
    if (asks_help(argc, argv)) {
        command_help(c);
        return CLI_DONE;
    }
    const char *storage[argc + 1]; /* as long as the command line that is there already */
    cli_options o;
    if (!cli_options_read(&o, c, argc, argv, storage))
        return CLI_USAGE;
    return c->run(&o);
}

/* Output that was cut short is a failure, unless another one was told already. */
static int flushed(int status)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status != CLI_DONE)
        return status;
    fprintf(stderr, "hod: standard output takes no more\n");
    return CLI_FAILED;
}

/* A reader that leaves, or a file as large as is allowed, is an error of the write and no death;
 * and no file that is opened may take the place of a standard stream that was closed. */
static void settle_streams(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd <= 2;)
        fd = fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd ? 3 : fd + 1;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("hod %s\n", HOD_VERSION);
        return CLI_DONE;
    }
    if (asks_help(1, argv + 1))
        return general_help(argc > 2 ? argv[2] : NULL);
    const cli_command *c = find_command(argv[1]);
    return c ? run(c, argc - 2, argv + 2) : no_command(argv[1], "command");
}

int main(int argc, char **argv)
{
    settle_streams();
    return flushed(dispatch(argc, argv));
}
