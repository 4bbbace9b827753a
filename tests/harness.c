/* Main of the unit tests; harness.h says how tests look.
 *
 * The parent never calls hod, so no thread or lock exists when it forks, and every test starts
 * from the same state. A child leads a process group: when it is done or out of time the whole
 * group is killed, with any program that the test had started. Verdicts travel as exit statuses;
 * 0 includes what sanitizers say at exit.
 */
#include "harness.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_FAILED = 1, STATUS_SKIPPED = 77 };

static harness_test *tests;

/* ---- assertions ------------------------------------------------------------------------------ */

/* _exit: a leak report after a failed assertion would only hide it. */
static void end_failed(void)
{
    fflush(NULL);
    _exit(STATUS_FAILED);
}

void harness_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (hod_error())
        fprintf(stderr, "    pending error: %s\n", hod_error());
    end_failed();
    abort();
}

void harness_skip(const char *why)
{
    printf("    skipped: %s\n", why);
    fflush(NULL);
    _exit(STATUS_SKIPPED);
}

void harness_eq_int(const char *file, int line, const char *what, int64_t a, int64_t b)
{
    if (a != b)
        harness_fail(file, line, "%s: %lld, not %lld", what, (long long)a, (long long)b);
}

void harness_eq_str(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (a == b || (a && b && strcmp(a, b) == 0))
        return;
    harness_fail(file, line, "%s\n    left:  %s\n    right: %s", what, a ? a : "(NULL)",
                 b ? b : "(NULL)");
}

void harness_near(const char *file, int line, const char *what, double a, double b, double tol)
{
    if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tol)
        return;
    harness_fail(file, line, "%s: %.17g against %.17g, off by %.3g, tolerance %.3g", what, a, b,
                 fabs(a - b), tol);
}

void harness_error_is(const char *file, int line, const char *what, const char *want, bool failed)
{
    hod_error_record got;
    if (!failed)
        harness_fail(file, line, "%s succeeds, expected the error\n    %s", what, want);
    if (!hod_error_take(&got))
        harness_fail(file, line, "%s fails without an error, expected\n    %s", what, want);
    if (strcmp(got.text, want) != 0)
        harness_fail(file, line, "%s\n    says:     %s\n    expected: %s", what, got.text, want);
}

bool harness_failed_int(int64_t result)
{
    return result < 0;
}

bool harness_failed_bool(bool result)
{
    return !result;
}

bool harness_failed_pointer(const void *result)
{
    return result == NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

static int order(const harness_test *a, const harness_test *b)
{
    int by_file = strcmp(a->file, b->file);
    return by_file ? by_file : a->line - b->line;
}

/* Keeps the list in order of file and line, whatever the linker did. */
void harness_register(harness_test *test)
{
    harness_test **at = &tests;
    for (; *at && order(*at, test) < 0; at = &(*at)->next)
        if (strcmp((*at)->name, test->name) == 0)
            fprintf(stderr, "two tests are named %s\n", test->name), exit(2);
    test->next = *at;
    *at = test;
}

/* Runs the test in this process and ends it. exit, not _exit: sanitizers speak there. */
__attribute__((noreturn)) static void run_here(const harness_test *test)
{
    test->run();
    if (hod_error())
        harness_fail(test->file, test->line, "%s leaves an error behind", test->name);
    exit(0);
}

static int run_forked(const harness_test *test, unsigned limit)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return perror("fork"), STATUS_FAILED;
    if (child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(limit);
        run_here(test);
    }
    while (waitpid(child, &status, 0) < 0)
        continue;
    kill(-child, SIGKILL);
    if (WIFEXITED(status)) {
        int code = WEXITSTATUS(status);
        if (code != 0 && code != STATUS_FAILED && code != STATUS_SKIPPED)
            fprintf(stderr, "%s:%d: exit status %d\n", test->file, test->line, code);
        return code;
    }
    if (WTERMSIG(status) == SIGALRM)
        fprintf(stderr, "%s:%d: not done after %u s\n", test->file, test->line, limit);
    else
        fprintf(stderr, "%s:%d: %s\n", test->file, test->line, strsignal(WTERMSIG(status)));
    return STATUS_FAILED;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

typedef struct choice {
    char **prefixes;
    int n_prefixes;
    const char *file; /* base name of the one file wanted, or NULL */
} choice;

static bool chosen(const choice *c, const harness_test *t)
{
    if (c->file && strcmp(c->file, base_name(t->file)) != 0)
        return false;
    for (int i = 0; i < c->n_prefixes; i++)
        if (strncmp(t->name, c->prefixes[i], strlen(c->prefixes[i])) == 0)
            return true;
    return c->n_prefixes == 0;
}

static int run_chosen(const choice *c)
{
    const char *limit = getenv("HOD_TEST_TIMEOUT");
    int passed = 0, failed = 0, skipped = 0;
    for (harness_test *t = tests; t; t = t->next) {
        if (!chosen(c, t))
            continue;
        double start = now();
        int code = run_forked(t, limit ? (unsigned)atoi(limit) : 300);
        const char *word = code == 0 ? "ok  " : code == STATUS_SKIPPED ? "skip" : "FAIL";
        printf("%s %-56s %6.2f s\n", word, t->name, now() - start);
        *(code == 0 ? &passed : code == STATUS_SKIPPED ? &skipped : &failed) += 1;
    }
    if (skipped)
        printf("%d skipped\n", skipped);
    printf("%d passed, %d failed\n", passed, failed);
    if (passed + failed + skipped == 0)
        return fprintf(stderr, "hod-tests: no test has such a name\n"), 2;
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    bool list = false, here = false;
    choice c = {0};
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--list") == 0)
            list = true;
        else if (strcmp(argv[i], "--no-fork") == 0)
            here = true;
        else if (strcmp(argv[i], "--file") == 0 && i + 1 < argc)
            c.file = base_name(argv[++i]);
        else
            return fprintf(stderr, "usage: hod-tests [--list] [--no-fork] [--file test_x.c] "
                                   "[prefix ...]\n"),
                   2;
    }
    c.prefixes = argv + i;
    c.n_prefixes = argc - i;
    if (!list && !here)
        return run_chosen(&c);
    for (harness_test *t = tests; t; t = t->next) {
        if (!chosen(&c, t))
            continue;
        if (here)
            run_here(t);
        printf("%s\n", t->name);
    }
    return 0;
}
