/* The pass manager: the order, and all that passes need not do themselves.
 *
 * After each pass that changed something the graph is validated, so a broken pass is named by the
 * error, and in debug builds it goes through its text and back, so that printer and parser stay
 * right. Passes run in rounds, because each opens possibilities for the others; rounds end with the
 * first that changes nothing.
 */
#include "graph/graph.h"
#include "graph/passes.h"

#include <stdatomic.h>
#include <stdio.h>

/* Two or three are usual; a pair of passes that undo each other ends here. */
enum { MAX_ROUNDS = 8 };

#define DEFAULT                 false
#define OFF                     true
#define PASS(name_, doc_, off_) {.name = #name_, .doc = doc_, .run = hod__##name_, .off = off_},
const hod_pass hod__passes[] = {
#include "graph/passes.def"
};
#undef PASS
#undef OFF
#undef DEFAULT
const int hod__n_passes = HOD_COUNT(hod__passes);

const hod_pass *hod__pass_of(const char *name)
{
    for (int i = 0; i < hod__n_passes; i++)
        if (strcmp(hod__passes[i].name, name) == 0)
            return &hod__passes[i];
    return NULL;
}

/* Tells once, for each variable, which of its names is no pass. */
static void check_names(const char *variable, atomic_flag *checked)
{
    const char *at = getenv(variable);
    if (!at || atomic_flag_test_and_set(checked))
        return;
    while (*at) {
        char name[64];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)HOD_MIN(n, sizeof name - 1), at);
        at += n + (at[n] == ',');
        if (!*name || strcmp(name, "all") == 0 || strcmp(name, "recorded") == 0 ||
            hod__pass_of(name))
            continue;
        fprintf(stderr, "hod: %s=%s is ignored; known are all", variable, name);
        for (int i = 0; i < hod__n_passes; i++)
            fprintf(stderr, ", %s", hod__passes[i].name);
        fputc('\n', stderr);
    }
}

/* True when the comma list in environment variable `variable` has name, or "all". */
static bool listed(const char *variable, const char *name)
{
    const char *at = getenv(variable);
    while (at && *at) {
        size_t n = strcspn(at, ",");
        if ((n == strlen(name) && memcmp(at, name, n) == 0) || (n == 3 && !memcmp(at, "all", 3)))
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static void print_graph(const hod_graph *g, const char *when, const char *what)
{
    hod_text text = {0};
    if (hod__graph_print(g, &text) == 0)
        fprintf(stderr, "# %s %s\n%s", when, what, text.data);
    hod__text_free(&text);
}

#ifndef NDEBUG
/* print, parse, compare. 0 or -1. */
static int round_trip(const hod_graph *g)
{
    hod_text text = {0};
    hod_graph *back = NULL;
    if (hod__graph_print(g, &text) == 0)
        back = hod__graph_parse(text.data);
    int rc = !back ? -1
             : hod__graph_equal(g, back)
                 ? 0
                 : HOD_FAIL_RC(STATE, "the text of graph %s reads back as another", g->name);
    hod__graph_free(back);
    hod__text_free(&text);
    return rc;
}
#endif

static int check(const hod_graph *g)
{
    if (hod__graph_validate(g))
        return -1;
#ifndef NDEBUG
    return round_trip(g);
#else
    return 0;
#endif
}

int hod__graph_run_pass(hod_graph *g, const hod_pass *pass)
{
    bool pending = hod_error() != NULL, shown = listed("HOD_PRINT", pass->name);
    hod_graph *before = shown ? hod__graph_copy(g) : NULL;
    bool changed = pass->run(g);
    int rc = (!pending && hod_error()) || (changed && check(g)) ? -1 : changed;
    if (before && rc) { /* a broken result is worth seeing, too */
        print_graph(before, "before", pass->name);
        print_graph(g, "after", pass->name);
    }
    hod__graph_free(before);
    if (rc < 0)
        hod__fail_context("after %s", pass->name);
    return rc;
}

int hod__graph_optimize(hod_graph *g)
{
    static atomic_flag checked[3];
    check_names("HOD_PRINT", &checked[0]);
    check_names("HOD_SKIP", &checked[1]);
    check_names("HOD_ENABLE", &checked[2]);
    if (check(g)) {
        hod__fail_context("before all passes");
        return -1;
    }
    if (listed("HOD_PRINT", "recorded"))
        print_graph(g, "as", "recorded");
    bool changed = true;
    for (int round = 0; changed && round < MAX_ROUNDS; round++) {
        changed = false;
        for (int i = 0; i < hod__n_passes; i++) {
            const hod_pass *pass = &hod__passes[i];
            if (listed("HOD_SKIP", pass->name) || (pass->off && !listed("HOD_ENABLE", pass->name)))
                continue;
            int rc = hod__graph_run_pass(g, pass);
            if (rc < 0)
                return -1;
            changed = changed || rc > 0;
        }
    }
    return 0;
}
