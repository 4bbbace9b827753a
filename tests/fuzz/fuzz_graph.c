/* Any bytes as the text of a graph: an error or a graph; and a graph that is valid prints to a text
 * that reads back as itself, survives every pass, and is what it was after them. */
#include "graph/graph.h"

#include <stdint.h>

enum { MAX_NODES = 256 };

static int fault(const char *what)
{
    fprintf(stderr, "fuzz_graph: %s: %s\n", what, hod_error() ? hod_error() : "");
    abort();
}

static void check_text(const hod_graph *g)
{
    hod_text text = {0};
    if (hod__graph_print(g, &text))
        fault("does not print");
    hod_graph *back = hod__graph_parse(text.data);
    if (!back || !hod__graph_equal(g, back) || hod__graph_hash(g) != hod__graph_hash(back))
        fault("reads back as another");
    hod__graph_free(back);
    hod__text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    memcpy(text, data, n);
    text[n] = 0;
    hod_graph *g = hod__graph_parse(text);
    free(text);
    if (!g) {
        if (!hod_error_take(NULL))
            fault("fails without an error");
        return 0;
    }
    check_text(g);
    bool valid = hod__graph_validate(g) == 0;
    if (!valid && !hod_error_take(NULL))
        fault("is refused without an error");
    if (valid && g->n <= MAX_NODES) {
        if (hod__graph_optimize(g))
            fault("a valid graph is broken");
        check_text(g);
    }
    hod__graph_free(g);
    return 0;
}
