/* Compiled against interpreted, on 2,000 random graphs.
 *
 * Graphs are compiled many at a time, as one graph of unconnected parts: a call of the system
 * compiler costs more than a kernel. A failure names the seed and prints the part; then
 *
 *     HOD_FUZZ_SEED=1234 build/hod-tests --no-fork fuzz_program_00
 *
 * runs that graph alone and prints it, as recorded and optimised, with its program and kernels.
 * HOD_FUZZ_SEED=2000-2999 goes through others.
 */
#include "codegen/program.h"
#include "graph_check.h"

#include <math.h>
#include <stdio.h>

enum { PARTS = 25, PART_NODES = 8, NEARBY = 4 };

/* ---- many graphs in one ---------------------------------------------------------------------- */

static void append_graph(hod_graph *all, const hod_graph *g)
{
    hod_ref *map = hod__alloc((size_t)g->n, sizeof *map);
    for (hod_ref r = 0; r < g->n; r++) {
        hod_meta meta = hod__node_meta(g, r);
        hod_ref in[HOD_OP_MAX_INPUTS];
        for (int i = 0; i < g->nodes[r].n_in; i++)
            in[i] = map[hod__node_in(g, r)[i]];
        if (hod__is_input(g, r)) {
            const hod_graph_input *x = &g->inputs[g->nodes[r].input];
            map[r] = hod__graph_input(all, &meta, x->strides, x->role, x->name);
        } else {
            map[r] = hod__graph_add(all, (hod_op)g->nodes[r].op, &g->nodes[r].attrs,
                                    g->nodes[r].n_in, in, &meta);
        }
        CHECK(map[r] != HOD_NO_REF);
    }
    for (int64_t i = 0; i < g->n_outputs; i++)
        CHECK(hod__graph_return(all, map[g->outputs[i]]) == 0);
    free(map);
}

/* ---- tolerances ------------------------------------------------------------------------------ */

/* Relative to the largest element of a result. f32: the bound that hod promises. f16 and bf16: the
 * eager kernels round every value, a fused kernel only what it stores, so each of the few steps
 * between two stores may differ by half a unit in the last place; 16 of them are allowed for.
 * f64: the same promise, in its own precision. */
static double tolerance_of(hod_dtype dtype)
{
    static const double of[HOD_DTYPES] = {
        [HOD_F32] = 1e-5, [HOD_F64] = 1e-13, [HOD_F16] = 16 * 0x1p-12, [HOD_BF16] = 16 * 0x1p-9};
    return of[dtype];
}

/* The tolerance of each node: that of the least precise type on the way to it. */
static double *tolerances(const hod_graph *g)
{
    double *tolerance = hod__alloc((size_t)g->n, sizeof *tolerance);
    for (hod_ref r = 0; r < g->n; r++) {
        tolerance[r] = tolerance_of((hod_dtype)g->nodes[r].dtype);
        for (int i = 0; i < g->nodes[r].n_in; i++)
            tolerance[r] = fmax(tolerance[r], tolerance[hod__node_in(g, r)[i]]);
    }
    return tolerance;
}

/* ---- one program ----------------------------------------------------------------------------- */

typedef struct part {
    uint64_t seed;
    hod_graph *g;
    int64_t first_input, first_output;
} part;

