/* For the tests of graphs: run one on the inputs of a seed and keep what came of it.
 *
 *     graph_result a = graph_interpreted(before, 7), b = graph_interpreted(after, 7);
 *     graph_same(&a, &b, "opt_cse");          // bit for bit, all NaN alike
 *
 * The result is what a caller can see: outputs, then the inputs as they are afterwards.
 */
#ifndef HOD_TESTS_GRAPH_CHECK_H
#define HOD_TESTS_GRAPH_CHECK_H

#include "graph/graph.h"
#include "harness.h"
#include "ops/rules.h"

enum { GRAPH_CHECK_MAX = 1024 };

typedef struct graph_inputs {
    hod_tensor *in[GRAPH_CHECK_MAX];
    hod_grad_slot slot[GRAPH_CHECK_MAX];
    hod_grad_slot *slots[GRAPH_CHECK_MAX];
} graph_inputs;

typedef struct graph_result {
    int64_t n;
    double *values[GRAPH_CHECK_MAX];
    int64_t numel[GRAPH_CHECK_MAX];
    hod_dtype dtype[GRAPH_CHECK_MAX];
} graph_result;

/* Inputs of a seed, in the innermost scope; gradients' slots are present for odd seeds. */
static inline void graph_inputs_make(const hod_graph *g, uint64_t seed, graph_inputs *x)
{
    memset(x, 0, sizeof *x);
    CHECK(g->n_inputs <= GRAPH_CHECK_MAX);
    CHECK(hod__graph_random_inputs(g, seed, x->in) == 0);
    for (int64_t i = 0; i < g->n_inputs; i++)
        if (g->inputs[i].role == HOD_INPUT_GRADIENT) {
            x->slot[i] = (hod_grad_slot){.sum = x->in[i], .present = seed & 1};
            x->slots[i] = &x->slot[i];
        }
}

static inline void graph_result_add(graph_result *r, const hod_tensor *t)
{
    CHECK(r->n < GRAPH_CHECK_MAX);
    int64_t n = hod_tensor_numel(t);
    double *values = hod__alloc((size_t)n, sizeof *values);
    CHECK(values && hod_read_doubles(t, values, n) == 0);
    r->dtype[r->n] = hod_tensor_dtype(t);
    r->numel[r->n] = n;
    r->values[r->n++] = values;
}

static inline void graph_result_free(graph_result *r)
{
    for (int64_t i = 0; i < r->n; i++)
        free(r->values[i]);
    r->n = 0;
}

/* Changes each number of t that is not whole by one unit in the last place, up or down. */
static inline void graph_nudge(hod_tensor *t, uint64_t seed)
{
    static const double unit[HOD_DTYPES] = {
        [HOD_F32] = 0x1p-23, [HOD_F64] = 0x1p-52, [HOD_F16] = 0x1p-10, [HOD_BF16] = 0x1p-7};
    hod_tensor *like = hod_empty(HOD_F64, hod_tensor_shape(t));
    double *factor = hod_tensor_mutable_data(like);
    for (int64_t i = 0; i < hod_tensor_numel(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        factor[i] = seed >> 63 ? 1 + unit[hod_tensor_dtype(t)] : 1;
    }
    hod_attrs attrs = {.cast = {.dtype = hod_tensor_dtype(t)}};
    hod_tensor *in[] = {t, hod__op(HOD_OP_cast, &attrs, 1, &like)};
    hod_tensor *nudged = hod__op(HOD_OP_mul, NULL, 2, in);
    CHECK(nudged != NULL);
    hod__eval_copy(nudged, t);
}

/* nudge: 0 for the inputs as they are, else which of the ways to move them. */
static inline graph_result graph_interpreted_with(const hod_graph *g, uint64_t seed, uint64_t nudge)
{
    HOD_SCOPE(s);
    graph_inputs x;
    graph_result r = {0};
    hod_tensor *out[GRAPH_CHECK_MAX];
    CHECK(g->n_outputs <= GRAPH_CHECK_MAX);
    graph_inputs_make(g, seed, &x);
    for (int64_t i = 0; nudge && i < g->n_inputs; i++)
        if (g->inputs[i].name[0] == 'x')
            graph_nudge(x.in[i], seed + (uint64_t)i + (nudge - 1) * 0x9e3779b97f4a7c15u);
    CHECK(hod__graph_interpret(g, x.in, x.slots, out) == 0);
    for (int64_t i = 0; i < g->n_outputs; i++)
        graph_result_add(&r, out[i]);
    for (int64_t i = 0; i < g->n_inputs; i++)
        graph_result_add(&r, x.in[i]);
    return r;
}

static inline graph_result graph_interpreted(const hod_graph *g, uint64_t seed)
{
    return graph_interpreted_with(g, seed, 0);
}

/* The same with inputs that differ in the last bit: how far do the results move? */
static inline graph_result graph_interpreted_nearby(const hod_graph *g, uint64_t seed, int way)
{
    return graph_interpreted_with(g, seed, (uint64_t)way + 1);
}

static inline bool graph_same_value(double a, double b)
{
    return (a != a && b != b) || memcmp(&a, &b, sizeof a) == 0;
}

/* Index of the first value of result i that differs, or -1. */
static inline int64_t graph_first_difference(const graph_result *a, const graph_result *b,
                                             int64_t i)
{
    if (a->numel[i] != b->numel[i] || a->dtype[i] != b->dtype[i])
        return 0;
    for (int64_t k = 0; k < a->numel[i]; k++)
        if (!graph_same_value(a->values[i][k], b->values[i][k]))
            return k;
    return -1;
}

static inline void graph_same(const graph_result *a, const graph_result *b, const char *what)
{
    EQ_INT(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) {
        int64_t k = graph_first_difference(a, b, i);
        if (k >= 0)
            FAIL("%s: result %d, element %d: %.17g became %.17g", what, (int)i, (int)k,
                 a->numel[i] ? a->values[i][k] : 0.0, b->numel[i] ? b->values[i][k] : 0.0);
    }
}

static inline char *graph_text_of(const hod_graph *g)
{
    hod_text text = {0};
    CHECK(hod__graph_print(g, &text) == 0);
    return hod__text_take(&text);
}

#endif
