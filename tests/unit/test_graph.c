/* Building graphs, rewriting them whole, validity, and the slow twin. */
#include "graph/graph.h"
#include "harness.h"
#include <hod/functional.h>

static hod_meta meta_f32(int ndim, int64_t a, int64_t b)
{
    return (hod_meta){.dtype = HOD_F32, .ndim = ndim, .shape = {a, b}};
}

static char *text_of(const hod_graph *g)
{
    hod_text text = {0};
    CHECK(hod__graph_print(g, &text) == 0);
    return hod__text_take(&text);
}

static hod_graph *parsed(const char *text)
{
    hod_graph *g = hod__graph_parse(text);
    CHECK(g != NULL);
    return g;
}

TEST(graph_builds_in_recording_order)
{
    hod_graph *g = hod__graph_new("step");
    hod_meta m = meta_f32(2, 2, 3);
    hod_ref x = hod__graph_input(g, &m, NULL, HOD_INPUT_DATA, "x");
    hod_ref y = hod__graph_op(g, HOD_OP_exp, NULL, 1, &x);
    hod_attrs attrs = {.reduce = {.dims = 2, .keepdim = true}};
    hod_ref z = hod__graph_op(g, HOD_OP_sum, &attrs, 1, &y);
    CHECK(hod__graph_return(g, z) == 0);
    char *text = text_of(g);
    EQ_STR(text, "graph step {\n"
                 "  %0 = input f32 (2,3) \"x\"\n"
                 "  %1 = exp f32 (2,3) %0\n"
                 "  %2 = sum f32 (2,1) %1 {dims=(1), keepdim=true}\n"
                 "  return %2\n"
                 "}\n");
    EQ_INT(hod__node_numel(g, y), 6);
    EQ_INT(hod__node_bytes(g, y), 24);
    CHECK(hod__graph_validate(g) == 0);
    free(text);
    hod__graph_free(g);
}

TEST(graph_compact_redirects_and_drops)
{
    hod_graph *g = parsed("graph g {\n"
                          "  %0 = input f32 (2) \"x\"\n"
                          "  %1 = input f32 (2) \"unused\"\n"
                          "  %2 = exp f32 (2) %0\n"
                          "  %3 = neg f32 (2) %1\n"
                          "  %4 = exp f32 (2) %0 !keep\n"
                          "  %5 = add f32 (2) %2 %4\n"
                          "  return %5\n"
                          "}\n");
    CHECK(hod__graph_compact(g, (hod_ref[]){0, 1, 2, 3, 2, 5}));
    char *text = text_of(g);
    EQ_STR(text, "graph g {\n"
                 "  %0 = input f32 (2) \"x\"\n"
                 "  %1 = input f32 (2) \"unused\"\n"
                 "  %2 = exp f32 (2) %0 !keep\n"
                 "  %3 = add f32 (2) %2 %2\n"
                 "  return %3\n"
                 "}\n");
    CHECK(!hod__graph_compact(g, NULL));
    free(text);
    hod__graph_free(g);
}

TEST(graph_compact_keeps_effects)
{
    const char *text = "graph g {\n"
                       "  %0 = input f32 (2) \"w\" {role=state}\n"
                       "  %1 = neg f32 (2) %0\n"
                       "  %2 = assign f32 (2) %0 %1\n"
                       "  return\n"
                       "}\n";
    hod_graph *g = parsed(text);
    CHECK(!hod__graph_compact(g, NULL));
    EQ_INT(g->n, 3);
    hod__graph_free(g);
}

TEST(graph_copy_and_hash)
{
    hod_graph *g = hod__graph_random(7, 30), *copy = hod__graph_copy(g);
    CHECK(hod__graph_equal(g, copy));
    EQ_INT((int64_t)hod__graph_hash(g), (int64_t)hod__graph_hash(copy));
    snprintf(copy->name, sizeof copy->name, "other");
    snprintf(copy->inputs[0].name, sizeof copy->inputs[0].name, "other");
    EQ_INT((int64_t)hod__graph_hash(g), (int64_t)hod__graph_hash(copy)); /* names are for people */
    CHECK(!hod__graph_equal(g, copy));
    copy->nodes[copy->n - 1].flags ^= HOD_NODE_KEEP;
    CHECK(hod__graph_hash(g) != hod__graph_hash(copy));
    hod__graph_free(copy);
    hod__graph_free(g);
}

