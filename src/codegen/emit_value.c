/* Values as C text: see emit_value.h. */
#include "codegen/emit_value.h"
#include <ctype.h>

const hod_c_type hod__c_types[HOD_DTYPES] = {
    [HOD_F32] = {"float", "float", "", "", "r_", "r_"},
    [HOD_F64] = {"double", "double", "", "", "d_", "d_"},
    [HOD_F16] = {"u16", "float", "r_from_f16", "r_to_f16", "r_", "r_"},
    [HOD_BF16] = {"u16", "float", "r_from_bf16", "r_to_bf16", "r_", "r_"},
    [HOD_I64] = {"i64", "i64", "", "", "i_", "i_"},
    [HOD_I32] = {"i32", "i32", "", "", "i_", "i32_"},
    [HOD_U8] = {"u8", "u8", "", "", "i_", "u8_"},
    [HOD_BOOL] = {"u8", "u8", "", "", "i_", "u8_"},
};

const hod_node *hod__c_node(const hod_loops *p, int i)
{
    return hod__node(p->l->g, p->value[i].ref);
}

const hod_c_type *hod__c_type(const hod_loops *p, int i)
{
    return &hod__c_types[hod__c_node(p, i)->dtype];
}

static bool is_half(const hod_loops *p, int i)
{
    return *hod__c_type(p, i)->load;
}

/* ---- addresses ---- */

void hod__c_address(hod_text *t, const hod_loops *p, int q, int from, int to)
{
    for (int a = from; a < to; a++) {
        int64_t s = p->stride[q][a];
        if (s == 1)
            hod__text(t, " + x%d", a);
        else if (s)
            hod__text(t, " + x%d * s%d_%d", a, q, a);
    }
}

char *hod__c_element(const hod_loops *p, int q)
{
    hod_text t = {0};
    int from = p->nest == HOD_NEST_FLAT ? 0 : p->n_outer;
    hod__text(&t, "%c%d[0", p->nest == HOD_NEST_FLAT ? 'b' : 'p', q);
    hod__c_address(&t, p, q, from, p->n_axes);
    hod__text(&t, "]");
    return hod__text_take(&t);
}

char *hod__c_load(const hod_loops *p, int i)
{
    char *at = hod__c_element(p, p->value[i].operand);
    const char *load = hod__c_type(p, i)->load;
    char *s = at ? hod__format(*load ? "%s(%s)" : "%s%s", load, at) : NULL;
    free(at);
    return s;
}

/* ---- expressions ---- */

/* The number of the current element along what value i counts. */
static void count(hod_text *t, const hod_loops *p, int i)
{
    const hod_loop_value *v = &p->value[i];
    hod__text(t, "(0");
    for (int a = 0; a < p->n_axes; a++)
        if (v->stride[a])
            hod__text(t,
                      p->strips && a == p->n_axes - 1 ? " + (strip + x%d) * c%d_%d"
                                                      : " + x%d * c%d_%d",
                      a, i, a);
    hod__text(t, ")");
}

char *hod__c_use(const hod_loops *p, int i)
{
    const hod_loop_value *v = &p->value[i];
    bool lanes = p->nest == HOD_NEST_LANE_KEPT && !v->full;
    int lane = p->n_axes - 1;
    switch (v->kind) {
    case HOD_VALUE_LOAD: return lanes ? hod__c_load(p, i) : hod__format("v%d", i);
    case HOD_VALUE_COUNTER: {
        hod_text t = {0};
        hod__text(&t, "(%s)", hod__c_type(p, i)->computed);
        count(&t, p, i);
        return hod__text_take(&t);
    }
    default:
        return lanes && v->kind != HOD_VALUE_NUMBER ? hod__format("v%d[x%d]", i, lane)
                                                    : hod__format("v%d", i);
    }
}

char *hod__c_accumulator(const hod_loops *p, int i)
{
    return p->nest == HOD_NEST_LANE_KEPT ? hod__format("a%d[x%d]", i, p->n_axes - 1)
                                         : hod__format("a%d", i);
}

const char *hod__c_accumulator_type(const hod_loops *p, int i)
{
    const hod_node *n = hod__c_node(p, i);
    bool rounds = n->op == HOD_OP_sum || n->op == HOD_OP_prod;
    bool wide = rounds && (n->dtype == HOD_F32 || is_half(p, i));
    return wide ? "double" : hod__c_types[n->dtype].computed;
}