static graph_result run_program(hod_program *p, const hod_graph *all, const part *parts, int n)
{
    HOD_SCOPE(s);
    static graph_inputs x, one; /* too large for the stack twice */
    graph_result r = {0};
    void *out[GRAPH_CHECK_MAX];
    hod_tensor *results[GRAPH_CHECK_MAX];
    memset(&x, 0, sizeof x);
    for (int i = 0; i < n; i++) {
        graph_inputs_make(parts[i].g, parts[i].seed, &one);
        for (int64_t k = 0; k < parts[i].g->n_inputs; k++) {
            int64_t at = parts[i].first_input + k;
            x.in[at] = one.in[k];
            x.slot[at] = one.slot[k];
            x.slots[at] = one.slots[k] ? &x.slot[at] : NULL;
        }
    }
    for (int64_t i = 0; i < all->n_outputs; i++) {
        hod_meta m = hod__node_meta(all, all->outputs[i]);
        results[i] = hod_empty(m.dtype, hod_shape_of(m.ndim, m.shape));
        CHECK(results[i] != NULL);
        out[i] = hod__data(results[i]);
    }
    int64_t bytes = hod__program_stats(p).arena_bytes;
    void *arena = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    CHECK(arena != NULL);
    memset(arena, 0xa5, (size_t)bytes); /* garbage, not zeros */
    if (hod__program_run(p, arena, x.in, x.slots, out))
        FAIL("the program does not run: %s", hod_error());
    free(arena);
    for (int64_t i = 0; i < all->n_outputs; i++)
        graph_result_add(&r, results[i]);
    for (int64_t i = 0; i < all->n_inputs; i++)
        graph_result_add(&r, x.in[i]);
    return r;
}

static void fail_part(const part *p, const char *what, int64_t result, int64_t k, double a,
                      double b)
{
    char *text = graph_text_of(p->g);
    FAIL("seed %d, %s %d, element %d: interpreted %.9g, compiled %.9g\n%s", (int)p->seed, what,
         (int)result, (int)k, a, b, text);
}

/* Result k of interpreting the part (a) against result i of the program (b). Returns false and
 * where, when they differ by more than tolerance times the largest element, or more than the result
 * moves (c, NEARBY of them or NULL) when inputs change in their last bit: a difference of two
 * almost equal sums has no digits that any order of summation would give. One change alone says
 * little of a single number, which it may leave where it was. */
static bool agrees(const graph_result *a, int64_t k, const graph_result *b, int64_t i,
                   const graph_result *c, double tolerance, int64_t *where)
{
    double scale = 0, moved = 0;
    CHECK(a->numel[k] == b->numel[i] && a->dtype[k] == b->dtype[i]);
    for (int64_t e = 0; e < a->numel[k]; e++) {
        scale = isfinite(a->values[k][e]) ? fmax(scale, fabs(a->values[k][e])) : scale;
        for (int way = 0; c && way < NEARBY; way++)
            moved = fmax(moved, fabs(a->values[k][e] - c[way].values[k][e]));
    }
    for (*where = 0; *where < a->numel[k]; ++*where) {
        double x = a->values[k][*where], y = b->values[i][*where];
        bool same = x == y || (isnan(x) && isnan(y));
        bool exact = a->dtype[k] > HOD_BF16; /* integers come of whole numbers only */
        /* Rounding n terms moves a sum up to sqrt(n) times as much as one change of each. */
        if (!same && (exact || !(fabs(x - y) <= tolerance * scale + 64 * moved)))
            return false;
    }
    return true;
}

static void check_part(const part *p, const hod_graph *all, const graph_result *b)
{
    graph_result a = graph_interpreted(p->g, p->seed), c[NEARBY] = {0};
    double *tolerance = tolerances(p->g), widest = 0;
    for (hod_ref r = 0; r < p->g->n; r++)
        widest = fmax(widest, tolerance[r]);
    for (int64_t k = 0; k < a.n; k++) {
        bool output = k < p->g->n_outputs;
        int64_t number = output ? k : k - p->g->n_outputs, where;
        int64_t i = output ? p->first_output + k : all->n_outputs + p->first_input + number;
        double allowed = output ? tolerance[p->g->outputs[k]] : widest;
        if (agrees(&a, k, b, i, NULL, allowed, &where))
            continue;
        for (int way = 0; way < NEARBY && !c[way].n; way++)
            c[way] = graph_interpreted_nearby(p->g, p->seed, way);
        if (!agrees(&a, k, b, i, c, allowed, &where))
            fail_part(p, output ? "output" : "input", number, where, a.values[k][where],
                      b->values[i][where]);
    }
    free(tolerance);
    graph_result_free(&a);
    for (int way = 0; way < NEARBY; way++)
        graph_result_free(&c[way]);
}