TEST(graph_attrs_ignore_padding)
{
    hod_graph *g = hod__graph_new("g");
    hod_meta m = meta_f32(1, 4, 0);
    hod_ref x = hod__graph_input(g, &m, NULL, HOD_INPUT_DATA, "x");
    hod_attrs a, b;
    memset(&a, 0x55, sizeof a);
    memset(&b, 0xaa, sizeof b);
    a.reduce.dims = b.reduce.dims = 1;
    a.reduce.keepdim = b.reduce.keepdim = false;
    hod_ref y = hod__graph_op(g, HOD_OP_sum, &a, 1, &x),
            z = hod__graph_op(g, HOD_OP_sum, &b, 1, &x);
    CHECK(memcmp(&hod__node(g, y)->attrs, &hod__node(g, z)->attrs, sizeof a) == 0);
    hod__graph_free(g);
}

/* ---- validity: each fault is named, with the node ---- */

static int validate_text(const char *text)
{
    hod_graph *g = parsed(text);
    int rc = hod__graph_validate(g);
    hod__graph_free(g);
    return rc;
}

TEST(graph_validate_names_the_node)
{
    ERROR_IS("graph: %1 = exp f32 (3) %0: the rule says f32 (2)",
             validate_text("graph g { %0 = input f32 (2) \"x\" %1 = exp f32 (3) %0 return %1 }"));
    ERROR_IS("graph: %2: add: f32 with f64",
             validate_text("graph g { %0 = input f32 (2) \"x\" %1 = input f64 (2) \"y\"\n"
                           "%2 = add f32 (2) %0 %1 return %2 }"));
    ERROR_IS("graph: %2 = assign f32 (2) %1 %0: %1 is not an input",
             validate_text("graph g { %0 = input f32 (2) \"x\" %1 = exp f32 (2) %0\n"
                           "%2 = assign f32 (2) %1 %0 return }"));
    ERROR_IS("graph: %1 = accumulate f32 (2) %0 %0: %0 is not a gradient",
             validate_text("graph g { %0 = input f32 (2) \"x\" %1 = accumulate f32 (2) %0 %0\n"
                           "return }"));
}

TEST(graph_validate_refuses_old_values)
{
    const char *head = "graph g { %0 = input f32 (2) \"w\" {role=state} %1 = exp f32 (2) %0\n"
                       "%2 = assign f32 (2) %0 %1 ";
    char *after = hod__format("%s %%3 = neg f32 (2) %%2 return %%3 }", head);
    char *before = hod__format("%s %%3 = neg f32 (2) %%0 return %%3 }", head);
    char *returned = hod__format("%s return %%0 }", head);
    CHECK(validate_text(after) == 0);
    ERROR_IS("graph: %3 = neg f32 (2) %0: %0 was overwritten by %2", validate_text(before));
    ERROR_IS("graph: return: %0 was overwritten by %2", validate_text(returned));
    free(after);
    free(before);
    free(returned);
}

TEST(graph_validate_reshape_is_a_view)
{
    ERROR_IS("graph: %2 = reshape f32 (6) %1 {shape=(6)}: not a view of its input's strides",
             validate_text("graph g { %0 = input f32 (2,3) \"x\"\n"
                           "%1 = permute f32 (3,2) %0 {order=(1,0)}\n"
                           "%2 = reshape f32 (6) %1 {shape=(6)} return %2 }"));
    CHECK(validate_text("graph g { %0 = input f32 (2,3) \"x\" {strides=(1,2)}\n"
                        "%1 = permute f32 (3,2) %0 {order=(1,0)}\n"
                        "%2 = reshape f32 (6) %1 {shape=(6)} return %2 }") == 0);
}

TEST(graph_validate_corrupt_tables)
{
    hod_graph *g = parsed("graph g { %0 = input f32 (2) \"x\" %1 = exp f32 (2) %0 return %1 }");
    g->edges[0] = 1;
    ERROR_IS("graph: %1 = exp f32 (2) %1: %1 is not an earlier node", hod__graph_validate(g));
    g->edges[0] = 0;
    g->inputs[0].node = 1;
    ERROR_IS("graph: input 0 is %1, which is not it", hod__graph_validate(g));
    g->inputs[0].node = 0;
    g->outputs[0] = 9;
    ERROR_IS("graph: return of %9, there are 2 nodes", hod__graph_validate(g));
    g->outputs[0] = 1;
    g->nodes[1].op = 4711;
    ERROR_IS("graph: %1 is no operator", hod__graph_validate(g));
    hod__graph_free(g);
}

/* ---- the slow twin ---- */