/* Replaces the identifiers of an operator's text: its inputs, `acc`, and the helpers' prefix. */
static void substitute(hod_text *t, const char *expr, char *const *in, const char *acc,
                       const char *prefix)
{
    while (*expr) {
        if (!isalpha((unsigned char)*expr) && *expr != '_') {
            bool number = isdigit((unsigned char)*expr);
            do
                hod__text_bytes(t, expr++, 1);
            while (number && (isalnum((unsigned char)*expr) || *expr == '.'));
            continue;
        }
        int n = 0;
        while (isalnum((unsigned char)expr[n]) || expr[n] == '_')
            n++;
        if (n == 1 && *expr >= 'a' && *expr <= 'c')
            hod__text(t, "%s", in[*expr - 'a']);
        else if (n == 3 && !strncmp(expr, "acc", 3))
            hod__text(t, "%s", acc);
        else if (n > 2 && !strncmp(expr, "r_", 2))
            hod__text(t, "%s%.*s", prefix, n - 2, expr + 2);
        else
            hod__text_bytes(t, expr, n);
        expr += n;
    }
}

static void cast_text(hod_text *t, hod_dtype from, hod_dtype to, const char *x)
{
    if (to == HOD_BOOL)
        hod__text(t, "%s != 0", x);
    else
        hod__text(t, to == HOD_U8 && hod__is_float(from) ? "(i64)%s" : "%s", x);
}

/* Takes text. A half is computed as a float and rounded after every operator, as if stored. */
static char *rounded(const hod_loops *p, int i, char *text)
{
    const hod_c_type *type = hod__c_type(p, i);
    if (!text || !is_half(p, i))
        return text;
    char *s = hod__format("%s(%s(%s))", type->load, type->store, text);
    free(text);
    return s;
}

char *hod__c_expression(const hod_loops *p, int i)
{
    const hod_graph *g = p->l->g;
    const hod_loop_value *v = &p->value[i];
    const hod_node *n = hod__c_node(p, i);
    const hod_op_info *info = &hod__op_info[n->op];
    hod_text t = {0};
    char *in[4] = {0};
    for (int k = 0; k < n->n_in && k < 4; k++)
        if (!hod__is_target(g, v->ref, k) && !(v->key >= 0 && k == 0))
            in[k] = hod__c_use(p, hod__value_of(p, hod__node_in(g, v->ref)[k]));
    bool chooses = info->flags & HOD_OPF_CHOOSES; /* the first input is a condition */
    hod_dtype from = hod__node(g, hod__node_in(g, v->ref)[chooses])->dtype;
    if (n->op == HOD_OP_cast) {
        cast_text(&t, from, n->dtype, in[0]);
    } else if (n->op == HOD_OP_uniform) {
        hod__text(&t, "r_uniform(key%d, stream%d, (u64)%s, (u64)", i, i, in[1]);
        count(&t, p, i);
        hod__text(&t, ")");
    } else if (n->op == HOD_OP_contiguous) {
        hod__text(&t, "%s", in[0]);
    } else if (n->op == HOD_OP_assign) {
        hod__text(&t, "%s", in[1]);
    } else if (n->op == HOD_OP_accumulate) {
        char *old = hod__c_load(p, i);
        hod__text(&t, "(add%d ? %s : 0) + %s", i, old ? old : "", in[1]);
        free(old);
    } else {
        char *acc = hod__c_accumulator(p, i);
        substitute(&t, info->expr, in, acc ? acc : "", hod__c_types[from].prefix);
        free(acc);
    }
    for (int k = 0; k < 4; k++)
        free(in[k]);
    char *text = hod__text_take(&t);
    return info->class == HOD_REDUCE ? text : rounded(p, i, text);
}

char *hod__c_folded(const hod_loops *p, int i)
{
    char *acc = hod__c_accumulator(p, i);
    char *text = acc ? hod__format("(%s)%s", hod__c_type(p, i)->computed, acc) : NULL;
    free(acc);
    return rounded(p, i, text);
}

char *hod__c_start(const hod_loops *p, int i)
{
    const hod_node *n = hod__c_node(p, i);
    hod_text t = {0};
    substitute(&t, hod__op_info[n->op].start, NULL, "", hod__c_types[n->dtype].limits);
    return hod__text_take(&t);
}
