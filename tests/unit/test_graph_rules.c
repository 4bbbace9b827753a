/* rules.def, row by row: an instance of the pattern is built for every type, with inputs that hold
 * every pair of special values, and must give the same bits after the rule as before. */
#include "graph/algebra.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>

enum { MAX_VALUES = 24 };

typedef struct instance {
    const hod_rules *rules;
    hod_graph *g;
    hod_dtype dtype;
    double constant; /* of capital letters */
    bool positive;   /* inputs between .5 and 3 */
    hod_ref of[HOD_RULE_LETTERS];
    int role[HOD_RULE_LETTERS]; /* which of the pairs: 0, 1, 2 */
    int64_t n;
} instance;

/* ---- values ---------------------------------------------------------------------------------- */

static int special_values(hod_dtype dtype, bool positive, double *v)
{
    static const double floats[] = {0.0,      -0.0,      1.0, -1.0, 0.5,   -0.5,    2.0, -3.25,
                                    INFINITY, -INFINITY, NAN, 6e-8, -6e-8, 60000.0, 0.1, -1.75};
    static const double positives[] = {0.5, 0.6, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 2.5, 3.0};
    static const double ints[] = {0, 1, -1, 2, -2, 3, 7, -7, 100, -100, 255, 1000, -999};
    static const double bytes[] = {0, 1, 2, 3, 7, 100, 127, 128, 254, 255};
    static const double bools[] = {0, 1};
#define TAKE(list) return memcpy(v, list, sizeof list), HOD_COUNT(list)
    if (positive)
        TAKE(positives);
    if (dtype <= HOD_BF16)
        TAKE(floats);
    if (dtype == HOD_U8)
        TAKE(bytes);
    if (dtype == HOD_BOOL)
        TAKE(bools);
    TAKE(ints);
#undef TAKE
}

static hod_tensor *input_values(hod_dtype dtype, bool positive, int role, int64_t n)
{
    double v[MAX_VALUES], *all = hod__alloc((size_t)n, sizeof *all);
    int count = special_values(dtype, positive, v);
    for (int64_t i = 0; i < n; i++)
        all[i] = v[(role == 0 ? i / MAX_VALUES : role == 1 ? i : 5 * i + i / MAX_VALUES) % count];
    hod_tensor *t = hod_from_doubles(all, HOD_SHAPE(n));
    hod_attrs attrs = {.cast = {.dtype = dtype}};
    free(all);
    return hod__op(HOD_OP_cast, &attrs, 1, &t);
}

/* ---- instances ------------------------------------------------------------------------------- */

/* The node of a term; `dtype` is the type wanted of a letter. HOD_NO_REF: not for that type. */
static hod_ref build(instance *x, int term, hod_dtype dtype)
{
    const hod_term *t = &x->rules->terms[term];
    hod_attrs attrs = {0};
    hod_ref in[4];
    if (t->kind == HOD_TERM_NUMBER || t->kind == HOD_TERM_CONSTANT) {
        attrs.full.value = t->kind == HOD_TERM_NUMBER ? t->number : x->constant;
        attrs.full.dtype = dtype;
        if (t->kind == HOD_TERM_CONSTANT && x->of[t->letter] != HOD_NO_REF)
            return x->of[t->letter];
        hod_ref r = hod__graph_op(x->g, HOD_OP_full, &attrs, 0, NULL);
        if (t->kind == HOD_TERM_CONSTANT)
            x->of[t->letter] = r;
        return r;
    }
    if (t->kind == HOD_TERM_VALUE) {
        hod_meta meta = {.dtype = dtype, .ndim = 1, .shape = {x->n}};
        if (x->of[t->letter] == HOD_NO_REF)
            x->of[t->letter] = hod__graph_input(x->g, &meta, NULL, HOD_INPUT_DATA,
                                                (char[]){'0' + (char)x->role[t->letter], 0});
        return x->of[t->letter];
    }
    attrs.cast.dtype = t->op == HOD_OP_cast ? dtype : HOD_F32;
    for (int i = 0; i < t->n; i++) {
        const hod_term *operand = &x->rules->terms[t->in[i]];
        bool condition = t->op == HOD_OP_where && i == 0 && operand->kind != HOD_TERM_OP;
        in[i] = build(x, t->in[i], condition ? HOD_BOOL : dtype);
        if (in[i] == HOD_NO_REF)
            return in[i];
    }
    if (hod__op_info[t->op].class == HOD_REDUCE) { /* over a dimension of size 1, in front */
        hod_attrs shape = {.shape = {.shape = HOD_SHAPE(1, x->n)}};
        memset(&attrs, 0, sizeof attrs);
        attrs.reduce.dims = 1;
        in[0] = hod__graph_op(x->g, HOD_OP_reshape, &shape, 1, in);
    }
    return hod__graph_op(x->g, (hod_op)t->op, &attrs, t->n, in);
}