TEST(graph_interpret_computes)
{
    HOD_SCOPE(s);
    hod_graph *g =
        parsed("graph g { %0 = input f32 (2,3) \"x\" %1 = permute f32 (3,2) %0 {order=(1,0)}\n"
               "%2 = matmul f32 (2,2) %0 %1 %3 = sum f32 () %2 {dims=(0,1)}\n"
               "return %2 %3 }");
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5, 6}, HOD_SHAPE(2, 3)), *out[2];
    CHECK(hod__graph_interpret(g, &x, NULL, out) == 0);
    double got[4];
    CHECK(hod_read_doubles(out[0], got, 4) == 0);
    NEAR(got[0], 14, 0);
    NEAR(got[1], 32, 0);
    NEAR(got[3], 77, 0);
    NEAR(hod_item(out[1]), 155, 0);
    hod__graph_free(g);
}

TEST(graph_interpret_assigns_values_not_views)
{
    HOD_SCOPE(s);
    /* %1 is a view of w from before the change; the change reads it transposed in place. */
    hod_graph *g = parsed("graph g { %0 = input f32 (2,2) \"w\" {role=state}\n"
                          "%1 = permute f32 (2,2) %0 {order=(1,0)}\n"
                          "%2 = assign f32 (2,2) %0 %1\n"
                          "%3 = neg f32 (2,2) %1 return %3 %2 }");
    CHECK(hod__graph_validate(g) == 0);
    hod_tensor *w = hod_from_floats((float[]){1, 2, 3, 4}, HOD_SHAPE(2, 2)), *out[2];
    CHECK(hod__graph_interpret(g, &w, NULL, out) == 0);
    double got[4], now[4];
    CHECK(hod_read_doubles(out[0], got, 4) == 0 && hod_read_doubles(w, now, 4) == 0);
    NEAR(now[1], 3, 0);
    NEAR(now[2], 2, 0);
    NEAR(got[1], -3, 0);
    NEAR(got[2], -2, 0);
    hod__graph_free(g);
}

TEST(graph_interpret_accumulates_into_slots)
{
    HOD_SCOPE(s);
    hod_graph *g = parsed("graph g { %0 = input f32 (2) \"x\" %1 = input f32 (2) \"w.grad\" "
                          "{role=gradient}\n"
                          "%2 = accumulate f32 (2) %1 %0 return %2 }");
    hod_tensor *x = hod_from_floats((float[]){1, 2}, HOD_SHAPE(2)), *out;
    hod_grad_slot slot = {.sum = hod_from_floats((float[]){100, 100}, HOD_SHAPE(2))};
    hod_tensor_retain(slot.sum);
    hod_grad_slot *slots[] = {NULL, &slot};
    hod_tensor *in[] = {x, slot.sum};
    double got[2];
    for (int k = 1; k <= 3; k++) { /* the first writes, the others add */
        CHECK(hod__graph_interpret(g, in, slots, &out) == 0);
        CHECK(hod_read_doubles(out, got, 2) == 0);
        NEAR(got[0], k, 0);
        NEAR(got[1], 2 * k, 0);
        CHECK(slot.present);
    }
    ERROR_IS("interpret: input 1 has no gradient slot", hod__graph_interpret(g, in, NULL, &out));
    hod_tensor_release(slot.sum);
    hod__graph_free(g);
}

TEST(graph_interpret_refuses_other_inputs)
{
    HOD_SCOPE(s);
    hod_graph *g = parsed("graph g { %0 = input f32 (2) \"x\" %1 = exp f32 (2) %0 return %1 }");
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(3)), *none = NULL, *out;
    ERROR_IS("interpret: input 0 is f32 (3)", hod__graph_interpret(g, &x, NULL, &out));
    ERROR_IS("interpret: %0 has no value for %1", hod__graph_interpret(g, &none, NULL, &out));
    hod__graph_free(g);
}

/* ---- out of memory: the n-th allocation fails, for all n ---- */

TEST(graph_survives_every_failing_allocation)
{
    const char *text =
        "graph g { %0 = input f32 (2) \"x\" %1 = neg f32 (2) %0 %2 = neg f32 (2) %1\n"
        "%3 = full f32 () {value=2} %4 = sqrt f32 () %3 %5 = mul f32 (2) %2 %4\n"
        "%6 = mul f32 (2) %4 %2 %7 = add f32 (2) %5 %6 return %7 }";
    for (int64_t n = 0;; n++) {
        hod__alloc_fail_after = n;
        hod_graph *g = hod__graph_parse(text), *copy = g ? hod__graph_copy(g) : NULL;
        int rc = copy ? hod__graph_optimize(copy) : -1;
        bool all_done = rc == 0 && hod__alloc_fail_after >= 0;
        hod__alloc_fail_after = -1;
        if (rc == 0)
            EQ_INT(copy->n, 4);
        else
            CHECK(hod_error_take(NULL));
        hod__graph_free(copy);
        hod__graph_free(g);
        if (all_done)
            break;
    }
}
