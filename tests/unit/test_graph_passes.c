/* Passes: text in, passes, text out; and on random graphs, nothing changes but the graph.
 *
 * tests/graph/X.ir holds cases, each
 *
 *     # run: opt_views opt_dce
 *     graph before { ... }
 *     ---
 *     graph after { ... }
 *     ===
 *
 * Both graphs are run on random inputs as well: the text says what a pass does, the numbers that it
 * may. Input names choose the values, see src/graph/random_graph.c.
 */
#include "graph_check.h"

#include <dirent.h>
#include <stdio.h>

static char *file_text(const char *name)
{
    const char *root = getenv("HOD_SOURCE_DIR");
    char *path = hod__format("%s/tests/graph/%s", root ? root : ".", name);
    FILE *f = fopen(path, "r");
    if (!f)
        FAIL("cannot open %s", path);
    char *text = hod__alloc(1 << 16, 1);
    size_t n = fread(text, 1, (1 << 16) - 1, f);
    CHECK(n < (1 << 16) - 1);
    fclose(f);
    free(path);
    return text;
}

static hod_graph *parse_case(const char *file, const char *text)
{
    hod_graph *g = hod__graph_parse(text);
    if (!g || hod__graph_validate(g))
        FAIL("%s: %s\n%s", file, hod_error(), text);
    return g;
}

/* Runs the passes named in the line "# run: a b". */
static void run_named(const char *file, hod_graph *g, const char *text)
{
    char line[256] = {0};
    const char *at = strstr(text, "# run:");
    if (!at)
        FAIL("%s: a case without '# run:'", file);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at + 6, "\n"), at + 6);
    char *rest = line, *name;
    while ((name = strtok_r(rest, " ", &rest))) {
        const hod_pass *pass = hod__pass_of(name);
        if (!pass)
            FAIL("%s: no pass %s", file, name);
        if (hod__graph_run_pass(g, pass) < 0)
            FAIL("%s: %s", file, hod_error());
    }
}

static void run_case(const char *file, char *text)
{
    char *cut = strstr(text, "\n---\n");
    if (!cut)
        FAIL("%s: a case without '---':\n%s", file, text);
    *cut = 0;
    hod_graph *before = parse_case(file, text), *want = parse_case(file, cut + 5);
    hod_graph *after = hod__graph_copy(before);
    run_named(file, after, text);
    char *got = graph_text_of(after), *expected = graph_text_of(want);
    if (strcmp(got, expected) != 0)
        FAIL("%s: %s\nbecame\n%s\nexpected\n%s", file, text, got, expected);
    for (uint64_t seed = 0; seed < 4; seed++) {
        graph_result a = graph_interpreted(before, seed), b = graph_interpreted(after, seed);
        graph_same(&a, &b, text);
        graph_result_free(&a);
        graph_result_free(&b);
    }
    free(got);
    free(expected);
    hod__graph_free(before);
    hod__graph_free(after);
    hod__graph_free(want);
}

static int run_file(const char *file)
{
    char *text = file_text(file), *at = text;
    int cases = 0;
    while (at) {
        char *next = strstr(at, "\n===\n");
        if (next)
            *next = 0;
        run_case(file, at);
        cases++;
        at = next ? next + 5 : NULL;
    }
    free(text);
    return cases;
}

TEST(graph_passes_text_cases)
{
    const char *root = getenv("HOD_SOURCE_DIR");
    char *path = hod__format("%s/tests/graph", root ? root : ".");
    DIR *dir = opendir(path);
    int cases = 0;
    CHECK(dir != NULL);
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ".ir"))
            cases += run_file(e->d_name);
    closedir(dir);
    free(path);
    CHECK(cases >= 20);
}

/* Sums may be taken in another order only where a matmul's transposition moves into its flags. */
static bool has_matmul(const hod_graph *g)
{
    for (hod_ref r = 0; r < g->n; r++)
        if (g->nodes[r].op == HOD_OP_matmul)
            return true;
    return false;
}

static void check_random(uint64_t seed, int64_t *removed)
{
    hod_graph *g = hod__graph_random(seed, 8 + (int)(seed % 50));
    CHECK(g != NULL);
    if (hod__graph_validate(g))
        FAIL("seed %d: %s", (int)seed, hod_error());
    hod_graph *after = hod__graph_copy(g);
    if (hod__graph_optimize(after))
        FAIL("seed %d: %s", (int)seed, hod_error());
    *removed += g->n - after->n;
    graph_result a = graph_interpreted(g, seed), b = graph_interpreted(after, seed);
    char *text = graph_text_of(after);
    char *what = hod__format("seed %d, now\n%s", (int)seed, text);
    if (!has_matmul(g))
        graph_same(&a, &b, what);
    CHECK(hod__graph_optimize(after) == 0); /* a fixed point */
    char *again = graph_text_of(after);
    EQ_STR(again, text);
    free(what);
    free(text);
    free(again);
    graph_result_free(&a);
    graph_result_free(&b);
    hod__graph_free(after);
    hod__graph_free(g);
}

TEST(graph_passes_keep_every_bit_of_random_graphs)
{
    int64_t removed = 0;
    for (uint64_t seed = 0; seed < 500; seed++)
        check_random(seed, &removed);
    CHECK(removed > 500); /* the passes do find work */
}