static bool instance_make(instance *x, const hod_rule *rule)
{
    x->g = hod__graph_new("rule");
    for (int i = 0; i < HOD_RULE_LETTERS; i++) {
        x->of[i] = HOD_NO_REF;
        x->role[i] = i % 3;
    }
    hod_ref root = build(x, rule->root, x->dtype);
    if (root != HOD_NO_REF && hod__graph_return(x->g, root) == 0 && hod__graph_validate(x->g) == 0)
        return true;
    hod_error_take(NULL);
    hod__graph_free(x->g);
    return false;
}

typedef struct one_rule {
    const hod_rules *rules;
    int only;
} one_rule;

static hod_ref apply_one(hod_rewrite *w, hod_ref r)
{
    const one_rule *one = w->context;
    return hod__rules_apply(one->rules, w, r, one->only, true);
}

static void run(const instance *x, const hod_graph *g, double *out)
{
    HOD_SCOPE(s);
    hod_tensor *in[HOD_RULE_LETTERS], *result;
    for (int64_t i = 0; i < g->n_inputs; i++)
        in[i] = input_values((hod_dtype)g->nodes[g->inputs[i].node].dtype, x->positive,
                             g->inputs[i].name[0] - '0', x->n);
    CHECK(hod__graph_interpret(g, in, NULL, &result) == 0);
    CHECK(hod_tensor_numel(result) == x->n || hod_tensor_numel(result) == 1);
    double first[1];
    if (hod_tensor_numel(result) == x->n) {
        CHECK(hod_read_doubles(result, out, x->n) == 0);
        return;
    }
    CHECK(hod_read_doubles(result, first, 1) == 0);
    for (int64_t i = 0; i < x->n; i++)
        out[i] = first[0];
}

static bool same(double a, double b, double tolerance)
{
    if (tolerance > 0)
        return a == b || fabs(a - b) <= tolerance * fabs(a);
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* True when the rule fits an instance of this type; then it must hold. */
static bool try_rule(const hod_rules *rules, int i, hod_dtype dtype, double constant)
{
    const hod_rule *rule = &rules->rules[i];
    instance x = {.rules = rules,
                  .dtype = dtype,
                  .constant = constant,
                  .positive = rule->when == HOD_RULE_INEXACT,
                  .n = MAX_VALUES * MAX_VALUES};
    if (!instance_make(&x, rule))
        return false;
    one_rule one = {rules, i};
    hod_graph *after = hod__graph_copy(x.g);
    bool changed = hod__rewrite(after, apply_one, &one);
    double *a = hod__alloc((size_t)x.n, sizeof *a), *b = hod__alloc((size_t)x.n, sizeof *b);
    /* Inexact rules: a few roundings of values that are neither close to 0 nor to cancelling. */
    double eps = dtype == HOD_F64 ? 1e-13 : dtype == HOD_F32 ? 2e-6 : 4e-2;
    if (changed) {
        CHECK(hod__graph_validate(after) == 0);
        run(&x, x.g, a);
        run(&x, after, b);
    }
    for (int64_t k = 0; changed && k < x.n; k++)
        if (!same(a[k], b[k], x.positive ? eps : 0))
            FAIL("%s -> %s for %s, element %d: %.17g became %.17g", rule->pattern,
                 rule->replacement, hod_dtype_name(dtype), (int)k, a[k], b[k]);
    free(a);
    free(b);
    hod__graph_free(after);
    hod__graph_free(x.g);
    return changed;
}

TEST(graph_rules_hold_for_all_types_and_values)
{
    hod_rules *rules = hod__rules_new();
    CHECK(rules != NULL);
    for (int i = 0; i < rules->n; i++) {
        int fits = 0;
        for (int dtype = 0; dtype < HOD_DTYPES; dtype++) {
            static const double constants[] = {2, 3, 0.5, -0.0, -1};
            int n = dtype > HOD_BF16 ? 2 : HOD_COUNT(constants);
            for (int c = 0; c < n; c++)
                fits += try_rule(rules, i, (hod_dtype)dtype, constants[c]);
        }
        if (fits == 0)
            FAIL("%s -> %s never applies", rules->rules[i].pattern, rules->rules[i].replacement);
    }
    free(rules);
}

TEST(graph_rules_respect_signed_zero)
{
    hod_graph *g =
        hod__graph_parse("graph g { %0 = input f32 (2) \"x\" %1 = full f32 () {value=-0}\n"
                         "%2 = sub f32 (2) %0 %1 return %2 }");
    CHECK(hod__graph_run_pass(g, hod__pass_of("opt_simplify")) == 0); /* -0 - -0 is +0 */
    hod__graph_free(g);
}
