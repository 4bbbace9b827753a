/* The text of graphs: what is printed is read back, whatever bytes come. */
#include "graph/graph.h"
#include "harness.h"
#include <locale.h>

static char *text_of(const hod_graph *g)
{
    hod_text text = {0};
    CHECK(hod__graph_print(g, &text) == 0);
    return hod__text_take(&text);
}

/* Parses, prints, compares with what is expected (NULL: the text itself). */
static void reads_as(const char *text, const char *expected)
{
    hod_graph *g = hod__graph_parse(text);
    CHECK(g != NULL);
    char *printed = text_of(g);
    EQ_STR(printed, expected ? expected : text);
    free(printed);
    hod__graph_free(g);
}

TEST(graph_text_every_kind_of_field)
{
    reads_as("graph fields {\n"
             "  %0 = input f32 (1,2,4,4) \"x\" {role=parameter, strides=(32,1,8,2)} !keep\n"
             "  %1 = full f64 (2,3) {value=0.1, dtype=f64, shape=(2,3)}\n"
             "  %2 = full f32 () {value=-0}\n"
             "  %3 = full f32 () {value=nan}\n"
             "  %4 = full f32 () {value=-inf}\n"
             "  %5 = full f32 () {value=1.2345678901234568e-300}\n"
             "  %6 = full f32 ()\n"
             "  %7 = iota i64 (2,3) {dtype=i64, shape=(2,3), dim=1}\n"
             "  %8 = cast bf16 (2,3) %1 {dtype=bf16} !backward\n"
             "  %9 = sum f64 () %1 {dims=(0,1)} !backward !keep\n"
             "  %10 = slice f64 (1,2) %1 {start=1, stop=2, step=1}\n"
             "  %11 = max_pool2d f32 (1,2,2,2) %0 {kernel=(2,2), stride=(2,2), dilation=(1,1)}\n"
             "  %12 = avg_pool2d f32 (1,2,4,4) %0 {kernel=(2,2), stride=(1,1), "
             "padding=(0,0,1,1), dilation=(1,1), count_include_pad=true}\n"
             "  return %9 %9 %0\n"
             "}\n",
             NULL);
}

TEST(graph_text_names_and_layout)
{
    reads_as("graph\"a b\\\"\\x01\\xff\"{%0=input u8()\"\\\\ q\"{strides=(),role=state}return}#",
             "graph \"a b\\\"\\x01\\xff\" {\n"
             "  %0 = input u8 () \"\\\\ q\" {role=state}\n"
             "  return\n"
             "}\n");
    reads_as("# comment\ngraph g { # more\n return }", "graph g {\n  return\n}\n");
}

TEST(graph_text_place_is_a_comment)
{
    hod_graph *g = hod__graph_new("g");
    hod_here("net.c", 42);
    hod_attrs attrs = {.full = {.value = 1}};
    CHECK(hod__graph_op(g, HOD_OP_full, &attrs, 0, NULL) == 0);
    char *text = text_of(g);
    EQ_STR(text, "graph g {\n  %0 = full f32 () {value=1}  # net.c:42\n  return\n}\n");
    hod_graph *back = hod__graph_parse(text);
    CHECK(hod__graph_equal(g, back));
    free(text);
    hod__graph_free(back);
    hod__graph_free(g);
}

TEST(graph_text_any_locale)
{
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        SKIP("no locale with a decimal comma here");
    reads_as("graph g {\n  %0 = full f32 () {value=0.5}\n  return %0\n}\n", NULL);
}

TEST(graph_text_errors_have_line_and_column)
{
    ERROR_IS("graph:1:1: expected graph", hod__graph_parse(""));
    ERROR_IS("graph:1:8: expected '{'", hod__graph_parse("graph g"));
    ERROR_IS("graph:2:1: expected a node or return", hod__graph_parse("graph g {\n}"));
    ERROR_IS("graph:2:6: expected an operator", hod__graph_parse("graph g {\n%0 = exps f32 ()"));
    ERROR_IS("graph:1:22: expected an element type",
             hod__graph_parse("graph g { %0 = input f31 () \"x\" return }"));
    ERROR_IS("graph:1:11: expected nodes to be numbered 0, 1, 2, ...",
             hod__graph_parse("graph g { %1 = full f32 () return }"));
}