static void print_all(const hod_graph *g, const hod_graph *optimised, const hod_program *p)
{
    hod_text text = {0};
    hod__graph_print(g, &text);
    hod__text(&text, "# optimised\n");
    hod__graph_print(optimised, &text);
    if (p) {
        hod__text(&text, "# program\n");
        hod__program_print(p, &text);
        hod__program_print_kernels(p, &text);
    }
    fprintf(stderr, "%s", text.data);
    hod__text_free(&text);
}

static hod_graph *graph_of(uint64_t seed)
{
    hod_graph *g = hod__graph_random(seed, PART_NODES + (int)(seed % 5) * 4);
    if (!g)
        FAIL("seed %d gives no graph", (int)seed);
    return g;
}

/* Compiles the graphs of these seeds as one and compares. */
static void check_seeds(const uint64_t *seeds, int n, bool print)
{
    part parts[PARTS];
    hod_graph *all = hod__graph_new("fuzz");
    for (int i = 0; i < n; i++) {
        parts[i] = (part){seeds[i], graph_of(seeds[i]), all->n_inputs, all->n_outputs};
        append_graph(all, parts[i].g);
    }
    hod_graph *optimised = hod__graph_copy(all);
    if (hod__graph_optimize(optimised))
        FAIL("seeds from %d: %s", (int)seeds[0], hod_error());
    hod_program *p = hod__program_build(optimised, NULL);
    if (print)
        print_all(all, optimised, p);
    if (!p && n == 1)
        FAIL("seed %d is not built", (int)seeds[0]);
    if (!p) { /* which one? */
        hod_error_take(NULL);
        for (int i = 0; i < n; i++)
            check_seeds(seeds + i, 1, false);
        FAIL("seeds from %d are built alone but not together", (int)seeds[0]);
    }
    graph_result b = run_program(p, all, parts, n);
    for (int i = 0; i < n; i++) {
        check_part(&parts[i], all, &b);
        hod__graph_free(parts[i].g);
    }
    graph_result_free(&b);
    hod__program_free(p);
    hod__graph_free(optimised);
    hod__graph_free(all);
}

static bool has_empty(uint64_t seed)
{
    hod_graph *g = graph_of(seed);
    bool empty = false;
    for (hod_ref r = 0; r < g->n; r++)
        empty = empty || hod__node_numel(g, r) == 0;
    hod__graph_free(g);
    return empty;
}

/* Graphs with an empty tensor go alone: a program that has one runs eager kernels throughout. */
static void check_all(uint64_t from, uint64_t to)
{
    uint64_t pending[PARTS];
    int n = 0;
    for (uint64_t seed = from; seed < to; seed++) {
        if (has_empty(seed))
            check_seeds(&seed, 1, false);
        else
            pending[n++] = seed;
        if (n == PARTS || (n > 0 && seed + 1 == to)) {
            check_seeds(pending, n, false);
            n = 0;
        }
    }
}

static void check_range(uint64_t from, uint64_t to)
{
    const char *wanted = getenv("HOD_FUZZ_SEED");
    char *end = NULL;
    if (!wanted) {
        check_all(from, to);
        return;
    }
    from = strtoull(wanted, &end, 10);
    if (*end == '-')
        check_all(from, strtoull(end + 1, NULL, 10) + 1);
    else
        check_seeds(&from, 1, true);
}

#define RANGE(k)                                                                                   \
    TEST(fuzz_program_##k)                                                                         \
    {                                                                                              \
        check_range(100 * (1##k - 100), 100 * (1##k - 100) + 100);                                 \
    }
// clang-format off
RANGE(00) RANGE(01) RANGE(02) RANGE(03) RANGE(04) RANGE(05) RANGE(06) RANGE(07) RANGE(08) RANGE(09)
RANGE(10) RANGE(11) RANGE(12) RANGE(13) RANGE(14) RANGE(15) RANGE(16) RANGE(17) RANGE(18) RANGE(19)
    // clang-format on
