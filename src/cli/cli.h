/* The `hod` command: what its sub-commands share.
 *
 *     main.c         the table of sub-commands; --help, --version
 *     options.c      a command line into options: config, key=value, --flags
 *     setup.c        a config into dataset, network and trainer, touching nothing
 *     events.c       --json lines on standard output and in the output's log
 *     log.c          the log of a run, and how a resumed one goes on in it
 *     progress.c     a bar with the time left on a terminal, plain lines elsewhere
 *     interrupt.c    SIGINT: finish the update, save, exit 130
 *     hod_<name>.c   one sub-command each
 *
 * The exit status is part of the interface (enum below). Whatever a run can be refused for is
 * looked at before anything is written, so status 2 means that nothing was touched. A message is
 * one line.
 */
#ifndef HOD_CLI_CLI_H
#define HOD_CLI_CLI_H

#include "models/models.h"

enum cli_status {
    CLI_DONE = 0,
    CLI_FAILED = 1,        /* while running */
    CLI_USAGE = 2,         /* command line, config or data; nothing was written */
    CLI_INTERRUPTED = 130, /* after saving a checkpoint */
};

/* ---- sub-commands ---- */

enum cli_flag {
    CLI_JSON = 1 << 0,    /* --json */
    CLI_RESUME = 1 << 1,  /* --resume */
    CLI_UPDATES = 1 << 2, /* --updates N */
    CLI_OUTPUT = 1 << 3,  /* --output DIR */
    CLI_VIEW = 1 << 4,    /* --view NAME */
};

typedef struct cli_options {
    const char *file;             /* the config, or what takes its place */
    const char *const *overrides; /* key=value */
    int n_overrides;
    const char *checkpoint; /* of checkpoint=FILE; NULL: not given */
    bool json, resume;
    const char *view;
} cli_options;

typedef struct cli_command {
    const char *name, *argument; /* "train", "CONFIG" */
    const char *text;            /* one line */
    const char *help;            /* the rest of --help */
    unsigned flags;              /* of enum cli_flag: what it accepts */
    int (*run)(const cli_options *o);
} cli_command;

extern const cli_command cli_train, cli_bench, cli_plan, cli_eval, cli_inspect;

/* Reads the command line behind the sub-command's name. --updates and --output become overrides, in
 * `storage`, which needs argc entries. False after printing what is wrong. */
bool cli_options_read(cli_options *o, const cli_command *command, int argc, char **argv,
                      const char **storage);

/* A size in a printf that ends with the statement. */
#define CLI_BYTES(n) hod_bytes_text(n, (char[32]){0})
/* A loss for people: "0.2345", "1.41e+38", "nan". Returns buf. */
char *cli_number(double x, char buf[32]);
#define CLI_NUMBER(x) cli_number(x, (char[32]){0})

/* ---- errors ---- */

/* Prints the pending error, if there is one, on standard error and clears it; returns `status`. */
int cli_fail(int status);
/* The status an error deserves before anything was written: CLI_FAILED when memory or the compiler
 * gave out, else CLI_USAGE. */
int cli_setup_status(void);

/* ---- a config made real ---- */

typedef struct cli_run {
    hod_config config;
    hod_dataset *train, *test; /* test NULL: the data has none */
    hod_module *net;
    hod_trainer *trainer;
} cli_run;

/* Loads the config; checks what this version cannot do. 0 or -1. */
int cli_config_load(hod_config *c, const cli_options *o);
/* Opens data, makes the network and the trainer. Writes nothing. 0 or -1. */
int cli_run_open(cli_run *r);
/* What of the config does nothing, a line each. */
void cli_run_notes(const cli_run *r, FILE *out);
void cli_run_close(cli_run *r);
/* A period counted in updates; so long that it does not count: the longest. */
int64_t cli_updates_of(const hod_period *p, int64_t updates_per_epoch);
/* -1 with an error when no files could be made in `path`, which need not exist. Writes nothing. */
int cli_output_check(const char *path);
/* Takes the directory for this process, until it ends: 1; 0 when there is none yet; -1 with an
 * error when another process has it. */
int cli_output_lock(const char *path);
/* "<output>/<name>" in buf, which is returned. */
char *cli_output_path(const hod_config *c, const char *name, char buf[HOD_CONFIG_PATH + 64]);
/* Writes a file aside and renames it: 0 or -1. */
int cli_write_file(const char *path, int (*write)(const void *what, FILE *out), const void *what);

/* ---- events ---- */

/* Where events go: standard output with --json, the run's log; either may be NULL. */
typedef struct cli_events {
    FILE *json, *log;
} cli_events;
#define cli_event(e, name, ...) cli_event_write(e, name, (hod_field[]){__VA_ARGS__, {0}})
int cli_event_write(const cli_events *e, const char *name, const hod_field *fields);
/* One `plan` event a row. */
int cli_event_plan(const cli_events *e, const hod_plan *plan);
/* One `compile` event for a part of the step. */
int cli_event_compile(const cli_events *e, const char *part, const hod_fn *f);
int cli_event_update(const cli_events *e, const hod_update *u);
/* update < 0: not known, as of a network alone. */
int cli_event_eval(const cli_events *e, int64_t update, int64_t epoch, const char *split,
                   const hod_evaluation *v);

/* ---- the log of a run ---- */

/* Points, in order. */
typedef struct cli_curve {
    double *x, *y;
    int64_t n, cap;
} cli_curve;
void cli_curve_add(cli_curve *c, double x, double y);
void cli_curve_free(cli_curve *c);

/* A new log, or, to resume, the old one up to `updates`, whose losses are added to the curves. NULL
 * with an error. */
FILE *cli_log_open(const char *path, bool resume, int64_t updates, cli_curve *loss,
                   cli_curve *test);

/* ---- progress ---- */

typedef struct cli_progress {
    FILE *out;     /* NULL: silent */
    bool bar;      /* out is a terminal */
    int64_t every; /* lines: every so many updates */
    double start;  /* seconds */
    double last;   /* when the bar was drawn */
    int64_t first; /* updates done at the start */
    bool drawn;    /* a bar stands on the current line */
} cli_progress;

cli_progress cli_progress_begin(FILE *out, int64_t every, int64_t done);
/* After an update: redraws the bar, or prints a line when one is due. -1 with an error when the
 * output takes no more. */
int cli_progress_update(cli_progress *p, const hod_update *u, const hod_progress *at);
/* Prints a line in its own right, above the bar. */
void cli_progress_say(cli_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_progress_end(cli_progress *p);
/* "1:02:03" or "4:05" or "12 s". Returns buf. */
char *cli_duration(double seconds, char buf[32]);
double cli_seconds(void); /* monotonic */

/* ---- interrupts ---- */

/* From now on SIGINT and SIGTERM set a flag; a second one kills. */
void cli_interrupt_watch(void);
bool cli_interrupted(void);

#endif