/* What the generator never draws is not tested by it. */
TEST(graph_random_draws_every_operator_type_and_rank)
{
    int64_t ops[HOD_OPS] = {0}, types[HOD_DTYPES] = {0}, ranks[HOD_MAX_DIMS + 1] = {0}, empty = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        hod_graph *g = hod__graph_random(seed, 20);
        for (hod_ref r = 0; r < g->n; r++) {
            ops[hod__is_input(g, r) ? HOD_OP_full : g->nodes[r].op]++;
            types[g->nodes[r].dtype]++;
            ranks[g->nodes[r].ndim]++;
            empty += hod__node_numel(g, r) == 0;
        }
        hod__graph_free(g);
    }
    for (int op = 0; op < HOD_OPS; op++)
        if (hod__op_info[op].class == HOD_FUSED)
            EQ_INT(ops[op], 0);
        else if (ops[op] < 5)
            FAIL("%s is drawn %d times", hod__op_info[op].name, (int)ops[op]);
    for (int i = 0; i < HOD_DTYPES; i++)
        CHECK(types[i] > 100);
    for (int i = 0; i <= HOD_MAX_DIMS; i++)
        CHECK(ranks[i] > 20);
    CHECK(empty > 100);
}

TEST(graph_random_is_a_function_of_the_seed)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        hod_graph *a = hod__graph_random(seed, 30), *b = hod__graph_random(seed, 30);
        CHECK(hod__graph_equal(a, b));
        graph_result x = graph_interpreted(a, seed), y = graph_interpreted(b, seed);
        graph_same(&x, &y, "twice");
        for (int64_t i = 0; i < x.n; i++)
            for (int64_t k = 0; k < x.numel[i]; k++)
                CHECK(x.values[i][k] - x.values[i][k] == 0); /* finite */
        graph_result_free(&x);
        graph_result_free(&y);
        hod__graph_free(a);
        hod__graph_free(b);
    }
}

/* A graph of everything twice over must shrink to itself. */
TEST(graph_passes_cse_undoes_duplication)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        hod_graph *g = hod__graph_random(seed, 30), *twice = hod__graph_new(g->name);
        hod_ref *map = hod__alloc((size_t)g->n, sizeof *map);
        bool effects = false;
        for (hod_ref r = 0; r < g->n; r++) {
            hod_meta meta = hod__node_meta(g, r);
            if (hod__is_input(g, r)) {
                const hod_graph_input *x = &g->inputs[g->nodes[r].input];
                map[r] = hod__graph_input(twice, &meta, x->strides, x->role, x->name);
                continue;
            }
            effects = effects || hod__node_info(g, r)->class == HOD_EFFECT;
            hod_ref in[HOD_OP_MAX_INPUTS];
            for (int i = 0; i < g->nodes[r].n_in; i++)
                in[i] = map[hod__node_in(g, r)[i]];
            hod_op op = (hod_op)g->nodes[r].op;
            hod__graph_add(twice, op, &g->nodes[r].attrs, g->nodes[r].n_in, in, &meta);
            map[r] = hod__graph_add(twice, op, &g->nodes[r].attrs, g->nodes[r].n_in, in, &meta);
            CHECK(hod__graph_return(twice, map[r] - 1) == 0 && hod__graph_return(g, r) == 0);
        }
        if (!effects) {
            const hod_pass *cse = hod__pass_of("opt_cse");
            CHECK(hod__graph_run_pass(twice, cse) == 1);
            hod__graph_run_pass(g, cse);
            CHECK(twice->n <= g->n);
        }
        free(map);
        hod__graph_free(g);
        hod__graph_free(twice);
    }
}

static bool breaks(hod_graph *g)
{
    g->nodes[1].shape[0]++;
    return true;
}

TEST(graph_passes_error_names_the_pass)
{
    static const hod_pass bad = {"opt_bad", "breaks the graph", breaks, false};
    hod_graph *g = hod__graph_parse("graph g { %0 = input f32 (2) \"x\" %1 = exp f32 (2) %0\n"
                                    "return %1 }");
    ERROR_IS("after opt_bad: graph: %1 = exp f32 (3) %0: the rule says f32 (2)",
             hod__graph_run_pass(g, &bad));
    hod__graph_free(g);
}

TEST(graph_passes_can_be_skipped)
{
    const char *text = "graph g {\n  %0 = input f32 (2) \"x\"\n  %1 = neg f32 (2) %0\n"
                       "  %2 = neg f32 (2) %1\n  return %2\n}\n";
    hod_graph *g = hod__graph_parse(text);
    setenv("HOD_SKIP", "opt_cse,opt_simplify", 1);
    CHECK(hod__graph_optimize(g) == 0);
    EQ_INT(g->n, 3);
    unsetenv("HOD_SKIP");
    CHECK(hod__graph_optimize(g) == 0);
    EQ_INT(g->n, 1);
    hod__graph_free(g);
}

TEST(graph_passes_inexact_is_off)
{
    hod_graph *g =
        hod__graph_parse("graph g { %0 = input f32 (2) \"x\" %1 = full f32 () {value=2}\n"
                         "%2 = pow f32 (2) %0 %1 return %2 }");
    CHECK(hod__graph_optimize(g) == 0);
    EQ_INT(g->n, 3);
    setenv("HOD_ENABLE", "opt_inexact", 1);
    CHECK(hod__graph_optimize(g) == 0);
    unsetenv("HOD_ENABLE");
    EQ_INT(g->n, 2);
    EQ_INT(g->nodes[1].op, HOD_OP_mul);
    hod__graph_free(g);
}