/* A number ends where it ends: what stands behind it is not read, however long. */
TEST(graph_text_numbers)
{
    static const char *const values[] = {"0.5",  "-1e-300", "1.7976931348623157e+308",
                                         "-inf", "nan",     "2.2250738585072014e-308"};
    for (int i = 0; i < HOD_COUNT(values); i++) {
        char *text =
            hod__format("graph g {\n  %%0 = full f32 () {value=%s}\n  return %%0\n}\n", values[i]);
        reads_as(text, text);
        free(text);
    }
    enum { NODES = 30000 }; /* linear, or this takes minutes */
    hod_text all = {0};
    hod__text(&all, "graph g {\n");
    for (int i = 0; i < NODES; i++)
        hod__text(&all, "  %%%d = full f32 (1,2) {value=%d}\n", i, i);
    hod__text(&all, "  return %%0\n}\n");
    char *text = hod__text_take(&all);
    CHECK(text != NULL);
    hod_graph *g = hod__graph_parse(text);
    CHECK(g != NULL);
    EQ_INT(g->n, NODES);
    hod__graph_free(g);
    free(text);
}

TEST(graph_text_refuses_what_is_no_graph)
{
    static const char *const bad[] = {
        "graph g { %1 = full f32 () return }",
        "graph g { %-1 = full f32 () return }",
        "graph g { %99999999999999999999 = full f32 () return }",
        ("graph g { %0 = full f32 () {value=0000000000000000000000000000000000000000000000000000"
         "000000000000} return }"),
        "graph g { %0 = exp f32 () %0 return }",
        "graph g { %0 = full f32 () %1 = exp f32 () %1 return }",
        "graph g { %0 = full f32 () %1 = exp f32 () return }",
        "graph g { %0 = full f32 () %1 = exp f32 () %0 %0 return }",
        "graph g { %0 = concat f32 () return }",
        "graph g { %0 = full f32 () {valu=1} return }",
        "graph g { %0 = full f32 () {value=x} return }",
        "graph g { %0 = full f32 () {value=1 return }",
        "graph g { %0 = full f32 (1,2,3,4,5,6,7,8,9) return }",
        "graph g { %0 = full f32 (1,) return }",
        "graph g { %0 = full f32 () !what return }",
        "graph g { %0 = input f32 () return }",
        "graph g { %0 = input f32 () \"x return }",
        "graph g { %0 = input f32 () \"\\q\" return }",
        "graph g { %0 = input f32 () \"\\x00\" return }",
        "graph g { %0 = input f32 (2) \"x\" {strides=()} return }",
        "graph g { %0 = input f32 (2) \"x\" {role=king} return }",
        "graph g { %0 = input f32 (2) \"x\" {rolls=data} return }",
        "graph g { return %0 }",
        "graph g { return } graph h { return }",
        "graph a_name_that_is_longer_than_what_fits_in_it { return }",
    };
    for (int i = 0; i < HOD_COUNT(bad); i++) {
        hod_graph *g = hod__graph_parse(bad[i]);
        if (g)
            FAIL("accepted: %s", bad[i]);
        hod_error_record e;
        CHECK(hod_error_take(&e));
        EQ_INT(e.kind, HOD_ERROR_FORMAT);
        CHECK(strncmp(e.text, "graph:1:", 8) == 0);
    }
}

TEST(graph_text_round_trip_of_random_graphs)
{
    for (uint64_t seed = 0; seed < 500; seed++) {
        hod_graph *g = hod__graph_random(seed, 5 + (int)(seed % 40));
        if (!g)
            FAIL("seed %d gives no graph", (int)seed);
        char *text = text_of(g);
        hod_graph *back = hod__graph_parse(text);
        if (!back || !hod__graph_equal(g, back))
            FAIL("seed %d reads back as another:\n%s", (int)seed, text);
        EQ_INT((int64_t)hod__graph_hash(g), (int64_t)hod__graph_hash(back));
        hod__graph_free(back);
        free(text);
        hod__graph_free(g);
    }
}

/* Cut short, or with one byte changed, a text is a graph or an error: nothing else. */
TEST(graph_text_survives_damage)
{
    hod_graph *g = hod__graph_random(11, 25);
    char *text = text_of(g);
    size_t n = strlen(text);
    int parsed = 0;
    for (size_t at = 0; at < n; at++)
        for (int kind = 0; kind < 4; kind++) {
            char *bad = hod__strdup(text);
            bad[at] = kind == 0 ? 0 : kind == 1 ? '%' : kind == 2 ? '9' : (char)(bad[at] ^ 0x80);
            hod_graph *back = hod__graph_parse(bad);
            if (back && hod__graph_validate(back) == 0)
                parsed++;
            hod_error_take(NULL);
            hod__graph_free(back);
            free(bad);
        }
    CHECK(parsed > 0);
    free(text);
    hod__graph_free(g);
}
